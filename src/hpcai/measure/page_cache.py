"""Drop a dataset's files from the page cache, so that a run reads them cold, and check the effect."""

import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import numpy as np

_LIBC = ctypes.CDLL(None, use_errno=True)
_WINDOW_BYTES = 1 << 30


def drop_page_cache(files: Iterable[Path]) -> Literal["dropped", "not_permitted"]:
    """Ask the kernel to drop the pages of ``files`` and report whether it did.

    Only the run's own data is dropped, which needs no privilege and keeps programs in memory. Data on in-memory file
    systems cannot be dropped; it stays warm and the answer is ``"not_permitted"``.
    """
    cold = True
    for file in files:
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
