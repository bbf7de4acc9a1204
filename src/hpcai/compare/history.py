"""Scores over many results: each relative to the previous one and the best so far, and level shifts."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hpcai.catalogue.points import SERIES
from hpcai.catalogue.tables import columns_of
from hpcai.compare.measures import HEADLINES, QUALITY, Measure, choose_measures, direction_of, values_of
from hpcai.compare.points import key_of, match_points
from hpcai.compare.scores import compare_scores
from hpcai.compare.study import PointKey, Study, read_study
from hpcai.compare.verdict import NEW, TOLERANCE, judge_scores, require_tolerance
from hpcai.core.errors import ConfigError
from hpcai.metrics.statistics.detectable import ALPHA
from hpcai.metrics.statistics.permutations import DRAWS
from hpcai.metrics.statistics.significance import correct_holm
from hpcai.metrics.statistics.summaries import mean_interval

_NAN = float("nan")


def find_level_shift(values: Sequence[float], seed: int = 1) -> tuple[int, float]:
    """Return the position of the largest level shift in a series, and its p.

    Compares the largest standardised difference of the means before and after any position, of the logarithms, with
    that of shuffled series. There is one value per result, because runs of one result are not independent evidence of a
    shift between results. Fewer than eight values cannot reach 5 %.

    Parameters
    ----------
    values
        Positive values in order of time, without gaps.
    seed
        Seed of the shuffles: equal arguments give equal results.
    """
    if len(values) < 4 or min(values) <= 0:
        return 0, _NAN
    logs = np.log(np.asarray(values, dtype=np.float64))
    shuffled = np.random.default_rng(seed).permuted(np.tile(logs, (DRAWS, 1)), axis=1)
    found = _shift_statistics(logs[np.newaxis])[0]
    drawn = _shift_statistics(shuffled).max(axis=1)
    p = (1 + int((drawn >= found.max() - 1e-12).sum())) / (DRAWS + 1)
    return int(found.argmax()) + 1, float(p)


def _shift_statistics(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the difference of the means before and after each position, over its standard error (up to a factor)."""
    count = series.shape[1]
    before = np.arange(1, count)
    centred = np.cumsum(series - series.mean(axis=1, keepdims=True), axis=1)[:, :-1]
    statistics: NDArray[np.float64] = np.abs(centred) / np.sqrt(before * (count - before) / count)
    return statistics


HISTORY_COLUMNS = columns_of("history")
"""One row per result, point and measure. `number` counts the results from 1 in order of their first start.

`value` is the arithmetic mean of the runs with its interval `low`, `high`. `previous` and `best` name the folder of the
last comparable earlier result with this value, and of the best one so far. `series` is the number of the first
comparable result; `verdict` is that of `hpcai regress` against the previous result, "new"
without one; `remark` marks level shifts of a series.
"""
NO_EARLIER = "no earlier result of this point"

_Table = dict[tuple[int, PointKey, str], dict[str, Any]]
"""Rows by number, point and measure."""
_NOTHING: Mapping[str, Any] = {"n": 0}


def history_of(
    folders: Sequence[str | Path], measures: Sequence[str] = HEADLINES, tolerance_ratio: float = TOLERANCE
) -> pd.DataFrame:
    """Return the history of several results.

    Parameters
    ----------
    folders
        Results folders in any order: they are sorted by the start of their first run.
    measures
        Names of the scores.
    tolerance_ratio
        Change that is ignored, as a ratio.

    Returns
    -------
    pandas.DataFrame
        :data:`HISTORY_COLUMNS`, by benchmark, variant, ranks, measure and number. Each score is compared with its last
        comparable earlier value at the same point; without one, its series starts anew.

    Raises
    ------
    ConfigError
        If no folder is given, one is given twice, a measure is unknown, or the tolerance is not between 0 and 1.
    RecordError
        If a folder contains no readable result.
    """
    require_tolerance(tolerance_ratio)
    chosen = choose_measures(measures)
    studies = _in_order(folders)
    rows = [row for number, study in enumerate(studies, 1) for row in _study_rows(number, study, chosen)]
    table: _Table = {(row["number"], key_of(row), row["measure"]): row for row in rows}
    names = [measure.column for measure in chosen]
    for number, study in enumerate(studies[1:], 2):
        _judge_study(table, studies[: number - 1], study, names, tolerance_ratio)
    _add_best(table)
    frame = pd.DataFrame(_add_shifts(list(table.values())), columns=list(HISTORY_COLUMNS))
    return _sort(frame, names)


def _in_order(folders: Sequence[str | Path]) -> list[Study]:
    paths = [Path(folder) for folder in folders]
    if not paths:
        raise ConfigError("found no results folder; name at least one")
    twice = sorted({str(path) for path in paths if [other.resolve() for other in paths].count(path.resolve()) > 1})
    if twice:
        raise ConfigError(f"found {', '.join(twice)} more than once; name each result once")
    return sorted((read_study(path) for path in paths), key=lambda study: (study.first_start, str(study.folder)))


def _study_rows(number: int, study: Study, measures: Sequence[Measure]) -> Iterator[dict[str, Any]]:
    """Yield the values of one result, not yet compared with anything."""
    for key, runs in study.point_runs().items():
        first = runs.iloc[0]
        for measure in measures:
            if measure.column not in runs or runs[measure.column].isna().all():
                continue
            estimate = mean_interval(values_of(runs, measure))
            yield {
                "number": number,
                "folder": str(study.folder),
                "study": study.name,
                "started_utc": study.first_start,
                "commit": ", ".join(sorted({str(name) for name in runs.get("commit", []) if name})),
                "suite": first["suite"],
                "workload": first["workload"],
                **key._asdict(),
                "ranks": int(first["ranks"]),
                "measure": measure.column,
                "unit": str(first.get("quality_unit") or "") if measure.column == QUALITY else measure.unit,
                "better": direction_of(measure, runs),
                "value": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "n": estimate.n,
                "runs": len(runs),
                "verdict": NEW,
                "reason": NO_EARLIER,
                "series": number,
                "remark": "",
                "method": estimate.method,
                "source": ", ".join(map(str, study.tables[:2])),
            }


def _judge_study(table: _Table, earlier: Sequence[Study], study: Study, names: Sequence[str], tolerance: float) -> None:
    """Add to the rows of one result the change against the last comparable earlier value of each."""
    number = len(earlier) + 1
    still = {(key, name) for own, key, name in table if own == number}
    for back in range(len(earlier), 0, -1):
        # A result without a value does not end the series: the previous one remains the reference.
        there = {(key, name) for key, name in still if table.get((back, key, name), _NOTHING)["n"]}
        if not there:
            continue
        points = match_points(earlier[back - 1], study)
        points = points[[key_of(point) in {key for key, _ in there} for point in points.to_dict("records")]]
        scores = compare_scores(earlier[back - 1], study, points, choose_measures(names), there)
        for row in judge_scores(scores, tolerance).to_dict("records"):
            for name in [row["measure"]] if row["measure"] else names:
                pair = (key_of(row), name)
                if pair not in there:
                    continue
                own = table[(number, *pair)]
                if row["finding"] == "not comparable":
                    own |= _refused(own, row)
                else:
                    own |= _against(row, table[(back, *pair)])
                    still.discard(pair)


def _against(row: Mapping[Any, Any], previous: Mapping[str, Any]) -> dict[str, Any]:
    """Return the comparison columns of a result; `previous` is the row of the previous result."""
    return {
        "ratio_to_previous": row["ratio"],
        "ratio_to_previous_low": row["low_ratio"],
        "ratio_to_previous_high": row["high_ratio"],
        "p_corrected": row["p_corrected"],
        "verdict": row["verdict"],
        "reason": row["reason"],
        "better": row["better"],
        "previous": previous["folder"],
        "series": previous["series"],
    }


def _refused(own: Mapping[str, Any], row: Mapping[Any, Any]) -> dict[str, Any]:
    """Explain why a series starts anew, from the nearest result that was not comparable."""
    if own["reason"] != NO_EARLIER:
        return {}
    return {"reason": f"a new series, not comparable with the previous result: {row['note']}"}


def _add_best(table: _Table) -> None:
    """Add the best result of each row's series so far, and the ratio to it."""
    for part in _series(list(table.values())):
        holder = part[0]
        for row in part:
            if row["better"]:
                holder = row if _beats(row, holder) else holder
                row |= {"best": holder["folder"], "ratio_to_best": row["value"] / holder["value"]}


def _beats(row: Mapping[str, Any], holder: Mapping[str, Any]) -> bool:
    return bool(row["value"] < holder["value"] if row["better"] == "lower" else row["value"] > holder["value"])


def _add_shifts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mark the first result after a significant level shift of a series."""
    series = [part for part in _series(rows) if len(part) > 1]
    found = [find_level_shift([row["value"] for row in part]) for part in series]
    corrected = correct_holm([p for _, p in found])
    for part, (place, _), p in zip(series, found, corrected, strict=True):
        if p <= ALPHA:
            before, after = (mean_interval(row["value"] for row in side) for side in (part[:place], part[place:]))
            part[place]["remark"] = (
                f"level shift: mean {before.value:.4g} of {before.n} results before, {after.value:.4g} of "
                f"{after.n} from here on (p = {p:.2g}, corrected for {len(series)} series)"
            )
    return rows


def _series(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the rows with a value by series of comparable results, each in order of time."""
    series: dict[tuple[PointKey, str, int], list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: int(row["number"])):
        if row["value"] > 0:
            series.setdefault((key_of(row), row["measure"], row["series"]), []).append(row)
    return list(series.values())


def _sort(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    texts = ("previous", "best", "commit", "remark", "reason", "better", "unit")
    numbers = ("ratio_to_previous", "ratio_to_previous_low", "ratio_to_previous_high", "p_corrected", "ratio_to_best")
    frame = frame.fillna(dict.fromkeys(texts, "")).astype(dict.fromkeys(numbers, "float64"))
    order = frame.assign(place=frame["measure"].map({name: place for place, name in enumerate(names)}))
    keys = [*SERIES, "ranks", "scale", "place", "number"]
    return order.sort_values(keys, kind="stable", ignore_index=True)[list(HISTORY_COLUMNS)]
