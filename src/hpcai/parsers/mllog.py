"""Parse an MLPerf log into events, with the results of the package ``mlperf_logging`` but faster."""

import json
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic_core import from_json

from hpcai.core.errors import ParseError
from hpcai.core.files import read_regular
from hpcai.parsers.json_text import replace_surrogates

TOKEN = ":::MLLOG "  # noqa: S105 - no password
_NEEDED = ("time_ms", "key", "value", "metadata")


class MllogEvent(NamedTuple):
    """One event of a log; a tuple, because a round has hundreds of thousands.

    Attributes
    ----------
    line
        Line number in the file, from 1.
    number
        Index among the lines with the token, from 0: the package's own count.
    words
        The line after the token.
    time_ms
        Milliseconds since the Unix epoch.
    event_type
        As logged; blank if missing. Not reliable (mlperf_logs.md 2).
    key, value, metadata
        As logged; the key need not be text, nor the metadata a dictionary.
    """

    line: int
    number: int
    words: str
    time_ms: float
    event_type: str
    key: Any
    value: Any
    metadata: Any

    @property
    def text(self) -> str:
        """The line from the token on."""
        return TOKEN + self.words

    @property
    def details(self) -> dict[str, Any]:
        """The metadata; empty if they are not a dictionary."""
        return self.metadata if isinstance(self.metadata, dict) else {}


@dataclass(frozen=True, slots=True)
class BrokenLine:
    """A line with the token but without an event.

    ``kind`` is "unreadable" where the package lists a parsing error, and "fields" where it raises an exception.
    """

    line: int
    text: str
    error: str
    kind: Literal["unreadable", "fields"]


@dataclass(frozen=True)
class Mllog:
    """One log: its events and broken lines in order, and its total number of lines.

    ``crowded``: lines with more than one token. As in the package, the last event counts and the others are lost.
    ``replaced``: lines with escapes that denote no character; they are read as U+FFFD.
    """

    source: str
    events: tuple[MllogEvent, ...]
    broken: tuple[BrokenLine, ...]
    lines: int
    ends_with_newline: bool
    crowded: tuple[int, ...] = ()
    replaced: tuple[int, ...] = ()

    @cached_property
    def by_key(self) -> dict[str, list[MllogEvent]]:
        """The events of each text key, in line order."""
        found: defaultdict[str, list[MllogEvent]] = defaultdict(list)
        for event in self.events:
            if isinstance(event.key, str):
                found[event.key].append(event)
        return dict(found)


def parse_mllog(content: bytes, source: str) -> Mllog:
    """Parse the content of a log.

    Parameters
    ----------
    content
        Bytes of the file, read as Latin-1 like the package does. Other output between events is ignored.
    source
        Name of the file, for messages.
    """
    text = content.decode("latin-1")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    before, *pieces = text.split(TOKEN)
    line, number = before.count("\n") + 1, 0
    events: list[MllogEvent] = []
    broken: list[BrokenLine] = []
    crowded: dict[int, None] = {}
    replaced: list[int] = []
    for place, piece in enumerate(pieces, start=1):
        end = piece.find("\n")
        if end < 0 and place < len(pieces):  # the next token is on the same line
            crowded[line] = None
            continue
        words = (piece if end < 0 else piece[:end]).rstrip()
        try:
            fields = from_json(words, cache_strings="keys")
            kind, time_ms = str(fields["event_type"]), float(fields["time_ms"])
            parts = (line, number, words, time_ms, kind, fields["key"], fields["value"], fields["metadata"])
            events.append(tuple.__new__(MllogEvent, parts))  # half the time of MllogEvent(...)
        except (ValueError, LookupError, TypeError, OverflowError):
            found = _parse_line(words, line, number, replaced)
            (events if isinstance(found, MllogEvent) else broken).append(found)  # type: ignore[arg-type]
        number += 1
        line += 1 if end == len(piece) - 1 else piece.count("\n")
    newlines = text.count("\n")
    ends = not text or text.endswith("\n")
    lines = newlines + (not ends)
    return Mllog(source, tuple(events), tuple(broken), lines, ends, tuple(crowded), tuple(replaced))


def read_mllog(path: Path) -> Mllog:
    """Read a log.

    Raises
    ------
    ParseError
        If the file cannot be read, or holds no line with the token.
    """
    try:
        log = parse_mllog(read_regular(path), str(path))
    except OSError as error:
        raise ParseError(f"{path}: {error.strerror}, expected an MLPerf log") from error
    if not (log.events or log.broken):
        raise ParseError(f"{path}: found no line with `{TOKEN.strip()}`, expected an MLPerf log (result_N.txt)")
    return log


def _parse_line(words: str, line: int, number: int, replaced: list[int]) -> MllogEvent | BrokenLine:
    """Parse an unusual line as the package does: its own reader decides what is unreadable."""
    text = (TOKEN + words).rstrip()
    whole, lone = replace_surrogates(words)
    try:
        fields = json.loads(whole)
    except (ValueError, RecursionError) as error:
        return BrokenLine(line, text, str(error), "unreadable")
    if not isinstance(fields, dict):
        # The package's reader treats null as an unknown line, and fails on everything else.
        kind: Literal["unreadable", "fields"] = "unreadable" if fields is None else "fields"
        return BrokenLine(line, text, f"found a {type(fields).__name__}, expected an object", kind)
    missing = [name for name in _NEEDED if name not in fields]
    if missing:
        return BrokenLine(line, text, f"without {', '.join(missing)}", "fields")
    try:
        time_ms = float(fields["time_ms"])
    except ValueError as error:
        return BrokenLine(line, text, f"time_ms: {error}", "unreadable")
    except (TypeError, OverflowError) as error:
        return BrokenLine(line, text, f"time_ms: {error}", "fields")
    said = str(fields.get("event_type", ""))
    if lone:
        replaced.append(line)
    return MllogEvent(line, number, words, time_ms, said, fields["key"], fields["value"], fields["metadata"])
