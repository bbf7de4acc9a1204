"""What a package check keeps of each log: the verdict and the little that is compared between logs."""

from collections.abc import Mapping
from dataclasses import dataclass

from hpcai.mlperf_hpc.compliance.convergence import Convergence, read_convergence
from hpcai.mlperf_hpc.compliance.hyper_parameters import read_settings
from hpcai.mlperf_hpc.compliance.model import LogVerdict
from hpcai.mlperf_hpc.compliance.seeds import LoggedSeeds, read_seeds
from hpcai.parsers.mllog import Mllog, MllogEvent


@dataclass(frozen=True)
class Remains:
    """What is left of a log besides its verdict: seeds, convergence, first lines of settings, logged division."""

    seeds: LoggedSeeds
    convergence: Convergence
    settings: Mapping[str, MllogEvent]
    division: str
    benchmark: str


@dataclass(frozen=True)
class Evidence:
    """Verdict and remains of one log."""

    verdict: LogVerdict
    remains: Remains


def read_remains(log: Mllog, source: str) -> Remains:
    """Return what a package check keeps of a log."""
    return Remains(
        read_seeds(log, source),
        read_convergence(log, source),
        read_settings(log),
        _first(log, "submission_division"),
        _first(log, "submission_benchmark"),
    )


def _first(log: Mllog, key: str) -> str:
    return next((str(event.value) for event in log.by_key.get(key, ())), "")
