"""Logs read by several processes: results and their order are those of one process, however many there are."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TypeVar

from hpcai.mlperf_hpc.rounds.tree import Place
from hpcai.parsers.workers import MOST_WORKERS, Worker, usable_cores

LARGE_BYTES = 8 << 20
"""Less is read by one process, in tenths of a second; to start another and to fetch its results takes hundredths."""
BATCH_BYTES = 64 << 20
"""So much is held in memory before it is shared out."""
Log = tuple[Place, bytes]
T = TypeVar("T")


def read_logs(read: Callable[[Place, bytes], T], logs: Iterable[Log]) -> Iterator[tuple[Place, T]]:
    """Yield the place of each log and what is made of it, in their order.

    Parameters
    ----------
    read
        Makes of place and content what can be pickled, the same in each process. What it remembers reaches the later
        logs only from the first one, which is read in this process before the others are shared out.
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
    """Read a part of the logs here and the others in copies of this process, or here if one of them fails."""
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
    """Yield all results at once: the process they are meant for is busy until then."""
    yield [read(*log) for log in part]


def count_processes(size_bytes: int) -> int:
    """Return how many processes, this one among them, read logs of that size together."""
    return min(usable_cores(), 1 + MOST_WORKERS) if size_bytes >= LARGE_BYTES else 1
