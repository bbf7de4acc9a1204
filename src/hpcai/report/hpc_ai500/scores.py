"""Part 3 of the report document: the scores of every run, with its output logs."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from hpcai.core.messages import Message
from hpcai.core.text import say_name, say_rate, say_time
from hpcai.metrics.scaling.trials import COMPLETE
from hpcai.metrics.scores.validity import NONE_FINISHED
from hpcai.metrics.statistics.summaries import INTERVAL
from hpcai.records.run import RunRecord
from hpcai.report.hpc_ai500.evidence import Evidence, Run
from hpcai.report.hpc_ai500.model import Column, Item, Part, Table, Value, agreed, cell, missing, present

SOURCE = "scores.csv"
DEMAND = "scores of every run: time-to-quality, FLOPS, FLOPS per watt, VFLOPS, VFLOPS per watt"
LOGS = "output logs of every run"
OUTPUT_LOG = "output.log"
RATE, PER_WATT = "FLOP/s", "FLOP/s/W"
_ANALYSE = "run the workflow's analysis, which makes the table run_scores"
_WORK = (
    "characterise the benchmark (`snakemake characterise`), so that the work of a sample is known, and analyse again"
)

CLOCK = "including evaluations, because 6.3.2 does not pause the clock"
"""HPC AI500 V2.0, 6.3.2: from reading the first training batch until the target epochs are reached."""
RATE_BY = Message("scores.rate_by", "throughput measured, work of a sample by {work}")


@dataclass(frozen=True)
class _Score:
    """A score required by the rules: its column, its unit, the remedy if it is missing, and a remark."""

    name: str
    column: str
    unit: str
    action: str
    note: str = ""


RUN_COLUMNS = {
    "outcome": Column(name="outcome"),
    "quality": Column(name="quality"),
    "time_to_quality_s": Column(name="time to quality", unit="s"),
    "evaluation_s": Column(name="of it evaluations", unit="s"),
    "rate_flop_per_s": Column(name="FLOPS", unit=RATE),
    "vflops_flop_per_s": Column(name="VFLOPS", unit=RATE),
    "mean_power_w": Column(name="mean power", unit="W"),
    "power_method": Column(name="power is"),
    "flop_per_j": Column(name="FLOPS per watt", unit=PER_WATT),
    "vflops_flop_per_j": Column(name="VFLOPS per watt", unit=PER_WATT),
    "dropped": Column(name="left out as"),
    "reason": Column(name="reason"),
}
"""Columns of the table `run_scores` shown for every run; scores.csv has all."""
RESULT_COLUMNS = {
    "variant": Column(name="variant"),
    "scale": Column(name="scale"),
    "n": Column(name="trials"),
    "n_scored": Column(name="trials counted"),
    "statistic": Column(name="numbers are"),
    "rate_flop_per_s": Column(name="FLOPS", unit=RATE),
    "rate_low_flop_per_s": Column(name="FLOPS, low", unit=RATE),
    "rate_high_flop_per_s": Column(name="FLOPS, high", unit=RATE),
    "rate_variation_ratio": Column(name="variation of FLOPS"),
    "quality": Column(name="quality"),
    "exponent": Column(name="exponent n"),
    "vflops_flop_per_s": Column(name="VFLOPS", unit=RATE),
    "vflops_low_flop_per_s": Column(name="VFLOPS, low", unit=RATE),
    "vflops_high_flop_per_s": Column(name="VFLOPS, high", unit=RATE),
    "vflops_variation_ratio": Column(name="variation of VFLOPS"),
    "time_to_quality_s": Column(name="time to quality", unit="s"),
    "evaluation_s": Column(name="of it evaluations", unit="s"),
    "flop_per_j": Column(name="FLOPS per watt", unit=PER_WATT),
    "vflops_flop_per_j": Column(name="VFLOPS per watt", unit=PER_WATT),
    "valid_for": Column(name="valid for"),
}


def describe_scores(evidence: Evidence) -> Part:
    """Return part 3: one row per run, including failed ones."""
    tables = [_run_table(evidence), _result_table(evidence), _attempts(evidence.records)]
    return Part(
        title="Scores of every run",
        rule="Time-to-quality, FLOPS, FLOPS per watt, VFLOPS and VFLOPS per watt of every run, with the output logs.",
        section="HPC AI500 V2.0, 6.3.3 (3)",
        items=(*(_score_item(evidence, score) for score in _scores(evidence)), _log_item(evidence)),
        tables=tuple(table for table in tables if table is not None),
    )


def trial_rows(evidence: Evidence) -> pd.DataFrame:
    """Return the table `run_scores` with a row for every record, including those missing in the table.

    Paths of records and source files are those in the document's folder.
    """
    known = evidence.frames["run_scores"]
    facts = [
        {
            "run_id": record.run_id, "suite": record.plan.benchmark.suite, "workload": record.plan.benchmark.workload,
            "benchmark": evidence.benchmark, "variant": record.plan.point.variant, "scale": record.plan.point.scale,
            "nodes": record.plan.point.nodes, "ranks": record.plan.point.ranks, "repetition": record.plan.repetition,
            "outcome": record.outcome, "precision": record.plan.point.precision,
            "compression": record.plan.point.compression,
        }
        for record in evidence.records
    ]  # fmt: skip
    runs = pd.DataFrame(facts)
    scores = known[["run_id", *(name for name in known if name not in runs)]]
    rows = runs.merge(scores, on="run_id", how="left", validate="one_to_one")
    order = [name for name in known if name in rows] + [name for name in rows if name not in known]
    rows["record_path"] = [f"{run.folder}/record.json" if run.log("record.json") else "" for run in evidence.runs]
    for name in ("work_source", "power_source"):
        rows[name] = rows[name].map(evidence.place, na_action="ignore")
    reasons = pd.Series([record.reason for record in evidence.records], index=rows.index)
    rows["reason"] = rows["reason"].where(rows["reason"].fillna("").ne(""), reasons.where(_broken(rows), ""))
    return rows[order]


def _broken(rows: pd.DataFrame) -> "pd.Series[bool]":
    return ~rows["outcome"].isin(COMPLETE)


def _scores(evidence: Evidence) -> tuple[_Score, ...]:
    power = (
        f"fill `power.node_power_w` and `power.source` of the {evidence.machine_file}, or make a power meter readable "
        f"(NVML of nvidia-smi, RAPL below /sys/class/powercap, Slurm's energy accounting) and profile the power"
    )
    return (
        _Score("Time to quality", "time_to_quality_s", "s", _ANALYSE, CLOCK),
        _Score("FLOPS", "rate_flop_per_s", RATE, _WORK),
        _Score("FLOPS per watt", "flop_per_j", PER_WATT, power),
        _Score("VFLOPS", "vflops_flop_per_s", RATE, _WORK),
        _Score("VFLOPS per watt", "vflops_flop_per_j", PER_WATT, power),
    )


def _score_item(evidence: Evidence, score: _Score) -> Item:
    """Return whether every run that completed training has a score."""
    if evidence.frames["run_scores"].empty:
        return missing(DEMAND, score.name, "the table run_scores has no row of this benchmark", _ANALYSE)
    rows = trial_rows(evidence)
    trials = rows[~_broken(rows)]
    values = pd.to_numeric(trials[score.column]).dropna()
    lost = len(rows) - len(trials)
    broken = f"{lost} of {len(rows)} runs failed or diverged and have no score" if lost else ""
    if trials.empty:
        reason = NONE_FINISHED(n=len(rows), word="run")
        return missing(
            DEMAND, score.name, reason, "see the reasons of the runs, fix them, and measure again (`hpcai retry`)"
        )
    if len(values) < len(trials):
        reasons = trials.loc[trials[score.column].isna(), "reason"].dropna().unique()
        why = "; ".join(str(reason) for reason in reasons if reason) or _why_none(trials, score)
        return missing(DEMAND, score.name, f"{len(values)} of {len(trials)} trials have it ({why})", score.action)
    work, power = _methods(trials, "flop_method"), _methods(trials, "power_method")
    notes = (
        score.note,
        RATE_BY(work=work) if work and score.unit != "s" else "",
        f"power {power}" if power and score.unit == PER_WATT else "",
        broken,
    )
    return present(
        DEMAND, score.name, _range(values, score.unit, len(trials)), source=SOURCE,
        method="declared" if score.unit == PER_WATT and "declared" in power else "measured",
        note="; ".join(note for note in notes if note),
    )  # fmt: skip


def _methods(trials: pd.DataFrame, column: str) -> str:
    """Return the method of a part of the scores, such as ``formula`` or ``measured and declared``."""
    return " and ".join(str(method) for method in trials[column].dropna().unique() if method)


def _why_none(trials: pd.DataFrame, score: _Score) -> str:
    if score.unit == PER_WATT and trials["mean_power_w"].isna().any():
        return "power was neither measured nor declared"
    return "no number in the table, and no reason"


def _range(values: "pd.Series[float]", unit: str, count: int) -> str:
    say = say_time if unit == "s" else lambda value: say_rate(value, unit)
    low, high = say(float(values.min())), say(float(values.max()))
    between = low if low == high else f"{low} to {high}"
    return f"{between} ({count} trial{'s' if count > 1 else ''})"


def _log_item(evidence: Evidence) -> Item:
    name = "Output logs"
    kept = [run for run in evidence.runs if (log := run.log(OUTPUT_LOG)) and log.handed_in]
    if len(kept) == len(evidence.runs):
        files = sum(log.handed_in for run in evidence.runs for log in run.logs)
        value = f"of {len(kept)} runs: {files} files"
        return present(LOGS, name, value, method="collected", source="logs/")
    lost = [f"{run.record.run_id} ({_fate(run)})" for run in evidence.runs if run not in kept]
    reason = f"{len(kept)} of {len(evidence.runs)} runs have theirs here; not {', '.join(lost)}"
    return missing(
        LOGS, name, reason, "put the raw folders of these runs back, or measure them again (`hpcai discard`)"
    )


def _fate(run: Run) -> str:
    log = run.log(OUTPUT_LOG)
    words = {"missing": "the file is gone", "changed": "the file differs from the SHA-256 in the record"}
    return words.get(log.status, log.status) if log else "the record names none"


def _run_table(evidence: Evidence) -> Table:
    rows = trial_rows(evidence)
    shown = _columns(RUN_COLUMNS, rows)
    cells = tuple(
        (_name(run.record), _log_path(run), *(cell(row[name]) for name in shown))
        for run, (_, row) in zip(evidence.runs, rows.iterrows(), strict=True)
    )
    return Table(
        title="Every run",
        columns=(Column(name="run"), Column(name="output log", kind="file"), *shown.values()),
        rows=cells,
        note=_definitions(rows),
    )


def _columns(columns: Mapping[str, Column], rows: pd.DataFrame) -> dict[str, Column]:
    """Return the columns that a table of scores has; that of the quality with its target if all rows have one."""
    shown = {name: column for name, column in columns.items() if name in rows}
    target = agreed(rows["quality_target"]) if {"quality", "quality_target"} <= set(rows) else None
    if isinstance(target, int | float):
        shown["quality"] = shown["quality"].model_copy(update={"target": float(target)})
    return shown


def _definitions(rows: pd.DataFrame) -> str:
    """Define the scores of the runs, with their metric, target and exponent."""
    used = {name: agreed(rows[name]) for name in ("quality_metric", "quality_target", "exponent")}
    exponent = "" if used["exponent"] is None else f" with n = {used['exponent']:g}"
    quality = (
        ""
        if used["quality_metric"] is None
        else f" Quality is {say_name(str(used['quality_metric']))}, its target {used['quality_target']}."
    )
    return (
        f"Time to quality runs from the first training batch to the end of the last epoch, {CLOCK}. VFLOPS = FLOPS × "
        "(quality / "
        f"target)^n{exponent}.{quality} A run that failed or diverged has none; a dash is a missing score."
    )


def _name(record: RunRecord) -> str:
    """Return the name of a run within its benchmark."""
    return record.run_id.removeprefix(f"{record.plan.benchmark.name}/")


def _log_path(run: Run) -> str | None:
    log = run.log(OUTPUT_LOG)
    return f"{run.folder}/{OUTPUT_LOG}" if log and log.handed_in else None


def _result_table(evidence: Evidence) -> Table | None:
    scores = evidence.frames["scores"]
    shown = _columns(RESULT_COLUMNS, scores)
    if scores.empty:
        return None
    methods = [str(text) for text in scores.get("score_method", pd.Series(dtype=str)).dropna().unique() if text]
    rows: list[tuple[Value | None, ...]] = [
        tuple(cell(value) for value in row) for row in scores[list(shown)].itertuples(index=False, name=None)
    ]
    interval = (
        f"All numbers of a row are of the trials counted. Low and high bound the {INTERVAL} trials; variation is "
        "standard deviation / mean of all trials."
    )
    return Table(
        title="Results by the procedure of section 6.3.2",
        columns=tuple(shown.values()),
        rows=tuple(rows),
        note=" ".join([interval, *(f"Scores: {method}." for method in methods)]),
    )


def _attempts(records: tuple[RunRecord, ...]) -> Table | None:
    rows = tuple(
        (_name(record), attempt.attempt, attempt.outcome, attempt.reason)
        for record in records
        for attempt in record.earlier_attempts
    )
    if not rows:
        return None
    names = ("run", "attempt", "outcome", "reason")
    return Table(
        title="Earlier attempts that failed and were repeated",
        columns=tuple(Column(name=name) for name in names),
        rows=rows,
    )
