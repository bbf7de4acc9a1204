"""Find the comparable points of two results, and count their failed runs."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from hpcai.catalogue.points import SERIES
from hpcai.catalogue.tables import columns_of
from hpcai.compare.changes import flatten
from hpcai.compare.study import PointKey, Study
from hpcai.core.messages import Message
from hpcai.metrics.scaling.trials import COMPLETE
from hpcai.metrics.scores.validity import common_levels
from hpcai.metrics.statistics.significance import compare_failures, correct_holm

NOT_IN_BASE = Message("points.not_in_base", "not in the base")
NOT_IN_NEW = Message("points.not_in_new", "not in the new result")
POINT_COLUMNS = columns_of("comparison_points")
"""One row per point of either result. `status`: compared, not_comparable, only_base, only_new. `finished` counts the
runs that completed training; `p_failures` is Fisher's one-sided p that the new runs miss the target more often."""
IDENTITY = ("suite", "workload", "quality_metric", "quality_target")
"""Properties that must be equal: a different value defines a different problem."""
NOT_THE_DATA = ("path", "archives", "source")
"""The source of the data does not define their content."""


def match_points(base: Study, new: Study) -> pd.DataFrame:
    """Return all points of two results, marking the comparable ones.

    Parameters
    ----------
    base, new
        Two results.

    Returns
    -------
    pandas.DataFrame
        :data:`POINT_COLUMNS`, ordered by benchmark, variant and ranks. The p values of failures are corrected by Holm
        over all compared points.
    """
    sides = (base.point_runs(), new.point_runs())
    rows = [_point_row(key, (base, new), sides) for key in dict.fromkeys([*sides[0], *sides[1]])]
    frame = pd.DataFrame(rows, columns=list(POINT_COLUMNS))
    frame["p_failures_corrected"] = correct_holm(frame["p_failures"].astype(float).tolist())
    return frame.sort_values([*SERIES, "ranks", "scale"], kind="stable", ignore_index=True)


def key_of(row: Mapping[Any, Any]) -> PointKey:
    """Return the key of a row's point."""
    return PointKey(*(row[name] for name in PointKey._fields))


def _point_row(
    key: PointKey, studies: tuple[Study, Study], sides: tuple[Mapping[PointKey, pd.DataFrame], ...]
) -> dict[str, Any]:
    parts = [side.get(key) for side in sides]
    there = [part for part in parts if part is not None]
    status, reason = _status(studies, parts)
    counts: dict[str, Any] = {}
    for name, study, part in zip(("base", "new"), studies, parts, strict=True):
        counts |= _counts(name, key, study, part)
    compared = status == "compared"
    ends = [counts[f"{kind}_{name}"] for name in ("base", "new") for kind in ("converged", "runs")]
    return {
        "status": status,
        "reason": reason,
        "suite": there[0]["suite"].iloc[0],
        "workload": there[0]["workload"].iloc[0],
        **key._asdict(),
        "ranks": int(there[0]["ranks"].iloc[0]),
        **counts,
        "p_failures": compare_failures(*ends) if compared else math.nan,
        "source": " | ".join(str(study.tables[0]) for study in studies),
    }


def _counts(name: str, key: PointKey, study: Study, runs: pd.DataFrame | None) -> dict[str, Any]:
    if runs is None:
        return {f"runs_{name}": 0, f"converged_{name}": 0, f"finished_{name}": 0, f"valid_for_{name}": ""}
    outcomes = runs["outcome"]
    row = study.point_row(key)
    valid_for = str(row["valid_for"]) if row.get("valid_for") else common_levels(runs.get("valid_for", ["none"]))
    return {
        f"runs_{name}": len(runs),
        f"converged_{name}": int((outcomes == "converged").sum()),
        f"finished_{name}": int(outcomes.isin(COMPLETE).sum()),
        f"valid_for_{name}": valid_for,
    }


def _status(studies: tuple[Study, Study], parts: list[pd.DataFrame | None]) -> tuple[str, str]:
    base, new = parts
    if base is None:
        return "only_new", NOT_IN_BASE()
    if new is None:
        return "only_base", NOT_IN_NEW()
    before, after = (_identity(study, runs) for study, runs in zip(studies, (base, new), strict=True))
    reasons = list(_differences(before, after))
    return ("not_comparable", "; ".join(reasons)) if reasons else ("compared", "")


def _differences(before: Mapping[str, set[str]], after: Mapping[str, set[str]]) -> Iterator[str]:
    for name in dict.fromkeys([*before, *after]):
        # A fact that one side lacks, such as the metric of runs that all failed, is no contradiction.
        values = before.get(name), after.get(name)
        if values[0] and values[1] and values[0] != values[1]:
            words = [" and ".join(sorted(value)) for value in values if value]
            yield f"{name} {words[0]} against {words[1]}"


def _identity(study: Study, runs: pd.DataFrame) -> dict[str, set[str]]:
    found = {name: {say_value(value) for value in runs[name].dropna()} - {""} for name in IDENTITY if name in runs}
    # Downloaded and pre-existing data count as equal; generated data never do.
    found["data"] = {"generated" if source == "generated" else "official" for source in runs["data_source"]}
    for run_id in runs["run_id"]:
        plan = study.records.get(str(run_id), {}).get("plan", {})
        for name, value in flatten(plan.get("benchmark", {}).get("data", {}), "data"):
            if name.split(".")[1] not in NOT_THE_DATA:
                found.setdefault(name, set()).add(say_value(value))
    return found


def say_value(value: object) -> str:
    """Return a value in a form that is the same for two tables of different types."""
    return f"{value:.15g}" if isinstance(value, float) else str(value)
