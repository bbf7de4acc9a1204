"""What was held out is not used, and errors make the intervals of others alone."""

import math
from dataclasses import replace

import pandas as pd
import pytest
from unit.predict.scales.made_scales import alone_s, make_measured, make_point, step_s

from hpcai.predict.scales import held_out
from hpcai.predict.scales.held_out import FEWER, MORE, OTHERS, UNSEEN, hold_out, interval_of, tabulate_cases


def test_an_exact_study_has_no_errors_but_of_input_that_nobody_told():
    table = tabulate_cases(make_measured(), hold_out(make_measured()))
    assert dict(table["question"].value_counts()) == {OTHERS: 6, MORE: 3, FEWER: 3, UNSEEN: 6}
    known = table[(table["ranks"] == 2) & (table["question"] != UNSEEN)]
    assert len(known) == 6
    assert known["relative_error_ratio"].abs().max() < 1e-9
    # One rank tells of input, which is held out with it; it is 14 % of a step.
    assert table["relative_error_ratio"].abs().max() < 0.05
    assert table["within_goal"].all()


def test_a_benchmark_that_is_held_out_has_no_part_in_its_prediction():
    odd = make_point("one", 1, 8, step_time_median_s=100.0)
    points = (odd, *make_measured().points[1:])
    cases = [case for case in hold_out(make_measured(*points)) if case.question == UNSEEN]
    own = next(case for case in cases if case.target is odd)
    assert own.found.step_s < 4  # as if it had not run
    assert "one" not in own.basis
    lonely = make_measured(*points[:2])
    assert hold_out(lonely)[-1].found.reason.code == held_out.FEW_OTHERS.code


def test_only_known_factors_of_others_count_once_for_each_benchmark():
    """A step that nobody timed, and another precision, tell nothing; of several scales of one rank all do."""
    usual = make_measured().points
    untimed = [make_point(name, 1, 100, step_time_median_s=9.0) for name in ("two", "three")]
    cases = hold_out(make_measured(*usual[:2], *untimed))
    assert next(case for case in cases if case.question == UNSEEN).found.reason.code == held_out.FEW_OTHERS.code
    more = [make_point("two", 1, 8, step_time_median_s=ratio * alone_s(8)) for ratio in (1.4, 0.9)]
    fast = make_point("three", 1, 8, precision="bf16", step_time_median_s=0.1)
    base, found = (
        next(case.found for case in hold_out(make_measured(*usual, *others)) if case.question == UNSEEN)
        for others in ((), (*more, fast))
    )
    assert found.step_s == pytest.approx(base.step_s)


def test_another_cycle_is_another_scale():
    """Its step is a start of the usual one's prediction, and nothing that is asked for."""
    other = make_point("one", 2, 8, variant="slow_cycle", cycle_time_s=0.1, step_time_median_s=step_s(2, 8) + 0.05)
    cases = hold_out(make_measured(*make_measured().points, other))
    messages = [case for case in cases if case.question == held_out.MESSAGES]
    assert [case.basis for case in messages] == ["fp32 n1x2", "slow_cycle n1x2"][::-1]
    assert [case.target.variant for case in messages] == ["fp32", "slow_cycle"]
    assert all(abs(case.error_ratio) < 0.05 for case in messages)


def test_no_error_of_a_scale_is_in_its_own_interval():
    shifts = (0.9, 1.0, 1.1, 1.2)
    points = [
        make_point("one", ranks, batch, variant=f"v{batch}", step_time_median_s=shift * step_s(ranks, batch))
        for batch, shift in zip((8, 10, 12, 14), shifts, strict=True)
        for ranks in (1, 2)
    ]
    cases = hold_out(make_measured(*points))
    everything = interval_of(cases, MORE)
    without = interval_of(cases, MORE, points[7])
    assert without.n < everything.n
    assert without.high_ratio < everything.high_ratio
    twin = make_point("one", 2, 14, variant="twin", step_time_median_s=2 * points[7].step_s)
    wider = [*cases, *(replace(case, target=twin) for case in cases if case.target is points[7])]
    assert interval_of(wider, MORE, points[7]) == without
    row = tabulate_cases(make_measured(*points), cases).iloc[0]
    assert row["predicted_step_low_s"] <= row["predicted_step_s"] <= row["predicted_step_high_s"]


def test_a_scale_is_held_out_under_all_its_variants():
    """What a twin tells of input would be what the held-out scale itself tells."""
    base, twin = make_measured().points, make_point("one", 1, 8, variant="twin", step_time_median_s=2 * alone_s(8))
    alone, both = (
        next(case.found.step_s for case in hold_out(make_measured(*points)) if case.question == OTHERS)
        for points in (base, (*base, twin))
    )
    assert both == alone


def test_the_summary_counts_what_was_refused():
    point = make_point("one", 2, 8, precision="bf16")
    table = tabulate_cases(make_measured(), hold_out(make_measured(*make_measured().points, point)))
    assert not (table["measured_step_s"] == point.step_s).all()
    said = held_out.summarise_cases(table)
    assert said[-1].code == held_out.SUMMARY.code
    assert sum(one.facts["cases"] for one in said) == sum(one.facts["known"] for one in said) == len(table)
    blank = table.assign(predicted_step_s=math.nan, relative_error_ratio=math.nan, within_interval=pd.NA)
    assert held_out.summarise_cases(blank)[-1].code == held_out.NOTHING_HELD_OUT.code


@pytest.mark.parametrize(
    ("changes", "question"),
    [({"ranks": 4}, MORE), ({"global_batch": 4}, held_out.BATCH), ({"gradient_groups": 2}, held_out.MESSAGES)],
)
def test_questions_are_told_apart_by_what_differs(changes, question):
    start = make_point("one", 2, 8).setting
    assert held_out.question_of(start, replace(start, **changes)) == question
