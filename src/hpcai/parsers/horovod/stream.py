"""Stream spans, ready marks and cycles from a Horovod timeline of any size, and account for missing parts."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hpcai.core.errors import ParseError
from hpcai.core.messages import Message
from hpcai.parsers.horovod.activities import KNOWN, shared_shapes
from hpcai.parsers.horovod.blocks import TOOL, check_head, read_blocks
from hpcai.parsers.horovod.events import END, MARK, READY, Dictionary, Ending, Events, Gap
from hpcai.parsers.horovod.groups import WITH_RESULT, Paired, Pairing, Rows
from hpcai.parsers.horovod.order import Ordering
from hpcai.parsers.horovod.words import Codes, Places

UNKNOWN_ACTIVITY = Message("stream.unknown_activity", "{count} spans of the unknown activity {activity}")

BATCH_EVENTS = 48 << 10
KEPT_BYTES = 16 << 20


@dataclass
class Chunk:
    """A batch of spans, with the ready marks and cycles between them.

    Attributes
    ----------
    spans
        Spans with numbers for tensors, activities and results.
    ready_tensors, ready_ranks, ready_us
        Which rank was ready with which tensor, and when.
    cycles_us
        Start times of cycles.
    doubtful_us
        Intervals with omitted events, as begin and end, one row each.
    """

    spans: Paired
    ready_tensors: Codes
    ready_ranks: Codes
    ready_us: Places
    cycles_us: Places
    doubtful_us: Places


@dataclass
class Account:
    """Facts about a timeline and its missing parts; complete when the stream has ended."""

    dictionary: Dictionary = field(default_factory=Dictionary)
    tensor_names: dict[int, str] = field(default_factory=dict)
    start_epoch_us: int | None = None
    ending: Ending = Ending.UNKNOWN
    events: int = 0
    cycles: int = 0
    begun: int = 0
    complete: int = 0
    open: int = 0
    broken: int = 0
    first_broken: tuple[int, int] | None = None
    ranks: set[int] = field(default_factory=set)
    gaps: Counter[str] = field(default_factory=Counter)
    first_gaps: dict[str, str] = field(default_factory=dict)
    used: Counter[int] = field(default_factory=Counter)
    shapes: Counter[tuple[int, int]] = field(default_factory=Counter)

    @property
    def layout(self) -> str:
        """Return ``new`` for Horovod 0.20.1 and later, whose clock starts with the run, else ``old``."""
        return "old" if self.start_epoch_us is None else "new"

    def tensor_name(self, tensor: int) -> str:
        """Return the name of a tensor, or its number if the name is lost."""
        return self.tensor_names.get(tensor, f"tensor {tensor} (name lost)")

    def activity(self, code: int) -> str:
        """Return the name of an activity."""
        return str(self.dictionary.names.values[code])

    def add_gap(self, gap: Gap) -> None:
        """Count a gap by reason and remember the first of each."""
        self.gaps[gap.reason] += 1
        where = f"{gap.place / 1e6:.6f} s" if gap.is_time else f"byte {gap.place}"
        self.first_gaps.setdefault(gap.reason, where)

    def reasons(self) -> tuple[str, ...]:
        """Return one sentence per missing or doubtful part."""
        found = [
            f"{reason}: first at {self.first_gaps[reason]}" + (f", {count} times" if count > 1 else "")
            for reason, count in self.gaps.items()
        ]
        if self.broken and self.first_broken:
            time_us, tensor = self.first_broken
            found.append(
                f"{self.broken} spans skipped because begin and end events of their operation do not fit together: "
                f"first at {time_us / 1e6:.6f} s, {self.tensor_name(tensor)}"
            )
        if self.open:
            found.append(
                f"{self.open} spans without an end skipped: the run ended, or the file was truncated, within them"
            )
        if self.layout == "new" and self.ending != Ending.CLOSED:
            found.append("the list of events is not closed: its end is missing")
        if self.layout == "old" and self.ending == Ending.CUT:
            found.append("no comma and line end follow the last event: the end of the list is missing")
        if self.ranks and self.ranks != set(range(len(self.ranks))):
            found.append(f"the ranks seen are not numbered without holes: {sorted(self.ranks)[:20]}")
        found += self._doubts()
        return tuple(found)

    def _doubts(self) -> list[str]:
        """Return signs of a changed byte, or of a newer format than this reader knows."""
        found: list[str] = [
            UNKNOWN_ACTIVITY(count=count, activity=name)
            for name, count in sorted((self.activity(code), count) for code, count in self.used.items())
            if name not in KNOWN
        ]
        lost = sorted({tensor for tensor, _ in self.shapes} - set(self.tensor_names))
        if lost:
            found.append(f"{len(lost)} tensors without a name, first number {lost[0]}")
        for tensor, code, usual in shared_shapes(self.shapes):
            result, expected = self.dictionary.results.values[code], self.dictionary.results.values[usual]
            found.append(f"{self.tensor_name(tensor)} once has the result {result}, else {expected}: a changed byte?")
        return found


def stream_timeline(path: Path, account: Account) -> Iterator[Chunk]:
    """Yield spans, ready marks and cycles of a timeline, in constant memory.

    Parameters
    ----------
    path
        The timeline.
    account
        An empty account, filled during the iteration.

    Raises
    ------
    ParseError
        If the file is no timeline, or nothing was recorded in it.
    """
    check_head(path)
    keep_freed_memory()
    ordering, pairing = Ordering(), Pairing(account.dictionary)
    batch: list[Events] = []
    for events in read_blocks(path, account.dictionary):
        batch.append(events)
        if sum(len(part.kinds) for part in batch) >= BATCH_EVENTS:
            yield _pair(batch, ordering, pairing, account, is_last=False)
            batch = []
    yield _pair(batch, ordering, pairing, account, is_last=True)
    if account.events == 0:
        raise ParseError(f"{path}: found a list without any event of one, expected {TOOL}; copy the file again")


def keep_freed_memory() -> None:
    """Make the C library reuse memory that NumPy frees instead of returning it after each array.

    glibc adapts its thresholds to the largest array freed so far: the one freed here, which is never written to.
    Without this, page faults take as long as the pairing.
    """
    np.empty(KEPT_BYTES, np.uint8)


def _pair(batch: list[Events], ordering: Ordering, pairing: Pairing, account: Account, *, is_last: bool) -> Chunk:
    """Return the spans, marks and cycles that a batch of events completes."""
    for events in batch:
        account.events += len(events.kinds) + events.metadata
        account.tensor_names.update(events.tensor_names)
        if account.start_epoch_us is None:
            account.start_epoch_us = events.start_epoch_us
        account.ending = events.ending
    ordered, eras, gaps = ordering.add(batch, is_last=is_last)
    for gap in gaps:
        account.add_gap(gap)
    rows = Rows(ordered.kinds, ordered.times_us, ordered.tensors, ordered.codes, eras)
    in_pairs = ordered.kinds <= END
    if not in_pairs.all():
        rows = rows.take(in_pairs)
    spans = pairing.add(rows, is_last=is_last)
    ready, cycles = np.flatnonzero(ordered.kinds == READY), np.flatnonzero(ordered.kinds == MARK)
    _count(spans, account)
    account.cycles += len(cycles)
    return Chunk(
        spans,
        ordered.tensors[ready],
        _ranks(ordered.codes[ready], account),
        ordered.times_us[ready],
        ordered.times_us[cycles],
        np.concatenate([spans.broken_us, np.array([gap.around_us for gap in gaps], np.int64).reshape(-1, 2)]),
    )


def _ranks(codes: Codes, account: Account) -> Codes:
    """Return the ranks that the names of ready marks denote."""
    seen, inverse = np.unique(codes, return_inverse=True)
    ranks = [int(account.activity(code)) for code in seen]
    account.ranks.update(ranks)
    return np.array(ranks, np.int32)[inverse] if len(seen) else np.empty(0, np.int32)


def _count(spans: Paired, account: Account) -> None:
    """Add a batch of spans to the account."""
    account.begun += spans.begun
    account.complete += len(spans.tensors)
    account.open += spans.open
    account.broken += spans.broken
    account.first_broken = account.first_broken or spans.first_broken
    names = account.dictionary.names.values
    used = np.bincount(spans.activities, minlength=len(names))
    account.used.update({int(code): int(used[code]) for code in np.flatnonzero(used)})
    if WITH_RESULT in names:
        rows = np.flatnonzero(spans.activities == names.index(WITH_RESULT))
        keys = (spans.tensors[rows].astype(np.int64) << 32) | spans.results[rows]
        runs = np.flatnonzero(np.diff(keys, prepend=-1))  # spans are grouped by tensor
        counts: Counter[int] = Counter()
        for key, count in zip(keys[runs].tolist(), np.diff(runs, append=len(keys)).tolist(), strict=True):
            counts[key] += count
        account.shapes.update({(key >> 32, key & 0xFFFFFFFF): counts[key] for key in sorted(counts)})
