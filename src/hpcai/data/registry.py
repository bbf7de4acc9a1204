"""Map a benchmark file's workload to its data module; only that module is imported."""

from collections.abc import Mapping
from typing import Any

from hpcai.config.benchmark import DataSettings
from hpcai.config.workloads import BENCHMARKS
from hpcai.core.errors import ConfigError
from hpcai.data.module import DataModule
from hpcai.workloads.registry import load_part


def data_module(workload: str, settings: DataSettings | Mapping[str, object]) -> DataModule[Any]:
    """Return the data module of a workload.

    Parameters
    ----------
    workload
        Name of the workload.
    settings
        The benchmark file's section ``data``, checked or as plain values.

    Raises
    ------
    ConfigError
        If there is no such workload.
    """
    if workload not in BENCHMARKS:
        raise ConfigError(f"workload: found {workload!r}, expected one of {', '.join(BENCHMARKS)}")
    module: type[DataModule[Any]] = load_part("hpcai.workloads.*.data", workload)
    model = BENCHMARKS[workload].model_fields["data"].annotation
    assert model is not None, "every benchmark has a section `data`"
    return module(model.model_validate(settings))
