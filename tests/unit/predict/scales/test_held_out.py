"""What was held out is not used, and errors make the intervals of others alone."""

import math

import numpy as np
import pandas as pd
import pytest
from unit.predict.scales.made_scales import make_measured, make_point

from hpcai.predict.scales import held_out
from hpcai.predict.scales.held_out import FEWER, MORE, UNSEEN, hold_out, interval_of, tabulate_cases


def test_an_exact_study_has_no_errors():
    table = tabulate_cases(make_measured(), hold_out(make_measured()))
    errors = table.groupby("question")["relative_error_ratio"]
    assert set(errors.groups) == {MORE, FEWER, UNSEEN}
    assert table["relative_error_ratio"].abs().max() < 1e-9
    assert table["within_goal"].all()
    assert list(errors.size()) == [3, 3, 6]


def test_a_benchmark_that_is_held_out_has_no_part_in_its_prediction():
    odd = make_point("one", 1, 8, step_time_median_s=100.0)
    points = (odd, *make_measured().points[1:])
    cases = [case for case in hold_out(make_measured(*points)) if case.question == UNSEEN]
    own = next(case for case in cases if case.target is odd)
    assert own.found.step_s < 4  # as if it had not run
    assert "one" not in own.basis
    lonely = make_measured(*points[:2])
    assert hold_out(lonely)[-1].found.reason.code == held_out.FEW_OTHERS.code


def test_no_error_of_a_scale_is_in_its_own_interval():
    shifts = (0.9, 1.0, 1.1, 1.2)
    points = [
        make_point(name, ranks, 8, variant=f"v{number}", **({"step_time_median_s": 4.0 * shift} if ranks == 2 else {}))
        for number, shift in enumerate(shifts)
        for name, ranks in (("one", 1), ("one", 2))
    ]
    cases = hold_out(make_measured(*points))
    everything = interval_of(cases, MORE)
    without = interval_of(cases, MORE, points[7])
    assert without.n < everything.n
    assert without.high_ratio < everything.high_ratio
    row = tabulate_cases(make_measured(*points), cases).iloc[0]
    assert row["predicted_step_low_s"] <= row["predicted_step_s"] <= row["predicted_step_high_s"]


def test_intervals_hold_nine_tenths_of_errors_like_those_they_stand_on():
    generator = np.random.default_rng(5)
    inside = 0
    for _ in range(200):
        errors = np.exp(generator.normal(0, 0.05, 9))
        low, high = held_out.interval_from([1.0] * 8, list(1 / errors[:8]), "a test", 0.9).around(1.0)
        inside += low <= errors[8] <= high
    # The interval also holds each error that was seen: more than 90 % may be inside.
    assert 0.85 <= inside / 200 <= 0.98


def test_the_summary_counts_what_was_refused():
    point = make_point("one", 2, 8, precision="bf16")
    table = tabulate_cases(make_measured(), hold_out(make_measured(*make_measured().points, point)))
    assert not (table["measured_step_s"] == point.step_s).all()
    said = held_out.summarise_cases(table)
    assert said[-1].code == held_out.SUMMARY.code
    assert said[-1].facts["known"] == said[-1].facts["cases"] == len(table)
    blank = table.assign(predicted_step_s=math.nan, relative_error_ratio=math.nan, within_interval=pd.NA)
    assert held_out.summarise_cases(blank)[-1].code == held_out.NOTHING_HELD_OUT.code


@pytest.mark.parametrize(
    ("changes", "question"),
    [({"ranks": 4}, MORE), ({"global_batch": 4}, held_out.BATCH), ({"gradient_groups": 2}, held_out.MESSAGES)],
)
def test_questions_are_told_apart_by_what_differs(changes, question):
    from dataclasses import replace

    start = make_point("one", 2, 8).setting
    assert held_out.question_of(start, replace(start, **changes)) == question
