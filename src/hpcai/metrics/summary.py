"""What the landing page of the report shows: one JSON-able dictionary with everything that was found."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from hpcai.metrics.scales import OUTCOMES
from hpcai.metrics.statistics import LEVEL
from hpcai.metrics.validity import label_result, split_reasons
from hpcai.records import RunRecord

RESULT_TEXTS = (
    "benchmark", "variant", "scale", "baseline", "time_to_train_score_method", "time_to_train_score_note", "verdict",
    "label",
)  # fmt: skip
RESULT_COUNTS = ("nodes", "ranks_per_node", "ranks", "n", "n_ok", "runs_by_rule", "rate_n", "staging_n", "share_n")
NOTHING = "no run has been recorded yet"


def summarise_study(
    runs: pd.DataFrame, scales: pd.DataFrame, records: Sequence[RunRecord], *, title: str = ""
) -> dict[str, Any]:
    """Return the summary of a study for the report's landing page and captions.

    Parameters
    ----------
    runs, scales
        The tables of runs and of scales.
    records
        The records that the tables were made from: titles, machine facts and versions are in no table.
    title
        Title of the study; its name where there is none.

    Returns
    -------
    dict
        Strings, integers, floats, booleans, None ("not measured"), lists and dictionaries only. Texts are as they
        stand in the settings and records: whoever puts them into a page has to escape them.
    """
    dates = sorted(record.started_utc for record in records)
    facts = _collect(record.provenance.machine_facts for record in records)
    results = [_result(row) for row in scales.to_dict("records")]
    return {
        "study": {"name": _only(runs.get("study")), "title": title or _only(runs.get("study"))},
        "machine": _machine(records, facts),
        "benchmarks": _benchmarks(records),
        "counts": {"runs": len(runs), **{name: int((runs["outcome"] == name).sum()) for name in OUTCOMES}},
        "dates": {"first_utc": dates[0] if dates else None, "last_utc": dates[-1] if dates else None},
        "rules": {
            "rule_sets": sorted({record.plan.rule_set for record in records}),
            "staging_on_clock": sorted({record.plan.time_staging for record in records}),
        },
        "commits": sorted({record.provenance.commit or "unknown" for record in records}),
        "dirty": any(record.provenance.dirty is not False for record in records),
        "locks": sorted({record.provenance.lock_sha256 or "unknown" for record in records}),
        "versions": _collect(record.provenance.software for record in records),
        "method": "measured",
        "interval_level": LEVEL,
        "results": results,
        "verdict": _verdict(runs, results),
        "failures": _failures(runs, records),
        "records": [str(path) for path in runs["record_path"]],
    }


def _result(row: Mapping[Any, Any]) -> dict[str, Any]:
    """One row of the table of scales with Python's own types; NaN becomes None."""
    result: dict[str, Any] = {}
    for key, value in row.items():
        if key in RESULT_TEXTS:
            result[key] = str(value)
        elif key in RESULT_COUNTS or str(key).startswith("n_"):
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
    """One entry for each benchmark: what was trained, on which data, to which target."""
    found: dict[str, dict[str, Any]] = {}
    for record in records:
        benchmark = record.plan.benchmark
        entry = found.setdefault(
            benchmark.name,
            {
                "name": benchmark.name,
                "workload": benchmark.workload,
                "title": benchmark.title,
                "data_source": record.data_source,
                "train_samples": benchmark.data.train_samples,
                "validation_samples": benchmark.data.validation_samples,
                "target": benchmark.target.value,
                "target_official": benchmark.target.official,
                "target_note": benchmark.target.note,
                "metric": None,
                "parameters": None,
            },
        )
        if record.training:
            entry |= {"metric": record.training.quality_metric, "parameters": record.training.parameters}
    return [found[name] for name in sorted(found)]


def _failures(runs: pd.DataFrame, records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """Every run that did not converge, and every run that needed more than one attempt."""
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


def _verdict(runs: pd.DataFrame, results: Sequence[Mapping[str, Any]]) -> str:
    """One sentence on the whole study: how many runs converged, and what the rules say."""
    if runs.empty:
        return NOTHING
    n_ok = int((runs["outcome"] == "converged").sum())
    reasons = split_reasons(runs["invalid_reasons"])
    too_few = [result for result in results if result["n"] < result["runs_by_rule"]]
    few = f"; too few runs at {len(too_few)} of {len(results)} scales" if too_few else ""
    return f"{n_ok} of {len(runs)} runs converged{few}; {label_result(reasons)}"


def _collect(dictionaries: Iterable[Mapping[str, object]]) -> list[dict[str, str]]:
    """Join what the runs say of themselves: all different values of each key, in the order of their keys."""
    found: dict[str, dict[str, None]] = {}
    for dictionary in dictionaries:
        for key, value in dictionary.items():
            found.setdefault(key, {})["unknown" if value is None else str(value)] = None
    return [{"name": key, "value": " | ".join(found[key])} for key in sorted(found)]


def _only(values: pd.Series | None) -> str:
    """Return the one value of a column, or all of them."""
    return ", ".join(dict.fromkeys(str(value) for value in values)) if values is not None else ""
