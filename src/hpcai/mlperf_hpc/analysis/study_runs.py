"""Convert imported runs to rows of ``runs`` and ``epochs`` of own studies; values that a log lacks stay empty."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.metrics.quietness import UNKNOWN
from hpcai.metrics.scores.of_run import RunScore, TimeParts, TimeShares
from hpcai.metrics.scores.validity import NOT_JUDGED, join_reasons
from hpcai.mlperf_hpc.analysis.run_quantities import count_of, interval_samples
from hpcai.mlperf_hpc.analysis.study_names import (
    SUITE,
    Row,
    benchmark_of,
    scale_of,
    staging_on_clock,
    task_of,
)
from hpcai.mlperf_hpc.analysis.targets import QUALITY
from hpcai.mlperf_hpc.compliance.model import LogVerdict
from hpcai.mlperf_hpc.rounds.model import LoggedRun
from hpcai.mlperf_hpc.rounds.times import utc_text
from hpcai.records.run import EpochRecord
from hpcai.rules.table import rules_of

STUDY_RUN_COLUMNS = columns_of("runs")
"""The columns of :func:`hpcai.metrics.run_tables.collect_runs`."""
STUDY_EPOCH_COLUMNS = columns_of("epochs")
"""The columns of :func:`hpcai.metrics.run_tables.collect_epochs`."""
_TEXTS = (
    *("precision", "compression", "engine", "commit", "lock_sha256", "page_cache", "plan_digest", "staging_place"),
    *("input_from", "staging_from"),
)
_FAILURES_NAMED = 3
LARGEST_SEED = 2**62
"""Larger seeds do not fit an integer column."""


def study_run(row: Row, run: LoggedRun, verdict: LogVerdict | None) -> dict[str, Any]:
    """Return one imported run as a row of ``runs``.

    Parameters
    ----------
    row
        Its row of ``mlperf_runs`` (strong scaling), with a known scale, a unique `variant` per submission, and
        `by_steps` (:func:`hpcai.mlperf_hpc.analysis.editions.evaluated_by_steps`).
    run, verdict
        The run, and the verdict on its log.

    Returns
    -------
    dict
        ``STUDY_RUN_COLUMNS`` without those that a log lacks. The machine is the submission; ranks are compute units. A
        run has converged if it finished and claims success at the target. Rates are totals over totals; an unfinished
        run gets no numbers. Wall time and its shares are empty, because a log does not cover the launch.
    """
    task, benchmark = task_of(row["benchmark"]), benchmark_of(row)
    variant, scale = str(row["variant"]), scale_of(row)
    outcome, reason = judge_outcome(row, run)
    return {
        "run_id": f"{benchmark}/{variant}/{scale}/r{row['number']}",
        "study": row["origin"],
        "suite": SUITE,
        "benchmark": benchmark,
        "workload": task.workload,
        "variant": variant,
        "scale": scale,
        "nodes": int(row["nodes"]),
        "ranks_per_node": int(row["units"] // row["nodes"]),
        "ranks": int(row["units"]),
        "repetition": row["number"],
        "outcome": outcome,
        "reason": reason,
        "method": row["method"],
        **dict.fromkeys(_TEXTS, ""),
        "global_batch_samples": row["global_batch_samples"],
        "seed": _number_of_seed(str(row["seed"])),
        "data_source": "published",
        "rule_set": f"hpc_{row['rule_set']}",
        "time_staging": staging_on_clock(run, str(row["rule_set"])),
        "runs_by_rule": QUALITY[row["benchmark"]].runs_by_rule if row["benchmark"] in QUALITY else math.nan,
        "attempt": row["source"],
        "started_utc": row["started_utc"] or _first_interval_utc(run),
        "quality_metric": task.quality_metric or row["quality_metric"],
        "quality_unit": task.quality_unit,
        "quality_target": row["quality_target"],
        "epochs": row["epochs"],
        **(_earned(row, outcome) if run.run else {}),
        "machine": row["submission"],
        **_judged(row, verdict),
        "quiet": UNKNOWN,
        "record_path": row["source"],
    }


def _number_of_seed(words: str) -> float:
    """Return a seed as a number that fits an integer column; NaN for anything else."""
    number = pd.to_numeric(words, errors="coerce")
    return int(number) if abs(number) <= LARGEST_SEED and number == int(number) else math.nan


def _first_interval_utc(run: LoggedRun) -> str:
    """Return the start of the first paired interval of an unfinished run (UTC); blank without one."""
    spans = [*([run.staging] if run.staging else []), *run.epochs, *run.evaluations]
    if not spans:
        return ""
    return utc_text(min(span.start_ms for span in spans))


def judge_outcome(row: Row, run: LoggedRun) -> tuple[str, str]:
    """Return the outcome of a run in the terms of our records, and the reason."""
    if run.run is None:
        return "failed", "the log has no run_stop: the run broke down, or went on after the log ended"
    best, target = row["best_quality"], row["quality_target"]
    metric = task_of(row["benchmark"]).quality_metric or row["quality_metric"]
    if row["good_by_target"]:
        return "converged", f"{metric} {best:.6g} meets {target:g} after {row['epochs']:g} epochs"
    if any(not math.isfinite(score.value) for score in run.scores):
        return "diverged", f"{metric} is no finite number"
    words = "" if run.claim in ("success", "missing") else f"; its status is {run.claim}"
    return "not_converged", f"{metric} {best:.6g} does not meet {target:g}{words}"


def _earned(row: Row, outcome: str) -> dict[str, Any]:
    """Return the results of a finished run; only a converged run has a time to train."""
    converged = outcome == "converged"
    ratio = row["staging_s"] / row["epoch_s"] if row["staging_s"] > 0 else math.nan
    score = RunScore(
        time_to_train_s=row["run_s"] if converged else math.nan,
        run_s=row["run_s"],
        epochs_to_target=row["epochs"] if converged else math.nan,
        best_quality=row["best_quality"],
        last_quality=row["last_quality"],
        train_rate_samples_per_s=row["train_rate_samples_per_s"],
        evaluation_rate_samples_per_s=row["evaluation_rate_samples_per_s"],
        epoch_s=row["epoch_s"],
        staging_epoch_ratio=ratio,
    )
    parts = {"init_s": row["init_s"], "staging_s": row["staging_s"]}
    return {**asdict(score), **parts, "training_s": row["train_s"], "evaluation_s": row["evaluation_s"]}


def _judged(row: Row, verdict: LogVerdict | None) -> dict[str, str]:
    """Return the division for which the log is valid, and its failures and irregularities."""
    if verdict is None:
        return {"valid_for": NOT_JUDGED, "invalid_reasons": "", "flags": ""}
    level = rules_of(SUITE).levels.get(str(row["division"]), str(row["division"]))
    messages = list(dict.fromkeys(finding.message for finding in verdict.failures))
    more = len(messages) - _FAILURES_NAMED
    named = [*messages[:_FAILURES_NAMED], *([f"and {more} more, see mlperf_verdicts"] if more > 0 else [])]
    flags = f"irregularities of the log: {row['repairs']}, see mlperf_repairs" if row["repairs"] else ""
    return {
        "valid_for": level if verdict.complies else "none",
        "invalid_reasons": join_reasons(named),
        "flags": flags,
    }


def study_epochs(own: Mapping[str, Any], run: LoggedRun) -> Iterator[dict[str, Any]]:
    """Yield the epochs of an imported run as rows of ``epochs``.

    Parameters
    ----------
    own
        Its row of ``runs``.
    run
        The run.

    Yields
    ------
    dict
        ``STUDY_EPOCH_COLUMNS``, always counted from 1. Evaluation time covers the evaluations that begin before the
        next epoch; quality is the last one logged before it. Logs yield nothing if they have blocks of epochs, numbers
        of samples instead of epochs, or evaluations that extend into another epoch: they do not define times of
        epochs.
    """
    spans = run.epochs
    if run.epochs_in_blocks != len(spans) or interval_samples(run) is not None or not _apart(run):
        return
    samples, evaluation_samples = count_of(run, "train_samples"), count_of(run, "eval_samples")
    for number, span in enumerate(spans):
        end_ms = spans[number + 1].start_ms if number + 1 < len(spans) else math.inf
        inside = [part for part in run.evaluations if span.start_ms <= part.start_ms < end_ms]
        evaluation_s = sum(part.duration_s for part in inside) if inside else math.nan
        within_s = sum(part.duration_s for part in inside if part.stop_ms <= span.stop_ms)
        train_s = span.duration_s - within_s
        # A score after epoch_stop may have the same time as the start of the next epoch.
        qualities = [score.value for score in run.scores if span.start_ms < score.time_ms <= end_ms]
        yield {
            **{name: own[name] for name in STUDY_EPOCH_COLUMNS if name in own},
            "epoch": number + 1,
            "samples": samples,
            "train_s": train_s,
            "evaluation_s": evaluation_s,
            "evaluation_samples": len(inside) * evaluation_samples if inside and evaluation_samples else math.nan,
            "quality": qualities[-1] if qualities else math.nan,
            "train_rate_samples_per_s": samples / train_s if samples and train_s > 0 else math.nan,
        }


def _apart(run: LoggedRun) -> bool:
    """Return whether every evaluation ends before the next epoch begins, and no two epochs overlap."""
    starts = [span.start_ms for span in run.epochs]
    for part in (*run.evaluations, *run.epochs):
        if any(part.start_ms < start < part.stop_ms for start in starts):
            return False
    return True


def run_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows of ``runs`` as a table with the types of our own."""
    frame = pd.DataFrame.from_records(list(rows), columns=list(STUDY_RUN_COLUMNS))
    flags = dict.fromkeys(("dirty", "ranks_identical", "time_staging"), "boolean")
    texts = [name for name in (*_TEXTS, "started_utc") if name in frame]
    frame[texts] = frame[texts].fillna("")
    numbers = [field.name for kind in (RunScore, TimeParts, TimeShares) for field in fields(kind)]
    return frame.astype({**flags, **dict.fromkeys(numbers, "float64")})


def epoch_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows of ``epochs`` as a table with the types of our own."""
    frame = pd.DataFrame.from_records(list(rows), columns=list(STUDY_EPOCH_COLUMNS))
    numbers = [name for name in EpochRecord.model_fields if name != "epoch"]
    return frame.astype(dict.fromkeys(numbers, "float64"))
