"""Drop a dataset's files from the page cache, so that a run reads them cold, and check the effect."""

import ctypes
import math
import mmap
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import numpy as np

_LIBC = ctypes.CDLL(None, use_errno=True)
_THREADS = 16
"""Each mostly waits for a shared file system to open a file."""
_WINDOW_BYTES = (1 << 30) // _THREADS
_PROBE_BYTES = 16 << 20
"""Distance of the bytes that are read of a file whose pages the kernel does not count."""
Answer = Literal["dropped", "not_permitted", "kept"]
"""kept: it took too long."""


def drop_page_cache(files: Sequence[Path], limit_s: float = math.inf) -> Answer:
    """Ask the kernel to drop the pages of ``files`` and report whether it did.

    Only the run's own data is dropped, which needs no privilege and keeps programs in memory. Data on in-memory file
    systems cannot be dropped; it stays warm and the answer is ``"not_permitted"``. So is the answer for files of others
    on file systems that do not tell which pages they hold (`_is_cold`).

    Parameters
    ----------
    files
        All files of the data: in every epoch another part of them is read by this node.
    limit_s
        No file is begun after this time, and the answer is ``"kept"`` [s].

    Raises
    ------
    OSError
        If a file cannot be opened.
    """
    give_up_s = time.monotonic() + limit_s
    parts = [files[number::_THREADS] for number in range(min(_THREADS, len(files)))]
    with ThreadPoolExecutor(max(len(parts), 1)) as pool:
        answers = set(pool.map(lambda part: _drop(part, give_up_s), parts))
    # The worst answer counts.
    return "kept" if "kept" in answers else "not_permitted" if "not_permitted" in answers else "dropped"


def _drop(files: Sequence[Path], give_up_s: float) -> Answer:
    cold = True
    for file in files:
        if time.monotonic() >= give_up_s:
            return "kept"
        descriptor = os.open(file, os.O_RDONLY)
        try:
            cold = _forget(descriptor) and cold
        finally:
            os.close(descriptor)
    return "dropped" if cold else "not_permitted"


def _forget(descriptor: int) -> bool:
    """Drop the pages of one file; return whether all are gone."""
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    if not _may_count(descriptor):
        return _is_cold(descriptor)
    if resident_pages(descriptor) == 0:
        return True
    # Pages that were never written back stay. Forcing that first would cost milliseconds for each of many files.
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    return resident_pages(descriptor) == 0


def _may_count(descriptor: int) -> bool:
    """Return whether mincore(2) tells the truth: to the owner of a file, and to those who may write it.

    To all others it calls every page resident, since Linux 5.2 (mm/mincore.c, can_do_mincore).
    """
    owner = os.fstat(descriptor).st_uid == os.geteuid()
    return owner or os.access(f"/proc/self/fd/{descriptor}", os.W_OK, effective_ids=True)


def _is_cold(descriptor: int) -> bool:
    """Return whether none of some pages of a file, evenly spread, is in memory; False where nothing tells.

    preadv2(2) with RWF_NOWAIT reads only what is in memory; few network file systems have it. Newer kernels then begin
    to fetch what is not: one page, as the reads are announced as random.
    """
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    last = max(os.fstat(descriptor).st_size - 1, 0)
    for place in {*range(0, last, _PROBE_BYTES), last // mmap.PAGESIZE * mmap.PAGESIZE}:
        try:
            if os.preadv(descriptor, [bytearray(1)], place, os.RWF_NOWAIT):
                return False
        except BlockingIOError:
            continue
        except OSError:  # EOPNOTSUPP
            return False
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    return True


def resident_pages(descriptor: int) -> int:
    """Return the number of a file's pages in the page cache (mincore(2), which reads none of them).

    The file must be one of which `_may_count` holds.

    Raises
    ------
    OSError
        If the kernel does not answer.
    """
    size = os.fstat(descriptor).st_size
    return sum(
        _resident_in_window(descriptor, start, min(_WINDOW_BYTES, size - start))
        for start in range(0, size, _WINDOW_BYTES)
    )


def _resident_in_window(descriptor: int, start: int, length: int) -> int:
    # A private writable mapping, because ctypes takes the address of no other kind; in parts, because the kernel must
    # be able to provide that much memory.
    with mmap.mmap(descriptor, length, access=mmap.ACCESS_COPY, offset=start) as mapping:
        first = ctypes.c_char.from_buffer(mapping)
        flags = np.empty(-(-length // mmap.PAGESIZE), np.uint8)
        status = _LIBC.mincore(
            ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(length), ctypes.c_void_p(flags.ctypes.data)
        )
        del first
        if status:
            raise OSError(ctypes.get_errno(), "mincore")
    return int(np.count_nonzero(flags & 1))
