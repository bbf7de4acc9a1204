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
Answer = Literal["dropped", "not_permitted", "kept"]
"""kept: it took too long."""


def drop_page_cache(files: Sequence[Path], limit_s: float = math.inf) -> Answer:
    """Ask the kernel to drop the pages of ``files`` and report whether it did.

    Only the run's own data is dropped, which needs no privilege and keeps programs in memory. Data on in-memory file
    systems cannot be dropped; it stays warm and the answer is ``"not_permitted"``.

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
    if resident_pages(descriptor) == 0:
        return True
    # Pages that were never written back stay. Forcing that first would cost milliseconds for each of many files.
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    return resident_pages(descriptor) == 0


def resident_pages(descriptor: int) -> int:
    """Return the number of a file's pages in the page cache (mincore(2), which reads none of them).

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
