"""Changes of every score between two results, with the significance that the number of runs allows."""

import math
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from hpcai.catalogue.points import POINT, SERIES
from hpcai.catalogue.tables import columns_of
from hpcai.compare.measures import MEASURES, QUALITY, Better, Measure, direction_of, values_of
from hpcai.compare.points import key_of, say_value
from hpcai.compare.study import PointKey, Study
from hpcai.core.messages import Message
from hpcai.metrics.statistics.detectable import detectable_ratio
from hpcai.metrics.statistics.significance import Significance, compare_samples, correct_holm

NOT_OF_ONE_KIND = Message("scores.not_of_one_kind", "not of one kind: {differences}")
COMPARISON_COLUMNS = columns_of("comparison")
"""One row per point and score, and one without a `measure` per point that is not compared (`note` gives the reason).

`ratio` is new over base; `p_corrected` is `p_bounded` corrected for all scores of the table (Holm), or `p_permutation`
without a spread. `detectable_ratio` is the smallest change that the rule detects with 80 % probability, after the
correction, if only that score changes. `finding`: "worse", "better" or "different" (significant, the last without a
direction), "not significant", "too few runs" (no spread, and no permutation of them reaches 5 %),
"one run", "not measured", "not comparable", "no ratio", "identical" (equal values on both sides).
"""
FINDINGS = (
    "worse", "different", "better", "not comparable", "not significant", "too few runs", "one run", "no ratio",
    "not measured", "identical",
)  # fmt: skip
"""In order of importance."""


def compare_scores(
    base: Study,
    new: Study,
    points: pd.DataFrame,
    measures: Sequence[Measure] = MEASURES,
    wanted: Collection[tuple[PointKey, str]] | None = None,
) -> pd.DataFrame:
    """Return the change of every score at every point.

    Parameters
    ----------
    base, new
        Two results.
    points
        Their points (:func:`hpcai.compare.points.match_points`).
    measures
        The scores; more of them make the correction stricter.
    wanted
        Points and columns of scores to compare; defaults to all.

    Returns
    -------
    pandas.DataFrame
        :data:`COMPARISON_COLUMNS`, most important first: by finding, then by measure, then by the size of the change.
        Scores that neither side has are omitted.
    """
    before, after = base.point_runs(), new.point_runs()
    rows: list[dict[str, Any]] = []
    for point in points.to_dict("records"):
        about = {name: point[name] for name in ("status", "suite", "workload", *POINT, "ranks")}
        if point["status"] != "compared":
            rows.append({**about, "finding": "not comparable", "measure": "", "note": point["reason"]})
            continue
        key = key_of(point)
        own = [measure for measure in measures if wanted is None or (key, measure.column) in wanted]
        rows += [about | row for measure in own if (row := _score_row(measure, (before[key], after[key])))]
    source = " | ".join(", ".join(map(str, study.tables[:2])) for study in (base, new))
    frame = pd.DataFrame(rows, columns=list(COMPARISON_COLUMNS)).assign(source=source)
    return _sort(_judge(frame), measures)


def _score_row(measure: Measure, sides: tuple[pd.DataFrame, pd.DataFrame]) -> dict[str, Any] | None:
    """Return the change of one score at one point; None if neither side has it."""
    values = [values_of(side, measure) for side in sides]
    if not any(values):
        return None
    other = [name for name in measure.needs if _said(sides[0], name) != _said(sides[1], name)]
    change = _not_of_one_kind(sides, values, other) if other and all(values) else compare_samples(*values)
    cells = asdict(change)
    renamed = {"low_ratio": cells.pop("low"), "high_ratio": cells.pop("high")}
    better = _direction(measure, sides)
    return {**cells, **renamed, "measure": measure.column, "unit": _unit(measure, sides), "better": better}


def _said(runs: pd.DataFrame, column: str) -> set[str]:
    return {say_value(value) for value in runs[column].dropna()} - {""} if column in runs else set()


def _not_of_one_kind(
    sides: tuple[pd.DataFrame, pd.DataFrame], values: Sequence[Sequence[float]], names: Sequence[str]
) -> Significance:
    words = [
        f"{name} {', '.join(sorted(_said(sides[0], name))) or 'unknown'} against "
        f"{', '.join(sorted(_said(sides[1], name))) or 'unknown'}"
        for name in names
    ]
    means = [math.fsum(side) / len(side) for side in values]
    return Significance(
        base_value=means[0],
        new_value=means[1],
        n_base=len(values[0]),
        n_new=len(values[1]),
        method="not comparable",
        note=NOT_OF_ONE_KIND(differences="; ".join(words)),
    )


def _direction(measure: Measure, sides: tuple[pd.DataFrame, pd.DataFrame]) -> Better:
    """Return the direction of improvement, from the runs of either side."""
    return direction_of(measure, sides[0]) or direction_of(measure, sides[1])


def _unit(measure: Measure, sides: tuple[pd.DataFrame, pd.DataFrame]) -> str:
    if measure.column != QUALITY:
        return measure.unit
    return "; ".join(sorted(set().union(*(_said(side, "quality_unit") for side in sides))))


def _judge(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the corrected p values and the findings."""
    p_values = frame["p_bounded"].astype(float).fillna(frame["p_permutation"].astype(float))
    frame["p_corrected"] = correct_holm(p_values.tolist())
    tested = count_tested(frame)
    frame["detectable_ratio"] = [
        detectable_ratio(row["spread_ratio"], int(row["n_base"]), int(row["n_new"]), tested)
        if row["spread_ratio"] > 0
        else math.nan
        for row in frame.to_dict("records")
    ]
    frame["measure"] = frame["measure"].fillna("")
    frame["finding"] = [_finding(row) for row in frame.to_dict("records")]
    kinds = dict.fromkeys(columns_of("comparison", "number", "count"), "float64")
    flags = dict.fromkeys(columns_of("comparison", "truth"), "boolean")
    return frame.astype({**flags, **kinds}).fillna(dict.fromkeys(columns_of("comparison", "text"), ""))


def count_tested(scores: pd.DataFrame) -> int:
    """Return the number of scores for which the p values of a comparison are corrected."""
    return int(scores["p_corrected"].notna().sum())


def _finding(row: dict[Any, Any]) -> str:
    cases = {
        "not comparable": not row["measure"] or row["method"] == "not comparable",
        "not measured": not (row["n_base"] and row["n_new"]),
        "identical": row["identical"] is True,
        "no ratio": math.isnan(row["ratio"]),
        "one run": row["n_base"] == 1 or row["n_new"] == 1,
    }
    return next((name for name, holds in cases.items() if holds), None) or _tested(row)


def _tested(row: dict[Any, Any]) -> str:
    """Return the finding of the tests."""
    change = Significance(**{name: row[name] for name in ("p_bounded", "p_permutation", "smallest_p", "beyond_range")})
    if not change.is_significant(row["p_corrected"]):
        return "not significant" if change.can_be_significant else "too few runs"
    if not row["better"]:
        return "different"
    return "worse" if (row["ratio"] > 1) == (row["better"] == "lower") else "better"


def _sort(frame: pd.DataFrame, measures: Sequence[Measure]) -> pd.DataFrame:
    ranks = {measure.column: number for number, measure in enumerate(measures)}
    ratios = frame["ratio"].astype(float)
    keyed = frame.assign(
        by_finding=frame["finding"].map(FINDINGS.index),
        by_measure=frame["measure"].map(ranks).fillna(-1),
        by_size=[-abs(math.log(ratio)) if ratio > 0 else 1.0 for ratio in ratios],
    )
    order = ["by_finding", "by_measure", "by_size", *SERIES, "ranks"]
    return keyed.sort_values(order, kind="stable", ignore_index=True)[list(COMPARISON_COLUMNS)]
