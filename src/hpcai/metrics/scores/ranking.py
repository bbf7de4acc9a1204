"""Rank results of several machines and studies, own and declared ones, among comparable results only."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.core.messages import Message
from hpcai.core.text import RATES, choose_step
from hpcai.metrics.cells import Row, number_of, records_of
from hpcai.metrics.scores.best_results import (
    DECLARED,
    FLOPS,
    NOT_VALID,
    TIME_TO_TRAIN,
    VALUES,
    VFLOPS,
    best_of,
    judge_validity,
    measures_of,
    score_of,
)
from hpcai.metrics.scores.columns import REPEATED, SCORE_COLUMNS, score_frame
from hpcai.metrics.scores.vflops import compute_vflops, quality_coefficient

RANKING_COLUMNS = columns_of("ranking")
"""One row per list, machine and study: the best result there (table `ranking`).

`group` is "ranked", "not valid" (in the list's order, without a place) or "not ranked" (in no list); `reason` explains
the last two. `ratio_to_first` compares with the first of the same group: 1 for the first, less for others, NaN if the
first has a score of 0. `valid` is "valid", "not valid" or "declared", which we cannot judge.
"""
UNITS = {VFLOPS: "FLOP/s", FLOPS: "FLOP/s", TIME_TO_TRAIN: "s"}
RANKED, NOT_RANKED = "ranked", "not ranked"
LIKE = ("workload", "dataset", "quality_metric", "quality_target")
"""Properties that results of one list share besides the measure. The others are the work of a sample and the exponent
of VFLOPS, or division and timing for times."""
_OWNER = ("method", "origin", "machine")
_GROUPS = (RANKED, NOT_VALID, NOT_RANKED)
_OF_LISTS = ("score_low", "score_high", "score_unit", "measure")
"""Columns left empty for an entry without a list."""
_BOUNDS = {
    VFLOPS: ("vflops_low_flop_per_s", "vflops_high_flop_per_s"),
    FLOPS: ("rate_low_flop_per_s", "rate_high_flop_per_s"),
    TIME_TO_TRAIN: ("", ""),
}
SAME_RUNS = Message("ranking.same_runs", "not ranked: {repeated}, ranked there")
OTHER_WORK = Message("ranking.other_work", "recomputed with {declared} as declared; counted here: {counted}")
NO_STAGING = Message("ranking.no_staging", "staging not stated")
TIME_FIRST = "not ranked: its suite ranks by time to train, and the target was not reached as the rules require"


def rank_results(scores: pd.DataFrame) -> pd.DataFrame:
    """Rank the best result of each machine and study among comparable results.

    Parameters
    ----------
    scores
        ``SCORE_COLUMNS`` of one or several studies, own and declared ones concatenated: all results, not a selection.

    Returns
    -------
    pandas.DataFrame
        ``RANKING_COLUMNS``. A list holds results of one workload, dataset, metric, target and measure. For suites that
        define them, the measures are VFLOPS of one exponent and FLOPS, both for one work per sample, because sources
        count it differently (24.3 GFLOP per ImageNet image here, 23 published); for other suites, times to train of one
        division and timing.
        Each list contains the best result of each machine and study (origin), valid ones first. Equal scores share a
        place. Own results that break their suite's rules are a separate group in the list's order, without a place;
        declared ones are placed and marked. A machine and study without any score for a workload, dataset and target
        has one result in no list. An own result also enters a declared list with another work per sample or exponent,
        if workload, dataset, metric and target agree: its FLOPS are then recomputed with that work, and its VFLOPS with
        that exponent from its FLOPS and quality, as stated in `note`. Imported runs that were published again (equal
        `runs_sha256`) have one place per division, under the first name of an origin and where their timing is known;
        the others are not ranked and refer to it.
    """
    filled = records_of(score_frame(records_of(scores), SCORE_COLUMNS))
    rows = [entry for row in filled for entry in _entries(row)]
    rows = _keep_best(_each_once([*rows, *_recompute(rows)]))
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


def _entries(row: Row) -> list[Row]:
    """Return a result once per list that it belongs to, with its score and group."""
    measures = [measure for measure in measures_of(str(row["suite"])) if score_of(row, measure) >= 0]
    if measures:
        return [_entry(row, measure) for measure in measures]
    why = f"not ranked: neither VFLOPS nor FLOPS ({row['reason'] or 'no run completed training'})"
    reason = TIME_FIRST if TIME_TO_TRAIN in measures_of(str(row["suite"])) else why
    return [_not_ranked(row, reason)]


def _not_ranked(row: Row, reason: str) -> Row:
    valid = judge_validity(row)[0]
    plain = {name: value for name, value in row.items() if name not in _OF_LISTS}
    return {**plain, "list": "", "group": NOT_RANKED, "valid": valid, "note": "", "reason": reason, "score": math.nan}


def _entry(row: Row, measure: str) -> Row:
    valid, reason = judge_validity(row)
    low, high = _BOUNDS[measure]
    return {
        **row,
        "list": _name_list(row, measure),
        "group": NOT_VALID if valid == NOT_VALID else RANKED,
        "score": float(row[VALUES[measure]]),
        "score_low": row.get(low, math.nan),
        "score_high": row.get(high, math.nan),
        "score_unit": UNITS[measure],
        "measure": measure,
        "valid": valid,
        "note": "",
        "reason": reason,
    }


def _name_list(row: Row, measure: str) -> str:
    target = f"{row['quality_metric']} {number_of(row, 'quality_target'):g}"
    particular = {
        VFLOPS: f", n = {number_of(row, 'exponent'):g}, {_name_work(row)}",
        FLOPS: f", {_name_work(row)}",
        TIME_TO_TRAIN: f", {_name_division(row)}, {row['timing'] or NO_STAGING()}",
    }
    return f"{row['workload']}, {row['dataset']}, {target}: {measure}{particular[measure]}"


def _name_work(row: Row) -> str:
    flop = number_of(row, "flop_per_sample")
    if math.isnan(flop):
        return "work per sample not stated"
    factor, prefix = choose_step(flop, RATES)
    return f"{flop / factor:.4g} {prefix}FLOP per sample"


def _name_division(row: Row) -> str:
    return f"{row['division']} division" if row["division"] else "division not stated"


def _each_once(entries: Sequence[Row]) -> list[Row]:
    """Return entries; runs that were published before are without a list.

    The rules of one round may define where staging happened when those of another do not: it is then known.
    """
    listed = [row for row in entries if row["group"] != NOT_RANKED and row["runs_sha256"]]
    first: dict[tuple[str, ...], Row] = {}
    for row in sorted(listed, key=lambda row: (row["timing"] == "", str(row["origin"]), str(row["machine"]))):
        first.setdefault(_same_runs(row), row)
    places = {id(row): first[_same_runs(row)] for row in listed}
    return [_not_again(row, places.get(id(row), row)) for row in entries]


def _not_again(row: Row, first: Row) -> Row:
    if first is row:
        return row
    return _not_ranked(row, SAME_RUNS(repeated=f"{REPEATED} {first['origin']} {first['machine']}"))


def _same_runs(row: Row) -> tuple[str, ...]:
    return (str(row["runs_sha256"]), *_like(row), str(row["division"]))


def _keep_best(rows: Iterable[Row]) -> list[Row]:
    """Return the best entry of each machine and study in each list; without any list for a task, one entry in none."""
    lists: dict[tuple[str, ...], list[Row]] = {}
    unlisted: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        owner = tuple(str(row[name]) for name in _OWNER)
        task = (*owner, str(row["workload"]), str(row["dataset"]), str(row["quality_target"]))
        if row["group"] == NOT_RANKED:
            unlisted.setdefault(task, []).append(row)
        else:
            lists.setdefault((*owner, str(row["list"])), []).append({**row, "_task": task})
    best = [best_of(group, (group[0]["measure"],))[0] for group in lists.values()]
    listed = {row["_task"] for row in best}
    return [*best, *(best_of(group, ())[0] for task, group in unlisted.items() if task not in listed)]


def _recompute(entries: Iterable[Row]) -> list[Row]:
    """Return own results recomputed for declared lists with another exponent or work per sample."""
    rows = [row for row in entries if row["group"] != NOT_RANKED and row["measure"] in (VFLOPS, FLOPS)]
    declared: dict[tuple[Any, ...], set[tuple[float, float]]] = {}
    for row in rows:
        if row["method"] == DECLARED and number_of(row, "flop_per_sample") > 0:
            exponent = float(row["exponent"]) if row["measure"] == VFLOPS else math.nan
            declared.setdefault(_like(row), set()).add((exponent, float(row["flop_per_sample"])))
    own = [row for row in rows if row["method"] != DECLARED and number_of(row, "flop_per_sample") > 0]
    made = [(row, _at_convention(row, *found)) for row in own for found in sorted(declared.get(_like(row), ()))]
    return [again for row, again in made if again["list"] != row["list"] and again["score"] >= 0]


def _like(row: Row) -> tuple[Any, ...]:
    return (*(str(row[name]) for name in LIKE), str(row["measure"]))


def _at_convention(row: Row, exponent: float, flop_per_sample: float) -> Row:
    """Return an own result with the exponent (NaN: its own) and the work per sample of a declared list [FLOP]."""
    same = math.isnan(exponent) or exponent == row["exponent"]
    factor = flop_per_sample / float(row["flop_per_sample"])
    made = {**row, "flop_per_sample": flop_per_sample, "flop_method": DECLARED}
    made["rate_flop_per_s"] = float(row["rate_flop_per_s"]) * factor
    scaled = ("vflops_flop_per_s", "vflops_flop_per_j", "score_low", "score_high")
    made |= {name: number_of(row, name) * factor if same else math.nan for name in scaled}
    if not same:
        quality, target = float(row["quality"]), float(row["quality_target"])
        made["exponent"] = exponent
        made["quality_coefficient_ratio"] = quality_coefficient(quality, target, exponent)
        made["vflops_flop_per_s"] = compute_vflops(made["rate_flop_per_s"], quality, target, exponent)
    notes = [
        ""
        if same
        else f"recomputed with n = {exponent:g} from its FLOPS and quality; its own n is {row['exponent']:g}",
        OTHER_WORK(declared=_name_work(made), counted=_name_work(row)) if factor != 1 else "",
    ]
    measure = str(row["measure"])
    made |= {"score": made[VALUES[measure]], "list": _name_list(made, measure), "note": "; ".join(filter(None, notes))}
    return made


def _place(group: pd.DataFrame) -> pd.DataFrame:
    """Sort one group of one list, best first, with places and ratios."""
    if group["group"].iloc[0] == NOT_RANKED:
        return group.assign(place=math.nan, ratio_to_first=math.nan)
    shorter_wins = group["measure"].iloc[0] == TIME_TO_TRAIN
    ordered = group.sort_values("score", ascending=shorter_wins, kind="stable")
    first = ordered["score"].iloc[0]
    # If even the best score is 0, ratios are undefined.
    ratio = first / ordered["score"] if shorter_wins else ordered["score"] / (first if first > 0 else math.nan)
    place = ordered["score"].rank(method="min", ascending=shorter_wins)
    return ordered.assign(
        place=place if ordered["group"].iloc[0] == RANKED else math.nan, ratio_to_first=ratio.astype(float)
    )
