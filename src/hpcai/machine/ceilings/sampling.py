"""Ceilings from samples: the timed repetitions, the best of them, and reasons for missing ones."""

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from hpcai.core.disturbance import Disturbance

Kind = Literal["gemm", "convolution", "memory", "storage_read", "storage_write"]
Precision = Literal["fp64", "fp32", "tf32", "bf16", "fp16", ""]
"""Machine file precisions, double precision for HPL, and TF32, used by accelerators for fp32; blank: no arithmetic."""
PageCache = Literal["cold", "warm", "unknown", ""]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Sample(_Part):
    """One timed repetition of one method."""

    kind: Kind
    precision: Precision = ""
    backend: str = Field(description="Library that did the work, or method of reading.")
    place: str = Field(default="", description="Storage location; blank for all other kinds.")
    setting: str = Field(description="Shape or size of the work, for people.")
    threads: int = Field(ge=1, description="Cores used, or streams of storage.")
    work: float = Field(gt=0, description="Operations [FLOP], or bytes moved, as `unit` says.")
    unit: Literal["FLOP/s", "B/s"]
    duration_s: float = Field(gt=0)
    page_cache: PageCache = Field(default="", description="Reads only: cold if the kernel counted the data as fetched.")

    @property
    def value(self) -> float:
        """The rate: work / duration_s [unit]."""
        return self.work / self.duration_s

    @property
    def counts(self) -> bool:
        """Whether the sample measures its kind: a read from the page cache is not a storage rate."""
        return self.page_cache in {"", "cold"}

    @property
    def way(self) -> tuple[str, ...]:
        """Key shared by all repetitions of one method."""
        return (self.kind, self.precision, self.place, f"{self.threads:09}", self.backend, self.setting)


class NotMeasured(_Part):
    """Something without a number, and the reason."""

    kind: Kind
    precision: Precision = ""
    backend: str = ""
    place: str = ""
    setting: str = ""
    threads: int | None = None
    reason: str = Field(min_length=1)


class Summary(_Part):
    """The repetitions of one method."""

    kind: Kind
    precision: Precision
    backend: str
    place: str
    setting: str
    threads: int
    unit: Literal["FLOP/s", "B/s"]
    n: int = Field(ge=1, description="Repetitions, without the first call, which is a warm-up.")
    best: float = Field(gt=0)
    median: float = Field(gt=0)
    spread_ratio: float | None = Field(ge=0, description="(fastest - slowest) / median; None for one repetition.")
    agreement_ratio: float | None = Field(
        default=None, ge=0, description="1 - second fastest / fastest: how far the best two are apart; None for one."
    )
    ways: int = Field(default=1, ge=1, description="Ways that the best was chosen from.")


class CeilingReport(_Part):
    """All samples of one measurement, a summary per method, the best ones, and reasons for missing ones."""

    best: tuple[Summary, ...] = Field(description="The fastest way for each kind, precision, place and threads.")
    summaries: tuple[Summary, ...]
    not_measured: tuple[NotMeasured, ...]
    samples: tuple[Sample, ...]
    disturbance: tuple[Disturbance, ...] = Field(default=(), description="What others took of the node meanwhile.")


@dataclass(frozen=True)
class Way:
    """One method to do some work.

    Attributes
    ----------
    run
        Does the work once; returns when it is done or, on an accelerator, when it is queued.
    work
        Work of one call [FLOP or byte].
    calls
        Calls per sample: several on accelerators, so that starting and waiting have little weight.
    wait
        Returns when the last result is available.
    family
        Methods of similar rate; the rate of less work predicts the time of more.
    """

    kind: Kind
    precision: Precision
    backend: str
    setting: str
    work: float
    run: Callable[[], object]
    calls: int = 1
    wait: Callable[[object], object] = lambda result: result
    family: str = ""

    @property
    def unit(self) -> Literal["FLOP/s", "B/s"]:
        """Unit of the method's rate."""
        return "B/s" if self.kind == "memory" else "FLOP/s"


def time_way(way: Way, threads: int) -> Sample:
    """Time one repetition; the caller has run the method once before."""
    started_s = time.monotonic()
    for _ in range(way.calls):
        result = way.run()
    way.wait(result)
    duration_s = time.monotonic() - started_s
    return Sample(
        kind=way.kind,
        precision=way.precision,
        backend=way.backend,
        setting=way.setting,
        threads=threads,
        work=way.work * way.calls,
        unit=way.unit,
        duration_s=duration_s,
    )


def report_of(
    samples: Sequence[Sample], not_measured: Iterable[NotMeasured] = (), disturbance: tuple[Disturbance, ...] = ()
) -> CeilingReport:
    """Summarise samples; those that do not count stay in the report but give no ceiling."""
    summaries = summarise(samples)
    return CeilingReport(
        best=best_of(summaries),
        summaries=summaries,
        not_measured=tuple(not_measured),
        samples=tuple(samples),
        disturbance=disturbance,
    )


def summarise(samples: Iterable[Sample]) -> tuple[Summary, ...]:
    """Summarise each method over the samples that count."""
    ways: dict[tuple[str, ...], list[Sample]] = {}
    for sample in samples:
        if sample.counts:
            ways.setdefault(sample.way, []).append(sample)
    return tuple(_summarise(ways[way]) for way in sorted(ways))


def _summarise(samples: Sequence[Sample]) -> Summary:
    rates, first = sorted((sample.value for sample in samples), reverse=True), samples[0]
    middle = statistics.median(rates)
    return Summary(
        **first.model_dump(include={"kind", "precision", "backend", "place", "setting", "threads", "unit"}),
        n=len(rates),
        best=rates[0],
        median=middle,
        spread_ratio=(rates[0] - rates[-1]) / middle if len(rates) > 1 else None,
        agreement_ratio=1 - rates[1] / rates[0] if len(rates) > 1 else None,
    )


def best_of(
    summaries: Iterable[Summary], by: tuple[str, ...] = ("kind", "precision", "place", "threads")
) -> tuple[Summary, ...]:
    """Return the method with the fastest repetition for each combination of the fields ``by``."""
    groups: dict[tuple[object, ...], list[Summary]] = {}
    for summary in summaries:
        groups.setdefault(tuple(getattr(summary, name) for name in by), []).append(summary)
    return tuple(
        max(group, key=lambda summary: summary.best).model_copy(update={"ways": len(group)})
        for group in groups.values()
    )
