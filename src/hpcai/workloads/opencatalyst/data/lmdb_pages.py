"""Check the pages of an LMDB file: LMDB itself follows a damaged pointer out of the file and crashes.

Layout from LMDB 0.9, libraries/liblmdb/mdb.c (MDB_page, MDB_meta, MDB_db, MDB_node), 64-bit little-endian: pages begin
with their own number; pages 0 and 1 are copies of the meta page, and the one with the later transaction is valid;
the main tree has branch and leaf pages, and large values lie in runs of overflow pages.
"""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hpcai.core.errors import DatasetError

_HEADER = struct.Struct("<QHHHH")
_META = struct.Struct("<IIQQ")
_TREE = struct.Struct("<IHHQQQQQ")
_TAIL = struct.Struct("<QQ")
_NODE = struct.Struct("<HHHH")
_META_BYTES = _HEADER.size + _META.size + 2 * _TREE.size + _TAIL.size
_MAGIC, _VERSION = 0xBEEFC0DE, 1
_BRANCH, _LEAF, _OVERFLOW, _METAPAGE = 1, 2, 4, 8
_BIG_DATA = 1
_NO_PAGE = 2**64 - 1
_DEEPEST = 32
"""MDB's cursors hold no more levels (CURSOR_STACK)."""
REPAIR = "copy the file again, or make the dataset again"


class _Tree(NamedTuple):
    """MDB_db: facts of a tree; the field ``pad`` of the tree of free pages is the page size."""

    pad: int
    flags: int
    depth: int
    branch_pages: int
    leaf_pages: int
    overflow_pages: int
    entries: int
    root: int


@dataclass(frozen=True)
class _Meta:
    page_bytes: int
    tree: _Tree
    last_page: int
    transaction: int


def check_pages(path: Path) -> int:
    """Check that LMDB can read a file safely, and return its number of entries.

    Parameters
    ----------
    path
        A single-file environment (``subdir=False``).

    Raises
    ------
    DatasetError
        If it is not an LMDB file, is empty or cut, or has pages that point outside or at each other; names file and
        page.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size < _META_BYTES:
                raise _damage(path, f"found {size} bytes", "an LMDB file")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _Walk(path, data).run()
    except OSError as error:
        raise DatasetError(
            f"{path}: cannot be read ({error.strerror}), expected a readable file; make the dataset again"
        ) from error


def _damage(place: object, found: str, expected: str) -> DatasetError:
    return DatasetError(f"{place}: {found}, expected {expected}; {REPAIR}")


def _read_meta(path: Path, data: mmap.mmap, start: int) -> _Meta:
    _, _, flags, _, _ = _HEADER.unpack_from(data, start)
    magic, version, _, _ = _META.unpack_from(data, start + _HEADER.size)
    if not flags & _METAPAGE or (magic, version) != (_MAGIC, _VERSION):
        raise _damage(path, f"found magic number {magic:08x}, version {version}", "an LMDB file (beefc0de, 1)")
    trees = start + _HEADER.size + _META.size
    free = _Tree(*_TREE.unpack_from(data, trees))
    main = _Tree(*_TREE.unpack_from(data, trees + _TREE.size))
    last_page, transaction = _TAIL.unpack_from(data, trees + 2 * _TREE.size)
    if free.pad not in {1 << bits for bits in range(9, 17)}:
        raise _damage(path, f"found pages of {free.pad} bytes", "a power of two up to 65536")
    return _Meta(free.pad, main, last_page, transaction)


class _Walk:
    """Visits every page of the main tree once."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path, self._data = path, data
        first = _read_meta(path, data, 0)
        self._page_bytes = first.page_bytes
        if len(data) % self._page_bytes or len(data) < 2 * self._page_bytes:
            raise _damage(path, f"found {len(data)} bytes", f"whole pages of {self._page_bytes}: the tail is cut")
        metas = (first, _read_meta(path, data, self._page_bytes))
        self._meta = max(metas, key=lambda meta: meta.transaction)
        if self._meta.page_bytes != self._page_bytes:
            raise _damage(path, "found two page sizes", "one")
        self._pages = len(data) // self._page_bytes
        if self._meta.last_page >= self._pages:
            raise _damage(path, f"found {self._pages} pages", f"{self._meta.last_page + 1}: the tail is cut")
        self._seen: set[int] = set()
        self._entries = 0

    def run(self) -> int:
        tree = self._meta.tree
        if tree.flags:
            raise _damage(self._path, f"found a tree with flags {tree.flags:x}", "a plain one")
        if tree.root != _NO_PAGE:
            self._visit(tree.root, 1)
        if self._entries != tree.entries:
            raise _damage(self._path, f"found {self._entries} entries in the tree", f"{tree.entries}")
        return self._entries

    def _place(self, page: int) -> str:
        return f"{self._path}: page {page}"

    def _claim(self, page: int, kind: int) -> tuple[int, int]:
        """Check a page's header; return its bounds of free space, or for an overflow page its run."""
        if not 2 <= page <= self._meta.last_page:
            raise _damage(self._place(page), "found a pointer to it", f"pages 2 to {self._meta.last_page}")
        if page in self._seen:
            raise _damage(self._place(page), "found two pointers to it", "one")
        self._seen.add(page)
        number, _, flags, lower, upper = _HEADER.unpack_from(self._data, page * self._page_bytes)
        if number != page or not flags & kind:
            raise _damage(self._place(page), f"found number {number} and flags {flags:x}", "its own and its kind")
        return lower, upper

    def _visit(self, page: int, level: int) -> None:
        if level > min(self._meta.tree.depth, _DEEPEST):
            raise _damage(self._place(page), f"found a tree of {level} levels", f"{self._meta.tree.depth}")
        kind = _LEAF if level == self._meta.tree.depth else _BRANCH
        lower, upper = self._claim(page, kind)
        if not _HEADER.size <= lower <= upper <= self._page_bytes or lower % 2:
            raise _damage(self._place(page), f"found free space from {lower} to {upper}", "bounds inside the page")
        start = page * self._page_bytes
        for index in range((lower - _HEADER.size) // 2):
            (node,) = struct.unpack_from("<H", self._data, start + _HEADER.size + 2 * index)
            if not upper <= node <= self._page_bytes - _NODE.size:
                raise _damage(self._place(page), f"found node {index} at byte {node}", "a place inside the page")
            low, high, flags, key_bytes = _NODE.unpack_from(self._data, start + node)
            end = node + _NODE.size + key_bytes
            if kind == _BRANCH:
                self._require_inside(page, index, end)
                self._visit(low | high << 16 | flags << 32, level + 1)
            else:
                self._leaf_node(page, index, (end, low | high << 16, flags))

    def _leaf_node(self, page: int, index: int, node: tuple[int, int, int]) -> None:
        """Check the value of a leaf's node: in the page, or in a run of overflow pages."""
        start, value_bytes, flags = node
        self._entries += 1
        if flags & ~_BIG_DATA:
            raise _damage(self._place(page), f"found node {index} with flags {flags:x}", "a plain value")
        self._require_inside(page, index, start + (8 if flags else value_bytes))
        if not flags:
            return
        (first,) = struct.unpack_from("<Q", self._data, page * self._page_bytes + start)
        run = sum(part << 16 * place for place, part in enumerate(self._claim(first, _OVERFLOW)))
        needed = -(-(_HEADER.size + value_bytes) // self._page_bytes)
        if run < needed or first + run - 1 > self._meta.last_page:
            raise _damage(self._place(first), f"found a run of {run} pages", f"{needed} for {value_bytes} bytes")

    def _require_inside(self, page: int, index: int, end: int) -> None:
        if end > self._page_bytes:
            raise _damage(self._place(page), f"found node {index} to end at byte {end}", f"{self._page_bytes} at most")
