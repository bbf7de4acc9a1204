"""Irregularities of a whole log: its lines, their order in time, event types, settings logged twice."""

import math
import operator
from collections import Counter
from collections.abc import Mapping

from hpcai.mlperf_hpc.rounds.model import LARGEST_COUNT, Repair
from hpcai.mlperf_hpc.rounds.pairing import place
from hpcai.mlperf_hpc.rounds.times import is_time
from hpcai.parsers.mllog import Mllog, MllogEvent

EARLIEST_MS, LATEST_MS = 1e12, 4_102_444_800_000.0
"""Year 2100; and September 2001, because an earlier time is in seconds, or counted from another origin."""
COUNTS = (
    "global_batch_size",
    "train_samples",
    "eval_samples",
    "number_of_nodes",
    "accelerators_per_node",
    "number_of_ranks",
)
"""Settings that count something."""
SERIES = ("epoch_num", "step_num", "first_epoch_num", "step", "iter", "instance")
"""Metadata of values that change during a run."""


def damaged_lines(log: Mllog, source: str) -> list[Repair]:
    """Return the lines without an event, and signs of a truncated log."""
    repairs = []
    for kind, name in (("unreadable", "line_unreadable"), ("fields", "line_without_fields")):
        lines = [line for line in log.broken if line.kind == kind]
        if lines:
            found = f"{len(lines)} lines, first {lines[0].text[:60]!r}: {lines[0].error}"
            repairs.append(Repair(source, f"line {lines[0].line}", name, found, "left out"))
    if log.replaced:
        found = f"{len(log.replaced)} lines with halves of characters"
        repairs.append(Repair(source, f"line {log.replaced[0]}", "text_replaced", found, "U+FFFD in their place"))
    if log.crowded:
        found = f"{len(log.crowded)} lines with more than one token"
        done = "the last event of each is taken, as by the official checker; the others are lost"
        repairs.append(Repair(source, f"line {log.crowded[0]}", "line_with_several_events", found, done))
    if not log.events:
        repairs.append(Repair(source, "file", "no_events", f"{log.lines} lines, none with an event", "an empty run"))
    elif not log.ends_with_newline:
        repairs.append(
            Repair(source, f"line {log.lines}", "no_final_newline", "the last line has none", "read all the same")
        )
    bare = [event for event in log.events if not isinstance(event.metadata, dict)]
    if bare:
        found = f"{len(bare)} events, first {shown(bare[0].metadata)}"
        repairs.append(Repair(source, place(bare), "metadata_missing", found, "taken as empty"))
    return repairs


def trailing_events(log: Mllog, stop: MllogEvent | None, source: str) -> list[Repair]:
    """Return events logged after the run stopped; they are not part of the run."""
    if stop is None or log.events[-1] is stop:
        return []
    after = [event for event in log.events if event.line > stop.line]
    if not after:
        return []
    names = Counter(str(event.key) for event in after)
    words = ", ".join(f"{count} {name}" for name, count in names.most_common(4))
    found = f"{len(after)} events ({words}{', ...' if len(names) > 4 else ''})"
    return [Repair(source, place(after), "events_after_run_stop", found, "intervals and scores among them left out")]


def unordered_times(log: Mllog, ends: tuple[MllogEvent | None, MllogEvent | None], source: str) -> list[Repair]:
    """Return times that go backwards between events, and implausible times.

    ``ends`` are run_start and run_stop; the first event replaces a missing run_start.
    """
    repairs = []
    times = [event.time_ms for event in log.events]
    in_order = all(map(operator.le, times, times[1:]))
    count, largest_ms, first, latest = 0, 0.0, 0, -math.inf
    for event in () if in_order else log.events:
        if event.time_ms < latest:
            count += 1
            first = first or event.line
            largest_ms = max(largest_ms, latest - event.time_ms)
        else:
            latest = event.time_ms
    if count:
        found = f"{count} events earlier than one before them, by up to {largest_ms / 1000:g} s"
        repairs.append(Repair(source, f"line {first}", "time_backwards", found, "the order of the lines is kept"))
    anchors = [ends[0] or (log.events[0] if log.events else None), ends[1]]
    timed = [event for event in anchors if event and is_time(event.time_ms)]
    odd = [event for event in timed if not EARLIEST_MS <= event.time_ms <= LATEST_MS]
    if odd:
        side = "before September 2001" if odd[0].time_ms < EARLIEST_MS else "after the year 2100"
        found = f"time_ms {odd[0].time_ms:.0f} is {side}"
        repairs.append(Repair(source, place(odd), "time_unlikely", found, "taken as milliseconds all the same"))
    return repairs


def wrong_event_types(log: Mllog, source: str) -> list[Repair]:
    """Return starts, stops and points in time logged with another event type; intervals are paired by key."""
    wrong: list[tuple[int, str]] = []
    for key, events in log.by_key.items():
        expected = _expected_type(key)
        kinds = [event.event_type for event in events]
        for kind in set(kinds) - {expected}:
            first = events[kinds.index(kind)].line
            wrong.append((first, f"{kinds.count(kind)} {key} {kind or 'without a type'}"))
    if not wrong:
        return []
    words = [said for _, said in sorted(wrong)]
    found = f"{', '.join(words[:4])}{', ...' if len(words) > 4 else ''}"
    return [Repair(source, f"line {min(wrong)[0]}", "event_type_wrong", found, "paired by key")]


def _expected_type(key: str) -> str:
    if key.endswith("_start"):
        return "INTERVAL_START"
    return "INTERVAL_END" if key.endswith("_stop") else "POINT_IN_TIME"


def repeated_settings(settings: Mapping[str, list[MllogEvent]], source: str) -> list[Repair]:
    """Return settings that are logged with different values; the first one counts."""
    repairs = []
    for key, events in settings.items():
        if len(events) < 2 or key == "seed" or any(name in events[1].details for name in SERIES):
            continue
        values = list(dict.fromkeys(shown(event.value) for event in events))
        if len(values) > 1:
            found = f"{len(values)} values in {len(events)} events: {', '.join(values[:3])}"
            repairs.append(
                Repair(source, place(events[1:]), f"{key}_differs", found, f"the first is taken: {values[0]}")
            )
    return repairs


def impossible_counts(settings: Mapping[str, object], source: str) -> list[Repair]:
    """Return numbers that cannot be counts: too large, negative, or fractional."""
    return [
        Repair(source, key, "count_impossible", shown(value), "taken as unknown")
        for key in COUNTS
        if isinstance(value := settings.get(key), int | float) and not isinstance(value, bool)
        if not (0 <= value <= LARGEST_COUNT and value == int(value))
    ]


def shown(value: object) -> str:
    """Return a logged value as text that fits a table."""
    try:
        words = repr(value)
    except (ValueError, RecursionError):  # Python refuses to format more than 4300 digits
        words = f"a {type(value).__name__} too large to be written"
    return words if len(words) <= 60 else f"{words[:57]}..."
