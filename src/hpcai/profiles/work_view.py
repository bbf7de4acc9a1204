"""Work and memory traffic of each benchmark with the rates of its timed runs; each row states its counting method."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from hpcai.catalogue.points import POINT, SERIES
from hpcai.core.messages import Message
from hpcai.machine.work.step import HloCount, WorkCount, WorkReport
from hpcai.metrics.cells import records_of
from hpcai.metrics.profiles.counters import counting_doubts
from hpcai.profiles.views import as_view
from hpcai.records.files import read_part

HARDWARE = "counters"
NO_TRAFFIC = Message("work_view.no_traffic", "no memory traffic in the report: count the work again")
OTHER_PRECISION = Message("work_view.other_precision", "the memory traffic was modelled only for {precision}")
OTHER_BATCH = Message(
    "work_view.other_batch",
    "the memory traffic is that of a micro-batch of {samples:g} samples, not {here:g}",
)
NOT_COUNTED = Message("work_view.not_counted", "the memory traffic was not counted")


def work_view(reports: Iterable[str | Path], scales: pd.DataFrame, counters: pd.DataFrame) -> pd.DataFrame:
    """Return the view ``work``: per scale, the work by each counting method and the resulting rate.

    Rates belong to the timed runs: samples per second from the table of scales, times operations per sample. Memory
    traffic is modelled if work is counted in the compiled step, and measured if hardware counted it.

    Parameters
    ----------
    reports
        Work report files, one per benchmark.
    scales
        Table of scales, for ``train_rate_samples_per_s``, ``precision`` and the batch size.
    counters
        View of hardware counters, with work and traffic of the profiled steps on one rank.
    """
    known = {Path(path): read_part(WorkReport, Path(path)) for path in reports}
    rows = [
        row
        for path, report in known.items()
        for scale in records_of(scales[scales["benchmark"] == report.benchmark])
        for row in _rows(report, path, scale, counters)
    ]
    return as_view("work", rows)


@dataclass(frozen=True)
class _Counted:
    """Work per sample by one counting method; ``of_trained`` if it applies to the samples trained on."""

    method: str
    source: str
    flop_per_sample: float
    ratio_to_formula: float
    of_trained: bool = True
    memory_bytes_per_sample: float = math.nan
    memory_method: str = ""
    stage: str = ""
    reasons: tuple[str, ...] = ()


def _rows(
    report: WorkReport, path: Path, scale: Mapping[str, object], counters: pd.DataFrame
) -> Iterable[dict[str, object]]:
    for count in report.counts:
        yield _row(_of_report(count, report, path, scale), scale)
    formula = next((count.flop_per_sample for count in report.counts if count.method == "formula"), None)
    own = counters[(counters[SERIES] == [scale[name] for name in SERIES]).all(axis=1)]
    for counted in records_of(own.dropna(subset=["flop_per_sample"])):
        yield _row(_of_hardware(counted, formula or math.nan, scale), scale)


def _of_report(count: WorkCount, report: WorkReport, path: Path, scale: Mapping[str, object]) -> _Counted:
    found = _Counted(
        method=count.method,
        source=str(path),
        flop_per_sample=_number(count.flop_per_sample),
        ratio_to_formula=_number(count.ratio_to_formula),
        # Work counted on a padded batch is not that of the samples trained on.
        of_trained=count.remark is None,
        reasons=tuple(filter(None, (count.reason or count.remark,))),
    )
    if count.method != "hlo" or report.hlo is None:
        return found
    traffic, reasons = _modelled_traffic(count.memory_bytes_per_sample, report.hlo, scale)
    return replace(
        found,
        memory_bytes_per_sample=traffic,
        memory_method="" if math.isnan(traffic) else "modelled",
        stage=report.hlo.stage,
        reasons=(*found.reasons, *reasons),
    )


def _modelled_traffic(
    bytes_per_sample: float | None, hlo: HloCount, scale: Mapping[str, object]
) -> tuple[float, tuple[str, ...]]:
    """Return the traffic of a scale's step [byte per sample], and why there is none or what else it was modelled for.

    Half precision moves fewer bytes, and the samples of a batch share the traffic of weights and gradients.
    """
    if bytes_per_sample is None:
        return math.nan, (hlo.memory_remark or NO_TRAFFIC(),)
    if scale["precision"] != hlo.precision:
        return math.nan, (OTHER_PRECISION(precision=hlo.precision),)
    samples = _whole(scale, "global_batch_samples") // (_whole(scale, "ranks") * _whole(scale, "accumulation"))
    notes = [hlo.memory_remark] if hlo.memory_remark else []
    if samples != hlo.samples:
        notes.append(OTHER_BATCH(samples=hlo.samples, here=samples))
    return bytes_per_sample, tuple(notes)


def _of_hardware(counted: Mapping[str, object], formula: float, scale: Mapping[str, object]) -> _Counted:
    """Return the work per sample from hardware counters, which were captured at the smallest scale."""
    flop, traffic = (_number(counted[name]) for name in ("flop_per_sample", "memory_bytes_per_sample"))
    return _Counted(
        method=HARDWARE,
        source=str(counted["source"]),
        flop_per_sample=flop,
        ratio_to_formula=flop / formula,
        memory_bytes_per_sample=traffic,
        memory_method="" if math.isnan(traffic) else "measured",
        reasons=tuple(_doubts(counted, traffic, scale)),
    )


def _doubts(counted: Mapping[str, object], traffic: float, scale: Mapping[str, object]) -> Iterable[str]:
    """Yield what the counters lack, and whether they belong to another batch than the scale's."""
    samples = _number(counted["micro_batch_samples"])
    here = _whole(scale, "global_batch_samples") / (_whole(scale, "ranks") * _whole(scale, "accumulation"))
    if math.isnan(traffic):
        yield NOT_COUNTED()
    elif samples != here and not math.isnan(samples):
        yield OTHER_BATCH(samples=samples, here=here)
    yield from counting_doubts(counted)


def _row(counted: _Counted, scale: Mapping[str, object]) -> dict[str, object]:
    rate = _number(scale["train_rate_samples_per_s"])
    samples = _whole(scale, "global_batch_samples")
    return {
        **{name: scale[name] for name in (*POINT, "ranks")},
        "method": counted.method,
        "flop_per_sample": counted.flop_per_sample,
        "samples_per_step": samples,
        "flop_per_step": counted.flop_per_sample * samples,
        "train_rate_samples_per_s": rate,
        "rate_flop_per_s": counted.flop_per_sample * rate if counted.of_trained else math.nan,
        "rate_n": _whole(scale, "rate_n"),
        "ratio_to_formula": counted.ratio_to_formula,
        "memory_bytes_per_sample": counted.memory_bytes_per_sample,
        "memory_method": counted.memory_method,
        "stage": counted.stage,
        "reason": "; ".join(counted.reasons),
        "source": counted.source,
    }


def _number(value: object) -> float:
    return math.nan if value is None else float(str(value))


def _whole(scale: Mapping[str, object], name: str) -> int:
    return int(str(scale[name]))
