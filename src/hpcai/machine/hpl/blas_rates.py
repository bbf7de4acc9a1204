"""Rates of an HPL step's routines in the BLAS of that HPL, with as many busy cores as in HPL.

They are taken in turns before and after HPL itself, because the speed of a shared machine changes within minutes.
"""

import logging
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from hpcai.config.prediction import HplTest
from hpcai.core.disturbance import (
    Disturbance,
    Tolerance,
    disturbance_of,
    joined_disturbance,
    look,
    measure_quietly,
    use_since,
)
from hpcai.core.errors import LaunchError
from hpcai.core.messages import Message
from hpcai.machine.hpl.library import BlasLibrary, OfBlas, find_blas
from hpcai.machine.hpl.routines import (
    MOVERS,
    STEP,
    Answer,
    Request,
    Routine,
    Timings,
    compile_loops,
    count_work,
    slot_bytes,
)
from hpcai.machine.hpl.run import ONE_THREAD, lacks_cores
from hpcai.metrics.quietness import judge_quiet

logger = logging.getLogger(__name__)
PARTS = (1.0, 0.75, 0.5, 0.25, 0.125)
"""Shares of the order: the remaining matrix shrinks from step to step, and with it the rates."""
TURNS = 2
"""Before HPL, and as many after it."""
LEAST_REPETITIONS = 3
NO_HPL = Message("blas_rates.no_hpl", "not measured: HPL, in turns with which rates are taken, did not run")
STUDY_DEFAULT = Tolerance()
NO_COMPILER = Message(
    "blas_rates.no_compiler",
    "not measured: HPL's loops were not compiled, which needs a C compiler (cc) and leave to run",
)
PAGES = {"NUMPY_MADVISE_HUGEPAGE": "0"}
"""HPL asks for no huge pages, and NumPy does by itself: row exchanges are 10 % faster in them."""
METHOD = {
    "dgemm": "measured: cblas_dgemm, rank NB, not transposed, after the solve of its step",
    "dtrsm": "measured: cblas_dtrsm, left, lower, unit, after the row exchanges of its step",
    "panel": "measured: HPL's recursive right-looking factorisation, by calls of this BLAS",
    "dlaswp": "measured: HPL's row exchanges, random pivots, after an update; each pair read and written",
    "dgemv": "measured: cblas_dgemv, not transposed; the matrix read once",
}
ON_PROCESS_ROWS = {
    "panel": "; the processes agree on each pivot through memory",
    "dlaswp": "; with the copies to U and back of two process rows, one after the other",
}
"""What else several process rows do."""


class BlasRate(BaseModel):
    """Rate of one routine and shape per core, while all cores of the grid run it."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    routine: Routine
    order: int = 0
    """Order of the test in whose turns it was timed; 0 in files of earlier versions."""
    remaining_order: int
    """Order m of the remaining matrix of the step."""
    rows: int
    columns: int
    block: int
    process_rows: int
    process_columns: int
    simultaneous: int
    """Number of processes that ran the routine concurrently."""
    threads: int = 1
    leading_rows: int = 0
    rate_flop_per_s: float | None = None
    best_flop_per_s: float | None = None
    rate_bytes_per_s: float | None = None
    n: int = 0
    cpu_ratio: float | None = None
    reason: str = ""


class BlasReport(OfBlas):
    """All rates."""

    rates: tuple[BlasRate, ...] = ()
    disturbance: tuple[Disturbance, ...] = Field(default=(), description="What others took of the node meanwhile.")

    def frame(self, source: str, tolerance: Tolerance = STUDY_DEFAULT) -> pd.DataFrame:
        """Return one row per rate, as the table ``hpl_rates``.

        Parameters
        ----------
        source
            Name of the report's file, for the column ``source``.
        tolerance
            Maximum use by others for a machine to count as quiet.
        """
        table = pd.DataFrame([rate.model_dump() for rate in self.rates], columns=list(BlasRate.model_fields))
        numbers = ("rate_flop_per_s", "best_flop_per_s", "rate_bytes_per_s", "cpu_ratio")
        table = table.astype(dict.fromkeys(numbers, float))
        reasons = table.pop("reason")
        return table.assign(
            library=self.library,
            **asdict(judge_quiet(self.disturbance, tolerance)),
            method=[_method_of(rate) for rate in self.rates],
            source=source,
            reason=reasons,
        )


def _method_of(rate: BlasRate) -> str:
    return METHOD[rate.routine] + (ON_PROCESS_ROWS.get(rate.routine, "") if rate.process_rows > 1 else "")


@dataclass(frozen=True)
class _Turn:
    """Timings of all shapes of a test, each by all processes, and the use of the node by others meanwhile."""

    timings: Mapping[BlasRate, Sequence[Timings]]
    disturbance: tuple[Disturbance, ...]


class RatesInTurn:
    """The rates that the tests need, timed as often as :meth:`take` is called.

    DGEMM updates m/P x m/Q with rank NB, DTRSM solves for m/Q columns, and DLASWP exchanges NB rows of as many columns,
    all on P x Q cores at once. With P > 1 rows are exchanged as two process rows do, one after the other. The panel has
    m/P rows and NB columns, on P cores at once. m takes the :data:`PARTS` of each order. DGEMV reads a process's whole
    matrix.

    Parameters
    ----------
    tests
        ``order``, ``block`` and, unless they are 1, ``process_rows`` and ``process_columns`` of each.
    tolerance
        When a turn is repeated because others used the machine, and how often.
    blas
        That HPL computes with (`hpcai.machine.hpl.run.find_hpl_blas`); None: that of ``hpcc``.
    """

    def __init__(
        self,
        tests: Sequence[Mapping[str, int]],
        tolerance: Tolerance = STUDY_DEFAULT,
        blas: BlasLibrary | None = None,
    ) -> None:
        self._blas, self._tolerance = blas or find_blas(), tolerance
        self._folder = tempfile.TemporaryDirectory(prefix="hpcai-hpl-")
        self._loops = compile_loops(Path(self._folder.name))
        self._reason = self._blas.reason or ("" if self._loops else NO_COMPILER())
        self._rates = {test: plan_rates(test) for test in (HplTest.model_validate(dict(one)) for one in tests)}
        self._taken: dict[BlasRate, list[Timings]] = {rate: [] for plan in self._rates.values() for rate in plan}
        self._disturbance: list[Disturbance] = []
        self._failures: dict[BlasRate, str] = {}

    def take(self, test: HplTest) -> None:
        """Time all shapes of a test, if there is a BLAS, a compiler, and a core for each of its processes.

        Nothing else may be timed on the machine meanwhile: hold :func:`~hpcai.core.machine_lock.machine_to_itself`.
        """
        if self._reason or lacks_cores(test.processes):
            return
        try:
            for _ in range(TURNS):
                self._take_once(self._rates[test])
        except LaunchError as error:
            # HPL's result, which may have taken hours, is not lost.
            self._failures |= dict.fromkeys(self._rates[test], f"not measured: {error}")
            logger.warning("rates for HPL %s: %s", test.words, error)

    def _take_once(self, plan: Sequence[BlasRate]) -> None:
        once = partial(_time_all, plan, self._blas, self._loops)
        turn = measure_quietly(once, self._tolerance, logger.warning)
        self._disturbance += turn.disturbance
        for rate, timings in turn.timings.items():
            self._taken[rate] += timings
            found = self._judge(rate)
            known = found.rate_flop_per_s or found.rate_bytes_per_s
            logger.info("%s of %d x %d: %s", rate.routine, rate.rows, rate.columns, found.reason or known)

    def report(self) -> BlasReport:
        """Return the medians over all turns."""
        rates = tuple(self._judge(rate) for rate in self._taken)
        blas = self._blas
        if self._reason:
            return BlasReport(rates=rates, reason=self._reason)
        return BlasReport(
            rates=rates,
            library=blas.name,
            library_path=blas.path,
            disturbance=joined_disturbance(self._disturbance),
        )

    def _judge(self, rate: BlasRate) -> BlasRate:
        reason = self._reason or lacks_cores(rate.process_rows * rate.process_columns)
        if not reason and not self._taken[rate]:
            reason = self._failures.get(rate, NO_HPL())
        return rate.model_copy(update={"reason": reason}) if reason else count_timings(rate, self._taken[rate])


def plan_rates(test: HplTest) -> list[BlasRate]:
    """Return all shapes needed by a test, each once, without rates."""
    orders = dict.fromkeys(max(round(test.order * part), test.block) for part in PARTS)
    return [rate for order in orders for rate in _plan_step(test, order)]


def _plan_step(test: HplTest, order: int) -> Iterator[BlasRate]:
    rows = _rows_of_process(order, test.process_rows, test.block)
    columns = max(order // test.process_columns, 1)
    common = {
        "order": test.order,
        "remaining_order": order,
        "block": test.block,
        "process_rows": test.process_rows,
        "process_columns": test.process_columns,
    }
    whole = _rows_of_process(test.order, test.process_rows, test.block)
    shapes: dict[Routine, tuple[int, int, int]] = {
        "dgemm": (rows, columns, test.processes),
        "dtrsm": (test.block, columns, test.processes),
        "panel": (rows, test.block, test.process_rows),
        "dlaswp": (rows, columns, test.processes),
    }
    if order == test.order:
        shapes["dgemv"] = (whole, max(order // test.process_columns, 1), test.processes)
    for routine, (height, width, simultaneous) in shapes.items():
        shape = {"rows": height, "columns": width, "simultaneous": simultaneous}
        leading = whole if routine in STEP else 0
        yield BlasRate.model_validate({**common, **shape, "routine": routine, "leading_rows": leading})


def _rows_of_process(order: int, process_rows: int, block: int) -> int:
    return max(order // process_rows, block)


def _time_all(plan: Sequence[BlasRate], blas: BlasLibrary, loops: str) -> _Turn:
    start, timings = look(), {}
    with _start_workers(plan, blas, loops) as workers:
        for rates in _together(plan):
            timings.update(_time(rates, workers[: rates[0].simultaneous]))
    return _Turn(timings, disturbance_of([use_since(start)]))


def _together(plan: Sequence[BlasRate]) -> list[list[BlasRate]]:
    """Return the rates that one request times: the routines of a step, and each other one by itself."""
    orders = dict.fromkeys(rate.remaining_order for rate in plan)
    steps = [[one for name in STEP for one in plan if (one.routine, one.remaining_order) == (name, m)] for m in orders]
    return [*steps, *([rate] for rate in plan if rate.routine not in STEP)]


def _time(rates: Sequence[BlasRate], workers: "Sequence[subprocess.Popen[str]]") -> dict[BlasRate, list[Timings]]:
    """Send the request to several processes at once."""
    shape = rates[-1]  # of a step: its update, which has all sizes
    request = Request(
        routines=tuple(rate.routine for rate in rates),
        **shape.model_dump(include={"rows", "columns", "block", "leading_rows", "process_rows"}),
        remaining_rows=_rows_of_process(shape.remaining_order, shape.process_rows, shape.block),
    )
    for worker in workers:
        _pipe(worker.stdin).write(request.model_dump_json() + "\n")
        _pipe(worker.stdin).flush()
    lines = [_pipe(worker.stdout).readline() for worker in workers]
    if not all(lines):
        endings = ", ".join(str(worker.wait()) for worker, line in zip(workers, lines, strict=True) if not line)
        raise LaunchError(f"a process that measures {shape.routine} ended with {endings}")
    answers = [Answer.model_validate_json(line).root for line in lines]
    return {rate: [answer[rate.routine] for answer in answers] for rate in rates}


def count_timings(rate: BlasRate, timings: Sequence[Timings]) -> BlasRate:
    """Return a rate with its timings: median over all turns, and the best one.

    Of several processes the slowest of each repetition counts: in HPL the others wait for it at the end of each step.
    """
    durations = [duration for timing in timings for duration in timing.durations_s]
    cpu_ratio = min(timing.cpu_ratio for timing in timings)
    turns = [timings[begin : begin + rate.simultaneous] for begin in range(0, len(timings), rate.simultaneous)]
    slowest = [max(each) for turn in turns for each in zip(*(one.durations_s for one in turn), strict=False)]
    if len(slowest) < LEAST_REPETITIONS:
        tried = sum(timing.tried for timing in timings)
        reason = (
            f"{len(durations)} of {tried} repetitions had their core to themselves (processor time "
            f"{100 * cpu_ratio:.0f} % of the wall time), expected at least {LEAST_REPETITIONS} of each process"
        )
        return rate.model_copy(update={"n": len(durations), "cpu_ratio": cpu_ratio, "reason": reason})
    counted = {"n": len(durations), "cpu_ratio": cpu_ratio}
    work = count_work(rate.routine, rate.rows, rate.columns, rate.block)
    if rate.routine in MOVERS:
        return rate.model_copy(update={**counted, "rate_bytes_per_s": work / statistics.median(slowest)})
    rates = {"rate_flop_per_s": work / statistics.median(slowest), "best_flop_per_s": work / min(durations)}
    return rate.model_copy(update={**counted, **rates})


@contextmanager
def _start_workers(plan: Sequence[BlasRate], blas: BlasLibrary, loops: str) -> "Iterator[list[subprocess.Popen[str]]]":
    """Start measuring processes; each ends when its input ends."""
    count = max(rate.simultaneous for rate in plan)
    with ExitStack() as stack:
        slots = stack.enter_context(tempfile.NamedTemporaryFile(prefix="hpcai-hpl-"))
        slots.truncate(count * slot_bytes(max(rate.block for rate in plan)))
        yield [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "hpcai.machine.hpl.routines", blas.path, loops, slots.name, str(place)],
                    env={**os.environ, **ONE_THREAD, **PAGES, **blas.environment},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for place in range(count)
        ]


def _pipe(pipe: IO[str] | None) -> IO[str]:
    if pipe is None:
        raise LaunchError("a measuring process has no pipe")
    return pipe
