"""Drops a dataset's files from the page cache, so that a run reads them cold, and looks whether that worked."""

import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

_LIBC = ctypes.CDLL(None, use_errno=True)


def drop_page_cache(files: Iterable[Path]) -> Literal["dropped", "not_permitted"]:
    """Ask the kernel to forget the pages of ``files`` and report whether it did.

    Only the run's own data is dropped, which needs no privilege and leaves programs in memory. File systems in
    memory have nothing to drop to; their data stays warm and the answer is ``"not_permitted"``.
    """
    cold = True
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            cold = cold and resident_pages(descriptor) == 0
        finally:
            os.close(descriptor)
    return "dropped" if cold else "not_permitted"


def resident_pages(descriptor: int) -> int:
    """Return how many pages of a file are in the page cache (mincore(2), which reads none of them).

    Raises
    ------
    OSError
        If the kernel does not tell.
    """
    size = os.fstat(descriptor).st_size
    if size == 0:
        return 0
    # A private writable mapping, only because ctypes takes the address of nothing else.
    with mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY) as mapping:
        first = ctypes.c_char.from_buffer(mapping)
        flags = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        status = _LIBC.mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size), flags)
        del first
        if status:
            raise OSError(ctypes.get_errno(), "mincore")
    return sum(flag & 1 for flag in flags)
