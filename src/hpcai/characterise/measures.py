"""What a node can do at best: ceilings by name, each measured by processes of its own, on a machine that is quiet."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from hpcai.characterise import convolution, gemm, memory
from hpcai.characterise.apart import THIS_PYTHON, DeviceKind
from hpcai.disturbance import Tolerance, Watched, measure_quietly
from hpcai.sealed import seal

logger = logging.getLogger(__name__)

MEASURES = {
    "gemm": gemm.measure_gemm,
    "convolution": convolution.measure_convolution,
    "memory": memory.measure_memory,
}


class Report(Watched, Protocol):
    """A report that says how quiet its machine was, and that can be written to a file."""

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


def ceiling(
    what: str, threads: Iterable[int], device: DeviceKind, python: Sequence[str] = THIS_PYTHON
) -> Callable[[], Report]:
    """Return what measures one ceiling with each number of threads.

    Parameters
    ----------
    what
        A key of :data:`MEASURES`.
    threads
        Numbers of threads, each on as many cores.
    device
        What the ranks compute on.
    python
        Command that is the Python to measure with: this environment's, or that of the machine's image.
    """
    return partial(MEASURES[what], threads, device, python=python)
