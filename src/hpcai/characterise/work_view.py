"""The floating-point work of each benchmark beside the rates of its timed runs; each row says how work was counted."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from hpcai.characterise.views import as_view, records_of
from hpcai.characterise.work import WorkCount, WorkReport
from hpcai.records import read_part

HARDWARE = "counters"


def work_view(reports: Iterable[str | Path], scales: pd.DataFrame, counters: pd.DataFrame) -> pd.DataFrame:
    """Return the view ``work``: for each scale, the work by each way of counting and the rate that follows from it.

    Rates are those of timed runs: mean samples per second of ``rate_n`` runs, times operations per sample.

    Parameters
    ----------
    reports
        Files of work reports, one for each benchmark.
    scales
        Table of scales, for ``train_rate_mean_samples_per_s`` and ``global_batch_samples``.
    counters
        View of hardware counters; its work is that of the profiled steps on one rank.
    """
    known = {Path(path): read_part(WorkReport, Path(path)) for path in reports}
    rows = [
        row
        for path, report in known.items()
        for scale in records_of(scales[scales["benchmark"] == report.benchmark])
        for row in _rows(report, path, scale, counters)
    ]
    return as_view("work", rows)


def _rows(
    report: WorkReport, path: Path, scale: Mapping[str, object], counters: pd.DataFrame
) -> Iterable[dict[str, object]]:
    formula = next((count.flop_per_sample for count in report.counts if count.method == "formula"), None)
    for count in report.counts:
        yield _row(count, path, scale, report.hlo.stage if report.hlo else "")
    own = counters[(counters["benchmark"] == scale["benchmark"]) & (counters["variant"] == scale["variant"])]
    for counted in records_of(own.dropna(subset=["flop_per_sample"])):
        ratio = counted["flop_per_sample"] / formula if formula else math.nan
        made = WorkCount(method="formula", flop_per_sample=counted["flop_per_sample"], ratio_to_formula=ratio)
        yield {**_row(made, Path(counted["source"]), scale), "method": HARDWARE}


def _row(count: WorkCount, path: Path, scale: Mapping[str, object], stage: str = "") -> dict[str, object]:
    rate = float(str(scale["train_rate_mean_samples_per_s"]))
    samples = int(str(scale["global_batch_samples"]))
    per_sample = math.nan if count.flop_per_sample is None else count.flop_per_sample
    return {
        **{name: scale[name] for name in ("benchmark", "variant", "scale", "ranks")},
        "method": count.method,
        "flop_per_sample": per_sample,
        "samples_per_step": samples,
        "flop_per_step": per_sample * samples,
        "train_rate_samples_per_s": rate,
        # Work that was counted on a batch with something to fill it up is not that of the samples that were trained on.
        "rate_flop_per_s": math.nan if count.remark else per_sample * rate,
        "rate_n": int(str(scale["rate_n"])),
        "ratio_to_formula": count.ratio_to_formula,
        "stage": stage if count.method == "hlo" else "",
        "reason": count.reason or count.remark or "",
        "source": str(path),
    }
