"""The available benchmarks: one settings model each, selected by the key `workload` of a benchmark file."""

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from hpcai.config.benchmark import BenchmarkSettings
from hpcai.workloads.registry import WORKLOADS, load_part

BENCHMARKS: dict[str, type[BenchmarkSettings]] = {
    name: load_part("hpcai.workloads.*.settings", name) for name in WORKLOADS
}

if TYPE_CHECKING:
    Benchmark = BenchmarkSettings
else:
    Benchmark = Annotated[reduce(or_, BENCHMARKS.values()), Field(discriminator="workload")]
