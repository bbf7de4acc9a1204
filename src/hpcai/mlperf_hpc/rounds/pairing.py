"""Pair the starts and stops of a log by key and by the numbers in their metadata."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from hpcai.mlperf_hpc.rounds.model import Repair, Span
from hpcai.parsers.mllog import MllogEvent

LARGEST = 10**300
"""Larger integers, which JSON allows, do not fit a float."""
Label = tuple[float | None, float | None]


@dataclass
class Pairing:
    """The intervals of one name with their start events, and the events without a partner."""

    name: str
    spans: list[Span] = field(default_factory=list)
    starts: list[MllogEvent] = field(default_factory=list)
    unstopped: list[MllogEvent] = field(default_factory=list)
    unstarted: list[MllogEvent] = field(default_factory=list)
    unlike: list[MllogEvent] = field(default_factory=list)
    backwards: list[MllogEvent] = field(default_factory=list)
    unnumbered: int = 0

    def repairs(self, source: str) -> list[Repair]:
        """Return the irregularities, one entry per kind."""
        name = self.name
        kinds = (
            (f"{name}_without_stop", self.unstopped, "left out"),
            (f"{name}_without_start", self.unstarted, "left out"),
            (f"{name}_numbers_differ", self.unlike, "start and next stop paired all the same"),
            (f"{name}_stops_before_start", self.backwards, "left out"),
        )
        rows = [
            Repair(source, place(events), kind, f"{len(events)} {events[0].key}", done)
            for kind, events, done in kinds
            if events
        ]
        if self.unnumbered and name != "staging":
            found = f"no number as epoch_num in {self.unnumbered} of {2 * len(self.spans)} events"
            rows.append(Repair(source, f"{name}_start", f"{name}_without_number", found, "paired by their order"))
        return rows


def pair(name: str, events: Sequence[MllogEvent]) -> Pairing:
    """Pair the starts and stops of one name, in the order of the log; ``event_type`` is ignored.

    A stop belongs to the open start with the same epoch_num and step_num, else with the same epoch_num, else to the
    start directly before it. A repeated start before its stop replaces the first one. Intervals with different numbers
    may overlap, as those of asynchronous evaluations do.
    """
    pairing = Pairing(name)
    start_key = f"{name}_start"
    waiting: dict[Label, MllogEvent] = {}
    last: Label | None = None  # of the previous start, while it is open
    for event in events:
        label = label_of(event)
        if event.key == start_key:
            if label in waiting:
                pairing.unstopped.append(waiting.pop(label))
            waiting[label] = event
            last = label
            continue
        match = _match(label, waiting, last)
        if match is None:
            pairing.unstarted.append(event)
        else:
            _close(pairing, waiting.pop(match), event, match, label)
        last = None
    pairing.unstopped += waiting.values()
    return pairing


def _match(label: Label, waiting: dict[Label, MllogEvent], last: Label | None) -> Label | None:
    if label in waiting:
        return label
    alike = [other for other in waiting if other[0] == label[0] and label[0] is not None]
    return alike[-1] if alike else last


def _close(pairing: Pairing, start: MllogEvent, stop: MllogEvent, began: Label, ended: Label) -> None:
    if stop.time_ms < start.time_ms:
        pairing.backwards.append(start)
        return
    epoch, (ended_epoch, steps) = began[0], ended
    if epoch is None or ended_epoch is None:
        pairing.unnumbered += (epoch is None) + (ended_epoch is None)
    elif epoch != ended_epoch:
        pairing.unlike.append(start)
    pairing.starts.append(start)
    pairing.spans.append(Span(start.time_ms, stop.time_ms, ended_epoch if epoch is None else epoch, steps))


def label_of(event: MllogEvent) -> Label:
    """Return the epoch_num (first_epoch_num for a block) and step_num of an event; None without a number."""
    details = event.metadata
    if not isinstance(details, dict):
        return None, None
    epoch = details["epoch_num"] if "epoch_num" in details else details.get("first_epoch_num")
    step = details.get("step_num")
    return None if epoch is None else number_in(epoch), None if step is None else number_in(step)


def number_in(value: object) -> float | None:
    """Return a finite number; None for anything else."""
    if type(value) is float:
        return value if math.isfinite(value) else None
    if type(value) is not int:
        return None
    return float(value) if abs(value) < LARGEST else None


def place(events: Sequence[MllogEvent]) -> str:
    """Return the place of the first of some events."""
    return f"line {events[0].line}"


def overlapping(spans: Sequence[Span]) -> int:
    """Return how many intervals begin before an earlier one has ended."""
    count, end = 0, -math.inf
    for start_ms, stop_ms, *_ in sorted(spans, key=attrgetter("start_ms")):
        if start_ms < end:
            count += 1
        end = max(end, stop_ms)
    return count


def outside(spans: Sequence[Span], around: Sequence[Span]) -> int:
    """Return how many intervals are not inside one of the others; both lists in order of time."""
    count, index = 0, 0
    for span in spans:
        while index < len(around) and around[index].stop_ms < span.stop_ms:
            index += 1
        count += index == len(around) or span.start_ms < around[index].start_ms
    return count
