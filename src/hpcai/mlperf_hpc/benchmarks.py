"""The MLPerf HPC benchmarks that we implement, by their names in logs and rounds."""

from collections.abc import Mapping
from types import MappingProxyType

from hpcai.core.errors import ConfigError
from hpcai.workloads.declaration import MlperfFacts
from hpcai.workloads.registry import WORKLOADS, load_part

OWN: Mapping[str, MlperfFacts] = MappingProxyType(
    {name: load_part("hpcai.workloads.*.mlperf", name) for name, declared in WORKLOADS.items() if declared.mlperf}
)
"""Keyed by workload."""
BENCHMARKS: Mapping[str, MlperfFacts] = MappingProxyType({facts.name: facts for facts in OWN.values()})
"""Keyed by the benchmark's name in logs, which is also its folder in rounds; OpenFold is not included."""
WORKLOAD_OF: Mapping[str, str] = MappingProxyType({facts.name: name for name, facts in OWN.items()})
"""Workload, keyed by the benchmark's name in logs."""


def name_of(workload: str) -> str:
    """Return the name in logs of a workload's benchmark.

    Raises
    ------
    ConfigError
        If MLPerf HPC does not include it.
    """
    if workload not in OWN:
        raise ConfigError(
            f"workload: found {workload!r}, expected one of MLPerf HPC ({', '.join(OWN)}); a benchmark of it "
            "sets `mlperf` in its declaration"
        )
    return OWN[workload].name
