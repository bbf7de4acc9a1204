"""Time the routines of an HPL step in the BLAS that ``hpcc`` loads; runs as a separate measuring process.

Row exchanges and panels are HPL's own loops, compiled from ``loops.c``: OpenBLAS's DLASWP was 16 to 46 % slower on an
EPYC, and calls from Python take as long as the routines that a panel calls.

Reads one JSON request per line and answers each with one line of times. Several such processes get the same request
at once, so that a rate applies with as many busy cores as the process grid has.
"""

import ctypes
import logging
import math
import mmap
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, RootModel

from hpcai.core.errors import LaunchError

logger = logging.getLogger(__name__)
Routine = Literal["dgemm", "dtrsm", "panel", "dlaswp", "dgemv"]
MOVERS: tuple[Routine, ...] = ("dlaswp", "dgemv")
"""Memory-bound routines: their rates are in bytes instead of operations."""
STEP: tuple[Routine, ...] = ("dlaswp", "dtrsm", "dgemm")
"""Routines of a step in their order, after its panel."""
Matrix = npt.NDArray[np.float64]
Spent = npt.NDArray[np.float64]
"""Wall and processor time [s]."""
COLUMN_MAJOR, AS_IS, LOWER, UNIT, LEFT = 102, 111, 122, 132, 141
"""Constants of CBLAS."""
REPETITIONS = 3
"""In each turn."""
MOST_REPETITIONS = 12
SHORTEST_S = 0.05
"""Minimum duration of a repetition [s], by more rounds: 50 ms, against scheduler slices of some milliseconds."""
CPU_RATIO = 0.97
"""A repetition counts if the process had its core for this share of the wall time."""
ITEM_BYTES = 8
PANEL_CALLS = ("idamax", "dscal", "dger", "dgemm", "dtrsm")
"""Routines that a panel calls, in the order of ``struct panel_context``."""
SLOT_HEAD_BYTES = 64
"""``SLOT_HEAD`` of loops.c."""
PATIENCE_S = 10.0
TOGETHER, USUAL_FLOP_PER_S, USUAL_MEETING_S = 5, 1e10, 5e-5
"""Repetitions of a panel on several processes, which must all call it equally often, and what tells how often: the rate
of one, and the time of a pivot."""


class Request(BaseModel):
    """What to time: routines of one shape that follow each other.

    A step has row exchanges, DTRSM and DGEMM (:data:`STEP`), which work on one matrix: its block rows are exchanged,
    DTRSM solves for these, and DGEMM updates what is below them. With several process rows, exchanged rows are copied
    to U, which DTRSM and DGEMM use. Each is timed after those before it, and row exchanges after an update. A panel has
    rows x block elements, and DGEMV rows x columns.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    routines: tuple[Routine, ...]
    rows: int
    columns: int
    block: int
    leading_rows: int = 0
    """Rows of the whole matrix in memory."""
    remaining_rows: int = 0
    """Those below the block rows of the step."""
    process_rows: int = 1


class Timings(BaseModel):
    """Seconds per call of each undisturbed repetition."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    durations_s: tuple[float, ...]
    cpu_ratio: float
    """Processor time over wall time of the counted repetitions; of all repetitions if none counts."""
    tried: int


class Answer(RootModel[dict[Routine, Timings]]):
    """Timings of each routine of a request."""


def compile_loops(folder: Path) -> str:
    """Compile HPL's loops; return the path of the library, blank if it cannot be made or loaded."""
    compiler, target = shutil.which("cc") or shutil.which("gcc"), folder / "loops.so"
    if compiler is None:
        return ""
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(target), str(Path(__file__).with_name("loops.c"))]
    try:
        subprocess.run(command, capture_output=True, text=True, check=True)
        ctypes.CDLL(str(target))  # which a folder without the right to execute refuses
    except subprocess.CalledProcessError as error:
        logger.warning("%s: %s", error, error.stderr.strip()[-300:])
        return ""
    except OSError as error:
        logger.warning("%s: %s", " ".join(command), error)
        return ""
    return str(target)


def slot_bytes(block: int) -> int:
    """Return the shared memory [B] by which one process of a panel tells the others its pivots."""
    return SLOT_HEAD_BYTES + 2 * ITEM_BYTES * _count_given(block)


def _count_given(block: int) -> int:
    """Return how many numbers a process tells of a column: its pivot and place, its row, and the row of the column."""
    return 2 + 2 * block


def count_work(routine: Routine, rows: int, columns: int, block: int) -> float:
    """Return the work of one call, as the HPL step model counts it.

    Parameters
    ----------
    routine, rows, columns, block
        DGEMM updates rows x columns with rank ``block``, DTRSM solves for block x columns, a panel has rows x block,
        DLASWP exchanges ``block`` rows in the columns, DGEMV reads rows x columns.

    Returns
    -------
    float
        Operations [FLOP]; of :data:`MOVERS` bytes read and written [B]: two elements per pair for DLASWP, the matrix
        for DGEMV.
    """
    if routine == "dgemm":
        return 2.0 * rows * columns * block
    if routine == "dtrsm":
        return float(block) ** 2 * columns
    if routine == "panel":
        return float(block) ** 2 * rows - block**3 / 3.0
    if routine == "dlaswp":
        return 4.0 * ITEM_BYTES * block * columns
    return float(ITEM_BYTES) * rows * columns


class _PanelContext(ctypes.Structure):
    """``struct panel_context`` of loops.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in PANEL_CALLS),
        ("slots", ctypes.c_void_p),
        ("slot_bytes", ctypes.c_size_t),
        ("patience_s", ctypes.c_double),
        ("met", ctypes.c_long),
        ("processes", ctypes.c_int),
        ("place", ctypes.c_int),
    )


class Blas:
    """The routines of one library, on column-major matrices.

    Parameters
    ----------
    path
        The BLAS.
    loops
        What :func:`compile_loops` made.
    slots
        A file of :func:`slot_bytes` of zeros for each process that factorises a panel with others.
    place
        Of this process among them; the first one has the block's rows.
    patience_s
        Longest wait for the others [s].
    """

    def __init__(self, path: str, loops: str, slots: str = "", place: int = 0, patience_s: float = PATIENCE_S) -> None:
        self.library: Any = ctypes.CDLL(path)
        self.loops: Any = ctypes.CDLL(loops)
        self.one, self.minus_one = ctypes.c_double(1.0), ctypes.c_double(-1.0)
        calls = {name: ctypes.cast(getattr(self.library, f"cblas_{name}"), ctypes.c_void_p) for name in PANEL_CALLS}
        self._shared = _map(slots) if slots else None
        at = ctypes.addressof(ctypes.c_char.from_buffer(self._shared)) if self._shared else None
        self._context = _PanelContext(**calls, slots=at, place=place, patience_s=patience_s)

    def update(self, left: Matrix, right: Matrix, result: Matrix) -> None:
        """Subtract left x right from the result (DGEMM)."""
        (rows, rank), columns = left.shape, right.shape[1]
        self.library.cblas_dgemm(
            COLUMN_MAJOR, AS_IS, AS_IS, rows, columns, rank,
            self.minus_one, *_columns_of(left), *_columns_of(right), self.one, *_columns_of(result),
        )  # fmt: skip

    def solve(self, triangle: Matrix, right: Matrix) -> None:
        """Solve with a unit lower triangle in place (DTRSM)."""
        shape, operands = right.shape, (*_columns_of(triangle), *_columns_of(right))
        self.library.cblas_dtrsm(COLUMN_MAJOR, LEFT, LOWER, AS_IS, UNIT, *shape, self.one, *operands)

    def exchange(self, matrix: Matrix, first: int, pivots: npt.NDArray[np.int32]) -> None:
        """Exchange the rows from ``first`` on with those of ``pivots``, one after the other."""
        rows, columns = matrix.shape
        below = (pivots - first).astype(np.int32)
        top = ctypes.c_void_p(_at(matrix[first:]))
        self.loops.exchange_rows(len(pivots), columns, top, ctypes.c_size_t(rows), ctypes.c_void_p(_at(below)))

    def share(self, matrix: Matrix, first: int, upper: Matrix, places: npt.NDArray[np.int32]) -> None:
        """Exchange rows as on several process rows, but for messages (``share_rows`` of loops.c).

        Parameters
        ----------
        matrix, first
            The block's rows begin at row ``first``.
        upper
            U, block x columns.
        places
            Pivots, counted from ``first``, and then one place of U for each of its rows.
        """
        block, columns = upper.shape
        pivots, order = places[:-block], places[-block:]
        given = (ctypes.c_void_p(_at(matrix[first:])), ctypes.c_size_t(len(matrix)))
        lists = (ctypes.c_void_p(_at(pivots)), ctypes.c_void_p(_at(order)))
        self.loops.share_rows(block, len(pivots) // 2, columns, *given, ctypes.c_void_p(_at(upper)), *lists)

    def multiply(self, matrix: Matrix, vector: Matrix, result: Matrix) -> None:
        """Subtract matrix x vector from the result (DGEMV)."""
        rows, columns = matrix.shape
        self.library.cblas_dgemv(
            COLUMN_MAJOR, AS_IS, rows, columns, self.minus_one, ctypes.c_void_p(_at(matrix)), rows,
            ctypes.c_void_p(_at(vector)), 1, self.one, ctypes.c_void_p(_at(result)), 1,
        )  # fmt: skip

    def factorise(self, panel: Matrix, upper: Matrix, processes: int = 1) -> npt.NDArray[np.int32]:
        """Factorise a panel in place with row exchanges; return the row of each pivot, on the process that has it.

        Recursive and right-looking, as HPL does with the settings of its input file.

        Parameters
        ----------
        panel
            rows x block of this process; with others, :meth:`factorise` of all of them factorises one panel.
        upper
            Gets the panel's upper block, block x block.
        processes
            All of them.

        Raises
        ------
        LaunchError
            If another process does not come.
        """
        rows, block = panel.shape
        context = self._context
        context.processes, context.slot_bytes = processes, slot_bytes(block)
        given, pivots = np.empty((processes + 1) * _count_given(block)), np.empty(block, dtype=np.int32)
        arrays = [ctypes.c_void_p(_at(array)) for array in (panel, upper, given, pivots)]
        if self.loops.factorise(ctypes.byref(context), rows, block, *arrays):
            raise LaunchError("another process of the panel did not come")
        return pivots


def _map(file: str) -> mmap.mmap:
    with Path(file).open("r+b") as opened:
        return mmap.mmap(opened.fileno(), 0)


def _at(array: npt.NDArray[Any]) -> int:
    return int(array.ctypes.data)


def _columns_of(matrix: Matrix) -> tuple[ctypes.c_void_p, int]:
    """Return where a column-major matrix, or a part of one, begins, and how many elements apart its columns are."""
    return ctypes.c_void_p(_at(matrix)), matrix.strides[1] // ITEM_BYTES


@dataclass(frozen=True)
class _Call:
    """What is timed, and what comes before it untimed."""

    call: Callable[[], object]
    prepare: Callable[[], object] | None = None

    def spend(self) -> Spent:
        """Call once; return the wall and processor time [s]."""
        if self.prepare:
            self.prepare()
        begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
        self.call()
        return np.array([time.perf_counter() - begin_s, time.process_time() - begin_cpu_s])


def time_routines(blas: Blas, request: Request) -> Answer:
    """Time warm calls of the routines in turn; repeat disturbed repetitions up to a limit."""
    calls = _make_calls(blas, request)
    once_s = sum(float(call.spend()[0]) for call in calls.values())
    least, most = REPETITIONS, MOST_REPETITIONS
    if request.routines == ("panel",) and request.process_rows > 1:
        once_s = count_work("panel", request.rows, request.columns, request.block) / USUAL_FLOP_PER_S
        once_s += request.block * USUAL_MEETING_S
        least = most = TOGETHER  # no fewer, even if all count
    rounds = math.ceil(SHORTEST_S / max(once_s, 1e-6))
    every: dict[Routine, list[Spent]] = {routine: [] for routine in calls}
    tried = 0
    while tried < most and min(len(_kept(spent)) for spent in every.values()) < least:
        spent = dict.fromkeys(calls, np.zeros(2))
        for _ in range(rounds):
            spent = {routine: spent[routine] + call.spend() for routine, call in calls.items()}
        for routine, times in spent.items():
            every[routine].append(times / rounds)
        tried += 1
    return Answer({routine: _count(spent) for routine, spent in every.items()})


def _kept(repetitions: list[Spent]) -> list[Spent]:
    """Return the repetitions that had their core to themselves."""
    return [times for times in repetitions if 0 < CPU_RATIO * times[0] <= times[1]]


def _count(repetitions: list[Spent]) -> Timings:
    kept = _kept(repetitions)
    wall_s, cpu_s = np.sum(kept or repetitions, axis=0)
    durations = tuple(float(times[0]) for times in kept)
    ratio = float(cpu_s / wall_s) if wall_s > 0 else 0.0
    return Timings(durations_s=durations, cpu_ratio=ratio, tried=len(repetitions))


def _make_calls(blas: Blas, request: Request) -> dict[Routine, _Call]:
    """Return the calls of a request in their order, on random matrices whose values stay small."""
    generator = np.random.default_rng(0)

    def fill(rows: int, columns: int) -> Matrix:
        return generator.random((columns, rows)).T - 0.5

    if request.routines == STEP:
        return _make_step(blas, request, fill, generator)
    if request.routines == ("dgemv",):
        matrix, vector, result = (fill(*shape) for shape in (
            (request.rows, request.columns), (request.columns, 1), (request.rows, 1),
        ))  # fmt: skip
        return {"dgemv": _Call(lambda: blas.multiply(matrix, vector, result))}
    panel, upper = fill(request.rows, request.block), fill(request.block, request.block)
    work = panel.copy(order="F")
    # Factorisation destroys a panel: restore it before every call, outside the timed part.
    restore = partial(np.copyto, work, panel)
    return {"panel": _Call(lambda: blas.factorise(work, upper, request.process_rows), restore)}


def _make_step(
    blas: Blas, request: Request, fill: Callable[[int, int], Matrix], generator: np.random.Generator
) -> dict[Routine, _Call]:
    """Return the calls of a step, all on one matrix."""
    block, remaining = request.block, request.remaining_rows or request.rows
    matrix = fill(max(request.leading_rows, remaining + block), block + request.columns)
    first = len(matrix) - remaining - block
    pivots = generator.integers(first + np.arange(block), len(matrix)).astype(np.int32)
    # Small entries, so that steps that are repeated in place do not overflow.
    triangle = fill(block, block) / block**2
    matrix[first:, :block] /= block
    left, below, right = matrix[first + block :, :block], matrix[first + block :, block:], matrix[:, block:]
    above, exchange = right[first : first + block], partial(blas.exchange, right, first, pivots)
    if request.process_rows > 1:
        above = above.copy(order="F")
        exchange = partial(blas.share, right, first, above, _share_out(request, remaining, generator))
    return {
        "dlaswp": _Call(exchange),
        "dtrsm": _Call(lambda: blas.solve(triangle, above)),
        "dgemm": _Call(lambda: blas.update(left, above, below)),
    }


def _share_out(request: Request, remaining: int, generator: np.random.Generator) -> npt.NDArray[np.int32]:
    """Return random places for :meth:`Blas.share`: a pivot may be any row, and U is ordered from its first row on."""
    block = request.block
    shared = block // request.process_rows
    pivots = generator.integers(remaining + block, size=2 * shared)
    return np.concatenate([pivots, generator.integers(np.arange(block), block)]).astype(np.int32)


def main() -> None:
    """Answer requests until the input ends; the arguments are those of :class:`Blas`."""
    path, loops, slots, place = sys.argv[1:]
    blas = Blas(path, loops, slots, int(place))
    for line in sys.stdin:
        print(time_routines(blas, Request.model_validate_json(line)).model_dump_json(), flush=True)


if __name__ == "__main__":
    main()
