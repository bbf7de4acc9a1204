"""How far predictions of scales were off on what they were not told, and the intervals that follow."""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.core.messages import Message
from hpcai.metrics.quietness import quiet_of_scale
from hpcai.predict.scales.exchange import cycle_of
from hpcai.predict.scales.measured import MeasuredScales, ScaleFiles, read_measured_scales
from hpcai.predict.scales.model import Asked, ScaleStep, calibration_of, predict_scale, predict_unseen
from hpcai.predict.scales.starts import leave_out, predict_from_all, say_scales
from hpcai.predict.what_if.intervals import ErrorInterval, Variance, centred_interval
from hpcai.predict.what_if.measured import Point
from hpcai.predict.what_if.step_model import Setting

CASE_COLUMNS = columns_of("scale_cases")
GOAL_RATIO, LEVEL_RATIO = 0.10, 0.90
"""Of each absolute relative error; and the share of cases that their intervals are to hold."""
MORE, FEWER, BATCH, MESSAGES = "more ranks", "fewer ranks", "batch", "messages"
OTHERS, UNSEEN = "other scales", "unseen benchmark"
QUESTIONS = {
    OTHERS: "a scale from all others of its benchmark",
    MORE: "more ranks from fewer",
    FEWER: "fewer ranks from more",
    BATCH: "another batch or accumulation on as many ranks",
    MESSAGES: "other messages or another cycle on as many ranks",
    UNSEEN: "a benchmark from runs of the others alone",
}
"""What was predicted from what. `OTHERS` is what a user asks for; the next four show single starts."""
FEWEST_OTHERS = 2
FEW_OTHERS = Message(
    "scales.few_others", "{found} other benchmarks have timed steps near those of their runs, expected at least {least}"
)
SUMMARY = Message(
    "scales.summary",
    "{what}: {known} of {cases} predicted; median error {median:.1%}, largest {worst:.1%} (goal {goal:.0%}); {inside} "
    "of {with_interval} inside their intervals of {level:.0%}",
)
NOTHING_HELD_OUT = Message("scales.nothing_held_out", "{what}: none of {cases} predicted")


@dataclass(frozen=True)
class Case:
    """One measured scale that was predicted without it.

    Attributes
    ----------
    question
        One of `QUESTIONS`.
    basis
        What it was predicted from.
    """

    question: str
    basis: str
    target: Point
    found: ScaleStep

    @property
    def error_ratio(self) -> float:
        """Predicted over measured step, less 1; NaN without a prediction."""
        return self.found.step_s / self.target.step_s - 1


def predict_cases(files: ScaleFiles, runs: Path) -> pd.DataFrame:
    """Return table ``scale_cases`` of a study, from its files and the folder of its timed runs."""
    measured = read_measured_scales(files, runs)
    return tabulate_cases(measured, hold_out(measured))


def hold_out(measured: MeasuredScales) -> list[Case]:
    """Predict each measured scale as if it had not run.

    It is predicted from all others of its benchmark, from each of them, and from the other benchmarks alone.
    """
    cases = [case for target in measured.points for case in _from_own(measured, target)]
    return cases + [_unseen(measured, target) for target in measured.points if target.setting.precision == "fp32"]


def question_of(start: Setting, target: Setting) -> str:
    """Return the kind of a prediction, by what differs."""
    if start.ranks != target.ranks:
        return MORE if target.ranks > start.ranks else FEWER
    same = ("global_batch", "accumulation")
    return MESSAGES if all(getattr(start, name) == getattr(target, name) for name in same) else BATCH


def _from_own(measured: MeasuredScales, target: Point) -> Iterator[Case]:
    """Predict a scale from those of its benchmark, engine and precision, without anything that it tells."""
    asked = Asked(target.setting, cycle_of(target))
    starts = [
        point for point in measured.points
        if (point.benchmark, point.engine) == (target.benchmark, target.engine)
        and not asked.is_of(point) and point.setting.precision == target.setting.precision
    ]  # fmt: skip
    if not starts:
        return
    without = leave_out(measured, target.benchmark, asked)
    found, step = predict_from_all(without, starts, asked)
    yield Case(OTHERS, say_scales(found), target, step)
    for start in starts:
        step = predict_scale(without, start, asked)
        yield Case(question_of(start.setting, target.setting), say_scales([start]), target, step)


def _unseen(measured: MeasuredScales, target: Point) -> Case:
    """Predict a scale as if its benchmark had never run: only its timed steps are its own."""
    name = target.benchmark
    others = tuple(point for point in measured.points if point.benchmark != name)
    groups = measured.contention
    groups = groups[groups["benchmark"] != name] if len(groups) else groups
    scatter = {other: ratios for other, ratios in measured.scatter.items() if other != name}
    without = replace(measured, points=others, contention=groups, scatter=scatter)
    known: dict[str, list[float]] = {}
    for point in others:  # of one rank; other precisions than the timed one have no factor
        if point.setting.ranks == 1 and math.isfinite(factor := calibration_of(without, point)):
            known.setdefault(point.benchmark, []).append(factor)
    if len(known) < FEWEST_OTHERS:
        step = ScaleStep(math.nan, reason=FEW_OTHERS(found=len(known), least=FEWEST_OTHERS))
    else:
        factor = statistics.median(statistics.median(factors) for factors in known.values())
        step = predict_unseen(without, target, factor)
    return Case(UNSEEN, ", ".join(sorted(known)), target, step)


def interval_of(
    cases: Sequence[Case], question: str, without: Point | None = None, more: Variance | None = None
) -> ErrorInterval:
    """Return the interval of predictions of a kind from the errors of held-out cases.

    Parameters
    ----------
    cases
        All of them.
    question
        Kind of the prediction.
    without
        A measured scale of which no error counts, of no variant, so that its own interval is no tautology.
    more
        Of the host's speed, if it is not that of the study.
    """
    own = [
        one for one in cases
        if one.question == question and math.isfinite(one.found.step_s) and not _is_same_scale(one.target, without)
    ]  # fmt: skip
    measured_s, predicted_s = [one.target.step_s for one in own], [one.found.step_s for one in own]
    return centred_interval(measured_s, predicted_s, QUESTIONS[question], LEVEL_RATIO, more)


def _is_same_scale(one: Point, other: Point | None) -> bool:
    """Return whether two variants measured the same scale of a benchmark."""
    return other is not None and one.benchmark == other.benchmark and Asked(other.setting, cycle_of(other)).is_of(one)


def tabulate_cases(measured: MeasuredScales, cases: Sequence[Case]) -> pd.DataFrame:
    """Return table ``scale_cases``: each held-out case with its interval, which no error of the same scale is in."""
    source = ", ".join(measured.sources)
    rows = [_row(cases, case, source) for case in cases]
    return pd.DataFrame(rows, columns=list(CASE_COLUMNS)).astype(
        {"within_goal": "boolean", "within_interval": "boolean"}
    )


def _row(cases: Sequence[Case], case: Case, source: str) -> dict[str, Any]:
    target, found, error = case.target, case.found, case.error_ratio
    low_s, high_s = interval_of(cases, case.question, target).around(found.step_s)
    known = math.isfinite(error)
    return {
        "benchmark": target.benchmark,
        "variant": target.variant,
        "engine": target.engine,
        "scale": target.scale,
        "ranks": target.setting.ranks,
        "question": case.question,
        "basis": case.basis,
        "predicted_step_s": found.step_s,
        "predicted_step_low_s": low_s,
        "predicted_step_high_s": high_s,
        "measured_step_s": target.step_s,
        "relative_error_ratio": error,
        "within_goal": abs(error) <= GOAL_RATIO if known else pd.NA,
        "within_interval": low_s <= target.step_s <= high_s if math.isfinite(low_s) and known else pd.NA,
        "compute_s": found.compute_s,
        "contention_time_ratio": found.contention_ratio,
        "slowest_ratio": found.slowest_ratio,
        "exchange_s": found.exchange_s,
        "exposed_s": found.exposed_s,
        "quiet": quiet_of_scale(target.row).quiet,
        "reason": found.reason,
        "method": "modelled",
        "source": source,
    }


def summarise_cases(cases: pd.DataFrame) -> list[str]:
    """Say errors and intervals of table ``scale_cases``, of each kind of question."""
    parts = [(what, cases[cases["question"] == name]) for name, what in QUESTIONS.items()]
    return [_summary(what, own) for what, own in parts if len(own)]


def _summary(what: str, own: pd.DataFrame) -> str:
    errors, inside = own["relative_error_ratio"].abs().dropna(), own["within_interval"].dropna()
    if errors.empty:
        return NOTHING_HELD_OUT(what=what, cases=len(own))
    return SUMMARY(
        what=what, known=len(errors), cases=len(own), median=float(errors.median()), worst=float(errors.max()),
        goal=GOAL_RATIO, inside=int(inside.sum()), with_interval=len(inside), level=LEVEL_RATIO,
    )  # fmt: skip
