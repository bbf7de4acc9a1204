"""Time the routines of an HPL step in the BLAS that ``hpcc`` loads; runs as a separate measuring process.

Reads one JSON request per line and answers each with one line of times. Several such processes get the same request
at once, so that a rate applies with as many busy cores as the process grid has.
"""

import ctypes
import math
import sys
import time
import timeit
from collections.abc import Callable
from copy import copy
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

Routine = Literal["dgemm", "dtrsm", "panel", "dlaswp", "dgemv"]
MOVERS: tuple[Routine, ...] = ("dlaswp", "dgemv")
"""Memory-bound routines: their rates are in bytes instead of operations."""
STEP: tuple[Routine, ...] = ("dlaswp", "dtrsm", "dgemm")
"""Routines of a step in their order, after its panel."""
Matrix = npt.NDArray[np.float64]
COLUMN_MAJOR, AS_IS, LOWER, UNIT, LEFT = 102, 111, 122, 132, 141
"""Constants of CBLAS."""
SMALLEST_PANEL = 4
"""Number of columns at which HPL's recursion ends, as set in its input file."""
REPETITIONS = 5
MOST_REPETITIONS = 20
SHORTEST_S = 0.05
"""Minimum duration of a timing [s], by repeating calls: 50 ms, against scheduler slices of some milliseconds."""
CPU_RATIO = 0.97
"""A repetition counts if the process had its core for this share of the wall time."""
ITEM_BYTES = 8
PANEL_CALLS = tuple(f"cblas_{name}" for name in ("idamax", "dswap", "dscal", "dger", "dgemm", "dtrsm"))


class Request(BaseModel):
    """What to time.

    DGEMM (rows x columns, rank block), DTRSM (block x columns), a panel (rows x block), DLASWP (block exchanges in as
    many columns) or DGEMV (rows x columns).

    The first two and DLASWP work on one matrix as in a step: DLASWP exchanges its block rows, DTRSM solves for these,
    and DGEMM updates what is below them. Each is timed after those before it, and DLASWP after an update.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    routine: Routine
    rows: int
    columns: int
    block: int
    leading_rows: int = 0
    """Rows of the whole matrix in memory."""
    remaining_rows: int = 0
    """Those below the block rows of the step."""

    @property
    def work_flop(self) -> float:
        """Work of one call, as counted by the HPL step model [FLOP]."""
        if self.routine == "dgemm":
            return 2.0 * self.rows * self.columns * self.block
        if self.routine == "dtrsm":
            return float(self.block) ** 2 * self.columns
        return float(self.block) ** 2 * self.rows - self.block**3 / 3.0

    @property
    def work_bytes(self) -> float:
        """Bytes read and written by one call [B]: two elements per pair for DLASWP, the matrix for DGEMV."""
        if self.routine == "dlaswp":
            return 4.0 * ITEM_BYTES * self.block * self.columns
        return float(ITEM_BYTES) * self.rows * self.columns

    @property
    def work(self) -> float:
        """Work of one call, in the unit of the routine's rate: bytes for :data:`MOVERS`, else operations."""
        return self.work_bytes if self.routine in MOVERS else self.work_flop


class Timings(BaseModel):
    """Seconds per call of each undisturbed repetition, without the call overhead."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    durations_s: tuple[float, ...]
    cpu_ratio: float
    """Processor time over wall time of the counted repetitions; of all repetitions if none counts."""
    tried: int


class Blas:
    """The routines of one library, on column-major matrices."""

    def __init__(self, path: str) -> None:
        self.library: Any = ctypes.CDLL(path)
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
        """Exchange the rows from ``first`` on with those of ``pivots``, one after the other (DLASWP)."""
        rows, columns = matrix.shape
        numbers = (ctypes.c_int(value) for value in (columns, rows, first + 1, first + len(pivots), 1))
        width, leading, begin, end, stride = (ctypes.byref(number) for number in numbers)
        # DLASWP counts from one, and pivots[begin] belongs to row `begin`.
        places = np.concatenate([np.zeros(first, dtype=np.int32), pivots + 1]).astype(np.int32)
        self.library.dlaswp_(
            width, ctypes.c_void_p(_at(matrix)), leading, begin, end, ctypes.c_void_p(places.ctypes.data), stride
        )

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


def _at(matrix: Matrix) -> int:
    return int(matrix.ctypes.data)


def _columns_of(matrix: Matrix) -> tuple[int, int]:
    """Return where a column-major matrix, or a part of one, begins, and how many elements apart its columns are."""
    return _at(matrix), matrix.strides[1] // ITEM_BYTES


def _place(start: int, rows: int, row: int, column: int) -> int:
    return start + ITEM_BYTES * (row + column * rows)


def time_routine(blas: Blas, request: Request) -> Timings:
    """Time warm calls; repeat disturbed repetitions up to a limit.

    A panel takes hundreds of calls from Python: the call overhead, measured with empty calls, is subtracted.
    """
    prepare, call = _make_call(blas, request)
    prepare()
    begin = time.perf_counter()
    call()
    duration_s = max(time.perf_counter() - begin, 1e-9)
    # Factorisation destroys a panel: restore it before every call, outside the timed part.
    calls = math.ceil(SHORTEST_S / duration_s)
    kept: list[tuple[float, float]] = []
    every: list[tuple[float, float]] = []
    while len(kept) < REPETITIONS and len(every) < MOST_REPETITIONS:
        wall_s = cpu_s = 0.0
        for _ in range(calls):
            prepare()
            begin, begin_cpu = time.perf_counter(), time.process_time()
            call()
            wall_s, cpu_s = wall_s + time.perf_counter() - begin, cpu_s + time.process_time() - begin_cpu
        every.append((wall_s / calls, cpu_s / calls))
        if cpu_s >= CPU_RATIO * wall_s:
            kept.append(every[-1])
    counted = kept or every
    ratio = sum(cpu_s for _, cpu_s in counted) / sum(wall_s for wall_s, _ in counted)
    calling_s = _time_calling(blas, request)
    durations = tuple(wall_s - calling_s for wall_s, _ in kept if wall_s > calling_s)
    return Timings(durations_s=durations, cpu_ratio=ratio, tried=len(every))


def _time_calling(blas: Blas, request: Request) -> float:
    """Return the overhead of calls; only a panel consists of more than one."""
    if request.routine != "panel":
        return 0.0
    prepare, call = _make_call(blas.without_work(), request)
    prepare()
    return min(timeit.repeat(call, number=1, repeat=REPETITIONS))


def _make_call(blas: Blas, request: Request) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return the preparation of a call and the call itself, on random matrices whose values stay small."""
    generator = np.random.default_rng(0)

    def fill(rows: int, columns: int) -> Matrix:
        return np.asfortranarray(generator.random((rows, columns)) - 0.5)

    if request.routine in STEP:
        calls = _make_step(blas, request, fill, generator)
        # Row exchanges meet what the update before them left in the caches.
        before = [calls[name] for name in STEP[: STEP.index(request.routine)] or STEP[-1:]]
        return lambda: [call() for call in before], calls[request.routine]
    if request.routine == "dgemv":
        matrix, vector, result = (fill(*shape) for shape in (
            (request.rows, request.columns), (request.columns, 1), (request.rows, 1),
        ))  # fmt: skip
        return _nothing, lambda: blas.multiply(matrix, vector, result)
    panel = fill(request.rows, request.block)
    work = panel.copy(order="F")
    return lambda: np.copyto(work, panel), lambda: blas.factorise(work)


def _make_step(
    blas: Blas, request: Request, fill: Callable[[int, int], Matrix], generator: np.random.Generator
) -> dict[Routine, Callable[[], None]]:
    """Return the calls of a step, all on one matrix."""
    block, remaining = request.block, request.remaining_rows or request.rows
    matrix = fill(max(request.leading_rows, remaining + block), block + request.columns)
    first = len(matrix) - remaining - block
    pivots = generator.integers(first + np.arange(block), len(matrix)).astype(np.int32)
    # Small entries, so that steps that are repeated in place do not overflow.
    triangle = fill(block, block) / block**2
    matrix[first:, :block] /= block
    left, above = matrix[first + block :, :block], matrix[first : first + block, block:]
    below = matrix[first + block :, block:]
    return {
        "dlaswp": lambda: blas.exchange(matrix[:, block:], first, pivots),
        "dtrsm": lambda: blas.solve(triangle, above),
        "dgemm": lambda: blas.update(left, above, below),
    }


def _nothing() -> None:
    return None


def main() -> None:
    """Answer requests until the input ends; the argument is the path of the library."""
    blas = Blas(sys.argv[1])
    for line in sys.stdin:
        print(time_routine(blas, Request.model_validate_json(line)).model_dump_json(), flush=True)


if __name__ == "__main__":
    main()
