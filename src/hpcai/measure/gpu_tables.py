"""The tables of `hpcai gpu`: ceilings of a device, training steps under them, and kernels by category."""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.core.disturbance import Disturbance, Tolerance, is_disturbed, say_disturbance
from hpcai.core.messages import Message
from hpcai.core.text import say_number, say_rate, say_share
from hpcai.core.text_table import say_table
from hpcai.machine.ceilings.sampling import CeilingReport
from hpcai.machine.steps.measure import Case
from hpcai.machine.steps.report import StepReport
from hpcai.metrics.cells import divide, number_of, number_or_nan, records_of
from hpcai.metrics.quietness import DISTURBED
from hpcai.workloads.registry import WORKLOADS

NUMBERS = ("rate_samples_per_s", "rate_flop_per_s", "gemm_share_ratio", "goal_ratio", "energy_per_sample_j")
WRITERS: tuple[Callable[[float], str], ...] = (
    say_number,
    lambda value: say_rate(value, "FLOP/s"),
    say_share,
    say_share,
    say_number,
)
MEASURED, NOT_MEASURED = "measured", "not measured"
NO_CEILING = Message("gpu_tables.no_ceiling", "no rate of matrix products in {precision} was measured on this device")
ABOVE = Message(
    "gpu_tables.above",
    "the steps are faster than the matrix products ({ratio:.2f} of their rate): the ceiling or the count is wrong",
)
ABOVE_ROOF = Message(
    "gpu_tables.above_roof",
    "the steps are faster than their roof ({ratio:.2f} of it): the modelled traffic or a ceiling is wrong, so neither "
    "an intensity nor a roof is shown",
)


@dataclass(frozen=True)
class Energy:
    """Energy of the timed steps; NaN with a reason if it was not measured."""

    per_sample_j: float = math.nan
    mean_power_w: float = math.nan
    instrument: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Measured:
    """The measurement of one case, or why there is none."""

    case: Case
    report: StepReport | None = None
    energy: Energy = Energy()
    disturbance: tuple[Disturbance, ...] = ()
    kernels: pd.DataFrame | None = None
    kernel_reason: str = ""
    traffic_bytes: float = math.nan
    traffic_reason: str = ""
    reason: str = ""

    @property
    def identity(self) -> dict[str, object]:
        """Columns that identify a case."""
        case, report = self.case, self.report
        return {
            "benchmark": case.plan.benchmark.name,
            "engine": case.engine,
            "precision": case.precision,
            "device": report.device if report else "",
            "source": str(case.folder),
        }


def ceiling_rows(report: CeilingReport, kind: str, device: str) -> pd.DataFrame:
    """Return the table ``gpu_ceilings``: the best of each kind and precision, and those without a value."""
    facts = {"device_kind": kind, "device": device}
    quiet = not is_disturbed(report.disturbance, Tolerance())
    status = MEASURED if quiet else DISTURBED
    reason = "" if quiet else say_disturbance(report.disturbance)
    rows: list[dict[str, Any]] = [
        {
            **facts,
            **best.model_dump(include={"kind", "precision", "backend", "setting", "unit", "n", "spread_ratio"}),
            "value": best.best,
            "method": MEASURED,
            "status": status,
            "reason": reason,
        }
        for best in report.best
    ]
    known = {(row["kind"], row["precision"]) for row in rows}
    for one in report.not_measured:
        if (one.kind, one.precision) not in known:
            told = one.model_dump(include={"kind", "precision", "backend", "setting"})
            rows.append({**facts, **told, "value": math.nan, "status": NOT_MEASURED, "reason": one.reason})
    return _table("gpu_ceilings", rows)


def step_rows(found: Iterable[Measured], ceilings: pd.DataFrame, kind: str, *, official: bool) -> pd.DataFrame:
    """Return the table ``gpu_steps``: one row for each benchmark and precision.

    Parameters
    ----------
    found
        All cases.
    ceilings
        Table ``gpu_ceilings``.
    kind
        ``gpu``, or ``cpu`` for a trial on a processor.
    official
        Whether samples have the official size; only then are there goals.
    """
    return _table("gpu_steps", [{"device_kind": kind, **_step_row(one, ceilings, official)} for one in found])


def _step_row(one: Measured, ceilings: pd.DataFrame, official: bool) -> dict[str, Any]:
    report, case = one.report, WORKLOADS[one.case.plan.benchmark.workload].device_case
    goal = case.bf16_goal_ratio if case and one.case.precision == "bf16" else None
    row = {**one.identity, "goal_ratio": number_or_nan(goal if official else None)}
    if report is None:
        return {**row, "status": NOT_MEASURED, "reason": one.reason}
    times = [block.step_s for block in report.blocks]
    step_s = statistics.median(times)
    rate = report.batch / step_s
    flop_rate = rate * report.flop_per_sample
    gemm = _ceiling(ceilings, "gemm", report.precision)
    intensity = divide(report.flop_per_sample, one.traffic_bytes)
    roof = _lower(gemm, intensity * _ceiling(ceilings, "memory", ""))
    share, reasons, traffic_reason = divide(flop_rate, gemm), [], one.traffic_reason
    if flop_rate > roof:
        traffic_reason = ABOVE_ROOF(ratio=divide(flop_rate, roof))
        intensity = roof = math.nan
    if math.isnan(gemm):
        reasons.append(str(NO_CEILING(precision=report.precision)))
    elif share > 1:
        reasons.append(str(ABOVE(ratio=share)))
    quiet = not is_disturbed(one.disturbance, Tolerance())
    if not quiet:
        reasons.append(say_disturbance(one.disturbance))
    return {
        **row,
        "batch_samples": report.batch,
        "batch_place": report.batch_place,
        "step_time_median_s": step_s,
        "steps": sum(block.steps for block in report.blocks),
        "spread_ratio": (max(times) - min(times)) / step_s,
        "first_step_s": report.first_step_s,
        "rate_samples_per_s": rate,
        "flop_per_sample": report.flop_per_sample,
        "rate_flop_per_s": flop_rate,
        "gemm_rate_flop_per_s": gemm,
        "gemm_share_ratio": share,
        "energy_per_sample_j": one.energy.per_sample_j,
        "mean_power_w": one.energy.mean_power_w,
        "power_instrument": one.energy.instrument,
        "power_reason": one.energy.reason,
        "memory_bytes_per_sample": one.traffic_bytes,
        "traffic_reason": str(traffic_reason),
        "intensity_flop_per_byte": intensity,
        "roof_flop_per_s": roof,
        "roof_ratio": divide(flop_rate, roof),
        "method": MEASURED,
        "status": MEASURED if quiet else DISTURBED,
        "reason": "; ".join(reasons),
    }


def _lower(compute_flop_per_s: float, memory_flop_per_s: float) -> float:
    """Return the roof; NaN unless both of its parts are known."""
    known = not math.isnan(compute_flop_per_s + memory_flop_per_s)
    return min(compute_flop_per_s, memory_flop_per_s) if known else math.nan


def _ceiling(ceilings: pd.DataFrame, kind: str, precision: str) -> float:
    """Return the best measured value of a kind; NaN if there is none."""
    rows = ceilings[(ceilings["kind"] == kind) & (ceilings["precision"] == precision)]["value"].dropna()
    return float(rows.max()) if len(rows) else math.nan


def kernel_rows(found: Iterable[Measured], kind: str) -> pd.DataFrame:
    """Return the table ``gpu_kernels``: time by category of each case, or the reason why it is unknown."""
    rows: list[dict[str, Any]] = []
    for one in found:
        identity = {"device_kind": kind, **one.identity}
        if one.kernels is None:
            rows.append({**identity, "reason": one.kernel_reason or one.reason})
            continue
        steps = one.report.traced_steps if one.report else 0
        told = records_of(one.kernels[["category", "calls", "total_s", "share_ratio", "rule_set"]])
        rows += [{**identity, **row, "traced_steps": steps, "method": MEASURED, "reason": ""} for row in told]
    return _table("gpu_kernels", rows)


def _table(name: str, rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=list(columns_of(name)))
    texts = [column for column in columns_of(name, "text") if column in table]
    return table.assign(**{column: table[column].fillna("") for column in texts})


def say_steps(steps: pd.DataFrame) -> str:
    """Return a short version of the table ``gpu_steps`` for a terminal."""
    headings = ("benchmark", "precision", "samples/s", "FLOP/s", "of GEMM", "goal", "J/sample", "status")
    return say_table(headings, [_said(row) for row in records_of(steps)])


def _said(row: dict[str, Any]) -> list[str]:
    numbers = [number_of(row, name) for name in NUMBERS]
    words = [write(value) if math.isfinite(value) else "-" for write, value in zip(WRITERS, numbers, strict=True)]
    return [row["benchmark"], row["precision"], *words, row["status"]]
