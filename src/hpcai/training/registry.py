"""Map a benchmark file's workload to its class; only that module is imported."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hpcai.config.runs import RunPlan
from hpcai.workloads.registry import load_part

if TYPE_CHECKING:
    from hpcai.training.workload import Workload


def workload_of(plan: RunPlan, statistics: Mapping[str, tuple[float, ...]] | None = None) -> "Workload[Any]":
    """Return the workload of a plan, whose settings were looked up by the same name.

    Parameters
    ----------
    plan
        What to train.
    statistics
        Statistics of the training data, from its manifest.
    """
    workload: type[Workload[Any]] = load_part("hpcai.workloads.*.training", plan.benchmark.workload)
    return workload(plan, statistics)
