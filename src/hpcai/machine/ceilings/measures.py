"""The ceilings of a node by name, each measured by separate processes on a quiet machine."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from hpcai.catalogue.points import USUAL_ENGINE
from hpcai.config.base import Engine
from hpcai.core.disturbance import Tolerance, Watched, measure_quietly
from hpcai.core.errors import LaunchError
from hpcai.core.sealed import seal
from hpcai.machine.ceilings import convolution, gemm, memory
from hpcai.machine.ceilings.allreduce import measure_allreduce
from hpcai.machine.ceilings.sampling import Kind, NotMeasured, report_of
from hpcai.machine.subprocess_measure import DeviceKind
from hpcai.metrics.profiles.link import AllreduceReport

logger = logging.getLogger(__name__)

MEASURES: dict[Kind, Callable[..., "Report"]] = {
    "gemm": gemm.measure_gemm,
    "convolution": convolution.measure_convolution,
    "memory": memory.measure_memory,
}
Command = Callable[[], Sequence[str]]
"""Finds a command; raises LaunchError if there is none."""


class Report(Watched, Protocol):
    """A report with its machine's quietness, writable to a file."""

    def model_dump_json(self, *, indent: int) -> str:
        """Return the report as JSON."""


def report_quietly(measure: Callable[[], Report], study: Mapping[str, Any]) -> str:
    """Measure, and repeat if the machine was disturbed; return the text of the report file, with its digest.

    Parameters
    ----------
    measure
        Function that measures once.
    study
        The study as plain values: Snakemake's `config`. As a rule parameter, another limit would cause a new
        measurement.
    """
    report = measure_quietly(measure, Tolerance.model_validate(study["limits"]["disturbance"]), logger.warning)
    return seal((report.model_dump_json(indent=1) + "\n").encode()).decode()


def ceiling(what: Kind, threads: Iterable[int], device: DeviceKind, python: Command) -> Callable[[], Report]:
    """Return a function that measures one ceiling per number of threads; if impossible, its report gives the reason.

    Parameters
    ----------
    what
        A key of :data:`MEASURES`.
    threads
        Numbers of threads, each on as many cores.
    device
        Device of the ranks.
    python
        Finds the command that runs Python in this environment or in the machine's image.
    """
    try:
        return partial(MEASURES[what], threads, device, python=python())
    except LaunchError as error:
        logger.warning("%s is not measured: %s", what, error)
        missing = [NotMeasured(kind=what, threads=count, reason=str(error)) for count in sorted(set(threads))]
        return lambda: report_of([], missing)


def link(
    launch: Command, cores_per_rank: int, device: DeviceKind, python: Command, engine: Engine = USUAL_ENGINE
) -> Callable[[], Report]:
    """Return a function that measures the allreduce of some ranks, or reports why it cannot.

    Parameters
    ----------
    launch
        Finds the command that starts the following program once per rank.
    cores_per_rank, device, python, engine
        As in :func:`hpcai.machine.ceilings.allreduce.measure_allreduce` and :func:`ceiling`.
    """
    try:
        return partial(measure_allreduce, [*launch(), *python()], cores_per_rank, device, engine)
    except LaunchError as error:
        report = AllreduceReport(engine=engine, not_measured=(str(error),))
        logger.warning("the allreduce is not measured: %s", error)
        return lambda: report
