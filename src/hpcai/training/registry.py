"""From the workload's name in a benchmark file to its class; only the one in use is imported."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hpcai.config.runs import RunPlan
from hpcai.workloads.registry import load_part

if TYPE_CHECKING:
    from hpcai.training.workload import Workload


def workload_of(plan: RunPlan, statistics: Mapping[str, tuple[float, ...]] | None = None) -> "Workload[Any]":
    """Return the workload of a plan, whose settings have been found by the same name.

    Parameters
    ----------
    plan
        What to train.
    statistics
        Numbers about the training data, from its manifest.
    """
    workload: type[Workload[Any]] = load_part("hpcai.workloads.*.training", plan.benchmark.workload)
    return workload(plan, statistics)
