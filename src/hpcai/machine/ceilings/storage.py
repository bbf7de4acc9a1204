"""Storage bandwidth of this machine: files written to the medium and read back from it, never from memory."""

import errno
import fcntl
import logging
import mmap
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from hpcai.config.machine import require_set, scratch_path
from hpcai.core.errors import LaunchError
from hpcai.core.files import file_system_of
from hpcai.core.machine_lock import machine_to_itself
from hpcai.core.messages import Message
from hpcai.core.text import say_bytes
from hpcai.machine.ceilings.agreement import further_rounds
from hpcai.machine.ceilings.sampling import CeilingReport, Kind, NotMeasured, PageCache, Sample, report_of

logger = logging.getLogger(__name__)
FILE_BYTES = 256 << 20
STREAMS = (1, 4)
REPEATS = 2
BLOCK_BYTES = 8 << 20
FREE_SHARE = 0.25
"""Share of the free space: a benchmark that fills a disk harms others."""
SMALLEST_BYTES = 16 << 20
COLD_RATIO = 0.99
"""A read is cold if the kernel counts this share of it as fetched from storage."""
IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})
KINDS: tuple[Kind, ...] = ("storage_write", "storage_read")
NO_ROOM = Message("storage.no_room", "{free} free, expected at least {needed}, because files may use only a quarter")
WARM_READS = Message(
    "storage.warm_reads",
    "the kernel counted no fetch from storage in {warm} of {reads} reads, although the files were dropped from the "
    "page cache: they came from memory, or this file system does not count fetches",
)


@dataclass(frozen=True)
class _Test:
    """One test: number of concurrent files, and their total size."""

    place: str
    total_bytes: int
    streams: int

    @property
    def setting(self) -> str:
        files = "one file" if self.streams == 1 else f"{self.streams} files at once"
        return f"{files}, {self.total_bytes >> 20} MiB"

    def sample(self, kind: Kind, backend: str, duration_s: float, page_cache: PageCache = "") -> Sample:
        return Sample(
            kind=kind,
            backend=backend,
            place=self.place,
            setting=self.setting,
            threads=self.streams,
            work=self.total_bytes,
            unit="B/s",
            duration_s=duration_s,
            page_cache=page_cache,
        )


def measure_storage(
    places: Mapping[str, str],
    file_bytes: int = FILE_BYTES,
    streams: Sequence[int] = STREAMS,
    repeats: int = REPEATS,
) -> CeilingReport:
    """Measure writing and cold reading in folders.

    Caches of a hypervisor or storage server are not visible: cold means absent from this node's memory.

    Parameters
    ----------
    places
        Folder of each location by name, for example ``node-local`` and ``shared``; ``${VARIABLE}`` is replaced. The
        last folder of a path is created if it is missing, and removed again. Files have no name, so none is ever left
        behind.
    file_bytes
        Bytes written and read per repetition by all streams together; less if less space is free.
    streams
        Numbers of concurrent files.
    repeats
        Repetitions per number of streams; more if the best two disagree
        (:mod:`hpcai.machine.ceilings.agreement`).

    Places on one file system (the same ``st_dev``) are measured once; the setting of the others names the first.
    """
    with machine_to_itself(logger.info) as watch:
        samples, missing = _measure_places(places, (file_bytes, tuple(streams), repeats))
    return report_of(samples, missing, watch.disturbance)


_Sizes = tuple[int, tuple[int, ...], int]
"""Bytes of all files together, numbers of streams, repetitions."""


def _measure_places(places: Mapping[str, str], sizes: _Sizes) -> tuple[list[Sample], list[NotMeasured]]:
    samples: list[Sample] = []
    missing: list[NotMeasured] = []
    measured: dict[int, str] = {}
    for place, folder in places.items():
        try:
            with _folder(folder) as path:
                device = path.stat().st_dev
                if device in measured:
                    samples += _samples_of_the_same(measured[device], place, samples)
                else:
                    _measure_place(place, path, sizes, samples)
                    measured[device] = place
        except OSError as error:
            missing += _missing(place, f"{folder}: {_say(error)}")
        except _NoStorageError as error:
            missing += _missing(place, f"{folder}: {error}")
        else:
            missing += _missing_reads(place, folder, samples)
    return samples, missing


def _samples_of_the_same(measured: str, place: str, samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples of a place that is on the same file system: measuring it again would only take time."""
    return [
        sample.model_copy(update={"place": place, "setting": f"{sample.setting}, file system of {measured}"})
        for sample in samples
        if sample.place == measured
    ]


class _NoStorageError(Exception):
    """A folder without storage to measure."""


@contextmanager
def _folder(name: str) -> Iterator[Path]:
    try:
        path = Path(require_set("storage", name, scratch_path(name)))
    except LaunchError as error:
        # Otherwise a folder with the variable's name would be made and measured here.
        raise _NoStorageError(str(error)) from error
    made = not path.exists()
    if made:
        path.mkdir()
    try:
        yield path
    finally:
        if made:
            with suppress(OSError):
                path.rmdir()


def _measure_place(place: str, folder: Path, sizes: _Sizes, samples: list[Sample]) -> None:
    file_bytes, streams, repeats = sizes
    kind = file_system_of(folder)
    if kind in IN_MEMORY:
        raise _NoStorageError(f"a file system in memory ({kind}), not storage")
    total_bytes = usable_bytes(folder, file_bytes)
    # Random, because some file systems compress, and prepared in advance.
    content = memoryview(np.random.default_rng().bytes(total_bytes // min(streams)))

    def measure_once(counts: Iterable[int]) -> None:
        for count in counts:
            own_bytes = total_bytes // count // mmap.PAGESIZE * mmap.PAGESIZE
            _measure_files(_Test(place, own_bytes * count, count), folder, content[:own_bytes], samples)

    for _ in range(repeats):
        measure_once(streams)
    for disagreeing in further_rounds(lambda: [sample for sample in samples if sample.place == place]):
        measure_once(sorted({way.threads for way in disagreeing}))


def usable_bytes(folder: Path, wanted_bytes: int) -> int:
    """Return how many bytes may be written in a folder: the requested ones, or a share of the free space."""
    free = os.statvfs(folder)
    free_bytes = free.f_bavail * free.f_frsize
    usable = min(wanted_bytes, int(FREE_SHARE * free_bytes))
    least = min(wanted_bytes, SMALLEST_BYTES)
    if usable < least:
        needed = say_bytes(least / FREE_SHARE)
        raise _NoStorageError(NO_ROOM(free=say_bytes(free_bytes), needed=needed))
    return usable


def _measure_files(test: _Test, folder: Path, content: memoryview, samples: list[Sample]) -> None:
    """Write files, then read them twice: through the emptied page cache, and bypassing it."""
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile(dir=folder, buffering=0)) for _ in range(test.streams)]
        samples.append(
            test.sample("storage_write", "write and fsync", _together(files, lambda file: _write(file, content)))
        )
        for backend, prepare in (("read", _forget_pages), ("read, O_DIRECT", _go_around_cache)):
            try:
                for file in files:
                    prepare(file)
            except OSError as error:
                if error.errno != errno.EINVAL:  # unless this file system does not support it
                    raise
                continue
            before = storage_read_bytes()
            duration_s = _together(files, _read)
            state = page_cache_state(before, storage_read_bytes(), test.total_bytes)
            samples.append(test.sample("storage_read", backend, duration_s, state))


def _together(files: Sequence[IO[bytes]], work: Callable[[IO[bytes]], None]) -> float:
    """Return the time for all concurrent files, from the first start to the last end [s]."""
    barrier = threading.Barrier(len(files))

    def span(file: IO[bytes]) -> tuple[float, float]:
        barrier.wait()
        started_s = time.monotonic()
        work(file)
        return started_s, time.monotonic()

    with ThreadPoolExecutor(len(files)) as pool:
        starts_s, ends_s = zip(*pool.map(span, files), strict=True)
    return float(max(ends_s) - min(starts_s))


def _write(file: IO[bytes], content: memoryview) -> None:
    written = 0
    while written < len(content):
        written += os.pwrite(file.fileno(), content[written : written + BLOCK_BYTES], written)
    os.fsync(file.fileno())


def _forget_pages(file: IO[bytes]) -> None:
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _go_around_cache(file: IO[bytes]) -> None:
    _forget_pages(file)
    fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_DIRECT)


def _read(file: IO[bytes]) -> None:
    """Read a file from its start into one buffer, page-aligned as O_DIRECT requires."""
    with mmap.mmap(-1, BLOCK_BYTES) as buffer:
        place = 0
        while (got := os.preadv(file.fileno(), [buffer], place)) > 0:
            place += got


def storage_read_bytes() -> int | None:
    """Return the bytes that this process fetched from storage (proc(5), ``io``); None if the kernel counts none."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("read_bytes:")), None)


def page_cache_state(before: int | None, after: int | None, read_bytes: int) -> PageCache:
    """Return whether a read came from storage, from the kernel's counts before and after it.

    Some file systems do not count at all: their fetches from storage are taken as warm, which gives no ceiling.
    """
    if before is None or after is None:
        return "unknown"
    return "cold" if after - before >= COLD_RATIO * read_bytes else "warm"


def _missing(place: str, reason: str) -> list[NotMeasured]:
    return [NotMeasured(kind=kind, place=place, reason=reason) for kind in KINDS]


def _missing_reads(place: str, folder: str, samples: Sequence[Sample]) -> list[NotMeasured]:
    """Return why there is no read rate, if no read was cold."""
    reads = [sample for sample in samples if sample.kind == "storage_read" and sample.place == place]
    if any(sample.counts for sample in reads):
        return []
    warm = sum(sample.page_cache == "warm" for sample in reads)
    why = (
        WARM_READS(warm=warm, reads=len(reads))
        if warm
        else "the kernel does not report whether reads came from storage or from memory"
    )
    return [NotMeasured(kind="storage_read", place=place, reason=f"{folder}: {why}")]


def _say(error: OSError) -> str:
    name = errno.errorcode.get(error.errno or 0, type(error).__name__)
    return f"{name}: {error.strerror or error}"
