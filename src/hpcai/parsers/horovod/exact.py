"""Parse Horovod timeline events object by object: metadata, unusual spacing and damage."""

import json
import re
from dataclasses import dataclass, field

from hpcai.parsers.horovod.events import (
    BEGIN,
    BOUNDARY,
    END,
    LARGEST_TENSOR,
    MARK,
    NO_CODE,
    NO_JSON,
    NO_TENSOR,
    READY,
    Dictionary,
    Gap,
)

_DECODER = json.JSONDecoder()
_BETWEEN = re.compile(r"\s*(?:,\s*|$)")
_BLANKS = re.compile(r"\s*")
_ACTIVITY, _RANK = re.compile(r"[A-Z][A-Z0-9_]*"), re.compile(r"0|[1-9]\d{0,8}")
_TYPE, _SHAPE = re.compile(r"[a-z0-9]+"), re.compile(r"\[((?:\d+(?:, \d+)*)?)\]")
_KEYS = {
    "B": {"ph", "name", "ts", "pid"},
    "X": {"ph", "name", "ts", "pid", "dur"},
    "i": {"ph", "name", "ts", "s"},
}
_LARGEST_TIME = 10**16
Row = tuple[int, int, int, int]


@dataclass
class Exact:
    """Rows of kind, time (us), tensor and code; gaps and metadata as in `Events`."""

    events: list[Row] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    tensor_names: list[tuple[int, str]] = field(default_factory=list)
    start_epoch_us: int | None = None
    metadata: int = 0


def read_exactly(data: bytes, place: int, dictionary: Dictionary) -> Exact:
    """Return the events in part of a file; anything else becomes a gap.

    Parameters
    ----------
    data
        Text from the start of an event up to and including the comma after one.
    place
        Offset of the text in the file [byte].
    dictionary
        Names and results; new ones are added.
    """
    result, at = Exact(), 0
    while at < len(data):
        text = data[at:].decode("utf-8", errors="surrogateescape")
        read = _read_run(text, result, dictionary)
        if read is None:
            break
        where, reason = read
        at += len(text[:where].encode("utf-8", errors="surrogateescape"))
        result.gaps.append(Gap(len(result.events), place + at, reason))
        following = BOUNDARY.search(data, at)
        at = following.end() if following else len(data)
    return result


def _read_run(text: str, result: Exact, dictionary: Dictionary) -> tuple[int, str] | None:
    """Add objects until the text ends or one is not an event; return where that one begins, and why."""
    at = 0
    while (blanks := _BLANKS.match(text, at)) and blanks.end() < len(text):
        at = blanks.end()
        try:
            found, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return at, NO_JSON
        between = _BETWEEN.match(text, end)
        if between is None:
            return at, "an object that is not followed by a comma"
        problem = _add(found, result, dictionary)
        if problem:
            return at, problem
        at = between.end()
    return None


def _add(found: object, result: Exact, dictionary: Dictionary) -> str | None:
    """Add one object; return its defect, or None."""
    if not isinstance(found, dict):
        return "something that is not an object"
    phase = found.get("ph")
    if phase == "M":
        return _add_metadata(found, result)
    if phase not in ("B", "E", "X", "i"):
        return f"an event of the unknown phase {phase!r:.20}"
    time = found.get("ts")
    tensor = found.get("pid", NO_TENSOR)
    if not _is_count(time, _LARGEST_TIME) or not (phase == "i" or _is_count(tensor, LARGEST_TENSOR)):
        return "an event without time or tensor"
    row = _add_end(found, dictionary) if phase == "E" else _add_named(found, phase, dictionary)
    if row is None:
        return f"an event of phase {phase} with other content than Horovod writes"
    result.events.append((row[0], int(str(time)), int(str(tensor)), row[1]))
    return None


def _is_count(value: object, limit: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < limit


def _add_named(found: dict[str, object], phase: str, dictionary: Dictionary) -> tuple[int, int] | None:
    name = found.get("name")
    if set(found) != _KEYS[phase] or not isinstance(name, str):
        return None
    kind, fits = {
        "B": (BEGIN, _ACTIVITY.fullmatch(name) is not None),
        "X": (READY, _RANK.fullmatch(name) is not None and found.get("dur") == 0),
        "i": (MARK, name == "CYCLE_START" and found.get("s") == "g"),
    }[phase]
    return (kind, dictionary.names.code(name)) if fits else None


def _add_end(found: dict[str, object], dictionary: Dictionary) -> tuple[int, int] | None:
    if set(found) == {"ph", "ts", "pid"}:
        return END, NO_CODE
    content = found.get("args")
    if set(found) != {"ph", "ts", "pid", "args"} or not isinstance(content, dict) or set(content) != {"dtype", "shape"}:
        return None
    if not all(isinstance(value, str) for value in content.values()):
        return None
    shape = _SHAPE.fullmatch(content["shape"])
    if shape is None or _TYPE.fullmatch(content["dtype"]) is None:
        return None
    return END, dictionary.results.code((content["dtype"], shape[1]))


def _add_metadata(found: dict[str, object], result: Exact) -> str | None:
    """Store tensor names and the start time; return the defect, or None."""
    content, tensor = found.get("args"), found.get("pid")
    if not isinstance(content, dict) or len(content) != 1 or not _is_count(tensor, LARGEST_TENSOR):
        return "metadata of another form than Horovod's"
    (key, value), name = *content.items(), found.get("name")
    if name == "process_name" and key == "name" and isinstance(value, str):
        result.tensor_names.append((int(str(tensor)), value))
    elif name == "process_name" and key == "start_time_since_epoch_in_micros" and _is_count(value, 2**63):
        result.start_epoch_us = int(str(value))
    elif not (name == "process_sort_index" and key == "sort_index" and value == tensor):
        return "metadata of another form than Horovod's"
    result.metadata += 1
    return None
