"""Rows of nvprof's text mode: columns at least two blanks apart, a unit in every value, names to the end of line."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

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
    """What earlier lines said about the next: type of activity, device, kernel; None after a damaged line."""

    label: str | None = None
    device: str | None = None
    kernel: str | None = None


def split_columns(line: str, maximum: int = 0) -> list[str]:
    """Return the cells of a line; everything after the last column wanted belongs to it."""
    return COLUMN_GAP.split(line.strip(), maxsplit=max(0, maximum - 1))


def read_summary_row(columns: Sequence[str], line: str, state: TextState) -> Row | None:
    """Return a row of a summary, or None if it is damaged; only the first row of a type carries its label."""
    if "Type" not in columns:
        return _zip(columns, split_columns(line, len(columns)))
    text = line
    if labelled := LABEL.fullmatch(line):
        state.label, text = labelled[1], labelled[2]
    row = _zip(columns[1:], split_columns(text, len(columns) - 1))
    if row is None or not row["Time(%)"].endswith("%"):
        # A label that cannot be read, or one that a lost line end hid in a name: the type is unknown from here on.
        is_labelled = sum(map(str.isalpha, line[:LABEL_WIDTH])) > 2 and re.search(r"\d%", line)
        state.label = None if is_labelled or KNOWN_LABEL.search(line) else state.label
        return None
    return {"Type": state.label or "", **row}


def read_trace_row(columns: Sequence[str], line: str) -> Row | None:
    """Return a row of a GPU trace, or None if it is damaged; a dash stands for nothing."""
    row = _zip(columns, split_columns(line, len(columns)))
    return row and {column: "" if cell == "-" else cell for column, cell in row.items()}


def read_counter_row(columns: Sequence[str], line: str, state: TextState) -> Row | None:
    """Return a row of counters, an empty one for a line that names a device or a kernel, or None for a damaged one."""
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
    """Forget what a damaged line may have named, so that the next rows are not given to the kernel before."""
    if not re.match(r"\s*\d+\s", line) or "Kernel:" in line or "Device " in line:
        state.kernel = None
    if line[:1].strip() and "Kernel:" not in line:
        state.device = None


def _zip(columns: Sequence[str], cells: Sequence[str]) -> Row | None:
    complete = len(cells) == len(columns) and not COLUMN_GAP.search(cells[-1])
    return dict(zip(columns, cells, strict=True)) if complete else None
