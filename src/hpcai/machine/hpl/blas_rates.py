"""Rates of an HPL step's routines in the BLAS of ``hpcc``, with as many busy cores as in HPL."""

import json
import logging
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import IO

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from hpcai.core.disturbance import Disturbance, Tolerance
from hpcai.core.errors import LaunchError
from hpcai.core.machine_lock import machine_to_itself
from hpcai.machine.hpl.input import HplTest
from hpcai.machine.hpl.library import BlasLibrary, OfBlas, find_blas
from hpcai.machine.hpl.routines import MOST_REPETITIONS, MOVERS, STEP, Request, Routine, Timings
from hpcai.machine.hpl.run import ONE_THREAD
from hpcai.metrics.quietness import judge_quiet

logger = logging.getLogger(__name__)
PARTS = (1.0, 0.75, 0.5, 0.25, 0.125)
"""Shares of the order: the remaining matrix shrinks from step to step, and with it the rates."""
LEAST_REPETITIONS = 3
STUDY_DEFAULT = Tolerance()
PAGES = {"NUMPY_MADVISE_HUGEPAGE": "0"}
"""HPL asks for no huge pages, and NumPy does by itself: row exchanges are 10 % faster in them."""
METHOD = {
    "dgemm": "measured: cblas_dgemm, rank NB, not transposed, after the solve of its step",
    "dtrsm": "measured: cblas_dtrsm, left, lower, unit, after the row exchanges of its step",
    "panel": "measured: recursive right-looking factorisation by calls of this BLAS",
    "dlaswp": "measured: dlaswp, random pivots, after an update; two reads and two writes of each pair",
    "dgemv": "measured: cblas_dgemv, not transposed; the matrix read once",
}


class BlasRate(BaseModel):
    """Rate of one routine and shape per core, while all cores of the grid run it."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    routine: Routine
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
            method=table["routine"].map(METHOD),
            source=source,
            reason=reasons,
        )


def measure_blas_rates(tests: Sequence[Mapping[str, int]]) -> BlasReport:
    """Measure the rates needed by the tests.

    DGEMM updates m/P x m/max(2, Q) with rank NB, DTRSM solves for m/max(2, Q) columns, and DLASWP exchanges NB rows of
    as many columns, all on P x Q cores at once. The panel has m/P rows and NB columns, on P cores at once. m takes the
    :data:`PARTS` of each order. DGEMV reads a process's whole matrix.

    Parameters
    ----------
    tests
        ``order``, ``block`` and, unless they are 1, ``process_rows`` and ``process_columns`` of each.
    """
    wanted = [HplTest.model_validate(dict(test)) for test in tests]
    blas = find_blas()
    if blas.reason:
        missing = tuple(rate.model_copy(update={"reason": blas.reason}) for rate in plan_rates(wanted))
        return BlasReport(rates=missing, reason=blas.reason)
    with machine_to_itself(logger.info) as watch:
        rates = tuple(_measure_all(wanted, blas))
    return BlasReport(rates=rates, library=blas.name, library_path=blas.path, disturbance=watch.disturbance)


def plan_rates(tests: Sequence[HplTest]) -> list[BlasRate]:
    """Return all shapes needed by the tests, each once, without rates."""
    found: dict[tuple[object, ...], BlasRate] = {}
    for test in tests:
        for part in PARTS:
            for rate in _plan_step(test, max(round(test.order * part), test.block)):
                key = (rate.routine, rate.remaining_order, rate.block, rate.process_rows, rate.process_columns)
                found.setdefault(key, rate)
    return list(found.values())


def _plan_step(test: HplTest, order: int) -> Iterator[BlasRate]:
    rows = _rows_of_process(order, test.process_rows, test.block)
    columns = max(order // max(2, test.process_columns), 1)
    common = {
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


def _measure_all(tests: Sequence[HplTest], blas: BlasLibrary) -> Iterator[BlasRate]:
    plan = plan_rates(tests)
    cores = sorted(os.sched_getaffinity(0))
    for rate in plan:
        if rate.process_rows * rate.process_columns > len(cores):
            reason = f"not measured: {rate.process_rows * rate.process_columns} processes on {len(cores)} cores"
            yield rate.model_copy(update={"reason": reason})
    plan = [rate for rate in plan if rate.process_rows * rate.process_columns <= len(cores)]
    with _start_workers(blas, cores[: max((rate.simultaneous for rate in plan), default=0)]) as workers:
        for rate in plan:
            yield _measure(rate, workers[: rate.simultaneous])


def _measure(rate: BlasRate, workers: "Sequence[subprocess.Popen[str]]") -> BlasRate:
    """Send the request to several processes at once; their repetitions are pooled."""
    remaining = _rows_of_process(rate.remaining_order, rate.process_rows, rate.block)
    request = Request(**rate.model_dump(include=set(Request.model_fields)), remaining_rows=remaining)
    for worker in workers:
        _pipe(worker.stdin).write(request.model_dump_json() + "\n")
        _pipe(worker.stdin).flush()
    lines = [_pipe(worker.stdout).readline() for worker in workers]
    if not all(lines):
        endings = ", ".join(str(worker.wait()) for worker, line in zip(workers, lines, strict=True) if not line)
        raise LaunchError(f"a process that measures {rate.routine} ended with {endings}")
    measured = count_timings(rate, request.work, [Timings.model_validate(json.loads(line)) for line in lines])
    known = measured.rate_flop_per_s or measured.rate_bytes_per_s
    logger.info("%s of %d x %d: %s", rate.routine, rate.rows, rate.columns, measured.reason or known)
    return measured


def count_timings(rate: BlasRate, work: float, timings: Sequence[Timings]) -> BlasRate:
    """Return a rate with its timings: median and best over all processes.

    Parameters
    ----------
    work
        Work of one call: bytes for :data:`~hpcai.machine.hpl.routines.MOVERS`, else operations.
    """
    durations = [duration for timing in timings for duration in timing.durations_s]
    cpu_ratio = min(timing.cpu_ratio for timing in timings)
    if min(len(timing.durations_s) for timing in timings) < LEAST_REPETITIONS:
        reason = (
            f"fewer than {LEAST_REPETITIONS} of {MOST_REPETITIONS} repetitions had their core to themselves "
            f"(processor time {100 * cpu_ratio:.0f} % of the wall time)"
        )
        return rate.model_copy(update={"n": len(durations), "cpu_ratio": cpu_ratio, "reason": reason})
    counted = {"n": len(durations), "cpu_ratio": cpu_ratio}
    if rate.routine in MOVERS:
        return rate.model_copy(update={**counted, "rate_bytes_per_s": work / statistics.median(durations)})
    rates = {"rate_flop_per_s": work / statistics.median(durations), "best_flop_per_s": work / min(durations)}
    return rate.model_copy(update={**counted, **rates})


@contextmanager
def _start_workers(blas: BlasLibrary, cores: Sequence[int]) -> "Iterator[list[subprocess.Popen[str]]]":
    """Start one measuring process per core; each ends when its input ends."""
    command = [sys.executable, "-m", "hpcai.machine.hpl.routines", blas.path]
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                subprocess.Popen(
                    command,
                    env={**os.environ, **ONE_THREAD, **PAGES, **blas.environment},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in cores
        ]


def _pipe(pipe: IO[str] | None) -> IO[str]:
    if pipe is None:
        raise LaunchError("a measuring process has no pipe")
    return pipe
