"""Read the trace of TensorFlow's profiler (an XSpace protocol buffer, steps.xplane.pb) as a table of operations.

On a machine without accelerators these are the kernels. An operation that starts an asynchronous gradient exchange, as
Horovod's do, ends when it is enqueued; Horovod's timeline has the duration of the exchange.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from hpcai.core.errors import ParseError
from hpcai.core.files import read_regular
from hpcai.parsers.identify import looks_like
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading, nothing_read
from hpcai.parsers.xspace import xspace_class

TOOL = "TensorFlow profiler"
OPERATION = re.compile(r"^_?[A-Z][A-Za-z0-9_]*$")
STAGE = re.compile(r"(?:SingleElementIterator|Iterator)::(?:[^#]*::)?([A-Za-z]\w*)")
"""How ``tf.data`` names a call of an iterator: the datasets from the last one to it, then its settings behind a #."""
NS, PS = 1e-9, 1e-12
COLUMNS = ("name", "operation", "kind", "device", "stream", "start_s", "duration_s", "self_s")


def read_tensorflow_profile(path: Path) -> Reading:
    """Return one row per executed operation.

    Columns: ``name`` (operation type), ``operation`` (name in the graph), ``kind`` ("kernel"), ``device``, ``stream``
    (thread), ``start_s`` (seconds since the epoch), ``duration_s``, and ``self_s``, which excludes operations that ran
    inside it on the same thread. Events outside the profile's window are omitted.

    Raises
    ------
    ParseError
        If the file is not such a trace, is truncated, or holds no operation.
    """
    space = read_space(path)
    start_ns, stop_ns = _window(space, path)
    rows = [row for plane in space.planes if plane.name.startswith("/host:") for row in _rows(plane)]
    if not rows:
        raise nothing_read(path, TOOL, "a trace without a single operation", "profile at least one step")
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    inside = (table["start_s"] >= 0) & (table["start_s"] + table["duration_s"] <= (stop_ns - start_ns) * NS + 1)
    reasons = () if inside.all() else (f"{int((~inside).sum())} operations outside the profile's window were skipped",)
    table = table[inside].assign(start_s=lambda part: part["start_s"] + start_ns * NS).reset_index(drop=True)
    facts = {"start_wall_s": start_ns * NS, "duration_s": (stop_ns - start_ns) * NS}
    return Reading(table, TOOL, path, len(table), len(inside), reasons, facts)


def read_input_stages(path: Path) -> Reading:
    """Return one row per call of a stage of ``tf.data``: ``stage``, ``start_s`` (since the epoch), ``duration_s``.

    A stage is called by what its dataset is (TFRecordV2, MapAndBatch ...); the time of a call contains those of the
    stages that it reads from. A trace without any has no rows.

    Raises
    ------
    ParseError
        If the file is no such trace, or is cut.
    """
    space = read_space(path)
    start_ns, stop_ns = _window(space, path)
    rows = []
    for plane in space.planes:
        stages = {entry.key: found[1] for entry in plane.event_metadata if (found := STAGE.match(entry.value.name))}
        for line in plane.lines:
            for event in line.events:
                if event.metadata_id in stages:
                    start_s = line.timestamp_ns * NS + event.offset_ps * PS + start_ns * NS
                    rows.append((stages[event.metadata_id], start_s, event.duration_ps * PS))
    table = pd.DataFrame(rows, columns=["stage", "start_s", "duration_s"])
    facts = {"start_wall_s": start_ns * NS, "duration_s": (stop_ns - start_ns) * NS}
    return Reading(table, TOOL, path, len(table), len(table), (), facts)


def read_space(path: Path) -> Any:  # noqa: ANN401  a protocol buffer has no static type
    """Return the XSpace of a trace; raise ParseError if the file is foreign or truncated."""
    if not path.is_file() or not path.stat().st_size:
        raise nothing_read(path, TOOL, looks_like(path), "profile the steps again")
    from google.protobuf.message import DecodeError

    space = xspace_class()()
    try:
        space.ParseFromString(read_regular(path))
    except (DecodeError, OSError) as error:
        raise ParseError(
            f"{path}: found {looks_like(path)} that is no whole protocol buffer ({error}), expected an XSpace of "
            f"{TOOL}; the file is cut or foreign: profile the steps again"
        ) from error
    return space


def _window(space: Any, path: Path) -> tuple[int, int]:  # noqa: ANN401
    """Return start and end of the profile in nanoseconds since the epoch."""
    for plane in space.planes:
        names = {entry.key: entry.value.name for entry in plane.stat_metadata}
        found = {names.get(stat.metadata_id): stat.uint64_value or stat.int64_value for stat in plane.stats}
        if {"profile_start_time", "profile_stop_time"} <= set(found):
            return int(found["profile_start_time"]), int(found["profile_stop_time"])
    raise nothing_read(path, TOOL, "a trace without begin and end", "profile the steps again; it may have been cut")


def _rows(plane: Any) -> Iterator[tuple[object, ...]]:  # noqa: ANN401
    types = {entry.key: found for entry in plane.event_metadata if (found := _type(entry.value))}
    for line in plane.lines:
        events = sorted(
            (event for event in line.events if event.metadata_id in types),
            key=lambda event: (event.offset_ps, -event.duration_ps),
        )
        for event, self_ps in zip(events, _self_times_ps(events), strict=True):
            name, operation = types[event.metadata_id]
            start_s = line.timestamp_ns * NS + event.offset_ps * PS
            times = (start_s, event.duration_ps * PS, self_ps * PS)
            yield name, operation, "kernel", plane.name, line.id, *times


def _type(meta: Any) -> tuple[str, str] | None:  # noqa: ANN401
    """Return type and name of an operation; None for other activity of the runtime."""
    operation, _, name = meta.name.rpartition(":")
    return (name, operation) if operation and OPERATION.match(name) and not operation.endswith(":") else None


def _self_times_ps(events: list[Any]) -> list[int]:
    """Return each event's duration minus the events inside it; events are sorted by start, longest first."""
    times = [event.duration_ps for event in events]
    stack: list[int] = []
    for index, event in enumerate(events):
        while stack and events[stack[-1]].offset_ps + events[stack[-1]].duration_ps <= event.offset_ps:
            stack.pop()
        if stack:
            times[stack[-1]] -= event.duration_ps
        stack.append(index)
    return [max(time, 0) for time in times]


READER = Reader(
    "tensorflow-profile", "profile of TensorFlow (.xplane.pb)", read_tensorflow_profile, slow=True, binary=True
)
