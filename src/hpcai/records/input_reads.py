"""Where a run's input came from: bytes fetched from storage against the bytes that staging and epochs hold.

Each rank reads the kernel's counters of its own process (proc(5), /proc/pid/io) before and after staging and at the end
of every epoch. ``read_bytes`` is what the process caused to be fetched from storage; ``rchar`` is what its read calls
returned, from whatever cache. A dataset that fits into memory is fetched once, and then not at all: a run that looks
like a test of storage is then one of memory.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hpcai.records.input_window import ReadCounters

LEAST_RATIO = 0.5
"""Least part of the bytes that comes from storage where storage is said to have served them."""
COUNTED = frozenset("btrfs cifs ext2 ext3 ext4 f2fs nfs nfs4 overlay xfs".split())  # noqa: SIM905  a list of words
"""File systems whose reads the kernel counts for the reading process. Of others, few bytes prove nothing."""
IN_MEMORY = frozenset({"tmpfs", "ramfs", "hugetlbfs"})
Source = Literal["", "storage", "a cache", "storage, then a cache", "a cache, then storage", "memory"]
"""Blank: not known."""


class RankReads(BaseModel):
    """What one rank's process fetched from storage, and read; None: the kernel does not tell."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    staging_bytes: int | None = Field(default=None, description="From storage, while staging.")
    first_epoch_bytes: int | None = Field(default=None, description="From storage: first epoch, with its evaluation.")
    later_epochs_bytes: int | None = Field(default=None, description="From storage: all later epochs; 0 without any.")
    called_bytes: int | None = Field(default=None, description="By read calls, in all epochs, from caches as well.")


class InputSizes(BaseModel):
    """What one pass over the input reads, over all ranks, and where it lies."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    train_bytes: int = Field(ge=0, description="Files of the training samples, as the ranks read them.")
    evaluation_bytes: int = Field(ge=0)
    file_system: str = Field(description="Type of the file system that the epochs read from; blank: not known.")
    staging_file_system: str = Field(default="", description="The same of what staging reads; blank: nothing staged.")


class ReadLog:
    """The counters of this process before and after staging, and after each epoch."""

    def __init__(self) -> None:
        self._marks: list[ReadCounters] = []

    def mark(self) -> None:
        """Read the counters now."""
        self._marks.append(ReadCounters.of_this_process())

    @property
    def reads(self) -> RankReads:
        """What was read between the marks, of which there are at least three."""
        start, staged, first, *later = self._marks
        last = later[-1] if later else first
        return RankReads(
            staging_bytes=_grown(start.storage_bytes, staged.storage_bytes),
            first_epoch_bytes=_grown(staged.storage_bytes, first.storage_bytes),
            later_epochs_bytes=_grown(first.storage_bytes, last.storage_bytes),
            called_bytes=_grown(staged.read_bytes, last.read_bytes),
        )


def _grown(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


@dataclass(frozen=True)
class InputSource:
    """Ratios of bytes to what staging and epochs hold, NaN where not known, and what follows from them."""

    input_from: Source = ""
    input_first_ratio: float = math.nan
    input_later_ratio: float = math.nan
    input_calls_ratio: float = math.nan
    staging_from: Source = ""
    staging_storage_ratio: float = math.nan

    @property
    def is_cached(self) -> bool:
        """Whether what should test storage did not: the staging, or without staging any of the epochs."""
        told = self.staging_from or self.input_from
        return told not in ("", "storage")


@dataclass(frozen=True)
class Epoch:
    """Samples of one epoch of all ranks, and whether it was evaluated."""

    samples: int
    evaluated: bool


@dataclass(frozen=True)
class Passes:
    """What a run read in which epochs: the epochs, all training samples, and the bytes staged by all ranks."""

    epochs: Sequence[Epoch]
    train_samples: int
    staged_bytes: int


def judge_json(record: Mapping[str, Any]) -> InputSource:
    """Return where the input of a run came from, given its record as plain values; all unknown if it does not say."""
    training = record.get("training") or {}
    try:
        sizes = InputSizes.model_validate(training["input"])
        reads = [RankReads.model_validate(rank["reads"]) for rank in record["ranks"]]
        epochs = [Epoch(one["samples"], one["evaluation_s"] is not None) for one in training["epochs"]]
        samples = int(record["plan"]["benchmark"]["data"]["train_samples"])
        staged_bytes = int(training["staging"]["packed_bytes"])
    except (KeyError, TypeError, ValidationError):  # of an earlier version, or of a run that failed
        return InputSource()
    return judge_input(sizes, reads, Passes(epochs, samples, staged_bytes))


def judge_input(sizes: InputSizes, reads: Sequence[RankReads], passes: Passes) -> InputSource:
    """Return where the input of a run came from.

    Parameters
    ----------
    sizes
        Bytes of one pass, and where they lie.
    reads
        Of all ranks.
    passes
        What was read how often. An epoch may leave out samples that fill no batch.
    """
    epochs_bytes = [
        sizes.train_bytes * one.samples / passes.train_samples + sizes.evaluation_bytes * one.evaluated
        for one in passes.epochs
    ]
    first = _ratio((one.first_epoch_bytes for one in reads), math.fsum(epochs_bytes[:1]))
    later = _ratio((one.later_epochs_bytes for one in reads), math.fsum(epochs_bytes[1:]))
    staging = _ratio((one.staging_bytes for one in reads), passes.staged_bytes)
    return InputSource(
        input_from=_source(sizes.file_system, first, later),
        input_first_ratio=first,
        input_later_ratio=later,
        input_calls_ratio=_ratio((one.called_bytes for one in reads), math.fsum(epochs_bytes)),
        staging_from=_source(sizes.staging_file_system, staging, math.nan) if passes.staged_bytes else "",
        staging_storage_ratio=staging,
    )


def _ratio(parts: Iterable[int | None], whole_bytes: float) -> float:
    """Return the part of bytes that ranks fetched; NaN if one does not know, or nothing was to be read."""
    known = list(parts)
    if not known or None in known or not whole_bytes > 0:
        return math.nan
    return sum(one for one in known if one is not None) / whole_bytes


def _source(file_system: str, first: float, later: float) -> Source:
    if file_system in IN_MEMORY:
        return "memory"
    ratios = [ratio for ratio in (first, later) if not math.isnan(ratio)]
    from_storage = [ratio >= LEAST_RATIO for ratio in ratios]
    if not ratios or (file_system not in COUNTED and not all(from_storage)):
        return ""
    if len(set(from_storage)) == 1:
        return "storage" if from_storage[0] else "a cache"
    return "storage, then a cache" if from_storage[0] else "a cache, then storage"
