"""Communication of data-parallel training from the spans of a Horovod timeline: phases, messages, bandwidth, ranks.

Spans are tables with ``tensor, activity, start_s, duration_s, bytes, has_init`` and, for several files, ``file``.
A fused batch repeats the same transfer in each of its tensors, a few microseconds apart. Summing these counts one
transfer many times, so transfer times are those of merged spans (profilers.md, section 6).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hpcai.metrics.profiles.spans import covered_length, group_overlapping, merge_intervals, touches

NEGOTIATION = "NEGOTIATE_"
OPERATIONS = ("ALLREDUCE", "ALLGATHER", "BROADCAST", "ALLTOALL", "REDUCESCATTER", "ADASUM", "BARRIER", "JOIN")
ALLTOALL = "ALLTOALL"
"""The operation with which ranks that share samples exchange planes and rows; nothing else in a step uses it."""
HALO = "halo exchange"
LIBRARIES = ("NCCL_", "MPI_", "GLOO_", "CCL_", "DDL_", "MLSL_")
ALLREDUCE = "_ALLREDUCE"
PHASES = ("phase", "spans", "total_s", "mean_s", "median_s", "share_ratio", "excluded_spans")
MESSAGES = ("activity", "start_s", "bytes", "tensors", "duration_s", "algorithm_bandwidth_bytes_per_s")
CLASS_GAP = 10.0
"""Neighbouring sizes more than this factor apart separate a run's messages into classes: gradients are kilo- to
megabytes, and the step's other exchanges (losses, counts, statistics of a layer) are far smaller."""
_MICROSECONDS = 1e6
_NAN = math.nan
_NOTHING = pd.Series([], index=np.array([], np.int64), dtype=np.int64)
Flags = NDArray[np.bool_]
Intervals = NDArray[np.float64]
Key = tuple[str, int]
Pieces = dict[Key, list[Intervals]]


def is_negotiation(activities: pd.Series) -> Flags:
    """Return which spans are negotiations: from the first rank's request until all ranks are ready."""
    return _matches(activities, lambda name: name.startswith(NEGOTIATION))


def is_operation(activities: pd.Series) -> Flags:
    """Return which spans are operations as a whole."""
    return _matches(activities, OPERATIONS.__contains__)


def is_halo(activities: pd.Series) -> Flags:
    """Return which spans are halo exchanges of ranks that share samples, or negotiations of these."""
    return _matches(activities, lambda name: name.removeprefix(NEGOTIATION) == ALLTOALL)


def is_allreduce_transfer(activities: pd.Series) -> Flags:
    """Return which spans are allreduces by a communication library.

    With hierarchical Horovod, that is only the part between the nodes.
    """
    return _matches(activities, lambda name: name.startswith(LIBRARIES) and name.endswith(ALLREDUCE))


def _matches(activities: pd.Series, test: Callable[[str], bool]) -> Flags:
    """Return the spans whose name passes a test; each name is tested once."""
    codes, names = pd.factorize(activities)
    return np.array([test(str(name)) for name in names], np.bool_)[codes]


class Totals:
    """Accumulates phases and messages of a timeline read in pieces: a histogram of durations, and the messages."""

    def __init__(self) -> None:
        self._durations: dict[str, pd.Series] = {}
        self._excluded: dict[str, pd.Series] = {}
        self._messages: Pieces = {}

    def add(self, spans: pd.DataFrame) -> None:
        """Add a piece of the spans, in any order."""
        codes, names = pd.factorize(spans["activity"])
        microseconds = np.rint(spans["duration_s"].to_numpy(float) * _MICROSECONDS).astype(np.int64)
        initial = spans["has_init"].to_numpy(bool)
        for code, name in enumerate(names):
            for store, rows in ((self._durations, ~initial), (self._excluded, initial)):
                values, counts = np.unique(microseconds[(codes == code) & rows], return_counts=True)
                found = pd.Series(counts, index=values, dtype=np.int64)
                store[str(name)] = store.get(str(name), _NOTHING).add(found, fill_value=0).astype(np.int64)
        for key, members in _members(spans).items():
            self._messages.setdefault(key, []).append(_merge(members))

    def phases(self) -> pd.DataFrame:
        """Return the phases, as `phase_table` does."""
        rows = [self._phase(name) for name in sorted(self._durations)]
        table = pd.DataFrame(rows, columns=[*PHASES[:5], "steady_s", "excluded_spans"])
        whole = is_negotiation(table["phase"]) | is_operation(table["phase"])
        communication_s = float(table.loc[whole, "steady_s"].sum())
        table["share_ratio"] = table["steady_s"] / communication_s if communication_s > 0 else _NAN
        return table[[*PHASES]]

    def _phase(self, name: str) -> tuple[object, ...]:
        steady, excluded = self._durations[name], self._excluded[name]
        count, left_out = int(steady.sum()), int(excluded.sum())
        steady_s = float((steady.index.to_numpy() * steady.to_numpy()).sum()) / _MICROSECONDS
        total_s = steady_s + float((excluded.index.to_numpy() * excluded.to_numpy()).sum()) / _MICROSECONDS
        mean_s = steady_s / count if count else _NAN
        return name, count + left_out, total_s, mean_s, _median(steady) / _MICROSECONDS, steady_s, left_out

    def messages(self, doubtful: pd.DataFrame | None = None) -> pd.DataFrame:
        """Return the messages, as `merge_batches` does."""
        for parts in self._messages.values():
            parts[:] = [_merge(np.concatenate(parts, axis=1))]  # frees the pieces before the table is built
        return _rate({key: parts[0] for key, parts in self._messages.items()}, doubtful)


def _median(counts: pd.Series) -> float:
    """Return the median of values in ascending order with their numbers of occurrence; NaN if there are none."""
    until = np.cumsum(counts.to_numpy())
    if not len(until):
        return _NAN
    middle = [np.searchsorted(until, (until[-1] - 1 + half) // 2, side="right") for half in (0, 1)]
    return float(counts.index.to_numpy()[middle].mean())


def phase_table(spans: pd.DataFrame) -> pd.DataFrame:
    """Return the duration of each phase.

    Columns: ``phase, spans, total_s`` (all spans), ``mean_s, median_s, share_ratio`` (without first-time set-up
    operations, INIT_*), ``excluded_spans``. Shares are relative to the sum of all negotiations and operations, as in
    HPC AI500 V2.0, Table 12; a phase within an operation has its share of the same sum.

    Parameters
    ----------
    spans
        Spans of a timeline.
    """
    totals = Totals()
    totals.add(spans)
    return totals.phases()


def negotiation_share(phases: pd.DataFrame) -> float:
    """Return the share of negotiation in negotiation plus operations; NaN without either (HPC AI500 V2.0, Table 12).

    Parameters
    ----------
    phases
        As `phase_table` returns them.
    """
    share = phases.loc[is_negotiation(phases["phase"]), "share_ratio"]
    return float(share.sum()) if len(share) else _NAN


def share_of(part_s: float, whole_s: float) -> float:
    """Return a part over its whole; NaN if the whole is zero [s]."""
    return part_s / whole_s if whole_s > 0 else _NAN


def merge_batches(spans: pd.DataFrame, doubtful: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the messages on the network: transfers of allreduces, each fused batch once.

    Columns: ``activity, start_s, bytes`` (of all tensors), ``tensors, duration_s, algorithm_bandwidth_bytes_per_s``.
    Bytes are NaN where a tensor of the batch is incomplete or may be missing.

    Parameters
    ----------
    spans
        Spans of a timeline.
    doubtful
        ``start_s, end_s`` of intervals in which spans were left out, or None.
    """
    return _rate({key: _merge(members) for key, members in _members(spans).items()}, doubtful)


def _members(spans: pd.DataFrame) -> dict[Key, Intervals]:
    """Return the transfers of allreduces by activity and file.

    Begin and end are whole microseconds, so touching is not overlapping; then bytes and number of tensors.
    """
    moved = spans[is_allreduce_transfer(spans["activity"])]
    start = np.rint(moved["start_s"].to_numpy(float) * _MICROSECONDS)
    end = start + np.rint(moved["duration_s"].to_numpy(float) * _MICROSECONDS)
    rows = np.stack([start, end, moved["bytes"].to_numpy(float), np.ones(len(moved))])
    codes, names = pd.factorize(moved["activity"])
    files = moved["file"].to_numpy(int) if "file" in moved else np.zeros(len(moved), int)
    keys = [(code, file) for code in range(len(names)) for file in np.unique(files)]
    return {(str(names[code]), int(file)): rows[:, (codes == code) & (files == file)] for code, file in keys}


def _merge(members: Intervals) -> Intervals:
    """Return the unions of overlapping intervals; merging is associative, so pieces may be merged in steps."""
    rows = members[:, np.argsort(members[0], kind="stable")]
    first = np.flatnonzero(np.diff(group_overlapping(rows[0], rows[1]), prepend=-1))
    if not len(first):
        return rows
    ends = np.maximum.reduceat(rows[1], first)
    return np.stack([rows[0, first], ends, *np.add.reduceat(rows[2:], first, axis=1)])


def _rate(merged: dict[Key, Intervals], doubtful: pd.DataFrame | None) -> pd.DataFrame:
    """Return merged messages as a table with their rates."""
    tables = [_message_table(activity, rows, doubtful) for (activity, _), rows in merged.items()]
    if len(tables) < 2:  # a single table is already sorted, and may be too large to copy
        return tables[0] if tables else _message_table("", np.empty((4, 0)), None)
    return pd.concat(tables).sort_values(["start_s", "activity"], kind="stable", ignore_index=True)


def _message_table(activity: str, rows: Intervals, doubtful: pd.DataFrame | None) -> pd.DataFrame:
    start_s, end_s, duration_s = rows[0] / _MICROSECONDS, rows[1] / _MICROSECONDS, (rows[1] - rows[0]) / _MICROSECONDS
    size = np.where(touches(start_s, end_s, doubtful), _NAN, rows[2])
    rate = np.divide(size, duration_s, out=np.full(len(size), _NAN), where=duration_s > 0)
    columns = (activity, start_s, size, rows[3].astype(np.int64), duration_s, rate)
    return pd.DataFrame(dict(zip(MESSAGES, columns, strict=True)), copy=False)


def size_classes(messages: pd.DataFrame) -> NDArray[np.int64]:
    """Return the size class of each message, from 0 for the smallest; -1 if the size is unknown.

    Sorted by size, a message more than `CLASS_GAP` times as large as the one before starts a new class.

    Parameters
    ----------
    messages
        As `merge_batches` returns them.
    """
    sizes = messages["bytes"].to_numpy(float)
    known = np.unique(sizes[sizes > 0])
    firsts = known[1:][known[1:] > CLASS_GAP * known[:-1]]
    return np.where(np.isnan(sizes), -1, np.searchsorted(firsts, sizes, side="right"))


def main_messages(messages: pd.DataFrame) -> Flags:
    """Return the messages of the main exchange: those of the size class that moves the most bytes.

    The time of a message of a few bytes is a round trip or waiting time, which does not measure a bandwidth.

    Parameters
    ----------
    messages
        As `merge_batches` returns them.
    """
    classes = size_classes(messages)
    moved = messages["bytes"].groupby(classes).sum().drop(-1, errors="ignore")
    none: Flags = np.zeros(len(messages), np.bool_)
    return classes == moved.idxmax() if len(moved) else none


def algorithm_bandwidth(messages: pd.DataFrame) -> float:
    """Return bytes of messages over their time [byte/s]; NaN without a message of known size.

    Total over total, not the mean of the messages' rates: they should be of one class of size, see `main_messages`.

    Parameters
    ----------
    messages
        As `merge_batches` returns them.
    """
    known = messages.dropna(subset=["bytes"])
    return share_of(float(known["bytes"].sum()), float(known["duration_s"].sum())) if len(known) else _NAN


def bus_bandwidth(algorithm_bandwidth_bytes_per_s: float, ranks: int) -> float:
    """Return the traffic of each link in an allreduce, 2(n-1)/n of the algorithm bandwidth [byte/s].

    The definition of nccl-tests (doc/PERFORMANCE.md), comparable with a link's rate for any number of ranks; NaN for
    one rank, which exchanges nothing.

    Parameters
    ----------
    algorithm_bandwidth_bytes_per_s
        Bytes of the buffer over the time of the allreduce.
    ranks
        n.
    """
    return algorithm_bandwidth_bytes_per_s * 2 * (ranks - 1) / ranks if ranks > 1 else _NAN


def cycle_time(cycles: pd.DataFrame) -> float:
    """Return the median time between Horovod's cycles [s]; NaN if the cycles were not marked.

    Parameters
    ----------
    cycles
        ``time_s``.
    """
    gaps = np.diff(np.sort(cycles["time_s"].to_numpy(float)))
    return float(np.median(gaps)) if len(gaps) else _NAN


def overlap_ratio(transfers: pd.DataFrame, computation: pd.DataFrame | None) -> float:
    """Return the share of transfer time overlapped by computation; NaN if either was not measured.

    Parameters
    ----------
    transfers, computation
        ``start_s, duration_s`` on the same clock, in any order; each is merged first.
    """
    if computation is None or computation.empty or transfers.empty:
        return _NAN
    start, end = _intervals(transfers)
    merged_start, merged_end = merge_intervals(start, end)
    length_s = float((merged_end - merged_start).sum())
    return share_of(covered_length(start, end, *_intervals(computation)), length_s)


def _intervals(table: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    start = table["start_s"].to_numpy(float)
    return start, start + table["duration_s"].to_numpy(float)


@dataclass(frozen=True)
class Conditions:
    """Facts about a profiled run besides its timeline.

    Attributes
    ----------
    ranks
        Ranks of the run.
    windows
        ``start_s, duration_s`` of its steps on the timeline's clock; None to find them in the timeline.
    computation
        ``start_s, duration_s`` of computation on that clock, or None if it was not measured.
    doubtful
        Intervals in which spans were left out, or None.
    coverage_ratio, reasons
        From the reading of the timeline.
    """

    ranks: int
    windows: pd.DataFrame | None = None
    computation: pd.DataFrame | None = None
    doubtful: pd.DataFrame | None = None
    coverage_ratio: float = 1.0
    reasons: Sequence[str] = field(default_factory=tuple)
