"""Values as nvprof prints them: numbers with their last place and their unit; rows that are left out, and why."""

import re
from dataclasses import dataclass, field, replace
from typing import Literal

Kind = Literal["kernel", "memcpy", "memset"]

NUMBER = re.compile(r"([+-]?\d+)(\.\d+)?(e[+-]\d+)?(%|[mun]?s|[KMGT]?B(?:/s)?)?", re.ASCII)
LEVEL = re.compile(r"(Idle|Low|Mid|High|Max) \((\d+)\)", re.ASCII)
NOT_COUNTED = re.compile(r"<OVERFLOW>|[+-]?nan(\(.*\))?|[+-]?inf|n/a", re.IGNORECASE)
TIMES_S = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
CLOCK_S = 1e-9
"""nvprof keeps times in whole nanoseconds and cuts its means to them."""
PREFIXES = "KMGT"
LEVELS = {"Idle": range(1), "Low": range(1, 4), "Mid": range(4, 7), "High": range(7, 10), "Max": range(10, 11)}
"""Utilisation words and their levels (CUDA Profiler User's Guide, metrics `*_utilization`: 0 to 10)."""
ACTIVITY = re.compile(r"\[CUDA (memcpy|memset)(?: \w+)?\]", re.ASCII)
LISTED_LINES = 5


@dataclass(frozen=True)
class Value:
    """A printed number.

    Attributes
    ----------
    number
        The number; NaN for a counter that overflowed.
    step
        One unit in the last place that was printed.
    unit
        ``""`` (a count), ``"decimal"``, ``"level"``, ``"%"``, ``"s"``, ``"byte"`` or ``"byte/s"``.
    power
        Of the prefix of bytes: 0 for B, 1 for KB, 2 for MB ...; whether K is 1000 or 1024 is not printed.
    """

    number: float
    step: float
    unit: str
    power: int = 0

    def in_bytes(self, kilobyte: int) -> "Value":
        """Return the value without the prefix of its bytes."""
        factor = float(kilobyte) ** self.power
        return replace(self, number=self.number * factor, step=self.step * factor, power=0)


def read_value(text: str) -> Value | None:
    """Return a printed value, times in seconds, or None if nvprof prints no such thing."""
    if NOT_COUNTED.fullmatch(text):
        return Value(float("nan"), 0.0, "")
    if level := LEVEL.fullmatch(text):
        # The mean of levels is a level again, cut to a whole number.
        return Value(float(level[2]), 1.0, "level") if int(level[2]) in LEVELS[level[1]] else None
    found = NUMBER.fullmatch(text)
    if not found:
        return None
    whole, decimals, exponent, unit = (part or "" for part in found.groups())
    step = float(f"1e{int(exponent[1:] or 0) - max(0, len(decimals) - 1)}")
    value = Value(float(whole + decimals + exponent), step, "decimal" if decimals or exponent else "")
    return _in_unit(value, unit) if unit else value


def _in_unit(value: Value, unit: str) -> Value | None:
    if unit in TIMES_S:
        return Value(value.number * TIMES_S[unit], max(value.step * TIMES_S[unit], CLOCK_S), "s")
    if "B" in unit:
        return replace(value, unit="byte/s" if unit.endswith("/s") else "byte", power=1 + PREFIXES.find(unit[0]))
    return replace(value, unit="%") if unit == "%" else None


def read_time(text: str) -> Value | None:
    """Return a duration or a time stamp in seconds, or None if the text is none."""
    value = read_value(text)
    return value if value and value.unit == "s" and value.number >= 0 else None


def read_count(text: str) -> int | None:
    """Return a positive whole number, or None if the text is none."""
    return int(text) if re.fullmatch(r"[1-9]\d*", text, re.ASCII) else None


def kind_of(name: str) -> Kind | None:
    """Return what ran on the device by its name, or None if no activity is named so."""
    if activity := ACTIVITY.fullmatch(name):
        return "memcpy" if activity[1] == "memcpy" else "memset"
    return None if not name.strip() or name.startswith("[") or "CUDA mem" in name else "kernel"


@dataclass
class Problems:
    """Rows that are left out, by reason, and other sentences on what is missing."""

    left_out: dict[str, list[int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def leave_out(self, line: int, why: str) -> None:
        """Note that the row of a line is not in the table."""
        self.left_out.setdefault(why, []).append(line)

    def note(self, sentence: str) -> None:
        """Note anything else that a user of the table must know, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    @property
    def rows(self) -> int:
        """Number of rows left out."""
        return len({line for lines in self.left_out.values() for line in lines})

    def sentences(self) -> tuple[str, ...]:
        """Return the reasons, one sentence each."""
        return (*(_describe(why, lines) for why, lines in self.left_out.items()), *self.notes)


def _describe(why: str, lines: list[int]) -> str:
    places = ", ".join(str(line) for line in lines[:LISTED_LINES])
    more = f" and {len(lines) - LISTED_LINES} more" if len(lines) > LISTED_LINES else ""
    return f"left out line{'s' if len(lines) > 1 else ''} {places}{more}: {why}"
