"""From the workload's name in a benchmark file to its class; only the one in use is imported."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hpcai.config.runs import RunPlan
from hpcai.errors import ConfigError

if TYPE_CHECKING:
    from hpcai.training.workload import Workload

WORKLOADS = {
    "image_classification": "hpcai.training.image_classification.workload:ImageClassification",
    "extreme_weather": "hpcai.training.extreme_weather.workload:ExtremeWeather",
    "cosmoflow": "hpcai.training.cosmoflow:CosmoFlow",
    "deepcam": "hpcai.training.deepcam.workload:DeepCam",
    "opencatalyst": "hpcai.training.opencatalyst.workload:OpenCatalyst",
}


def workload_of(plan: RunPlan, statistics: Mapping[str, tuple[float, ...]] | None = None) -> "Workload[Any]":
    """Return the workload of a plan.

    Parameters
    ----------
    plan
        What to train.
    statistics
        Numbers about the training data, from its manifest.

    Raises
    ------
    ConfigError
        If there is no such workload.
    """
    name = plan.benchmark.workload
    if name not in WORKLOADS:
        raise ConfigError(f"workload: found {name!r}, expected one of {', '.join(WORKLOADS)}")
    module, attribute = WORKLOADS[name].split(":")
    workload: type[Workload[Any]] = getattr(import_module(module), attribute)
    return workload(plan, statistics)
