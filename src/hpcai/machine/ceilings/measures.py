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
"""Finds a command; raises a LaunchError where there is none."""


class Report(Watched, Protocol):
    """A report with the quietness of its machine, which can be written to a file."""

    def model_dump_json(self, *, indent: int) -> str:
        """Return the report as JSON."""


def report_quietly(measure: Callable[[], Report], study: Mapping[str, Any]) -> str:
    """Measure, again where the machine was disturbed; return the report as the text of its file, with its digest.

    Parameters
    ----------
    measure
        Measures once.
    study
        The study, as plain values: Snakemake's `config`, because another limit is no reason to measure again, and a
        changed parameter of a rule would be one.
    """
    report = measure_quietly(measure, Tolerance.model_validate(study["limits"]["disturbance"]), logger.warning)
    return seal((report.model_dump_json(indent=1) + "\n").encode()).decode()


def ceiling(what: Kind, threads: Iterable[int], device: DeviceKind, python: Command) -> Callable[[], Report]:
    """Return what measures one ceiling with each number of threads, or says why it cannot and withholds no report.

    Parameters
    ----------
    what
        A key of :data:`MEASURES`.
    threads
        Numbers of threads, each on as many cores.
    device
        What the ranks compute on.
    python
        Finds the command that is the Python to measure with: this environment's, or that of the machine's image.
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
    """Return what measures the allreduce of some ranks, or says why it cannot.

    Parameters
    ----------
    launch
        Finds the command that starts the program which follows once per rank.
    cores_per_rank, device, python, engine
        As :func:`hpcai.machine.ceilings.allreduce.measure_allreduce` and :func:`ceiling` take them.
    """
    try:
        return partial(measure_allreduce, [*launch(), *python()], cores_per_rank, device, engine)
    except LaunchError as error:
        report = AllreduceReport(engine=engine, not_measured=(str(error),))
        logger.warning("the allreduce is not measured: %s", error)
        return lambda: report
