"""MLPerf logs: the lines of one log as events, read as the package ``mlperf_logging`` reads them, but faster."""

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
        Line of the file, from 1.
    number
        Number of the line among those with the token, from 0: the package's own count.
    words
        The line behind the token.
    time_ms
        Milliseconds since the Unix epoch.
    event_type
        As logged; blank if missing. It is not reliable (mlperf_logs.md 2).
    key, value, metadata
        As logged. Nothing says that the key is a text or the metadata a dictionary.
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
        """The metadata, empty where they are no dictionary."""
        return self.metadata if isinstance(self.metadata, dict) else {}


@dataclass(frozen=True, slots=True)
class BrokenLine:
    """A line with the token that holds no event.

    ``kind`` is "unreadable" where the package lists a parsing error, and "fields" where it stops with an exception.
    """

    line: int
    text: str
    error: str
    kind: Literal["unreadable", "fields"]


@dataclass(frozen=True)
class Mllog:
    """One log: its events in the order of its lines, its broken lines, and the number of all its lines.

    ``crowded`` are lines with more than one token: the last event counts, as for the package; the others are lost.
    ``replaced`` are lines with escapes that stand for no character; U+FFFD is read in their place.
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
        """The events of each key that is a text, in the order of the lines."""
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
        Bytes of the file; Latin-1, as the package reads them. Other output between and before events is left out.
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
        if end < 0 and place < len(pieces):  # the next token stands in the same line
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
        # The package's reader takes null for a line that it does not know, and stops at everything else.
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
