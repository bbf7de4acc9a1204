"""Checks that every reader of numbers must pass on damaged copies of an artefact."""

from collections.abc import Callable, Sequence
from itertools import repeat
from pathlib import Path

import pytest
from unit.parsers.artefacts import cuts, flips, foreign

from hpcai.core.errors import ParseError
from hpcai.parsers.reading import Reading

Reader = Callable[[Path], Reading]


def check_foreign(tmp_path: Path, read: Reader) -> None:
    """Every foreign file is refused, with its name and the expected tool."""
    for path in foreign(tmp_path).values():
        with pytest.raises(ParseError, match=r"expected .*; "):
            read(path)


def check_cuts(path: Path, data: bytes, read: Reader, columns: Sequence[str], has_end: bool = True) -> None:
    """A truncated file gives rows of the whole one or none, and a reason if any is missing.

    Without an end mark, a cut at a line end is undetectable.
    """
    path.write_bytes(data)
    whole = _rows(read(path), columns)
    for place, part in cuts(data):
        path.write_bytes(part)
        try:
            reading = read(path)
        except ParseError:
            continue
        rows = _rows(reading, columns)
        assert rows == whole[: len(rows)], place
        assert len(rows) == len(whole) or reading.reasons or (not has_end and part.endswith(b"\n")), place


def check_flips(path: Path, data: bytes, read: Reader, columns: Sequence[str], count: int = 60) -> None:
    """One changed bit changes nothing in `columns`: rows equal the whole file's, or are missing with a reason."""
    path.write_bytes(data)
    whole = _rows(read(path), columns)
    for place, changed in flips(data, count):
        path.write_bytes(changed)
        try:
            reading = read(path)
        except ParseError:
            continue
        rows = _rows(reading, columns)
        wrong = [row for row in rows if not any(map(_is_part, repeat(row), whole))]
        assert not wrong, (place, data[max(place - 20, 0) : place + 20])
        assert rows == whole or reading.reasons, place


def _is_part(row: tuple[str, ...], of: tuple[str, ...]) -> bool:
    """Return whether a row belongs to the whole file; NaN marks a missing value."""
    return all(value in (other, "nan") for value, other in zip(row, of, strict=True))


def _rows(reading: Reading, columns: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(map(repr, row)) for row in reading.table[list(columns)].itertuples(index=False)]
