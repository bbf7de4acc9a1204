"""What a reader collects line by line: whole records, reasons for omitted ones, and facts about the artefact."""

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from hpcai.core.messages import Message
from hpcai.parsers.identify import looks_like
from hpcai.parsers.reading import Fact, Reading, nothing_read
from hpcai.parsers.text import read_lines

LEFT_OUT = Message("findings.left_out", "line {line}: {why}, skipped")

MOST_REASONS = 20
"""Maximum number of sentences of one kind in a report; further ones are only counted."""
NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,2})?"
_NUMBER = re.compile(NUMBER, re.ASCII)
_LABEL = re.compile(r"^\s*(?:\d+:|\[\d+(?:,\d+)?\](?:<std(?:out|err)>)?:) ?")


@dataclass
class Findings:
    """Records found in one artefact, and its defects.

    Attributes
    ----------
    path, tool
        The artefact, and the tool expected to have written it.
    records
        Whole records, as column to value.
    left_out
        One sentence for each record that is damaged, truncated or self-contradictory.
    notes
        Other sentences: missing or doubtful things that are not records.
    facts
        Properties that the artefact states about itself.
    """

    path: Path
    tool: str
    records: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Fact] = field(default_factory=dict)

    def leave_out(self, line: int, why: str) -> None:
        """Count one record that was seen but is not trusted."""
        self.left_out.append(LEFT_OUT(line=line, why=why))

    def note(self, why: str) -> None:
        """Add a sentence about the artefact."""
        if why not in self.notes:
            self.notes.append(why)

    def keep(self, good: Sequence[bool], why: str) -> None:
        """Keep the records marked good; each record has its line number under ``line``."""
        for record, is_good in zip(self.records, good, strict=True):
            if not is_good:
                self.leave_out(record["line"], why)
        self.records = [record for record, is_good in zip(self.records, good, strict=True) if is_good]

    def reading(self, columns: Sequence[str], advice: str) -> Reading:
        """Return the table with its reasons.

        Raises
        ------
        ParseError
            If there is no record: with ``advice`` and a description of the file.
        """
        if not self.records:
            raise nothing_read(self.path, self.tool, self._instead(), advice)
        return Reading(
            table=pd.DataFrame(self.records, columns=list(columns)),
            tool=self.tool,
            source=self.path,
            complete_records=len(self.records),
            seen_records=len(self.records) + len(self.left_out),
            reasons=(*_shorten(self.left_out), *_shorten(self.notes)),
            facts=self.facts,
        )

    def _instead(self) -> str:
        details = [*self.left_out, *self.notes][:3]
        return f"{looks_like(self.path)} without one whole record" + (f" ({'; '.join(details)})" if details else "")


def _shorten(sentences: list[str]) -> list[str]:
    more = len(sentences) - MOST_REASONS
    return sentences if more <= 0 else [*sentences[:MOST_REASONS], f"and {more} more of this kind"]


def read_whole_lines(path: Path, tool: str) -> tuple[list[str], str]:
    """Return the lines that have a line end, and the last one if it has none ("" otherwise).

    A truncated line may end in a shortened number, so a line without a line end holds no record.
    """
    lines = read_lines(path, tool)
    if _ends_with_line_end(path) or not lines:
        return lines, ""
    return lines[:-1], lines[-1]


def _ends_with_line_end(path: Path) -> bool:
    return path.read_bytes()[-4:].rstrip(b"\0").endswith((b"\n", b"\r"))


def without_label(line: str) -> str:
    """Return a line without the rank label of ``srun --label`` or ``mpirun --tag-output``."""
    return _LABEL.sub("", line)


def to_number(text: str) -> float:
    """Return a decimal number, NaN for all else (Python's own conversion accepts 1_000, nan and foreign digits)."""
    if not _NUMBER.fullmatch(text.strip()):
        return math.nan
    value = float(text)
    return value if math.isfinite(value) else math.nan


def to_count(text: str) -> int | None:
    """Return a non-negative integer, None for all else."""
    digits = text.strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 20 else None


def half_unit(text: str) -> float:
    """Return half a unit of the last printed digit: the largest rounding error."""
    digits, _, exponent = text.strip().lower().partition("e")
    decimals = len(digits.partition(".")[2])
    return 0.5 * 10.0 ** (int(exponent or 0) - decimals)


def in_order(values: Sequence[float], *, strictly: bool = False) -> list[bool]:
    """Mark a longest non-decreasing (or strictly increasing) subsequence; the other values were damaged.

    Patience sorting; O(n log n).
    """
    ends: list[float] = []
    places: list[int] = []
    before: list[int] = []
    for place, value in enumerate(values):
        length = (bisect_left if strictly else bisect_right)(ends, value)
        before.append(places[length - 1] if length else -1)
        ends[length : length + 1] = [value]
        places[length : length + 1] = [place]
    good = [False] * len(values)
    place = places[-1] if places else -1
    while place >= 0:
        good[place] = True
        place = before[place]
    return good
