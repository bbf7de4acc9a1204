"""Choose the best of several results: one rule for the ranking and for the machines' results."""

import math
from collections.abc import Sequence
from typing import get_args

from hpcai.config.benchmark import Suite
from hpcai.core.messages import Message
from hpcai.metrics.cells import Row, number_of
from hpcai.metrics.scores.validity import label_result
from hpcai.rules.table import rules_of

VFLOPS, FLOPS, TIME_TO_TRAIN, THROUGHPUT = "VFLOPS", "FLOPS", "time to train", "throughput"
BEST = Message("best_results.best", "{word} {measure} of {n} results (variants and scales)")
NO_SCORES = Message(
    "best_results.no_scores",
    "none of {n} results (variants and scales) has a score; the smallest is shown",
)
ONLY_WITHOUT_SCORE = Message("best_results.only_without_score", "the only result; it has no score")
NO_FIRST = Message("best_results.no_first", ", as there is no {measure}")
PASSED_OVER = Message("best_results.passed_over", "; not valid and skipped: {results}")
VALUES = {
    VFLOPS: "vflops_flop_per_s",
    FLOPS: "rate_flop_per_s",
    TIME_TO_TRAIN: "time_to_train_s",
    THROUGHPUT: "train_rate_samples_per_s",
}
"""Column of each measure."""
VALID, NOT_VALID, DECLARED = "valid", "not valid", "declared"


def measures_of(suite: str) -> tuple[str, ...]:
    """Return the measures that rank results of a suite: VFLOPS and FLOPS if it defines them, or the time to train."""
    known: tuple[Suite, ...] = get_args(Suite)
    defines_rates = any(rules_of(name).results.exponents for name in known if name == suite)
    return (VFLOPS, FLOPS) if defines_rates else (TIME_TO_TRAIN,)


def choosing_measures(suite: str) -> tuple[str, ...]:
    """Return the measures that choose the best result of a suite, by preference, as results may lack a score."""
    return (*measures_of(suite), FLOPS, THROUGHPUT)


def score_of(row: Row, measure: str) -> float:
    """Return a result's score for a measure; NaN if it has none.

    VFLOPS of 0 are a score: the run reached a quality of 0. Rates and times of 0 are not.
    """
    score = number_of(row, VALUES[measure])
    if measure == VFLOPS:
        return score if score >= 0 and number_of(row, "exponent") > 0 else math.nan
    return score if score > 0 else math.nan


def judge_validity(row: Row) -> tuple[str, str]:
    """Return whether a result is valid (by its label), not valid, or declared; and why it is not valid."""
    if row["method"] == DECLARED:
        return DECLARED, ""
    known: tuple[Suite, ...] = get_args(Suite)
    if any(row["label"] == label_result(name, ()) for name in known if name == row["suite"]):
        return VALID, ""
    return NOT_VALID, str(row["label"]) or "not a valid result: it was not judged"


def best_of(rows: Sequence[Row], measures: Sequence[str]) -> tuple[Row, str]:
    """Return the best of several comparable results, and the measure that decided.

    Parameters
    ----------
    rows
        Rows of ``SCORE_COLUMNS``, at least one.
    measures
        Measures in order of preference; the first one that any candidate has decides.

    Returns
    -------
    tuple
        Candidates are the results with a score that are not invalid; only if there are none, the invalid ones. So an
        invalid result never hides a valid one. Ties go to the result with fewer ranks. Without any score, the smallest
        result and a blank measure.
    """
    scored = [row for row in rows if any(score_of(row, measure) >= 0 for measure in measures)]
    if not scored:
        return min(rows, key=_order), ""
    candidates = [row for row in scored if judge_validity(row)[0] != NOT_VALID] or scored
    measure = next(name for name in measures if any(score_of(row, name) >= 0 for row in candidates))
    sign = 1 if measure == TIME_TO_TRAIN else -1
    known = [row for row in candidates if score_of(row, measure) >= 0]
    return min(known, key=lambda row: (sign * score_of(row, measure), *_order(row))), measure


def say_why_chosen(results: Sequence[Row], best: Row, measure: str) -> str:
    """Explain in words why :func:`best_of` chose a result by a measure."""
    several, n = len(results) > 1, len(results)
    if not measure:
        return NO_SCORES(n=n) if several else ONLY_WITHOUT_SCORE()
    first = measures_of(str(best["suite"]))[0]
    undefined = "" if measure == first else NO_FIRST(measure=first)
    if not several:
        return f"the only result{undefined}"
    word = "shortest" if measure == TIME_TO_TRAIN else "highest"
    behind = sum(judge_validity(row)[0] == NOT_VALID for row in results)
    passed_over = behind and judge_validity(best)[0] != NOT_VALID
    return f"{BEST(word=word, measure=measure, n=n)}{undefined}{PASSED_OVER(results=behind) if passed_over else ''}"


def _order(row: Row) -> tuple[float | str, ...]:
    ranks = number_of(row, "ranks")
    names = (str(row[name]) for name in ("variant", "scale", "origin", "result"))
    return (math.inf if math.isnan(ranks) else ranks, *names)
