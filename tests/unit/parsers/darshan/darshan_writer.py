"""Write small Darshan logs in the layout of darshan-log-format.h, so that no published sample is needed."""

import bz2
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

INDEX = {
    "3.00": {"POSIX": 1, "STDIO": 7},
    "3.21": {"POSIX": 1, "MPI-IO": 2, "STDIO": 8, "DXT_POSIX": 9},
    "3.41": {"POSIX": 1, "MPI-IO": 2, "STDIO": 9, "DXT_POSIX": 10, "HEATMAP": 15},
}
VERSION = {"POSIX": 4, "STDIO": 2, "MPI-IO": 3, "DXT_POSIX": 1, "HEATMAP": 1}
POSIX_INTEGERS = {"opens": 0, "reads": 3, "read_bytes": 14, "written_bytes": 15}
POSIX_NUMBERS = {"first": 1, "last": 5, "read_s": 8, "write_s": 9, "metadata_s": 10, "slowest_s": 14}
STDIO_INTEGERS = {"opens": 0, "reads": 2, "written_bytes": 6, "read_bytes": 7}
STDIO_NUMBERS = {"metadata_s": 0, "write_s": 1, "read_s": 2, "first": 6, "last": 10, "slowest_s": 12}


@dataclass
class Record:
    """What a process did to one file."""

    file: str
    rank: int = 0
    values: dict = field(default_factory=dict)

    @property
    def number(self) -> int:
        return zlib.crc32(self.file.encode("utf-8", "surrogateescape")) + 1


def read(file: str, bytes_: int, seconds: float = 0.5, rank: int = 0, **values: float) -> Record:
    """Return the record of a file read in calls of 1 KiB, from 1 s to 3 s after the start."""
    calls = {"opens": 1, "reads": bytes_ // 1024 + 1, "read_bytes": bytes_}
    return Record(file, rank, {**calls, "read_s": seconds, "metadata_s": 0.125, "first": 1.0, "last": 3.0, **values})


@dataclass
class Log:
    """A log to write."""

    posix: Sequence[Record] = ()
    stdio: Sequence[Record] = ()
    traces: Sequence[tuple[Record, Sequence[tuple]]] = ()
    version: str = "3.41"
    order: str = "<"
    job: int = 77
    ranks: int = 1
    start_s: int = 1000
    run_s: int = 10
    command: str = "python train.py"
    metadata: str = "lib_ver=3.5.0\n"
    partial: tuple[str, ...] = ()
    versions: dict = field(default_factory=dict)
    pack: Callable[[bytes], bytes] = zlib.compress

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        slots = 64 if self.version == "3.41" else 16
        contents = {
            "POSIX": b"".join(self._counters(record, 69, 17, POSIX_INTEGERS, POSIX_NUMBERS) for record in self.posix),
            "STDIO": b"".join(self._counters(record, 14, 15, STDIO_INTEGERS, STDIO_NUMBERS) for record in self.stdio),
            "DXT_POSIX": b"".join(self._trace(record, segments) for record, segments in self.traces),
        }
        regions = {name: self.pack(content) for name, content in contents.items() if content}
        job, names = self.pack(self._job()), self.pack(self._names())
        head = struct.Struct(f"{self.order}B7xQ" if slots == 64 else f"{self.order}B3xI")
        at = 16 + head.size + 16 * (1 + slots) + 4 * slots
        maps, versions = [(0, 0)] * slots, [0] * slots
        name_map = (at + len(job), len(names))
        place, flags = sum(name_map), 0
        for name, content in regions.items():
            index = INDEX[self.version][name]
            maps[index], versions[index] = (place, len(content)), self.versions.get(name, VERSION[name])
            flags |= (name in self.partial) << index
            place += len(content)
        compression = 1 if self.pack is bz2.compress else 0
        header = self.version.encode().ljust(8, b"\0") + struct.pack(f"{self.order}q", 6567223)
        header += head.pack(compression, flags)
        header += b"".join(struct.pack(f"{self.order}QQ", *entry) for entry in [name_map, *maps])
        header += struct.pack(f"{self.order}{slots}I", *versions)
        return header + job + names + b"".join(regions.values())

    def _job(self) -> bytes:
        end_s = self.start_s + self.run_s
        times = (self.start_s, 0, end_s, 0) if self.version == "3.41" else (self.start_s, end_s)
        numbers = (0, *times, self.ranks, self.job)
        fixed = struct.pack(f"{self.order}{len(numbers)}q", *numbers) + self.metadata.encode().ljust(1024, b"\0")
        return fixed + f"{self.command}\next4\t/\n".encode()

    def _names(self) -> bytes:
        records = [*self.posix, *self.stdio, *(record for record, _ in self.traces)]
        parts = []
        for record in {record.number: record for record in records}.values():
            name = record.file.encode("utf-8", "surrogateescape")
            number = struct.pack(f"{self.order}Q", record.number)
            length = struct.pack(f"{self.order}I", len(name)) if self.version == "3.00" else b""
            parts.append(number + length + name + (b"" if length else b"\0"))
        return b"".join(parts)

    def _counters(self, record: Record, integers: int, numbers: int, places: dict, times: dict) -> bytes:
        counts, seconds = [0] * integers, [0.0] * numbers
        for name, value in record.values.items():
            target, index = (counts, places[name]) if name in places else (seconds, times[name])
            target[index] = value
        head = struct.pack(f"{self.order}Qq", record.number, record.rank)
        return head + struct.pack(f"{self.order}{integers}q{numbers}d", *counts, *seconds)

    def _trace(self, record: Record, segments: Sequence[tuple]) -> bytes:
        head = struct.pack(f"{self.order}Qqq64sqq", record.number, record.rank, 0, b"node1", 0, len(segments))
        with_thread = self.versions.get("DXT_POSIX", 1) == 2
        layout = f"{self.order}qqdd{'Q' if with_thread else ''}"
        return head + b"".join(struct.pack(layout, *segment) for segment in segments)
