"""From the workload's name in a benchmark file to its class; only the one in use is imported."""

from importlib import import_module
from typing import TYPE_CHECKING

from hpcai.config.runs import RunPlan
from hpcai.errors import ConfigError

if TYPE_CHECKING:
    from hpcai.training.workload import Workload

WORKLOADS = {"cosmoflow": "hpcai.training.cosmoflow:CosmoFlow"}


def workload_of(plan: RunPlan) -> "Workload":
    """Return the workload of a plan.

    Raises
    ------
    ConfigError
        If there is no such workload.
    """
    name = plan.benchmark.workload
    if name not in WORKLOADS:
        raise ConfigError(f"workload: found {name!r}, expected one of {', '.join(WORKLOADS)}")
    module, attribute = WORKLOADS[name].split(":")
    workload: type[Workload] = getattr(import_module(module), attribute)
    return workload(plan)
