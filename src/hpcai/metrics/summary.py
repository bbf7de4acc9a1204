"""Summary for the first screen of the report, as one JSON-serialisable dictionary."""

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import pandas as pd

from hpcai.core.messages import Message
from hpcai.core.stalls import say_stall
from hpcai.metrics.scaling.scales import OUTCOMES
from hpcai.metrics.scores.validity import NOT_VALID, label_result, split_reasons
from hpcai.metrics.statistics.summaries import INTERVAL, LEVEL
from hpcai.records.run import RunRecord
from hpcai.rules.table import rules_of

NOTHING = "no run has been recorded yet"
CONVERGED = Message("summary.converged", "{converged} of {n} runs converged")
NO_RESULT_AT = Message("summary.no_result_at", "no result of the {word}s at {scales} of {of} scales")
TOO_FEW_AT = Message("summary.too_few_at", "too few {word}s at {scales} of {of} scales")
HOLD_A_PAUSE = Message("summary.hold_a_pause", "the times of {runs} include a pause: {named}")
ALL_VALID = Message("summary.all_valid", "the records show no deviation from the rules")
_NAMED = 3
"""Number of runs named in a sentence; the table lists all."""


def summarise_study(
    runs: pd.DataFrame, scales: pd.DataFrame, records: Sequence[RunRecord], *, title: str = ""
) -> dict[str, Any]:
    """Return the summary of a study for the report's landing page and captions.

    Parameters
    ----------
    runs, scales
        The tables of runs and of scales.
    records
        The records behind the tables, for titles, machine facts and versions, which no table contains.
    title
        Title of the study; defaults to its name.

    Returns
    -------
    dict
        Strings, integers, floats, booleans, None ("not measured"), lists and dictionaries only. Texts are copied from
        settings and records, so a page must escape them.
    """
    dates = sorted(record.started_utc for record in records)
    facts = _collect(record.provenance.machine_facts for record in records)
    results = [_result(row) for row in scales.to_dict("records")]
    verdicts = _verdicts(runs, results)
    return {
        "study": {"name": _only(runs.get("study")), "title": title or _only(runs.get("study"))},
        "machine": _machine(records, facts),
        "benchmarks": _benchmarks(records),
        "counts": {"runs": len(runs), **{name: int((runs["outcome"] == name).sum()) for name in OUTCOMES}},
        "dates": {"first_utc": dates[0] if dates else None, "last_utc": dates[-1] if dates else None},
        "rules": _rules(records),
        "commits": sorted({record.provenance.commit or "unknown" for record in records}),
        "dirty": any(record.provenance.dirty is not False for record in records),
        "locks": sorted({record.provenance.lock_sha256 or "unknown" for record in records}),
        "versions": _collect(record.provenance.software for record in records),
        "method": "measured",
        "interval_level": LEVEL,
        "interval": INTERVAL,
        "results": results,
        "verdict": _verdict(runs, results, verdicts),
        "verdicts": verdicts,
        "notice": _notice(verdicts),
        "failures": _failures(runs, records),
        "records": [str(path) for path in runs["record_path"]],
    }


def _result(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return one row of the table of scales with Python's own types; NaN becomes None."""
    result: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, str):
            result[key] = value
        elif isinstance(value, Integral):
            result[key] = int(value)
        else:
            result[key] = float(value) if math.isfinite(value) else None
    return result


def _machine(records: Sequence[RunRecord], facts: list[dict[str, str]]) -> dict[str, Any]:
    titles = dict.fromkeys((record.plan.machine.name, record.plan.machine.title) for record in records)
    hosts = {rank.placement.hostname for record in records for rank in record.ranks}
    return {
        "name": ", ".join(name for name, _ in titles),
        "title": "; ".join(title for _, title in titles),
        "hosts": len(hosts),
        "facts": facts,
    }


def _benchmarks(records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """Return one entry per benchmark: the workload, its data and its target."""
    found: dict[str, dict[str, Any]] = {}
    for record in records:
        benchmark = record.plan.benchmark
        entry = found.setdefault(
            benchmark.name,
            {
                "name": benchmark.name,
                "suite": rules_of(benchmark.suite).title,
                "workload": benchmark.workload,
                "title": benchmark.title,
                "data_source": record.data_source,
                "train_samples": benchmark.data.train_samples,
                "validation_samples": benchmark.data.validation_samples,
                "target": benchmark.target.value,
                "target_official": benchmark.target.official,
                "target_note": benchmark.target.note,
                "metric": None,
                "unit": "",
                "parameters": None,
            },
        )
        if record.training:
            report = record.training
            entry |= {"metric": report.quality_metric, "unit": report.quality_unit, "parameters": report.parameters}
    return [found[name] for name in sorted(found)]


def _failures(runs: pd.DataFrame, records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """Return every run that did not converge, and every run that needed more than one attempt."""
    by_id = {record.run_id: record for record in records}
    failures = []
    for row in runs.itertuples():
        earlier = by_id[str(row.run_id)].earlier_attempts
        if row.outcome == "converged" and not earlier:
            continue
        failures.append(
            {
                "run_id": row.run_id,
                "outcome": row.outcome,
                "reason": row.reason,
                "record_path": row.record_path,
                "earlier": [f"{attempt.outcome}: {attempt.reason}" for attempt in earlier],
            }
        )
    return failures


def _rules(records: Sequence[RunRecord]) -> dict[str, Any]:
    """Return the rules of the runs: rule set and clock are those of MLPerf HPC's benchmarks."""
    staged = [record.plan for record in records if record.plan.benchmark.suite == "mlperf_hpc"]
    return {
        "suites": [rules_of(suite).title for suite in sorted({record.plan.benchmark.suite for record in records})],
        "rule_sets": sorted({plan.rule_set for plan in staged}),
        "staging_on_clock": sorted({plan.time_staging for plan in staged}),
    }


def _verdicts(runs: pd.DataFrame, results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry per benchmark: its suite, and what makes its results invalid."""
    verdicts = []
    for benchmark, group in runs.groupby("benchmark"):
        suite = group["suite"].iloc[0]
        own = [result for result in results if result["benchmark"] == benchmark]
        reasons = [*split_reasons(group["invalid_reasons"]), *_about_numbers(own, rules_of(suite).results.word)]
        verdicts.append(
            {
                "benchmark": benchmark,
                "suite": rules_of(suite).title,
                "label": label_result(suite, reasons),
                "flags": split_reasons(group["flags"]),
                "valid": not reasons,
            }
        )
    return verdicts


def _about_numbers(results: Sequence[Mapping[str, Any]], word: str) -> list[str]:
    """Return objections that follow from the number of runs and of failures."""
    lost = [result for result in results if result["no_result"]]
    few = [result for result in results if result["n_counted"] < result["runs_by_rule"]]
    sentences = {NO_RESULT_AT: lost, TOO_FEW_AT: few}
    return [words(word=word, scales=len(found), of=len(results)) for words, found in sentences.items() if found]


def _verdict(runs: pd.DataFrame, results: Sequence[Mapping[str, Any]], verdicts: Sequence[Mapping[str, Any]]) -> str:
    """Return one sentence on the whole study: converged runs, and the conclusion for each suite."""
    if runs.empty:
        return NOTHING
    n_ok = int((runs["outcome"] == "converged").sum())
    too_few = [result for result in results if result["n_counted"] < result["runs_by_rule"]]
    few = f"; {TOO_FEW_AT(word='run', scales=len(too_few), of=len(results))}" if too_few else ""
    return f"{CONVERGED(converged=n_ok, n=len(runs))}{few}{_stalled(runs)}; {_notice(verdicts)}"


def _stalled(runs: pd.DataFrame) -> str:
    """Name the runs whose times include a pause: they count, but readers must know."""
    stalled = runs[runs["stalls"] > 0].sort_values("stall_max_s", ascending=False)
    if stalled.empty:
        return ""
    rows = stalled.to_dict("records")
    named = [f"{row['run_id']} ({say_stall(row['stall_max_s'], row['stall_beside_s'])})" for row in rows]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"; {HOLD_A_PAUSE(runs=len(named), named=', '.join(named[:_NAMED]) + more)}"


def _notice(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """Return one sentence for every figure and table: which benchmarks are no valid results of their suite."""
    suites = dict.fromkeys(verdict["suite"] for verdict in verdicts)
    sentences = []
    for suite in suites:
        names = [verdict["benchmark"] for verdict in verdicts if verdict["suite"] == suite and not verdict["valid"]]
        if names:
            sentences.append(NOT_VALID(suite=suite, reasons=", ".join(names)))
    return "; ".join(sentences) if sentences else ALL_VALID()


def _collect(dictionaries: Iterable[Mapping[str, object]]) -> list[dict[str, str]]:
    """Join the runs' own descriptions: all distinct values of each key, in the order of keys."""
    found: dict[str, dict[str, None]] = {}
    for dictionary in dictionaries:
        for key, value in dictionary.items():
            found.setdefault(key, {})["unknown" if value is None else str(value)] = None
    return [{"name": key, "value": " | ".join(found[key])} for key in sorted(found)]


def _only(values: pd.Series | None) -> str:
    """Return the single value of a column, or all of its values."""
    return ", ".join(dict.fromkeys(str(value) for value in values)) if values is not None else ""
