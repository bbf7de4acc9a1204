"""Judge whether a result is worse than another by more than a tolerance, for continuous benchmarking."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from hpcai.catalogue.points import POINT
from hpcai.catalogue.tables import columns_of
from hpcai.compare.comparison import Comparison, compare_folders
from hpcai.compare.measures import HEADLINES
from hpcai.compare.points import key_of
from hpcai.compare.scores import count_tested
from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message
from hpcai.core.text import say_change, say_share
from hpcai.metrics.statistics.detectable import ALPHA, runs_needed

TOLERANCE = 0.05
REGRESSION, IMPROVEMENT = "regression", "improvement"
NO_CHANGE, INCONCLUSIVE = "no change", "inconclusive"
VERDICTS = (REGRESSION, INCONCLUSIVE, IMPROVEMENT, NO_CHANGE)
"""Most severe first: a point, and a whole result, gets the most severe verdict of its parts."""
NEW = "new"
"""Verdict on a point that the base lacks; it does not affect the result."""
EXIT_CODES = {REGRESSION: 2, INCONCLUSIVE: 3}
BAD_TOLERANCE = Message(
    "verdict.bad_tolerance", "--tolerance: found {found:g}, expected a ratio above 0 and below 1, such as 0.05"
)
FEW_RUNS = Message("verdict.few_runs", " (few runs: assuming a normal distribution)")
WITHIN = Message("verdict.within", "{size}: within {tolerance}")
EVERY_RUN_WITHIN = Message(
    "verdict.every_run_within",
    "{size}: all runs of both sides lie within {tolerance} of each other",
)
NO_DIRECTION = Message("verdict.no_direction", ": significant, but it is not recorded which direction is better")
NO_INTERVAL = Message("verdict.no_interval", "{change}, no interval because all runs of a side are equal")
INTERVAL = Message("verdict.interval", "{change}, 95 % interval {low} to {high}")
NO_SPREAD = Message(
    "verdict.no_spread",
    "without spread the number of runs needed to detect {tolerance} is unknown (have {base:.0f} and {new:.0f})",
)
NEVER_FOUND = Message(
    "verdict.never_found",
    "no practical number of runs can detect {tolerance} at this spread (have {base:.0f} and {new:.0f})",
)
NEAR_TOLERANCE = Message(
    "verdict.near_tolerance",
    "the change is close to the tolerance of {tolerance}; more runs are needed to decide (have {base:.0f} and "
    "{new:.0f})",
)
RUNS_NEEDED = Message(
    "verdict.runs_needed",
    "about {needed:.0f} runs on each side are needed to detect a change of {tolerance} with 80 % probability (have "
    "{base:.0f} and {new:.0f})",
)
NO_SCORE = Message("verdict.no_score", "no score was measured on either side")
LOST_POINT = Message("verdict.lost_point", "lost point: {reason}")
NONE_FINISHED = Message("verdict.none_finished", "no run completed training ({before} converged before, {after} after)")
LESS_CONVERGENCE = Message(
    "verdict.less_convergence",
    "{before} converged before, {after} after (Fisher's exact test, p = {p:.2g})",
)
OTHER_VALIDITY = Message("verdict.other_validity", "valid at the levels or divisions {before} before, {after} now")
POINT_VERDICT_COLUMNS = columns_of("regression_points")
SCORE_VERDICT_COLUMNS = columns_of("regression_scores")


@dataclass(frozen=True)
class Regression:
    """The verdict on a result.

    Attributes
    ----------
    verdict
        The most severe verdict of all points: regression, inconclusive, improvement, no change.
    points
        One row per point (:data:`POINT_VERDICT_COLUMNS`): its verdict, the reason, whether it is lost (the base has
        runs that completed training, the new result has no run), and remarks that do not affect the verdict, such as
        another validity.
    scores
        The comparison with a verdict for each score (:data:`SCORE_VERDICT_COLUMNS`).
    tolerance_ratio
        Costs between ``1 / (1 + tolerance)`` and ``1 + tolerance`` do not count as a change.
    comparison
        Basis of the verdict.
    """

    verdict: str
    points: pd.DataFrame
    scores: pd.DataFrame
    tolerance_ratio: float
    comparison: Comparison

    @property
    def lost_points(self) -> int:
        """Number of points that the base has measured and the new result lacks."""
        return int(self.points["lost"].sum())

    def exit_code(self, *, require_conclusive: bool = False, allow_lost: bool = False) -> int:
        """Return 2 for a regression, 3 for an inconclusive result that is not accepted, otherwise 0.

        A result that lacks points of the base only passes if that is allowed, because a missing point may hide any
        regression. Too few runs pass unless a conclusion is required.
        """
        passed = not require_conclusive and (allow_lost or not self.lost_points)
        if self.verdict == INCONCLUSIVE and passed:
            return 0
        return EXIT_CODES.get(self.verdict, 0)


def require_tolerance(tolerance_ratio: float) -> None:
    """Check a tolerance.

    Raises
    ------
    ConfigError
        If it is not above 0 and below 1; NaN is not.
    """
    if not 0 < tolerance_ratio < 1:
        raise ConfigError(BAD_TOLERANCE(found=tolerance_ratio))


def regress_folders(
    base: str | Path, new: str | Path, tolerance_ratio: float = TOLERANCE, measures: Sequence[str] = HEADLINES
) -> Regression:
    """Return whether the new result is a regression.

    Parameters
    ----------
    base, new
        Results folders.
    tolerance_ratio
        Change of a score that is tolerated, as a ratio: 0.05 for 5 %.
    measures
        The scores to judge.

    Raises
    ------
    ConfigError
        If the tolerance is not between 0 and 1, or a measure unknown.
    RecordError
        If a folder contains no readable result.
    """
    require_tolerance(tolerance_ratio)
    return judge_comparison(compare_folders(base, new, measures), tolerance_ratio)


def judge_comparison(comparison: Comparison, tolerance_ratio: float = TOLERANCE) -> Regression:
    """Return the verdict on a comparison, see :func:`regress_folders`."""
    scores = judge_scores(comparison.scores, tolerance_ratio)
    groups = {key_of(rows.iloc[0].to_dict()): rows for _, rows in scores.groupby(POINT)}
    nothing = scores.iloc[:0]
    rows = [_judge_point(point, groups.get(key_of(point), nothing)) for point in comparison.points.to_dict("records")]
    points = pd.DataFrame(rows, columns=list(POINT_VERDICT_COLUMNS))
    verdict = _gravest(points["verdict"])
    return Regression(verdict, points, scores, tolerance_ratio, comparison)


def judge_scores(scores: pd.DataFrame, tolerance_ratio: float) -> pd.DataFrame:
    """Return a comparison with the verdict on each score and its reason (:data:`SCORE_VERDICT_COLUMNS`)."""
    tested = count_tested(scores)
    judged = [judge_score(row, tolerance_ratio, tested) for row in scores.to_dict("records")]
    frame = scores.assign(verdict=[verdict for verdict, _ in judged], reason=[reason for _, reason in judged])
    return frame[list(SCORE_VERDICT_COLUMNS)]


def judge_score(row: Mapping[Any, Any], tolerance_ratio: float, tested: int = 1) -> tuple[str, str]:
    """Return the verdict on one row of a comparison of several tested scores, and its reason.

    A regression or improvement is significant and larger than the tolerance. No change means that the whole 95 %
    interval is within the tolerance (or values are identical, or there is no spread in enough runs to make a smaller
    change significant). Everything else is inconclusive.
    """
    limit = 1 + tolerance_ratio
    if row["finding"] in ("not comparable", "not measured", "no ratio", "one run"):
        return INCONCLUSIVE, f"{row['finding']}: {row['note']}"
    if row["finding"] == "identical":
        return NO_CHANGE, "the same values on both sides"
    ratio = float(row["ratio"])
    size, significant = _say_size(row), row["finding"] in _SIGNIFICANT
    if significant and not 1 / limit <= ratio <= limit:
        assumed = FEW_RUNS() if row["smallest_p"] > ALPHA else ""
        return _SIGNIFICANT[row["finding"]], f"{size}{assumed}{_undirected(row)}"
    if row["low_ratio"] >= 1 / limit and row["high_ratio"] <= limit:
        return NO_CHANGE, WITHIN(size=size, tolerance=say_share(tolerance_ratio))
    if significant and math.isnan(row["low_ratio"]):
        return NO_CHANGE, EVERY_RUN_WITHIN(size=size, tolerance=say_share(tolerance_ratio))
    return INCONCLUSIVE, f"{size}: {_what_is_missing(row, tolerance_ratio, tested)}"


_SIGNIFICANT = {"worse": REGRESSION, "better": IMPROVEMENT, "different": INCONCLUSIVE}
"""Significant findings, and the verdicts on such changes beyond the tolerance."""


def _undirected(row: Mapping[Any, Any]) -> str:
    return NO_DIRECTION() if row["finding"] == "different" else ""


def _say_size(row: Mapping[Any, Any]) -> str:
    size = say_change(float(row["ratio"]))
    if math.isnan(row["low_ratio"]):
        return NO_INTERVAL(change=size)
    return INTERVAL(change=size, low=say_change(row["low_ratio"]), high=say_change(row["high_ratio"]))


def _what_is_missing(row: Mapping[Any, Any], tolerance_ratio: float, tested: int) -> str:
    needed = runs_needed(row["spread_ratio"], tolerance_ratio, tested)
    have = {"tolerance": say_share(tolerance_ratio), "base": row["n_base"], "new": row["n_new"]}
    if math.isnan(needed):
        return NO_SPREAD(**have)
    if not math.isfinite(needed):
        return NEVER_FOUND(**have)
    if needed <= min(row["n_base"], row["n_new"]):
        return NEAR_TOLERANCE(**have)
    return RUNS_NEEDED(needed=needed, **have)


def _judge_point(point: Mapping[Any, Any], scores: pd.DataFrame) -> dict[str, Any]:
    where = {name: point[name] for name in POINT}
    where["lost"] = point["status"] == "only_base" and point["finished_base"] > 0
    if point["status"] != "compared":
        verdict, reason = _not_compared(point)
        return {"verdict": verdict, "reason": reason, **where, "remark": ""}
    found = [_about_failures(point), *zip(scores["verdict"], _named_reasons(scores), strict=True)]
    verdict = _gravest([name for name, _ in found])
    reason = "; ".join(reason for name, reason in found if name == verdict and reason)
    return {
        "verdict": verdict,
        "reason": reason or NO_SCORE(),
        **where,
        "remark": _validity(point),
    }


def _not_compared(point: Mapping[Any, Any]) -> tuple[str, str]:
    if point["status"] == "only_new":
        return NEW, "nothing to compare it with"
    if point["status"] == "only_base":
        return INCONCLUSIVE, LOST_POINT(reason=point["reason"])
    return INCONCLUSIVE, f"not comparable: {point['reason']}"


def _named_reasons(scores: pd.DataFrame) -> list[str]:
    return [f"{measure} {reason}" for measure, reason in zip(scores["measure"], scores["reason"], strict=True)]


def _about_failures(point: Mapping[Any, Any]) -> tuple[str, str]:
    """Return the verdict on runs without a result; blank if there are no more than before."""
    before = f"{point['converged_base']} of {point['runs_base']} runs"
    after = f"{point['converged_new']} of {point['runs_new']}"
    if point["runs_new"] and point["finished_base"] and not point["finished_new"]:
        # Unlike reaching the target, completing training is not random: a single failed run is enough.
        return REGRESSION, NONE_FINISHED(before=before, after=after)
    less = LESS_CONVERGENCE(before=before, after=after, p=point["p_failures_corrected"])
    if point["p_failures_corrected"] <= ALPHA:
        return REGRESSION, less
    fewer = (
        point["runs_new"] and point["converged_new"] * point["runs_base"] < point["converged_base"] * point["runs_new"]
    )
    if fewer:
        return INCONCLUSIVE, less
    return "", ""


def _validity(point: Mapping[Any, Any]) -> str:
    before, after = point["valid_for_base"], point["valid_for_new"]
    if before == after:
        return ""
    return OTHER_VALIDITY(before=before, after=after)


def _gravest(verdicts: Sequence[str] | pd.Series) -> str:
    found = set(verdicts)
    return next((verdict for verdict in VERDICTS if verdict in found), INCONCLUSIVE)
