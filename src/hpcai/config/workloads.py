"""The benchmarks there are: one settings model each, told apart by the key `workload` of a benchmark file."""

from typing import Annotated

from pydantic import Field

from hpcai.config.benchmark import BenchmarkSettings
from hpcai.config.cosmoflow import CosmoFlowBenchmark
from hpcai.config.deepcam import DeepCamBenchmark
from hpcai.config.extreme_weather import ExtremeWeatherBenchmark
from hpcai.config.image_classification import ImageClassificationBenchmark
from hpcai.config.opencatalyst import OpenCatalystBenchmark

BENCHMARKS: dict[str, type[BenchmarkSettings]] = {
    "image_classification": ImageClassificationBenchmark,
    "extreme_weather": ExtremeWeatherBenchmark,
    "cosmoflow": CosmoFlowBenchmark,
    "deepcam": DeepCamBenchmark,
    "opencatalyst": OpenCatalystBenchmark,
}

Benchmark = Annotated[
    ImageClassificationBenchmark
    | ExtremeWeatherBenchmark
    | CosmoFlowBenchmark
    | DeepCamBenchmark
    | OpenCatalystBenchmark,
    Field(discriminator="workload"),
]
