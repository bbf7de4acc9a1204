"""Work in several processes: jobs of the generators, and numbered work that forked processes inherit."""

import ctypes
import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from multiprocessing.connection import Connection, wait
from traceback import format_exc
from typing import Any, TypeVar

from hpcai.core.errors import DatasetError
from hpcai.core.messages import Message

logger = logging.getLogger(__name__)
WORKER_ENDED = Message(
    "processes.worker_ended", "a process was ended from outside, perhaps for lack of memory; start this again"
)
_PROGRESS_S = 5.0
Job = TypeVar("Job")
Result = TypeVar("Result")
_PR_SET_PDEATHSIG = 1
"""prctl(2), linux/prctl.h."""
_Outcome = tuple[int, Any, BaseException | None]
"""Number, result, and error of a work."""


def in_processes(
    work: Callable[[Job], Result], jobs: Sequence[Job], what: str, workers: int | None = None
) -> Iterator[Result]:
    """Yield the results in the order of the jobs; log progress now and then.

    Parameters
    ----------
    work
        Function to apply to each job.
    jobs
        The jobs.
    what
        Plural noun for the results, for the log.
    workers
        Number of processes; default: the usable processors.

    Raises
    ------
    DatasetError
        As `in_forks`.
    """
    started_s = told_s = time.monotonic()
    workers = workers or len(os.sched_getaffinity(0))
    with closing(in_forks(lambda number: work(jobs[number]), len(jobs), workers)) as results:
        for done, result in enumerate(results, 1):
            if done == len(jobs) or time.monotonic() - told_s >= _PROGRESS_S:
                told_s = time.monotonic()
                logger.info("generated %d of %d %s in %.0f s", done, len(jobs), what, told_s - started_s)
            yield result


def in_forks(work: Callable[[int], Result], count: int, processes: int) -> Generator[Result, None, None]:
    """Apply a function to the numbers below a count in forked processes; yield the results in the order of the numbers.

    The processes inherit the function with all that it refers to; only numbers and results are sent. They end at once
    at an error, when the iterator is closed, and when this process is interrupted or killed. Each has its own pipe:
    one of a `ProcessPoolExecutor` that is killed while it sends leaves the reader of the common pipe waiting.

    Parameters
    ----------
    work
        Function of a number; its results can be pickled. Its first error in the order of the numbers is raised.
    count
        How many numbers.
    processes
        How many processes at most; 1: this one does the work.

    Raises
    ------
    DatasetError
        If a process was ended from outside.
    """
    if min(processes, count) <= 1:
        yield from map(work, range(count))
        return
    context = multiprocessing.get_context("fork")  # "spawn" would rerun the calling Snakemake script
    workers = []
    try:
        for _ in range(min(processes, count)):
            here, there = context.Pipe()
            worker = context.Process(target=_serve, args=(work, there, os.getpid()), daemon=True)
            workers.append((worker, here))
            worker.start()
            there.close()
        yield from _in_order([here for _, here in workers], count)
    finally:
        for worker, here in workers:
            here.close()
            if worker.pid:
                worker.kill()
                worker.join()


def _in_order(workers: list[Connection], count: int) -> Iterator[Any]:
    """Give each idle process the next number; yield the results in the order of the numbers."""
    numbers, outcomes = iter(range(count)), dict[int, _Outcome]()
    for worker, number in zip(workers, islice(numbers, len(workers)), strict=True):
        with _ended_from_outside():
            worker.send(number)
    for following in range(count):
        while following not in outcomes:
            for ready in wait(workers):
                assert isinstance(ready, Connection)
                outcome = _received(ready, next(numbers, None))
                outcomes[outcome[0]] = outcome
        _, result, error = outcomes.pop(following)
        if error:
            raise error
        yield result


def _received(worker: Connection, following: int | None) -> _Outcome:
    """Take an outcome from a process, and give it the next number."""
    with _ended_from_outside():
        outcome: _Outcome = worker.recv()
        if following is not None:
            worker.send(following)
    return outcome


@contextmanager
def _ended_from_outside() -> Iterator[None]:
    """Say why a pipe is closed at its other end."""
    try:
        yield
    except (EOFError, OSError) as error:
        raise DatasetError(WORKER_ENDED()) from error


def _serve(work: Callable[[int], Any], numbers: Connection, parent: int) -> None:
    """Apply a function to the numbers that arrive, until this process is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the parent ends these
    end_with(parent)
    while True:
        number = numbers.recv()
        try:
            outcome: _Outcome = (number, work(number), None)
        except Exception as error:
            error.add_note(format_exc())
            outcome = (number, None, error)
        numbers.send(outcome)


def end_with(parent: int) -> None:
    """Let the kernel end this process when its parent ends, however that happens."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(1)
