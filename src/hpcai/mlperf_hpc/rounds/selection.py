"""Select the files of a source to read, and list those that are skipped."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from hpcai.core.messages import Message
from hpcai.mlperf_hpc.rounds import limits
from hpcai.mlperf_hpc.rounds.model import Repair
from hpcai.mlperf_hpc.rounds.texts import is_text, printable

TOO_MANY_LINES = Message("selection.too_many_lines", "{lines} lines with events, more than {most}")

Wanted = Callable[[str], bool]
Files = Iterator[tuple[str, bytes]]
"""Path below the source, with ``/``, and content."""


class Entry(NamedTuple):
    """One file or folder by name, read or skipped.

    Attributes
    ----------
    path
        Below the source, with ``/``, as the file system has it.
    leads_to
        Target of a broken link; blank for everything else.
    size_bytes
        Size of a file; 0 for everything else.
    """

    path: str
    leads_to: str
    size_bytes: int


NO_TEXT = "a name with control characters, or in another encoding than UTF-8"


def is_junk(folder: str) -> bool:
    """Return whether a folder holds no results: code, hidden folders and macOS metadata in archives."""
    return folder in ("benchmarks", "__MACOSX") or (folder.startswith(".") and folder not in (".", ".."))


def is_chosen(path: str, wanted: Wanted, repairs: list[Repair]) -> bool:
    """Return whether a file is wanted and has a name that tables and figures can hold; others are listed."""
    if is_text(path):
        return wanted(path)
    if wanted(printable(path)):
        repairs.append(left_out(path, "name_no_text", NO_TEXT))
    return False


def fits(path: str, size_bytes: int, repairs: list[Repair]) -> bool:
    """Return whether a file is small enough to be a log; others are listed."""
    if size_bytes <= limits.FILE_BYTES:
        return True
    repairs.append(left_out(path, "too_large", f"{size_bytes} bytes, more than {limits.FILE_BYTES}"))
    return False


def admit(path: str, content: bytes, budget: limits.Budget, repairs: list[Repair]) -> Files:
    """Count a file that was read, and yield it unless it has too many lines for a log, which is listed."""
    lines = limits.lines_in(content)
    if lines > limits.FILE_LINES:
        budget.read(len(content), 0)
        found = TOO_MANY_LINES(lines=lines, most=limits.FILE_LINES)
        repairs.append(left_out(path, "too_many_lines", found))
        return
    budget.read(len(content), lines)
    yield path, content


def left_out(path: str, kind: str, found: str) -> Repair:
    """Return the entry for a file that is skipped."""
    return Repair(printable(path), "file", kind, printable(found), "left out, not read")
