"""Real samples of `shared/data/profiles` (or of HPCAI_PROFILES), and ways to damage a file."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

PROFILES = Path(os.environ.get("HPCAI_PROFILES", Path(__file__).parents[4] / "shared/data/profiles"))


def sample(name: str) -> Path:
    """Return a published sample; skip the test visibly if the folder is absent."""
    path = PROFILES / name
    if not path.exists():
        pytest.skip(f"published sample {name} is not here: set HPCAI_PROFILES to the folder of samples")
    return path


def cuts(data: bytes, count: int = 25) -> Iterator[tuple[int, bytes]]:
    """Yield truncated copies of a file, cut at evenly spaced positions and near both ends."""
    places = {1, 2, 7, len(data) - 1, len(data) - 2, *(len(data) * step // count for step in range(1, count))}
    for place in sorted(place for place in places if 0 < place < len(data)):
        yield place, data[:place]


def flips(data: bytes, count: int = 40, seed: int = 4) -> Iterator[tuple[int, bytes]]:
    """Yield copies of a file with one bit flipped."""
    source = random.Random(seed)
    for _ in range(count):
        place = source.randrange(len(data))
        changed = bytearray(data)
        changed[place] ^= 1 << source.randrange(8)
        yield place, bytes(changed)


def foreign(tmp_path: Path) -> dict[str, Path]:
    """Return files that no reader of a tool's output accepts, by kind."""
    contents = {
        "empty": b"",
        "blanks": b"\n \n\t\n",
        "prose": b"It was a dark and stormy night; the rain fell in torrents.\n" * 20,
        "html": b"<!DOCTYPE html>\n<html><body>404 Not Found</body></html>\n",
        "binary": bytes(range(256)) * 8,
        "gzip": b"\x1f\x8b\x08\x00" + bytes(60),
        "elf": b"\x7fELF" + bytes(100),
        "latin1": "Zeit (µs), Größe\n1,2\n".encode("latin-1"),
        "one huge line": b"x" * (3 << 20),
        "nul": b"a,b\n1,\x002\n",
        "huge cell": b"a,b\n" + b"7" * 200_000 + b",2\n",
        "deep brackets": b"[" * 200_000,
        "deep objects": b'{"a":' * 100_000,
        "whole deep objects": b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"\n",
    }
    paths = {}
    for name, content in contents.items():
        paths[name] = tmp_path / f"{name.replace(' ', '_')}.txt"
        paths[name].write_bytes(content)
    return paths
