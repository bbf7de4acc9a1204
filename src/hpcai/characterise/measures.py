"""The ceilings that one node has by itself, by name: each measured by processes of its own."""

from collections.abc import Iterable, Sequence

from hpcai.characterise import convolution, gemm, memory
from hpcai.characterise.apart import THIS_PYTHON, DeviceKind

MEASURES = {
    "gemm": gemm.measure_gemm,
    "convolution": convolution.measure_convolution,
    "memory": memory.measure_memory,
}


def measure_ceiling(what: str, threads: Iterable[int], device: DeviceKind, python: Sequence[str] = THIS_PYTHON) -> str:
    """Measure one ceiling with each number of threads; return a report as JSON.

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
    return MEASURES[what](threads, device, python=python)
