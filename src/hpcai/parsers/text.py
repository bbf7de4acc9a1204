"""Read the text of an artefact: decode it, strip colour codes and rank labels, refuse damage."""

import csv
import re
from pathlib import Path

from hpcai.core.errors import ParseError
from hpcai.parsers.identify import describe, looks_like

LARGEST_BYTES = 1 << 30
LONGEST_LINE = 1 << 20
"""Maximum line length in a tool's table or log [characters]."""
ENCODINGS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def read_lines(path: Path, tool: str) -> list[str]:
    """Return the lines of a text artefact without line ends and colour codes.

    Reads UTF-8, and UTF-16 with a byte-order mark; CRLF counts as one line end.

    Parameters
    ----------
    path
        The artefact.
    tool
        The tool expected to have written it, for the error message.

    Raises
    ------
    ParseError
        If the file is missing, empty, larger than 1 GiB, not text, or has a line longer than any tool writes.
    """
    data = _read(path, tool)
    encoding = next((name for mark, name in ENCODINGS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise ParseError(
            f"{path}: found bytes at {error.start} that are no text in {encoding}, expected {tool}; the file is "
            "damaged or in another encoding: write it under LC_ALL=C.UTF-8, or copy it again"
        ) from error
    if "\0" in text:
        raise ParseError(
            f"{path}: found {describe(data)} (a NUL at character {text.index(chr(0))}), expected {tool}; "
            "the file is damaged: copy it again"
        )
    # Not str.splitlines: it also splits at a form feed, for example, which is a comma with a flipped bit.
    lines = re.split(r"\r\n|\n|\r", COLOURS.sub("", text))
    if not lines[-1]:
        lines.pop()
    longest = max(map(len, lines), default=0)
    if longest > LONGEST_LINE:
        raise ParseError(
            f"{path}: found a line of {longest} characters, expected {tool}; its line breaks were lost: copy it again"
        )
    return lines


def split_csv(line: str) -> list[str]:
    """Return the cells of a CSV line; none if its quotes are unbalanced or a cell is longer than any tool writes."""
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error:
        return []


def _read(path: Path, tool: str) -> bytes:
    try:
        size_bytes = path.stat().st_size
    except OSError as error:
        raise ParseError(f"{path}: {error.strerror}, expected {tool}; run the tool again") from error
    if not 0 < size_bytes <= LARGEST_BYTES or not path.is_file():
        raise ParseError(f"{path}: found {_unreadable(path, size_bytes)}, expected {tool}; run the tool again")
    return path.read_bytes()


def _unreadable(path: Path, size_bytes: int) -> str:
    if not path.is_file():
        return "no regular file"
    return looks_like(path) if size_bytes == 0 else f"{size_bytes} bytes, more than any such text has"
