"""Read Darshan logs one by one in an expendable process: `python -m hpcai.parsers.darshan.child`.

Reads a JSON request from standard input and writes one line of JSON per log, in the order of the request. If a log
takes too long, takes too much memory or crashes the interpreter, the process ends without writing its line; see
`hpcai.parsers.darshan.guard`.
"""

import hashlib
import json
import math
import os
import resource
import signal
import struct
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from hpcai.core.errors import ParseError
from hpcai.parsers.darshan.integrity import (
    DamagedRegionError,
    Layout,
    ModuleRegion,
    read_layout,
    read_names,
    unpack_region,
)
from hpcai.parsers.darshan.segments import read_segments
from hpcai.parsers.reading import nothing_read

LOG_LIMIT_S = 60
"""Time limit per log [s]; a log of a thousand files takes milliseconds."""
MEMORY_BYTES = 4 << 30
LARGEST_LOG_BYTES = 1 << 30

RECORD_BYTES: dict[str, dict[int, int]] = {
    "POSIX": {1: 680, 2: 648, 3: 664, 4: 704},
    "MPI-IO": {1: 544, 2: 544, 3: 560},
    "STDIO": {1: 240, 2: 248},
}
"""Record size [byte] by module and module version (darshan-*-log-format.h, darshan-*-logutils.c)."""

TIMES = {
    "read_time_s": "F_READ_TIME",
    "write_time_s": "F_WRITE_TIME",
    "metadata_s": "F_META_TIME",
    "first_read_s": "F_READ_START_TIMESTAMP",
    "last_read_s": "F_READ_END_TIMESTAMP",
    "slowest_rank_s": "F_SLOWEST_RANK_TIME",
}
COUNTS: dict[str, dict[str, tuple[str, ...]]] = {
    "POSIX": {"opens": ("OPENS",), "reads": ("READS",)},
    "STDIO": {"opens": ("OPENS",), "reads": ("READS",)},
    "MPI-IO": {
        "opens": ("INDEP_OPENS", "COLL_OPENS"),
        "reads": ("INDEP_READS", "COLL_READS", "SPLIT_READS", "NB_READS"),
    },
}
BYTES = {"read_bytes": ("BYTES_READ",), "written_bytes": ("BYTES_WRITTEN",)}
STAMPS = ("first_read_s", "last_read_s")

Json = dict[str, Any]


def main() -> None:
    """Answer the request on standard input."""
    # Output that the C library prints to standard output must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    allowed = resource.getrlimit(resource.RLIMIT_AS)[1]
    memory = MEMORY_BYTES if allowed == resource.RLIM_INFINITY else min(MEMORY_BYTES, allowed)
    resource.setrlimit(resource.RLIMIT_AS, (memory, allowed))
    from darshan.backend import cffi_backend  # noqa: F401  what fails here is not a log's fault

    request = json.load(sys.stdin)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for path in request["paths"]:
        signal.alarm(LOG_LIMIT_S)
        printed_from = os.fstat(2).st_size
        line = answer_log(Path(path), request["table"])
        # Anything printed to standard error since the last answer concerns this log.
        print(json.dumps({**line, "printed": [printed_from, os.fstat(2).st_size]}), file=answers, flush=True)


def answer_log(path: Path, table: str) -> Json:
    """Return the result of `read_log` (records) or `read_trace` (segments), or ``error`` with the reason."""
    try:
        return {"records": read_log, "segments": read_trace}[table](path)
    except ParseError as error:
        return {"error": str(error)}
    except Exception as error:  # a damaged log that breaks the library costs only itself
        return {"error": f"{path}: PyDarshan cannot read this log ({type(error).__name__}: {error})"}


def read_log(path: Path) -> Json:
    """Return the POSIX, STDIO and MPI-IO records and the facts about the log's process.

    Raises
    ------
    ParseError
        If the log is foreign or damaged, or PyDarshan's records do not match the log's structure.
    """
    data, layout, names = _open(path)
    contents, damaged = _unpack_modules(data, layout)
    answer = _describe(path, data, layout)
    tables = _read_records(path, {name: layout.modules[name] for name in contents}, answer)
    for name, table in tables.items():
        try:
            _confirm(table, contents[name], layout, name, answer["job"]["nprocs"])
        except DamagedRegionError as error:
            damaged[name] = str(error)
    for table in tables.values():
        table["file"] = [names.get(number) for number in table.pop("id")]
    tables = {name: table for name, table in tables.items() if name not in damaged}
    return {**answer, "damaged": damaged, "tables": tables}


def read_trace(path: Path) -> Json:
    """Return the operations that extended tracing (DXT) recorded and the facts about the log's process."""
    data, layout, names = _open(path)
    answer, damaged, tables = _describe(path, data, layout), {}, {}
    _read_records(path, {}, answer)
    for name in ("DXT_POSIX", "DXT_MPIIO"):
        if name not in layout.modules:
            continue
        try:
            content = unpack_region(data, layout.modules[name], layout.is_bzip2)
            tables[name] = read_segments(content, layout.modules[name], layout.byte_order)
        except DamagedRegionError as error:
            damaged[name] = str(error)
        else:
            tables[name]["file"] = [names.get(number) for number in tables[name].pop("id")]
    return {**answer, "damaged": damaged, "tables": tables}


def _open(path: Path) -> tuple[bytes, Layout, dict[int, str]]:
    """Return a log, its layout and its record names, after verifying the regions that every log needs."""
    try:
        size_bytes = path.stat().st_size
        if not path.is_file() or size_bytes > LARGEST_LOG_BYTES:
            raise nothing_read(path, "a Darshan log", f"no file or one of {size_bytes} bytes", "choose the right file")
        data = path.read_bytes()
    except OSError as error:
        raise ParseError(f"{path}: {error.strerror}, expected a Darshan log; collect the logs again") from error
    layout = read_layout(data, path)
    try:
        unpack_region(data, layout.job, layout.is_bzip2)
        return data, layout, read_names(unpack_region(data, layout.names, layout.is_bzip2), layout)
    except DamagedRegionError as error:
        raise ParseError(f"{path}: damaged: {error}; copy the log again") from error


def _unpack_modules(data: bytes, layout: Layout) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the content of the modules to read, and the reason for each damaged region, read or not."""
    contents, damaged = {}, {}
    for name, region in layout.modules.items():
        try:
            content = unpack_region(data, region, layout.is_bzip2)
        except DamagedRegionError as error:
            damaged[name] = str(error)
            continue
        sizes = RECORD_BYTES.get(name)
        if sizes is None:
            continue
        if region.version not in sizes or len(content) % sizes[region.version]:
            damaged[name] = f"{len(content)} bytes of {name} are no whole records of its version {region.version}"
        else:
            contents[name] = content
    return contents, damaged


def _describe(path: Path, data: bytes, layout: Layout) -> Json:
    modules = {
        name: {"version": region.version, "is_partial": region.is_partial} for name, region in layout.modules.items()
    }
    digest = hashlib.sha256(data).hexdigest()
    return {"path": str(path), "digest": digest, "format_version": layout.format_version, "modules": modules}


def _read_records(path: Path, modules: dict[str, ModuleRegion], answer: Json) -> dict[str, Json]:
    """Read the job and the modules through PyDarshan; store the job in the answer."""
    from darshan.backend import cffi_backend as library

    log = library.log_open(str(path))
    if log["handle"] == library.ffi.NULL:
        raise ParseError(f"{path}: PyDarshan cannot open this log (some builds cannot read bzip2)")
    try:
        answer["job"] = library.log_get_job(log)
        answer["command"] = library.log_get_exe(log).strip()
        return {name: _read_module(library, log, name) for name in modules}
    finally:
        library.log_close(log)


def _read_module(library: ModuleType, log: Json, name: str) -> Json:
    prefix = name.replace("-", "")
    counters = {f"{prefix}_{column}": place for place, column in _indexed(library.counter_names(name), prefix)}
    times = {f"{prefix}_{column}": place for place, column in _indexed(library.fcounter_names(name), prefix)}
    places = {
        column: [counters[f"{prefix}_{source}"] for source in sources]
        for column, sources in {**COUNTS[name], **BYTES}.items()
    }
    table: Json = {column: [] for column in ("id", "rank", *places, *TIMES)}
    negative: dict[str, int] = {}
    while (record := library.log_get_record(log, name, dtype="numpy")) is not None:
        table["id"].append(int(record["id"]))
        table["rank"].append(int(record["rank"]))
        integers, numbers = record["counters"].tolist(), record["fcounters"].tolist()
        for column, sources in places.items():
            parts = [integers[place] for place in sources]
            _append(table[column], None if min(parts) < 0 else sum(parts), column, negative)
        for column, source in TIMES.items():
            value = numbers[times[f"{prefix}_{source}"]]
            if column in STAMPS and value == 0:
                table[column].append(None)  # nothing was read
            else:
                _append(table[column], value if value >= 0 and math.isfinite(value) else None, column, negative)
    table["negative"] = negative
    return table


def _indexed(names: list[str], prefix: str) -> list[tuple[int, str]]:
    return [(place, name.removeprefix(f"{prefix}_")) for place, name in enumerate(names)]


def _append(column: list[float | None], value: float | None, name: str, negative: dict[str, int]) -> None:
    """Append a value; a negative one (-1 is "not monitored", others are not times) is counted and becomes None."""
    column.append(value)
    if value is None:
        negative[name] = negative.get(name, 0) + 1


def _confirm(table: Json, content: bytes, layout: Layout, name: str, ranks: int) -> None:
    """Compare the records that PyDarshan returned with those in the unpacked region.

    Raises
    ------
    DamagedRegionError
        If the counts, record numbers or ranks differ, or a rank does not belong to the job.
    """
    version = layout.modules[name].version
    size = RECORD_BYTES[name][version]
    keys = [struct.unpack_from(f"{layout.byte_order}Qq", content, at) for at in range(0, len(content), size)]
    if any(not -1 <= rank < ranks for _, rank in keys):
        raise DamagedRegionError(f"{name} has records of ranks that the job does not have: its version is damaged")
    found = list(zip(table["id"], table["rank"], strict=True))
    # Darshan itself skips version 1 records that mix streams into POSIX counters.
    if found != keys and not (name == "POSIX" and version == 1 and set(found) <= set(keys)):
        raise DamagedRegionError(f"{name} has {len(keys)} records, of which PyDarshan returned {len(found)}")


if __name__ == "__main__":
    main()
