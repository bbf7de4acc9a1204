"""Check the structure of a Darshan log before a library reads it, so that damage cannot turn into numbers.

Darshan writes a header, then contiguous regions: the job, the record names and one region per module. Each region is
a sequence of zlib (or bzip2) streams, whose checksums detect any change of content. The regions must fill the file
exactly, which detects changed offsets and lengths in the header (darshan-log-format.h and darshan-logutils.c of
Darshan 3.0 to 3.5).
"""

import bz2
import gzip
import io
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from hpcai.core.errors import ParseError
from hpcai.parsers.identify import describe
from hpcai.parsers.reading import nothing_read

TOOL = "a Darshan log (format 3.00 to 3.41)"
MAGIC = 6567223
BEFORE_H5D = ("NULL", "POSIX", "MPI-IO", "H5F", "PNETCDF_FILE", "BG/Q", "LUSTRE", "STDIO", "DXT_POSIX", "DXT_MPIIO")
BEFORE_PNETCDF_VAR = (*BEFORE_H5D[:4], "H5D", *BEFORE_H5D[4:], "MDHIM", "APXC", "APMPI", "HEATMAP")
NEWEST = (*BEFORE_PNETCDF_VAR[:6], "PNETCDF_VAR", *BEFORE_PNETCDF_VAR[6:], "DFS", "DAOS")
FORMATS: dict[bytes, tuple[str, ...]] = {
    b"3.00": (*BEFORE_H5D, "MDHIM"),
    b"3.10": (*BEFORE_H5D, "MDHIM"),
    b"3.20": BEFORE_PNETCDF_VAR,
    b"3.21": BEFORE_PNETCDF_VAR,
    b"3.41": NEWEST,
}
"""Modules by index for each format version; inserted modules shifted the later indices."""
LARGEST_REGION_BYTES = 1 << 30


@dataclass(frozen=True)
class Region:
    """A part of the log, located by the header."""

    name: str
    offset: int
    length: int

    @property
    def end(self) -> int:
        """First byte after the region."""
        return self.offset + self.length


@dataclass(frozen=True)
class ModuleRegion(Region):
    """The records of one module."""

    version: int
    is_partial: bool


@dataclass(frozen=True)
class Layout:
    """Contents of a log's header.

    Attributes
    ----------
    format_version
        For example ``3.41``.
    byte_order
        ``<`` or ``>``, as in `struct`.
    is_bzip2
        Whether regions are bzip2 instead of zlib streams.
    job, names
        The regions present in every log.
    modules
        The modules with records, by name.
    """

    format_version: str
    byte_order: str
    is_bzip2: bool
    job: Region
    names: Region
    modules: dict[str, ModuleRegion]


class DamagedRegionError(ValueError):
    """A region that is truncated or fails its checksums."""


def read_layout(data: bytes, path: Path) -> Layout:
    """Return the regions of a log; the header is valid if they fill the file without gaps.

    Parameters
    ----------
    data
        The whole file.
    path
        Its name, for error messages.

    Raises
    ------
    ParseError
        If the file is not a Darshan log of format 3, or the header contradicts itself or the file size.
    """
    version = data[:8].rstrip(b"\0")
    if version not in FORMATS or len(data) < 24:
        raise nothing_read(path, TOOL, _what_else(data), "copy the log again, or choose the right file")
    names, slots = FORMATS[version], 64 if version == b"3.41" else 16
    order = next((order for order in "<>" if struct.unpack_from(f"{order}q", data, 8)[0] == MAGIC), None)
    if order is None:
        raise ParseError(f"{path}: the magic number at byte 8 is wrong: the header is damaged; copy the log again")
    layout = f"{order}B7xQ" if slots == 64 else f"{order}B3xI"
    maps_at = 16 + struct.calcsize(layout)
    versions_at = maps_at + 16 * (1 + slots)
    header_bytes = versions_at + 4 * slots
    if len(data) <= header_bytes:
        raise ParseError(f"{path}: ends at byte {len(data)}, inside the header: the log was truncated; copy it again")
    compression, partial = struct.unpack_from(layout, data, 16)
    if compression > 1:
        raise ParseError(f"{path}: {_UNCOMPRESSED if compression == 2 else 'unknown compression'}; expected {TOOL}")
    maps = [struct.unpack_from(f"{order}QQ", data, maps_at + 16 * index) for index in range(1 + slots)]
    versions = struct.unpack_from(f"{order}{slots}I", data, versions_at)
    modules = {}
    for index, (offset, length) in enumerate(maps[1:]):
        if length and index >= len(names):
            raise ParseError(
                f"{path}: module number {index} is not one of format {version.decode()}: damaged, or newer"
            )
        if length:
            flag = bool(partial >> index & 1)
            modules[names[index]] = ModuleRegion(names[index], offset, length, versions[index], flag)
    found = Layout(
        format_version=version.decode(),
        byte_order=order,
        is_bzip2=compression == 1,
        job=Region("job", header_bytes, _job_end(maps, data) - header_bytes),
        names=Region("names", *maps[0]),
        modules=modules,
    )
    _require_no_gaps(found, len(data), path)
    return found


_UNCOMPRESSED = (
    "holds uncompressed data (a log that was still mapped into memory when its process was killed), which has no "
    "checksums; write it out with darshan-convert"
)


def _job_end(maps: list[tuple[int, int]], data: bytes) -> int:
    return maps[0][0] or next((offset for offset, length in maps[1:] if length), len(data))


def _require_no_gaps(layout: Layout, size_bytes: int, path: Path) -> None:
    """Compare the regions with each other and with the file; unpacking reports a file that is too short."""
    names = (layout.names,) if layout.names.length else ()
    regions = [layout.job, *names, *sorted(layout.modules.values(), key=lambda region: region.offset)]
    for before, after in pairwise(regions):
        if before.end != after.offset:
            raise ParseError(
                f"{path}: {before.name} ends at byte {before.end}, but {after.name} begins at {after.offset}: "
                "the map of regions in the header is damaged; copy the log again"
            )
    if regions[-1].end < size_bytes:
        raise ParseError(
            f"{path}: {size_bytes - regions[-1].end} bytes follow the last region, {regions[-1].name}: the map of "
            "regions in the header is damaged; copy the log again"
        )


def _what_else(data: bytes) -> str:
    """Describe a file that is not a log of format 3; recognises old Darshan logs."""
    start = data[:8]
    if data.startswith(b"\x1f\x8b"):
        try:
            start = gzip.GzipFile(fileobj=io.BytesIO(data)).read(8)
        except (OSError, EOFError, zlib.error):
            return describe(data[:65536])
    if start[:2] in {b"1.", b"2."}:
        return f"a log of Darshan {start.rstrip(bytes(1)).decode('ascii', 'replace')}, which no tool of Darshan 3 reads"
    if start[:2] == b"3." and b"\0" in start:
        return f"a Darshan log of format {start.rstrip(bytes(1)).decode('ascii', 'replace')!r}, unknown or damaged"
    return describe(data[:65536])


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...


def unpack_region(data: bytes, region: Region, is_bzip2: bool) -> bytes:
    """Return the content of a region, verified by its checksums.

    Raises
    ------
    DamagedRegionError
        If the region is truncated, changed or larger than 1 GiB.
    """
    if region.end > len(data):
        raise DamagedRegionError(f"{region.name} ends at byte {region.end}, the file at {len(data)}: it was cut")
    packed, parts, size_bytes = data[region.offset : region.end], [], 0
    unpack = _unpack_bzip2_stream if is_bzip2 else _unpack_zlib_stream
    while packed:
        try:
            content, packed = unpack(packed, LARGEST_REGION_BYTES - size_bytes)
        except (zlib.error, OSError, EOFError) as error:
            raise DamagedRegionError(f"{region.name} (bytes {region.offset} to {region.end}): {error}") from error
        parts.append(content)
        size_bytes += len(content)
    return b"".join(parts)


def _unpack_zlib_stream(packed: bytes, limit: int) -> tuple[bytes, bytes]:
    """Return the content of the first stream and the remaining bytes; each rank writes its own stream."""
    decompressor = zlib.decompressobj()
    content = decompressor.decompress(packed, max(1, limit))
    return content, _rest(decompressor, bool(decompressor.unconsumed_tail))


def _unpack_bzip2_stream(packed: bytes, limit: int) -> tuple[bytes, bytes]:
    decompressor = bz2.BZ2Decompressor()
    content = decompressor.decompress(packed, max(1, limit))
    return content, _rest(decompressor, not decompressor.needs_input and not decompressor.eof)


def _rest(decompressor: _Decompressor, is_too_large: bool) -> bytes:
    if not decompressor.eof:
        raise EOFError("more than 1 GiB of data" if is_too_large else "the compressed data end too early")
    return decompressor.unused_data


def read_names(content: bytes, layout: Layout) -> dict[int, str]:
    """Return record names (paths) by record number, from the unpacked name region.

    Raises
    ------
    DamagedRegionError
        If the region ends inside a name.
    """
    next_name: Callable[[bytes, int, str], tuple[bytes, int]]
    next_name = _next_counted_name if layout.format_version == "3.00" else _next_closed_name
    names: dict[int, str] = {}
    at = 0
    while at < len(content):
        try:
            (number,) = struct.unpack_from(f"{layout.byte_order}Q", content, at)
            name, at = next_name(content, at + 8, layout.byte_order)
        except (struct.error, ValueError) as error:
            raise DamagedRegionError(f"the names end inside record {len(names)}: {error}") from error
        # A rank that knows only the number of a shared record leaves the name empty.
        if name or number not in names:
            names[number] = name.decode("utf-8", "backslashreplace")
    return names


def _next_closed_name(content: bytes, at: int, _: str) -> tuple[bytes, int]:
    end = content.index(b"\0", at)
    return content[at:end], end + 1


def _next_counted_name(content: bytes, at: int, byte_order: str) -> tuple[bytes, int]:
    (length,) = struct.unpack_from(f"{byte_order}I", content, at)
    end = at + 4 + length
    if end > len(content):
        raise ValueError("its length is larger than what is left")
    return content[at + 4 : end], end
