"""Events of an MLPerf log as a table."""

import json
from pathlib import Path

import pandas as pd

from hpcai.parsers.mllog import MllogEvent, read_mllog
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading, nothing_read

TOOL = "MLPerf log"
COLUMNS = ("line", "time_s", "event_type", "key", "value", "text", "epoch_num", "step_num", "status")


def read_mllog_events(path: Path) -> Reading:
    """Read the events of an MLPerf log in line order.

    Parameters
    ----------
    path
        A log with ``:::MLLOG`` lines; other output between them is ignored.

    Returns
    -------
    Reading
        Per event: line, ``time_s`` since the Unix epoch, key, ``value`` if numeric, otherwise ``text`` (JSON unless it
        is a string), and epoch_num, step_num and status from its metadata.

    Raises
    ------
    ParseError
        If the file cannot be read or holds no event.
    """
    log = read_mllog(path)
    if not log.events:
        found = f"{len(log.broken)} lines with the token, none of them an event ({log.broken[0].error})"
        raise nothing_read(path, TOOL, found, "pass the log of a training run (result_N.txt)")
    reasons = [f"line {line.line}: {line.error}"[:200] for line in log.broken]
    reasons += [f"line {line}: more than one event, only the last is read" for line in log.crowded]
    table = pd.DataFrame([_row(event) for event in log.events], columns=list(COLUMNS))
    for column in ("value", "epoch_num", "step_num"):
        table[column] = table[column].astype("float64")
    seen = len(log.events) + len(log.broken) + len(log.crowded)
    facts = {"lines": log.lines, "events": len(log.events), "ends_with_newline": log.ends_with_newline}
    return Reading(table, TOOL, path, len(log.events), seen, tuple(reasons), facts)


def _row(event: MllogEvent) -> tuple[float | str | None, ...]:
    details = event.details
    number = _number(event.value)
    status = details.get("status")
    return (
        event.line,
        event.time_ms / 1000,
        event.event_type,
        event.key if isinstance(event.key, str) else json.dumps(event.key),
        number,
        None if event.value is None or number is not None else _text(event.value),
        _number(details.get("epoch_num")),
        _number(details.get("step_num")),
        status if status is None else _text(status),
    )


def _number(value: object) -> float | None:
    if type(value) is float:
        return value
    return float(value) if type(value) is int and abs(value) < 10**300 else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


READER = Reader("mllog", "MLPerf log", read_mllog_events, looks=("an MLPerf log",))
