"""Ranking of results of several machines and studies, own and declared ones: like with like only."""

import math
from collections.abc import Iterable
from typing import Any, get_args

import pandas as pd

from hpcai.config.benchmark import Suite
from hpcai.metrics.roofline_placing import number_of, records_of
from hpcai.metrics.validity import label_result
from hpcai.metrics.vflops import quality_coefficient, valid_rate
from hpcai.rules.table import rules_of

RANKING_COLUMNS = (
    "list", "group", "place", "score", "score_low", "score_high", "score_unit", "measure", "ratio_to_first", "valid",
    "note", "reason", "method", "origin", "result", "machine", "suite", "workload", "benchmark", "dataset", "variant",
    "scale", "nodes", "ranks", "precision", "compression", "n", "quality_metric", "quality", "quality_target",
    "exponent", "quality_coefficient_ratio", "rate_flop_per_s", "valid_rate_flop_per_s", "time_to_quality_s",
    "time_to_train_s", "valid_flop_per_j", "label", "source",
)  # fmt: skip
"""One row for each result and list that it stands in (table `ranking`).

`group` is "ranked", "not valid" (in the list's order, without a place) or "not ranked" (in no list); `reason` says why
for the last two. `ratio_to_first` compares with the first of the same group: 1 for it, less for the others. `valid` is
"valid", "not valid" or "declared", which nobody here could judge.
"""
VFLOPS, FLOPS, TIME_TO_TRAIN = "VFLOPS", "FLOPS", "time to train"
UNITS = {VFLOPS: "FLOP/s", FLOPS: "FLOP/s", TIME_TO_TRAIN: "s"}
RANKED, NOT_VALID, NOT_RANKED = "ranked", "not valid", "not ranked"
VALID, DECLARED = "valid", "declared"
LIKE = ("workload", "dataset", "quality_metric", "quality_target")
"""What results of one list share, besides the measure and its exponent."""
_GROUPS = (RANKED, NOT_VALID, NOT_RANKED)
_BOUNDS = {
    VFLOPS: ("valid_rate_flop_per_s", "valid_rate_low_flop_per_s", "valid_rate_high_flop_per_s"),
    FLOPS: ("rate_flop_per_s", "rate_low_flop_per_s", "rate_high_flop_per_s"),
    TIME_TO_TRAIN: ("time_to_train_s", "", ""),
}
Row = dict[str, Any]


def rank_results(scores: pd.DataFrame) -> pd.DataFrame:
    """Return every result with its place among those that it can be compared with.

    Parameters
    ----------
    scores
        ``SCORE_COLUMNS``, of one study or of several, own and declared ones concatenated.

    Returns
    -------
    pandas.DataFrame
        ``RANKING_COLUMNS``. A list holds results of one workload, dataset, metric, target, measure and exponent:
        VFLOPS of suites that define them, FLOPS where a result has no VFLOPS, for other suites the time to train. Equal
        scores share a place. Own results that are not valid by their suite's rules stand in the list's order in a group
        of their own, without a place; declared ones get a place and are marked. An own result also stands in a declared
        list of another exponent, if workload, dataset, metric and target are the same: its VFLOPS is then computed
        again with that exponent from its FLOPS and quality, which `note` says.
    """
    rows = [_entry(row) for row in records_of(scores)]
    rows += _recompute(rows)
    ranking = pd.DataFrame(rows, columns=list(RANKING_COLUMNS))
    if ranking.empty:
        return ranking.astype({"place": "Int64"})
    ranking = ranking.sort_values(["origin", "result", "machine", "variant", "scale"], kind="stable")
    placed = pd.concat([_place(group) for _, group in ranking.groupby(["list", "group"], sort=False)])
    keys = placed.assign(
        _group=placed["group"].map({name: number for number, name in enumerate(_GROUPS)}),
        _measure=placed["measure"].map({name: number for number, name in enumerate(UNITS)}),
    )
    order = ["workload", "dataset", "_measure", "list", "_group"]
    columns = list(RANKING_COLUMNS)
    return keys.sort_values(order, kind="stable", ignore_index=True)[columns].astype({"place": "Int64"})


def _entry(row: Row) -> Row:
    """Return a result with its list, score and group."""
    measure, why = _measure(row)
    valid, reason = _validity(row)
    if why:
        return {**row, "list": "", "group": NOT_RANKED, "valid": valid, "note": "", "reason": why, "score": math.nan}
    group = NOT_VALID if valid == NOT_VALID else RANKED
    value, low, high = _BOUNDS[measure]
    return {
        **row,
        "list": _name_list(row, measure),
        "group": group,
        "score": float(row[value]),
        "score_low": row.get(low, math.nan),
        "score_high": row.get(high, math.nan),
        "score_unit": UNITS[measure],
        "measure": measure,
        "valid": valid,
        "note": "",
        "reason": reason,
    }


def _measure(row: Row) -> tuple[str, str]:
    """Return what a result is ranked by, or why it is not."""
    defines_rates = bool(_exponents(str(row["suite"])))
    if not defines_rates:
        if number_of(row, "time_to_train_s") > 0:
            return TIME_TO_TRAIN, ""
        return "", "not ranked: its suite ranks by the time to train, and the target was not reached as the rules ask"
    if number_of(row, "valid_rate_flop_per_s") > 0 and number_of(row, "exponent") > 0:
        return VFLOPS, ""
    if number_of(row, "rate_flop_per_s") > 0:
        return FLOPS, ""
    return "", f"not ranked: neither VFLOPS nor FLOPS ({row['reason'] or 'no run trained to its end'})"


def _exponents(suite: str) -> dict[str, int]:
    """Return the exponents of VFLOPS of a suite; none for one that defines no VFLOPS or has no rules here."""
    known: tuple[Suite, ...] = get_args(Suite)
    return next((dict(rules_of(name).results.exponents) for name in known if name == suite), {})


def _validity(row: Row) -> tuple[str, str]:
    if row["method"] == DECLARED:
        return DECLARED, ""
    known: tuple[Suite, ...] = get_args(Suite)
    if any(row["label"] == label_result(name, ()) for name in known if name == row["suite"]):
        return VALID, ""
    return NOT_VALID, str(row["label"]) or "not a valid result: it was not judged"


def _name_list(row: Row, measure: str) -> str:
    target = f"{row['quality_metric']} {number_of(row, 'quality_target'):g}"
    exponent = f", n = {number_of(row, 'exponent'):g}" if measure == VFLOPS else ""
    return f"{row['workload']}, {row['dataset']}, {target}: {measure}{exponent}"


def _recompute(entries: Iterable[Row]) -> list[Row]:
    """Return own results as they stand in declared lists of another exponent."""
    rows = [row for row in entries if row["group"] != NOT_RANKED]
    lists = {_like(row): set[float]() for row in rows}
    for row in rows:
        if row["method"] == DECLARED and row["measure"] == VFLOPS:
            lists[_like(row)].add(float(row["exponent"]))
    own = [row for row in rows if row["method"] != DECLARED and row["measure"] == VFLOPS and row["quality"] >= 0]
    return [
        _at_exponent(row, exponent) for row in own for exponent in sorted(lists[_like(row)] - {float(row["exponent"])})
    ]


def _like(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in LIKE)


def _at_exponent(row: Row, exponent: float) -> Row:
    rate, quality, target = (float(row[name]) for name in ("rate_flop_per_s", "quality", "quality_target"))
    score = valid_rate(rate, quality, target, exponent)
    made = {
        **row,
        "exponent": exponent,
        "quality_coefficient_ratio": quality_coefficient(quality, target, exponent),
        "valid_rate_flop_per_s": score,
        "valid_flop_per_j": math.nan,
        "score": score,
        "score_low": math.nan,
        "score_high": math.nan,
        "note": f"recomputed with n = {exponent:g} from its FLOPS and quality; its own n is {row['exponent']:g}",
    }
    return {**made, "list": _name_list(made, VFLOPS)}


def _place(group: pd.DataFrame) -> pd.DataFrame:
    """Sort one group of one list, the best first, with places and ratios."""
    if group["group"].iloc[0] == NOT_RANKED:
        return group.assign(place=math.nan, ratio_to_first=math.nan)
    shorter_wins = group["measure"].iloc[0] == TIME_TO_TRAIN
    ordered = group.sort_values("score", ascending=shorter_wins, kind="stable")
    first = ordered["score"].iloc[0]
    ratio = first / ordered["score"] if shorter_wins else ordered["score"] / first
    place = ordered["score"].rank(method="min", ascending=shorter_wins)
    return ordered.assign(
        place=place if ordered["group"].iloc[0] == RANKED else math.nan, ratio_to_first=ratio.astype(float)
    )
