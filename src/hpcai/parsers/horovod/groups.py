"""Pair begin and end events of a Horovod timeline per tensor, only where the pairing is unambiguous.

Horovod's writer knows three tensor states (horovod/common/timeline.cc): a negotiation is one pair of events; an
operation is a pair around a sequence of pairs, its activities. Thus each negotiation or operation is a *group* of
events that begins with a name of that kind. A group of another shape, or with a gap in its text, is omitted as a
whole. Its neighbours stay, and a begin is never paired with the end of another.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hpcai.parsers.horovod.events import BEGIN, NO_CODE, Dictionary
from hpcai.parsers.horovod.words import Codes, Places

OPERATIONS = frozenset(
    (
        "ALLREDUCE",
        "ALLGATHER",
        "BROADCAST",
        "ALLTOALL",
        "REDUCESCATTER",
        "ADASUM",
        "BARRIER",
        "JOIN",
        "ERROR",
        "PSADD",
        "PSREMOVE",
    )
)
"""Kinds of requests and responses (horovod/common/message.h)."""
NEGOTIATION, INITIALISATION = "NEGOTIATE_", "INIT_"
WITH_RESULT = "ALLREDUCE"
"""Operations that always end with data type and shape; others may."""
_INNER, _NEGOTIATION, _OPERATION, _RESULTING = range(4)
_SMALL = 1 << 16
Flags = NDArray[np.bool_]


@dataclass
class Paired:
    """Spans, one row each, and a count of the omitted ones.

    Attributes
    ----------
    tensors, activities, results
        Tensor number; code of the name; code of the operation's result, or -1.
    starts_us, durations_us
        Microseconds on the clock of the timeline.
    has_init
        Whether the span's operation includes a first-time setup.
    begun, open, broken
        Begin events seen; those without an end when the file ended; spans in groups that violate the format.
    broken_us
        Begin and end of each such group (us), one row each.
    first_broken
        Time (us) and tensor of the first such group, or None.
    """

    tensors: Codes
    activities: Codes
    results: Codes
    starts_us: Places
    durations_us: Places
    has_init: Flags
    begun: int = 0
    open: int = 0
    broken: int = 0
    first_broken: tuple[int, int] | None = None
    broken_us: Places = field(default_factory=lambda: np.empty((0, 2), np.int64))


@dataclass
class Rows:
    """Begin and end events with the number of text gaps before each."""

    kinds: NDArray[np.uint8]
    times_us: Places
    tensors: Codes
    codes: Codes
    eras: Codes

    def take(self, index: Places | Flags) -> "Rows":
        """Return selected rows."""
        return Rows(*(column[index] for column in vars(self).values()))


class Pairing:
    """Pairs events batch by batch; each tensor's last group stays open until more events follow."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._roles = np.empty(0, np.uint8)
        self._initial = np.empty(0, np.bool_)
        self._waiting: Rows | None = None

    def add(self, rows: Rows, *, is_last: bool) -> Paired:
        """Return the spans that these rows complete.

        Parameters
        ----------
        rows
            The next begin and end events in file order.
        is_last
            Whether this is the last batch.
        """
        self._learn()
        if self._waiting is not None:
            rows = Rows(*map(np.concatenate, zip(vars(self._waiting).values(), vars(rows).values(), strict=True)))
        tensors = rows.tensors
        if len(tensors) and int(tensors.max()) < _SMALL:
            tensors = tensors.astype(np.uint16)
        rows = rows.take(np.argsort(tensors, kind="stable"))
        groups = _Groups(rows, self._roles, self._initial)
        if not is_last:
            self._waiting = rows.take(np.repeat(groups.is_last, groups.sizes))
        return groups.spans(is_last)

    def _learn(self) -> None:
        """Look up the roles of new names."""
        names = [str(name) for name in self._dictionary.names.values[len(self._roles) :]]
        self._roles = np.append(self._roles, np.array([_role(name) for name in names], np.uint8))
        initial = np.array([name.startswith(INITIALISATION) for name in names], np.bool_)
        self._initial = np.append(self._initial, initial)


def _role(name: str) -> int:
    if name.startswith(NEGOTIATION) and name.removeprefix(NEGOTIATION) in OPERATIONS:
        return _NEGOTIATION
    if name == WITH_RESULT:
        return _RESULTING
    return _OPERATION if name in OPERATIONS else _INNER


class _Groups:
    """Events sorted by tensor and cut into groups."""

    def __init__(self, rows: Rows, roles: NDArray[np.uint8], initial: Flags) -> None:
        self.rows, self._count = rows, len(rows.kinds)
        self._begins = rows.kinds == BEGIN
        if len(roles):  # an end event's code is a result; _INNER is 0
            self._roles = roles.take(rows.codes, mode="clip") * self._begins
            self._initial = initial.take(rows.codes, mode="clip") & self._begins
        else:
            self._roles, self._initial = np.zeros(self._count, np.uint8), np.zeros(self._count, np.bool_)
        heads = self._roles != _INNER
        changes = rows.tensors[1:] != rows.tensors[:-1]
        heads[1:] |= changes
        heads[:1] = True
        self.starts = np.flatnonzero(heads)
        self.sizes = np.diff(self.starts, append=self._count)
        self.is_last = np.append(rows.tensors[self.starts[1:]] != rows.tensors[self.starts[:-1]], True)[
            : len(self.starts)
        ]
        self._position = np.arange(self._count) - np.repeat(self.starts, self.sizes)

    def _any(self, flags: Flags) -> Flags:
        """Return in which groups a flag is set."""
        if not flags.any():
            return np.zeros(len(self.starts), np.bool_)
        return np.logical_or.reduceat(flags, self.starts)

    def spans(self, ends_here: bool) -> Paired:
        """Return the spans of all groups, or of all except each tensor's last."""
        rows, last = self.rows, self.starts + self.sizes - 1
        roles, results = self._roles[self.starts], rows.codes[last]
        inner_ends = (self._position & 1 == 0) & (self._position > 0)
        ends = ~self._begins
        is_open = self._begins[last] | (self.sizes & 1 == 1)
        expected = inner_ends.copy()
        expected[last[~is_open]] = True
        wrong = ends != expected
        with_result = ends & (rows.codes != NO_CODE)
        with_result[last[~is_open]] = False
        wrong |= with_result
        backwards = rows.times_us[1:] < rows.times_us[:-1]
        backwards[self.starts[1:] - 1] = False
        wrong[1:] |= backwards
        bad = self._any(wrong) | (roles == _INNER) | (rows.eras[last] != rows.eras[self.starts])
        whole = ~is_open & ~bad
        whole &= (roles != _NEGOTIATION) | ((self.sizes == 2) & (results == NO_CODE))
        whole &= (roles != _RESULTING) | (results != NO_CODE)
        unfinished = is_open & ~bad & self.is_last & ((roles != _NEGOTIATION) | (self.sizes == 1))
        results[~whole] = NO_CODE
        results[roles == _NEGOTIATION] = NO_CODE
        considered = np.ones(len(self.starts), np.bool_) if ends_here else ~self.is_last
        return self._collect(whole & considered, unfinished & considered, considered, results)

    def _collect(self, whole: Flags, unfinished: Flags, considered: Flags, results: Codes) -> Paired:
        rows = self.rows
        group = np.repeat(np.arange(len(self.starts)), self.sizes)
        last = self.starts + self.sizes - 1
        taken = np.repeat(whole, self.sizes)
        if unfinished.any():
            is_last = np.zeros(self._count, np.bool_)
            is_last[last] = True
            taken |= np.repeat(unfinished, self.sizes) & (self._position & 1 == 1) & ~is_last
        begin = np.flatnonzero(self._begins & taken)
        group = group[begin]
        end = begin + 1
        outer = begin == self.starts[group]
        end[outer] = last[group[outer]]
        begins = np.add.reduceat(self._begins, self.starts) if self._count else np.empty(0, np.int64)
        ends = self.sizes - begins
        begun, open_spans = int(begins[considered].sum()), int((begins - ends)[unfinished].sum())
        broken = np.flatnonzero(considered & ~whole & ~unfinished)
        broken_us = np.stack([rows.times_us[self.starts[broken]], rows.times_us[last[broken]]], axis=1)
        earliest = broken[np.argsort(broken_us[:, 0])[:1]]
        start = rows.times_us[begin]
        return Paired(
            tensors=rows.tensors[begin],
            activities=rows.codes[begin],
            results=results[group],
            starts_us=start,
            durations_us=rows.times_us[end] - start,
            has_init=self._any(self._initial)[group],
            begun=begun,
            open=open_spans,
            broken=begun - open_spans - len(begin),
            first_broken=next(((int(rows.times_us[i]), int(rows.tensors[i])) for i in self.starts[earliest]), None),
            broken_us=np.sort(broken_us, axis=1),
        )
