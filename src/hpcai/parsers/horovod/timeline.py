"""Horovod timelines as tables of spans, ready marks and cycles: in memory, streamed, or spilled to Parquet.

Format: profilers.md, section 6; horovod/common/timeline.cc. Files of the old layout (up to Horovod 0.20.0) have no end
mark, so a cut after an event stays undetected; in the new layout an unclosed list is reported. Detected and omitted:
text that is not an event, events out of time order, and operations whose begin and end events do not match. Undetected:
a changed byte that leaves a valid file, such as the last digits of a time, a tensor name, a rank below the number of
ranks, or the shape of a tensor reduced fewer than four times.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hpcai.core.errors import ParseError
from hpcai.parsers.horovod.activities import result_bytes
from hpcai.parsers.horovod.blocks import TOOL
from hpcai.parsers.horovod.events import Ending
from hpcai.parsers.horovod.groups import Paired
from hpcai.parsers.horovod.stream import Account, Chunk, stream_timeline
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Fact, Reading

_MICROSECONDS = 1e6


@dataclass(frozen=True)
class Timeline:
    """Tables of one timeline, or of several of one job.

    Attributes
    ----------
    spans
        ``tensor, activity, start_s, duration_s, bytes, has_init``; bytes of the operation's result, NaN if the
        operation does not record it (negotiations, broadcasts). With several files also ``file``.
    ready
        ``tensor, rank, time_s``: when a rank was ready with a tensor, only for its first negotiations.
    cycles
        ``time_s``: start of Horovod's cycles, empty unless they were marked.
    doubtful
        ``start_s, end_s``: intervals with omitted events; a fused batch there may lack tensors.
    """

    spans: Reading
    ready: pd.DataFrame
    cycles: pd.DataFrame
    doubtful: pd.DataFrame


def read_timeline(path: Path) -> Reading:
    """Return the spans of a Horovod timeline; takes about 60 bytes of memory per span.

    Parameters
    ----------
    path
        The file named by `HOROVOD_TIMELINE`; complete, unclosed, truncated or damaged.

    Raises
    ------
    ParseError
        If the file is not a timeline, or nothing was recorded in it.
    """
    return read_timeline_tables(path).spans


def read_timeline_tables(path: Path) -> Timeline:
    """Return spans, ready marks and cycles of a Horovod timeline; see `read_timeline`."""
    account = Account()
    chunk = _join(list(stream_timeline(path, account)))
    spans = span_table(chunk, account)
    order = np.argsort(chunk.spans.starts_us, kind="stable")
    spans = spans.iloc[order].reset_index(drop=True)
    return Timeline(
        reading_of(path, account, spans), ready_table(chunk, account), cycle_table(chunk), doubt_table(chunk)
    )


def _join(chunks: list[Chunk]) -> Chunk:
    """Join the chunks of a stream."""
    parts = [chunk.spans for chunk in chunks]
    columns = ("tensors", "activities", "results", "starts_us", "durations_us", "has_init")
    spans = Paired(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))
    others = ("ready_tensors", "ready_ranks", "ready_us", "cycles_us", "doubtful_us")
    return Chunk(spans, *(np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in others))


def read_timelines(paths: Sequence[Path]) -> Timeline:
    """Return the timelines of one job together, for example one file per rank or per restart.

    Times are moved to the clock of the earliest file. This needs the epoch of each start, which the old layout lacks:
    then every file keeps its own clock, and a reason reports it. Column ``file`` is the index in ``paths``.

    Parameters
    ----------
    paths
        At least one timeline.

    Raises
    ------
    ParseError
        If one of them is not a timeline, or nothing was recorded in it.
    """
    read = [read_timeline_tables(path) for path in paths]
    epochs = [timeline.spans.facts["start_epoch_us"] for timeline in read]
    known = [epoch for epoch in epochs if isinstance(epoch, int)]
    aligned = len(known) == len(read)
    moved = [
        _move(timeline, number, (epoch - min(known)) / _MICROSECONDS if aligned and isinstance(epoch, int) else 0.0)
        for number, (timeline, epoch) in enumerate(zip(read, epochs, strict=True))
    ]
    spans, ready, cycles, doubtful = (pd.concat(tables, ignore_index=True) for tables in zip(*moved, strict=True))
    reasons = [f"{part.spans.source.name}: {reason}" for part in read for reason in part.spans.reasons]
    if not aligned:
        reasons.append("the files lack their start times: each keeps its own clock")
    facts: dict[str, Fact] = {**read[0].spans.facts, "files": len(read)}
    for name in ("events", "tensors"):
        facts[name] = sum(int(part.spans.facts[name] or 0) for part in read)
    facts["ranks"] = max((int(part.spans.facts["ranks"] or 0) for part in read), default=0) or None
    facts["start_epoch_us"] = min(known) if aligned else None
    reading = replace(
        read[0].spans,
        table=spans,
        complete_records=sum(part.spans.complete_records for part in read),
        seen_records=sum(part.spans.seen_records for part in read),
        reasons=tuple(reasons),
        facts=facts,
    )
    return Timeline(reading, ready, cycles, doubtful)


def _move(timeline: Timeline, file: int, shift_s: float) -> tuple[pd.DataFrame, ...]:
    """Return the tables of one file on another clock, with the file number."""
    spans, ready, cycles = timeline.spans.table, timeline.ready, timeline.cycles
    return (
        spans.assign(start_s=spans["start_s"] + shift_s, file=file),
        ready.assign(time_s=ready["time_s"] + shift_s, file=file),
        cycles.assign(time_s=cycles["time_s"] + shift_s, file=file),
        (timeline.doubtful + shift_s).assign(file=file),
    )


def iterate_tables(path: Path, account: Account) -> Iterator[Timeline]:
    """Yield a timeline of any size as tables, piece by piece; each reading covers its piece.

    Pass the spans to `hpcai.metrics.profiles.communication.Totals`, which needs only one piece at a time.

    Parameters
    ----------
    path
        The timeline.
    account
        An empty account; after the iteration `reading_of` derives the missing parts from it.

    Raises
    ------
    ParseError
        If the file is not a timeline, or nothing was recorded in it.
    """
    for chunk in stream_timeline(path, account):
        spans = span_table(chunk, account)
        piece = Reading(spans, TOOL, path, len(spans), chunk.spans.begun)
        yield Timeline(piece, ready_table(chunk, account), cycle_table(chunk), doubt_table(chunk))


def reading_of(path: Path, account: Account, table: pd.DataFrame) -> Reading:
    """Return the reading of a timeline whose stream has ended."""
    return Reading(
        table=table,
        tool=TOOL.removeprefix("a "),
        source=path,
        complete_records=account.complete,
        seen_records=account.begun,
        reasons=account.reasons(),
        facts=facts_of(account),
    )


def facts_of(account: Account) -> dict[str, Fact]:
    """Return the facts about a timeline."""
    return {
        "ranks": len(account.ranks) or None,
        "start_epoch_us": account.start_epoch_us,
        "events": account.events,
        "tensors": len(account.tensor_names),
        "layout": account.layout,
        "marks_cycles": account.cycles > 0,
        "closed": account.ending == Ending.CLOSED,
    }


def span_table(chunk: Chunk, account: Account) -> pd.DataFrame:
    """Return the spans of one piece of a timeline."""
    spans = chunk.spans
    sizes = np.array([*map(result_bytes, account.dictionary.results.values), np.nan])
    return pd.DataFrame(
        {
            "tensor": _named(spans.tensors, [account.tensor_name(int(n)) for n in np.unique(spans.tensors)]),
            "activity": _named(spans.activities, [account.activity(int(n)) for n in np.unique(spans.activities)]),
            "start_s": spans.starts_us / _MICROSECONDS,
            "duration_s": spans.durations_us / _MICROSECONDS,
            "bytes": sizes[spans.results],
            "has_init": spans.has_init,
        }
    )


def ready_table(chunk: Chunk, account: Account) -> pd.DataFrame:
    """Return when ranks were ready, for one piece of a timeline."""
    names = [account.tensor_name(int(n)) for n in np.unique(chunk.ready_tensors)]
    return pd.DataFrame(
        {
            "tensor": _named(chunk.ready_tensors, names).astype(object),
            "rank": chunk.ready_ranks,
            "time_s": chunk.ready_us / _MICROSECONDS,
        }
    )


def cycle_table(chunk: Chunk) -> pd.DataFrame:
    """Return when cycles began, for one piece of a timeline."""
    return pd.DataFrame({"time_s": chunk.cycles_us / _MICROSECONDS})


def doubt_table(chunk: Chunk) -> pd.DataFrame:
    """Return the intervals with omitted events, for one piece of a timeline."""
    return pd.DataFrame(chunk.doubtful_us / _MICROSECONDS, columns=["start_s", "end_s"])


def _named(numbers: NDArray[np.int32], names: list[str]) -> pd.Series:
    """Return names for numbers; two numbers may share a name."""
    codes = np.unique(numbers, return_inverse=True)[1]
    categories = sorted(set(names))
    place = {name: code for code, name in enumerate(categories)}
    recoded = np.array([place[name] for name in names], np.int32)[codes] if names else codes
    return pd.Series(pd.Categorical.from_codes(recoded.tolist(), categories=pd.Index(categories, dtype=object)))


def _read_job(paths: Sequence[Path], data_root: str | None) -> Reading:
    if data_root is not None:
        raise ParseError(f"{paths[0]}: found a folder of data, {data_root}, but a timeline holds no file accesses")
    return read_timelines(paths).spans


READER = Reader(
    "horovod-timeline",
    "timeline of Horovod, or those of one job",
    read_timeline,
    looks=("a Chrome trace (Horovod timeline)",),
    alone=True,
    read_job=_read_job,
    ending="timeline.json",
)
