"""MLPerf logs: the lines of one log as events, read as the package ``mlperf_logging`` reads them, but faster."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic_core import from_json

from hpcai.errors import ParseError

TOKEN = ":::MLLOG "  # noqa: S105 - no password
_NEEDED = ("time_ms", "key", "value", "metadata")


@dataclass(frozen=True, slots=True)
class MllogEvent:
    """One event of a log.

    Attributes
    ----------
    line
        Line of the file, from 1.
    number
        Number of the line among those with the token, from 0: the package's own count.
    text
        The line from the token on.
    time_ms
        Milliseconds since the Unix epoch.
    event_type
        As logged; blank if missing. It is not reliable (mlperf_logs.md 2).
    key, value, metadata
        As logged. Nothing says that the key is a text or the metadata a dictionary.
    """

    line: int
    number: int
    text: str
    time_ms: float
    event_type: str
    key: Any
    value: Any
    metadata: Any

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
    """

    source: str
    events: tuple[MllogEvent, ...]
    broken: tuple[BrokenLine, ...]
    lines: int
    ends_with_newline: bool
    crowded: tuple[int, ...] = ()


def parse_mllog(content: bytes, source: str) -> Mllog:
    """Parse the content of a log.

    Parameters
    ----------
    content
        Bytes of the file; Latin-1, as the package reads them. Other output between and before events is left out.
    source
        Name of the file, for messages.
    """
    text = content.decode("latin-1").replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    events: list[MllogEvent] = []
    broken: list[BrokenLine] = []
    crowded: list[int] = []
    for line, words in enumerate(lines, start=1):
        place = words.rfind(TOKEN)
        if place < 0:
            continue
        if words.find(TOKEN) < place:
            crowded.append(line)
        found = _parse_line(words[place:].strip(), line, len(events) + len(broken))
        if isinstance(found, MllogEvent):
            events.append(found)
        else:
            broken.append(found)
    ends = not text or text.endswith("\n")
    return Mllog(source, tuple(events), tuple(broken), len(lines) - bool(text.endswith("\n")), ends, tuple(crowded))


def read_mllog(path: Path) -> Mllog:
    """Read a log.

    Raises
    ------
    ParseError
        If the file cannot be read, or holds no line with the token.
    """
    try:
        log = parse_mllog(path.read_bytes(), str(path))
    except OSError as error:
        raise ParseError(f"{path}: {error.strerror}, expected an MLPerf log") from error
    if not (log.events or log.broken):
        raise ParseError(f"{path}: found no line with `{TOKEN.strip()}`, expected an MLPerf log (result_N.txt)")
    return log


def _parse_line(text: str, line: int, number: int) -> MllogEvent | BrokenLine:
    words = text[len(TOKEN) :]
    try:
        fields = from_json(words, cache_strings="keys")
    except ValueError:
        try:
            fields = json.loads(words)  # the package's own reader decides what is unreadable
        except (ValueError, RecursionError) as error:
            return BrokenLine(line, text, str(error), "unreadable")
    if not isinstance(fields, dict):
        return BrokenLine(line, text, f"found a {type(fields).__name__}, expected an object", "fields")
    missing = [name for name in _NEEDED if name not in fields]
    if missing:
        return BrokenLine(line, text, f"without {', '.join(missing)}", "fields")
    try:
        time_ms = float(fields["time_ms"])
    except ValueError as error:
        return BrokenLine(line, text, f"time_ms: {error}", "unreadable")
    except (TypeError, OverflowError) as error:
        return BrokenLine(line, text, f"time_ms: {error}", "fields")
    kind = str(fields.get("event_type", ""))
    return MllogEvent(line, number, text, time_ms, kind, fields["key"], fields["value"], fields["metadata"])
