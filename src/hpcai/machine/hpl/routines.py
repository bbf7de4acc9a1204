"""Time the routines of an HPL step in the BLAS that ``hpcc`` loads; runs as a separate measuring process.

Row exchanges are HPL's own, compiled from ``exchange.c``, or without a compiler DLASWP, which was 16 to 46 % slower on
an EPYC.

Reads one JSON request per line and answers each with one line of times. Several such processes get the same request
at once, so that a rate applies with as many busy cores as the process grid has.
"""

import ctypes
import logging
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, RootModel

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
SMALLEST_PANEL = 4
"""Number of columns at which HPL's recursion ends, as set in its input file."""
REPETITIONS = 3
"""In each turn."""
MOST_REPETITIONS = 12
SHORTEST_S = 0.05
"""Minimum duration of a repetition [s], by more rounds: 50 ms, against scheduler slices of some milliseconds."""
CPU_RATIO = 0.97
"""A repetition counts if the process had its core for this share of the wall time."""
ITEM_BYTES = 8
PANEL_CALLS = tuple(f"cblas_{name}" for name in ("idamax", "dswap", "dscal", "dger", "dgemm", "dtrsm"))


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
    """Seconds per call of each undisturbed repetition, without the call overhead."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    durations_s: tuple[float, ...]
    cpu_ratio: float
    """Processor time over wall time of the counted repetitions; of all repetitions if none counts."""
    tried: int


class Answer(RootModel[dict[Routine, Timings]]):
    """Timings of each routine of a request."""


def compile_exchange(folder: Path) -> str:
    """Compile HPL's row exchange; return the path of the library, blank if it cannot be made or loaded."""
    compiler, target = shutil.which("cc") or shutil.which("gcc"), folder / "exchange.so"
    if compiler is None:
        return ""
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(target), str(Path(__file__).with_name("exchange.c"))]
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


class Blas:
    """The routines of one library, on column-major matrices.

    Parameters
    ----------
    path
        The BLAS.
    exchange
        What :func:`compile_exchange` made; blank: DLASWP of the BLAS exchanges rows.
    """

    def __init__(self, path: str, exchange: str = "") -> None:
        self.library: Any = ctypes.CDLL(path)
        self.own: Any = ctypes.CDLL(exchange) if exchange else None
        self.library.cblas_idamax.restype = ctypes.c_size_t
        self.one, self.minus_one = ctypes.c_double(1.0), ctypes.c_double(-1.0)

    def without_work(self) -> "Blas":
        """Return routines whose calls go to a function that does nothing; what remains is the call overhead."""
        idle = copy(self)
        nothing = ctypes.CDLL(None).getpagesize
        idle.library = SimpleNamespace(**dict.fromkeys(PANEL_CALLS, nothing))
        return idle

    def update(self, left: Matrix, right: Matrix, result: Matrix) -> None:
        """Subtract left x right from the result (DGEMM)."""
        (rows, rank), columns = left.shape, right.shape[1]
        self._gemm((rows, columns, rank), _columns_of(left), _columns_of(right), _columns_of(result))

    def solve(self, triangle: Matrix, right: Matrix) -> None:
        """Solve with a unit lower triangle in place (DTRSM)."""
        block, columns = right.shape
        self._trsm(block, columns, _columns_of(triangle), _columns_of(right))

    def exchange(self, matrix: Matrix, first: int, pivots: npt.NDArray[np.int32]) -> None:
        """Exchange the rows from ``first`` on with those of ``pivots``, one after the other."""
        rows, columns = matrix.shape
        if self.own:
            top, below = _place(_at(matrix), rows, first, 0), (pivots - first).astype(np.int32)
            given = (ctypes.c_void_p(top), ctypes.c_size_t(rows), ctypes.c_void_p(_at(below)))
            self.own.exchange_rows(len(pivots), columns, *given)
            return
        numbers = (ctypes.c_int(value) for value in (columns, rows, first + 1, first + len(pivots), 1))
        width, leading, begin, end, stride = (ctypes.byref(number) for number in numbers)
        # DLASWP counts from one, and pivots[begin] belongs to row `begin`.
        places = np.concatenate([np.zeros(first, dtype=np.int32), pivots + 1]).astype(np.int32)
        self.library.dlaswp_(
            width, ctypes.c_void_p(_at(matrix)), leading, begin, end, ctypes.c_void_p(_at(places)), stride
        )

    def share(self, matrix: Matrix, first: int, upper: Matrix, places: npt.NDArray[np.int32]) -> None:
        """Exchange rows as on several process rows, but for messages (``share_rows`` of exchange.c).

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
        given = (ctypes.c_void_p(_place(_at(matrix), len(matrix), first, 0)), ctypes.c_size_t(len(matrix)))
        lists = (ctypes.c_void_p(_at(pivots)), ctypes.c_void_p(_at(order)))
        self.own.share_rows(block, len(pivots) // 2, columns, *given, ctypes.c_void_p(_at(upper)), *lists)

    def multiply(self, matrix: Matrix, vector: Matrix, result: Matrix) -> None:
        """Subtract matrix x vector from the result (DGEMV)."""
        rows, columns = matrix.shape
        self.library.cblas_dgemv(
            COLUMN_MAJOR, AS_IS, rows, columns, self.minus_one, ctypes.c_void_p(_at(matrix)), rows,
            ctypes.c_void_p(_at(vector)), 1, self.one, ctypes.c_void_p(_at(result)), 1,
        )  # fmt: skip

    def factorise(self, panel: Matrix) -> list[int]:
        """Factorise a panel in place with row exchanges; return the row exchanged with each row.

        Recursive and right-looking down to :data:`SMALLEST_PANEL` columns, as HPL does with these settings.
        """
        pivots: list[int] = []
        self._recurse(_at(panel), panel.shape, (0, panel.shape[1]), pivots)
        return pivots

    def _recurse(self, start: int, shape: tuple[int, ...], part: tuple[int, int], pivots: list[int]) -> None:
        rows = shape[0]
        first, count = part
        if count <= SMALLEST_PANEL:
            self._eliminate(start, shape, part, pivots)
            return
        half = count // 2
        middle = first + half
        self._recurse(start, shape, (first, half), pivots)
        above = _place(start, rows, first, middle)
        self._trsm(half, count - half, (_place(start, rows, first, first), rows), (above, rows))
        below = (_place(start, rows, middle, first), rows)
        self._gemm(
            (rows - middle, count - half, half), below, (above, rows), (_place(start, rows, middle, middle), rows)
        )
        self._recurse(start, shape, (middle, count - half), pivots)

    def _eliminate(self, start: int, shape: tuple[int, ...], part: tuple[int, int], pivots: list[int]) -> None:
        rows, columns = shape
        end, library = sum(part), self.library
        for column in range(part[0], end):
            here, below = _place(start, rows, column, column), _place(start, rows, column + 1, column)
            pivot = column + library.cblas_idamax(rows - column, ctypes.c_void_p(here), 1)
            pivots.append(pivot)
            if pivot != column:
                swapped = (ctypes.c_void_p(_place(start, rows, row, 0)) for row in (column, pivot))
                library.cblas_dswap(columns, next(swapped), rows, next(swapped), rows)
            inverse = ctypes.c_double(1.0 / ctypes.c_double.from_address(here).value)
            library.cblas_dscal(rows - column - 1, inverse, ctypes.c_void_p(below), 1)
            if column + 1 < end:
                right, corner = (ctypes.c_void_p(_place(start, rows, row, column + 1)) for row in (column, column + 1))
                size = (rows - column - 1, end - column - 1)
                library.cblas_dger(
                    COLUMN_MAJOR, *size, self.minus_one, ctypes.c_void_p(below), 1, right, rows, corner, rows
                )

    def _gemm(
        self, size: tuple[int, int, int], left: tuple[int, int], right: tuple[int, int], result: tuple[int, int]
    ) -> None:
        operands = (ctypes.c_void_p(left[0]), left[1], ctypes.c_void_p(right[0]), right[1])
        into = (self.one, ctypes.c_void_p(result[0]), result[1])
        self.library.cblas_dgemm(COLUMN_MAJOR, AS_IS, AS_IS, *size, self.minus_one, *operands, *into)

    def _trsm(self, block: int, columns: int, triangle: tuple[int, int], right: tuple[int, int]) -> None:
        operands = (ctypes.c_void_p(triangle[0]), triangle[1], ctypes.c_void_p(right[0]), right[1])
        self.library.cblas_dtrsm(COLUMN_MAJOR, LEFT, LOWER, AS_IS, UNIT, block, columns, self.one, *operands)


def _at(array: npt.NDArray[Any]) -> int:
    return int(array.ctypes.data)


def _columns_of(matrix: Matrix) -> tuple[int, int]:
    """Return where a column-major matrix, or a part of one, begins, and how many elements apart its columns are."""
    return _at(matrix), matrix.strides[1] // ITEM_BYTES


def _place(start: int, rows: int, row: int, column: int) -> int:
    return start + ITEM_BYTES * (row + column * rows)


@dataclass(frozen=True)
class _Call:
    """What is timed, what comes before it untimed, and its overhead: the same calls without their work."""

    call: Callable[[], object]
    prepare: Callable[[], object] | None = None
    idle: Callable[[], object] | None = None

    def spend(self) -> Spent:
        """Call once; return the wall and processor time [s], without the overhead."""
        spent = self.spend_all()
        # Right after the call, at the same speed of the host.
        return spent - _spend(self.idle) if self.idle else spent

    def spend_all(self) -> Spent:
        """Call once; return the wall and processor time [s] with the overhead."""
        if self.prepare:
            self.prepare()
        return _spend(self.call)


def time_routines(blas: Blas, request: Request) -> Answer:
    """Time warm calls of the routines in turn; repeat disturbed repetitions up to a limit.

    A panel takes hundreds of calls from Python: their overhead, that of the same calls without work, is subtracted.
    """
    calls = _make_calls(blas, request)
    # With the overhead: what is left of a short call without it can be nothing at all where others take the core.
    once_s = sum(float(call.spend_all()[0]) for call in calls.values())
    rounds = math.ceil(SHORTEST_S / max(once_s, 1e-6))
    every: dict[Routine, list[Spent]] = {routine: [] for routine in calls}
    tried = 0
    while tried < MOST_REPETITIONS and min(len(_kept(spent)) for spent in every.values()) < REPETITIONS:
        spent = dict.fromkeys(calls, np.zeros(2))
        for _ in range(rounds):
            spent = {routine: spent[routine] + call.spend() for routine, call in calls.items()}
        for routine, times in spent.items():
            every[routine].append(times / rounds)
        tried += 1
    return Answer({routine: _count(spent) for routine, spent in every.items()})


def _spend(call: Callable[[], object]) -> Spent:
    begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
    call()
    return np.array([time.perf_counter() - begin_s, time.process_time() - begin_cpu_s])


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
    panel, idle = fill(request.rows, request.block), blas.without_work()
    work = panel.copy(order="F")
    # Factorisation destroys a panel: restore it before every call, outside the timed part.
    restore = partial(np.copyto, work, panel)
    return {"panel": _Call(lambda: blas.factorise(work), restore, lambda: idle.factorise(work))}


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
        if blas.own:
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
    pivots = generator.integers(np.zeros(2 * shared, dtype=int), remaining + block)
    return np.concatenate([pivots, generator.integers(np.arange(block), block)]).astype(np.int32)


def main() -> None:
    """Answer requests until the input ends; the arguments are those of :class:`Blas`."""
    blas = Blas(*sys.argv[1:])
    for line in sys.stdin:
        print(time_routines(blas, Request.model_validate_json(line)).model_dump_json(), flush=True)


if __name__ == "__main__":
    main()
