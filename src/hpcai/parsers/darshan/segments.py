"""Single reads and writes from Darshan's extended tracing (DXT), decoded from the unpacked region of a log.

PyDarshan 3.5.0 cannot read version 2 of DXT_POSIX, which newer Darshan libraries write, and builds one dictionary per
operation. The layout (darshan-dxt-log-format.h, darshan-dxt-logutils.c) is short, so this module decodes it.
"""

import struct
from typing import Any

import numpy as np

from hpcai.parsers.darshan.integrity import DamagedRegionError, ModuleRegion

THREADED_FROM = {"DXT_POSIX": 2, "DXT_MPIIO": 3}
"""First version whose segments record the thread; also the newest version."""
HEAD = "Qqq64sqq"
"""Record number, rank, shared flag, host name, number of writes, number of reads."""


def read_segments(content: bytes, region: ModuleRegion, byte_order: str) -> dict[str, list[Any]]:
    """Return one row per operation: id, rank, hostname, operation, offset_bytes, bytes, start_s, end_s, thread.

    Raises
    ------
    DamagedRegionError
        If the version is unknown, or the records do not fill the region.
    """
    newest = THREADED_FROM[region.name]
    if not 0 < region.version <= newest:
        raise DamagedRegionError(f"{region.name} is of version {region.version}, known are 1 to {newest}")
    segment = _segment_type(byte_order, has_thread=region.version == newest)
    head = struct.Struct(byte_order + HEAD)
    values = segment.names or ()
    columns: dict[str, list[Any]] = {name: [] for name in ("id", "rank", "hostname", "operation", *values, "thread")}
    at = 0
    while at < len(content):
        if at + head.size > len(content):
            raise DamagedRegionError(f"{region.name} ends inside the head of a record")
        number, rank, _, host, writes, reads = head.unpack_from(content, at)
        at += head.size
        count = writes + reads
        if min(writes, reads) < 0 or count * segment.itemsize > len(content) - at:
            raise DamagedRegionError(f"{region.name}: a record of {writes} writes and {reads} reads does not fit")
        rows = np.frombuffer(content, segment, count, at)
        at += count * segment.itemsize
        columns["id"] += [number] * count
        columns["rank"] += [rank] * count
        columns["hostname"] += [host.split(b"\0")[0].decode("utf-8", "backslashreplace")] * count
        columns["operation"] += ["write"] * writes + ["read"] * reads
        for name in values:
            columns[name] += rows[name].tolist()
        if "thread" not in values:
            columns["thread"] += [None] * count
    if region.name == "DXT_MPIIO" and region.version == 1:
        columns["offset_bytes"] = [None] * len(columns["id"])  # not recorded by this version (darshan-dxt-logutils.c)
    return columns


def _segment_type(byte_order: str, has_thread: bool) -> np.dtype[np.void]:
    fields = [("offset_bytes", "i8"), ("bytes", "i8"), ("start_s", "f8"), ("end_s", "f8")]
    if has_thread:
        fields.append(("thread", "u8"))
    return np.dtype([(name, byte_order + kind) for name, kind in fields])
