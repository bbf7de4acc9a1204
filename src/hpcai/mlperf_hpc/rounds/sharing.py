"""Read logs with several processes; results and their order do not depend on the number of processes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TypeVar

from hpcai.mlperf_hpc.rounds.tree import Place
from hpcai.parsers.workers import MOST_WORKERS, Worker, usable_cores

LARGE_BYTES = 8 << 20
"""Less is read by one process, in tenths of a second; starting another and fetching its results takes hundredths."""
BATCH_BYTES = 64 << 20
"""Bytes held in memory before they are distributed."""
Log = tuple[Place, bytes]
T = TypeVar("T")


def read_logs(read: Callable[[Place, bytes], T], logs: Iterable[Log]) -> Iterator[tuple[Place, T]]:
    """Yield the place and the result of each log, in order.

    Parameters
    ----------
    read
        Returns a picklable result from place and content, the same in each process. State that it keeps reaches later
        logs only from the first one, which is read in this process before the others are distributed.
    logs
        Iterated in this process only, so that an error in an archive is raised here.
    """
    batch: list[Log] = []
    size_bytes = 0
    for log in logs:
        batch.append(log)
        size_bytes += len(log[1])
        if size_bytes >= BATCH_BYTES:
            yield from _read_together(read, batch, size_bytes)
            batch, size_bytes = [], 0
    if batch:
        yield from _read_together(read, batch, size_bytes)


def _read_together(
    read: Callable[[Place, bytes], T], batch: Sequence[Log], size_bytes: int
) -> Iterator[tuple[Place, T]]:
    """Read a part of the logs here and the others in copies of this process, or here if a copy fails."""
    first, rest = read(*batch[0]), batch[1:]
    results = [first] * len(batch)
    count = count_processes(size_bytes)
    parts = [rest[number::count] for number in range(count)]
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(_read_part(read, part))) for part in parts[1:]]
        results[1::count] = [read(*log) for log in parts[0]]
        for number, worker in enumerate(workers, start=1):
            received = worker.receive()
            done = received if isinstance(received, list) else [read(*log) for log in parts[number]]
            results[1 + number :: count] = done
    return zip((place for place, _ in batch), results, strict=True)


def _read_part(read: Callable[[Place, bytes], T], part: Sequence[Log]) -> Iterator[list[T]]:
    """Yield all results at once: the receiving process is busy until then."""
    yield [read(*log) for log in part]


def count_processes(size_bytes: int) -> int:
    """Return how many processes, including this one, should read logs of that size."""
    return min(usable_cores(), 1 + MOST_WORKERS) if size_bytes >= LARGE_BYTES else 1
