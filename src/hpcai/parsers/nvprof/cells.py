"""Cells of nvprof: rows of its text mode, values with precision and unit, and omitted rows.

In text mode at least two blanks separate columns, each value has its unit, and names extend to the end of the line.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

COLUMN_GAP = re.compile(r"\s{2,}")
LABEL = re.compile(r"\s*([A-Z][^:%\d]*):\s{2,}(.*)")
LABEL_WIDTH = 16
KNOWN_LABEL = re.compile(r"(API calls|GPU activities|Range|Open(ACC|MP).*):\s")
DEVICE = re.compile(r'Device "(.+)"')
KERNEL = re.compile(r"\s+Kernel: (\S.*)")
COUNTER = re.compile(r"\s+\d+\s{2,}\w+\s{2,}")

Row = dict[str, str]


@dataclass
class TextState:
    """Context from earlier lines: activity type, device, kernel; None after a damaged line."""

    label: str | None = None
    device: str | None = None
    kernel: str | None = None


def split_columns(line: str, maximum: int = 0) -> list[str]:
    """Return the cells of a line; the last wanted column takes the rest."""
    return COLUMN_GAP.split(line.strip(), maxsplit=max(0, maximum - 1))


def read_summary_row(columns: Sequence[str], line: str, state: TextState) -> Row | None:
    """Return a row of a summary, or None if it is damaged; only the first row of a type has its label."""
    if "Type" not in columns:
        return _zip(columns, split_columns(line, len(columns)))
    text = line
    if labelled := LABEL.fullmatch(line):
        state.label, text = labelled[1], labelled[2]
    row = _zip(columns[1:], split_columns(text, len(columns) - 1))
    if row is None or not row["Time(%)"].endswith("%"):
        # Unreadable label, or one hidden in a name by a lost line end: the type is unknown from here on.
        is_labelled = sum(map(str.isalpha, line[:LABEL_WIDTH])) > 2 and re.search(r"\d%", line)
        state.label = None if is_labelled or KNOWN_LABEL.search(line) else state.label
        return None
    return {"Type": state.label or "", **row}


def read_trace_row(columns: Sequence[str], line: str) -> Row | None:
    """Return a row of a GPU trace, or None if it is damaged; a dash means no value."""
    row = _zip(columns, split_columns(line, len(columns)))
    return row and {column: "" if cell == "-" else cell for column, cell in row.items()}


def read_counter_row(columns: Sequence[str], line: str, state: TextState) -> Row | None:
    """Return a row of counters, an empty one for a line that names a device or kernel, None for a damaged one."""
    if device := DEVICE.fullmatch(line):
        state.device, state.kernel = device[1], None
        return {}
    kernel = KERNEL.fullmatch(line)
    if kernel and not COLUMN_GAP.search(kernel[1]):
        state.kernel = kernel[1]
        return {}
    row = _zip(columns, split_columns(line))
    if row is None or not row["Invocations"].isdecimal():
        _forget(line, state)
        return None
    if state.device is None or state.kernel is None:
        return None
    return {"Device": state.device, "Kernel": state.kernel, **row}


def _forget(line: str, state: TextState) -> None:
    """Forget what a damaged line may have named, so that later rows are not assigned to the previous kernel."""
    if not re.match(r"\s*\d+\s", line) or "Kernel:" in line or "Device " in line:
        state.kernel = None
    if line[:1].strip() and "Kernel:" not in line:
        state.device = None


def _zip(columns: Sequence[str], cells: Sequence[str]) -> Row | None:
    complete = len(cells) == len(columns) and not COLUMN_GAP.search(cells[-1])
    return dict(zip(columns, cells, strict=True)) if complete else None


Kind = Literal["kernel", "memcpy", "memset"]

NUMBER = re.compile(r"([+-]?\d+)(\.\d+)?(e[+-]\d+)?(%|[mun]?s|[KMGT]?B(?:/s)?)?", re.ASCII)
LEVEL = re.compile(r"(Idle|Low|Mid|High|Max) \((\d+)\)", re.ASCII)
NOT_COUNTED = re.compile(r"<OVERFLOW>|[+-]?nan(\(.*\))?|[+-]?inf|n/a", re.IGNORECASE)
TIMES_S = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
CLOCK_S = 1e-9
"""nvprof stores times in whole nanoseconds and truncates its means to them."""
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
        One unit in the last printed place.
    unit
        ``""`` (a count), ``"decimal"``, ``"level"``, ``"%"``, ``"s"``, ``"byte"`` or ``"byte/s"``.
    power
        Prefix of bytes: 0 for B, 1 for KB, 2 for MB ...; whether K is 1000 or 1024 is not printed.
    """

    number: float
    step: float
    unit: str
    power: int = 0

    def in_bytes(self, kilobyte: int) -> "Value":
        """Return the value with its byte prefix resolved."""
        factor = float(kilobyte) ** self.power
        return replace(self, number=self.number * factor, step=self.step * factor, power=0)


def read_value(text: str) -> Value | None:
    """Return a printed value, times in seconds; None if nvprof never prints such text."""
    if NOT_COUNTED.fullmatch(text):
        return Value(float("nan"), 0.0, "")
    if level := LEVEL.fullmatch(text):
        # The mean of levels is a level again, truncated to a whole number.
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
    """Return a duration or time stamp in seconds, or None if the text is neither."""
    value = read_value(text)
    return value if value and value.unit == "s" and value.number >= 0 else None


def read_count(text: str) -> int | None:
    """Return a positive integer, or None for other text."""
    return int(text) if re.fullmatch(r"[1-9]\d*", text, re.ASCII) else None


def kind_of(name: str) -> Kind | None:
    """Return the kind of device activity by its name, or None if no activity has such a name."""
    if activity := ACTIVITY.fullmatch(name):
        return "memcpy" if activity[1] == "memcpy" else "memset"
    return None if not name.strip() or name.startswith("[") or "CUDA mem" in name else "kernel"


@dataclass
class Problems:
    """Omitted rows by reason, and other notes on missing data."""

    left_out: dict[str, list[int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def leave_out(self, line: int, why: str) -> None:
        """Record that the row of a line is omitted."""
        self.left_out.setdefault(why, []).append(line)

    def note(self, sentence: str) -> None:
        """Add another note for users of the table, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    @property
    def rows(self) -> int:
        """Number of omitted rows."""
        return len({line for lines in self.left_out.values() for line in lines})

    def sentences(self) -> tuple[str, ...]:
        """Return the reasons, one sentence each."""
        return (*(_describe(why, lines) for why, lines in self.left_out.items()), *self.notes)


def _describe(why: str, lines: list[int]) -> str:
    places = ", ".join(str(line) for line in lines[:LISTED_LINES])
    more = f" and {len(lines) - LISTED_LINES} more" if len(lines) > LISTED_LINES else ""
    return f"skipped line{'s' if len(lines) > 1 else ''} {places}{more}: {why}"
