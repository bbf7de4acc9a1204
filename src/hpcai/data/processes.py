"""Run the generators' jobs in several processes and log progress."""

import logging
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

logger = logging.getLogger(__name__)
_PROGRESS_S = 5.0
_MOST_AT_ONCE = 16
Job = TypeVar("Job")
Result = TypeVar("Result")


def in_processes(
    work: Callable[[Job], Result], jobs: Sequence[Job], what: str, workers: int | None = None
) -> Iterator[Result]:
    """Yield the results in the order of the jobs; log progress now and then.

    Parameters
    ----------
    work
        Function to apply to each job: a module-level function, or a `functools.partial` of one.
    jobs
        At least one.
    what
        Plural noun for the results, for the log.
    workers
        Number of processes; default: the usable processors.
    """
    started_s = told_s = time.monotonic()
    workers = min(workers or len(os.sched_getaffinity(0)), len(jobs))
    # Not "spawn": it would rerun the calling script in each worker, which breaks Snakemake scripts.
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        results = pool.map(work, jobs, chunksize=max(1, min(_MOST_AT_ONCE, len(jobs) // workers)))
        for done, result in enumerate(results, 1):
            if done == len(jobs) or time.monotonic() - told_s >= _PROGRESS_S:
                told_s = time.monotonic()
                logger.info("generated %d of %d %s in %.0f s", done, len(jobs), what, told_s - started_s)
            yield result
