"""Files that nobody honest makes: links, devices, bombs, archives that leave their folder, pickles that run code."""

import gzip
import io
import json
import lzma
import os
import pickle
import random
import socket
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import lmdb
import numpy as np

Maker = Callable[[Path], object]
ZEROS = bytes(1 << 20)
BOMB_BYTES = 5 << 28
SPARSE_BYTES = (4 << 30) + 1
CANARY = "canary"
"""A file of this name beside the hostile ones means that code ran or that something was written outside."""


class _Runs:
    """What a pickle of it calls when it is loaded."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return os.system, (f"touch {self.canary}",)


def files(random_numbers: random.Random) -> dict[str, Maker]:
    """Return what makes each hostile file at a place; random ones differ with the seed."""
    return {
        **NO_FILES,
        **_TEXTS,
        **_BOMBS,
        **{f"archive with {name}": make for name, make in _archives().items()},
        **_CONTAINERS,
        **{f"random bytes behind {start[:4]!r}": _after(start, random_numbers) for start in _STARTS},
    }


def _link(target: str) -> Maker:
    return lambda path: path.symlink_to(target)


def _text(content: str | bytes) -> Maker:
    return lambda path: path.write_bytes(content.encode() if isinstance(content, str) else content)


def _listen(path: Path) -> None:
    # A socket's name may have 107 bytes only.
    here = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(f"/proc/self/fd/{here}/{path.name}")
    finally:
        os.close(here)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(SPARSE_BYTES)


NO_FILES: dict[str, Maker] = {
    "link to itself": lambda path: path.symlink_to(path),
    "link to nothing": _link("/nowhere/at/all"),
    "link to /dev/zero": _link("/dev/zero"),
    "link to /dev/urandom": _link("/dev/urandom"),
    "link to a folder": _link("/etc"),
    "FIFO": os.mkfifo,
    "socket": _listen,
    "folder": lambda path: path.mkdir(),
    "empty file": _text(b""),
    "sparse file of 4 GiB": _sparse,
}
DIGITS = "9" * 5000
_TEXTS: dict[str, Maker] = {
    "deep brackets": _text("[" * 200_000),
    "deep objects": _text('{"a":' * 100_000),
    "5,000 digits": _text(f'{{"schema_version": {DIGITS}, "value": {DIGITS}}}'),
    "numbers that are none": _text('{"wall_s": NaN, "run_s": Infinity, "epochs": -1e999}'),
    "lone surrogates": _text('{"run_id": "\\ud800\\udfff", "\\udc00": 1}'),
    "doubled keys": _text('{"run_id": "a", "run_id": "b"}'),
    "one line of 4 MB": _text("a,b\n" + "x" * (4 << 20)),
    "cell of 200,000 letters": _text(f"timestamp,GPU0 [W]\n{'7' * 200_000},1\n"),
    "power without end": _text("timestamp,GPU0 [W]\n2026-01-01T00:00:00,1e999\n"),
    "quote that nobody closed": _text('timestamp,"GPU0 [W]\n2026-01-01T00:00:00,1\n'),
    "log of numbers too large": _text(
        ':::MLLOG {"namespace": "", "time_ms": ' + DIGITS + ', "event_type": "POINT_IN_TIME", "key": "seed", '
        '"value": 1e999, "metadata": {"lineno": ' + DIGITS + "}}\n"
    ),
    "log before year 1": _text(':::MLLOG {"time_ms": -99999999999999999, "key": "run_start", "value": null}\n' * 3),
    "mathematics": _text("# nccl-tests\n$\\frac{1}{0}$ $x$\n"),
    "NUL": _text(b"timestamp,a [W]\n\x00\x00\n"),
    "UTF-16": _text("\ufefftimestamp,a [W]\n2026-01-01,1\n".encode("utf-16")),
    "no UTF-8": _text("größe,µs\n1,2\n".encode("latin-1")),
    "escape codes": _text("\x1b]0;title\x07\x1b[2J# OSU MPI Allreduce\n1 2\n"),
    "lines of nothing": _text("\n" * 200_000),
    "a line of blanks": _text(" " * 1_000_000 + "\n"),
    "a line of brackets": _text("timestamp," + "[" * 1_000_000 + "\n"),
    "aliases of aliases": _text("a: &a [x]\n" + "".join(f"b{n}: &b{n} [*a, *a]\n" for n in range(1000))),
    "template": _text("__use_yte__: true\n?__import__('os').system('touch canary'): 1\n"),
    "Python tag": _text("!!python/object/apply:os.system ['touch canary']\n"),
}


def _gzip_bomb(path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(BOMB_BYTES >> 20):
            file.write(ZEROS)


def _xz_bomb(path: Path) -> None:
    with lzma.open(path, "wb", preset=0) as file:
        for _ in range(BOMB_BYTES >> 20):
            file.write(ZEROS)


def _zip_bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("results/s/cosmoflow/result_0.txt", "w", force_zip64=True) as member:
            for _ in range(BOMB_BYTES >> 20):
                member.write(ZEROS)


_BOMBS: dict[str, Maker] = {"gzip bomb": _gzip_bomb, "xz bomb": _xz_bomb, "zip bomb": _zip_bomb}
LOG = "hpc_results_v3.0/closed/org/results/sys/cosmoflow/result_0.txt"


def _archives() -> dict[str, Maker]:
    """Return tar archives, each with one member that no honest archive has before a file that may be read."""
    kinds = {
        "a path above": {"name": f"../{CANARY}"},
        "an absolute path": {"name": f"/tmp/hpcai-attack-{CANARY}"},
        "a link out": {"name": LOG, "type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
        "a hard link out": {"name": LOG, "type": tarfile.LNKTYPE, "linkname": "/etc/passwd"},
        "a link and a file through it": {"name": "train", "type": tarfile.SYMTYPE, "linkname": ".."},
        "a device": {"name": LOG, "type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 5},
        "a FIFO": {"name": LOG, "type": tarfile.FIFOTYPE},
        "a size beyond all": {"name": LOG, "size": 1 << 60},
        "a name that is no UTF-8": {"name": LOG.replace("sys", "s\udcff\udcfe")},
        "a name with mathematics": {"name": LOG.replace("sys", "$\\frac$")},
        "a name with a line break": {"name": LOG.replace("sys", "s\ns")},
    }
    return {name: lambda path, facts=facts: _write_tar(path, facts) for name, facts in kinds.items()} | {
        "a thousand layers": _nested,
        "sparse members": _sparse_tar,
    }


def _write_tar(path: Path, facts: dict[str, object]) -> None:
    member = tarfile.TarInfo()
    for key, value in facts.items():
        setattr(member, key, value)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT, errors="surrogateescape") as archive:
        archive.addfile(member)
        after = tarfile.TarInfo(f"train/{CANARY}")
        after.size = 6
        archive.addfile(after, io.BytesIO(b"canary"))
    path.write_bytes(stream.getvalue())


def _nested(path: Path) -> None:
    content = b""
    for _ in range(50):
        content = gzip.compress(content)
    path.write_bytes(content)


def _sparse_tar(path: Path) -> None:
    """Write a member of 32 GiB of which nothing is stored (GNU sparse, pax 1.0)."""
    size = 32 << 30
    body = b"0\n".ljust(512, b"\0")
    member = tarfile.TarInfo(LOG)
    member.size = len(body)
    member.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(size)}
    member.pax_headers["GNU.sparse.name"] = LOG
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(member, io.BytesIO(body))


def _external_link(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for name in ("climate/data", "data", "climate/labels_0", "images", "boxes"):
            file[name] = h5py.ExternalLink("/etc/passwd", "/x")


def _external_storage(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for name in ("climate/data", "images"):
            file.create_dataset(name, (8,), "f4", external=[("/etc/passwd", 0, 32)])


def _virtual(path: Path) -> None:
    layout = h5py.VirtualLayout((8,), "f4")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (8,))
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("climate/data", layout, fillvalue=1)
        file.create_virtual_dataset("images", layout, fillvalue=1)


def _never_written(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for name in ("climate/data", "climate/labels_0", "images", "boxes"):
            file.create_dataset(name, (1 << 40,), "f4", chunks=(1 << 20,))


def _pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps(_Runs(path.parent / CANARY)))


def _lmdb(path: Path) -> None:
    with lmdb.open(str(path), subdir=False, map_size=1 << 20) as environment, environment.begin(write=True) as change:
        change.put(b"0", pickle.dumps(_Runs(path.parent / CANARY)))
        change.put(b"length", pickle.dumps(1))
    Path(f"{path}-lock").unlink(missing_ok=True)


def _npy(path: Path) -> None:
    np.save(path.open("wb"), np.array([_Runs(path.parent / CANARY)], dtype=object), allow_pickle=True)


def _sealed_lie(path: Path) -> None:
    path.write_text(json.dumps({"run_id": "a", "content_sha256": "0" * 64}, indent=1) + "\n")


_CONTAINERS: dict[str, Maker] = {
    "HDF5 with external links": _external_link,
    "HDF5 with external storage": _external_storage,
    "HDF5 of virtual datasets": _virtual,
    "HDF5 that was never written": _never_written,
    "pickle that runs code": _pickle,
    "LMDB of pickles that run code": _lmdb,
    "NumPy array that runs code": _npy,
    "JSON with a false digest": _sealed_lie,
}
_STARTS = (
    *(b"\x89HDF\r\n\x1a\n", b"PAR1", b"PK\x03\x04", b"\x1f\x8b\x08", b"\xfd7zXZ\x00", b"BZh9", b"\x28\xb5\x2f\xfd"),
    *(b"SQLite format 3\0", b"HloModule x\n", b"timestamp,GPU0 [W]\n", b":::MLLOG {", b'[{"ph":', b"<?xml", b"{"),
)


def _after(start: bytes, random_numbers: random.Random) -> Maker:
    content = start + random_numbers.randbytes(random_numbers.randrange(1, 4096))
    return lambda path: path.write_bytes(content)


def make(folder: Path, random_numbers: random.Random) -> Iterator[tuple[str, Path]]:
    """Make the hostile files one after the other, each in a folder of its own; yield its name and its place."""
    for number, (name, maker) in enumerate(files(random_numbers).items()):
        place = folder / f"{number:03d}"
        place.mkdir()
        maker(place / "hostile")
        yield name, place / "hostile"
