"""The measured scales that a prediction starts from."""

from dataclasses import replace

import pytest
from unit.predict.scales.made_scales import make_measured, make_point

from hpcai.predict.scales import starts
from hpcai.predict.scales.exchange import DEFAULT_CYCLE_S
from hpcai.predict.scales.model import Asked, predict_scale
from hpcai.predict.scales.starts import predict_from_all, say_scales
from hpcai.predict.what_if import step_model

ONE, TWO, WIDE = make_point("one", 1, 4), make_point("one", 2, 8), make_point("one", 1, 8)


def test_a_step_is_the_mean_of_what_all_scales_lead_to():
    slow = make_point("one", 1, 8, step_time_median_s=1.3 * WIDE.step_s)
    measured, asked = make_measured(), Asked(replace(TWO.setting, gradient_groups=2))
    found, step = predict_from_all(measured, (slow, TWO), asked)
    assert found == (TWO, slow)
    each_s = [predict_scale(measured, one, asked).step_s for one in found]
    assert each_s[0] != pytest.approx(each_s[1])
    assert step.step_s == pytest.approx(sum(each_s) / 2)
    assert step.compute_s * step.contention_ratio * step.slowest_ratio + step.exposed_s == pytest.approx(step.step_s)
    assert step.basis[0].code == starts.MEAN_OF.code


def test_the_same_batch_of_a_rank_comes_first_then_the_nearest_ranks():
    measured = make_measured()
    found, _ = predict_from_all(measured, (WIDE, ONE, TWO), Asked(replace(TWO.setting, global_batch=16)))
    assert found[0] is WIDE
    found, _ = predict_from_all(measured, (WIDE, ONE, TWO), Asked(replace(TWO.setting, gradient_groups=2)))
    assert found[0] is TWO
    assert say_scales(found[:1]) == f"{TWO.variant} {TWO.scale}"


def test_nothing_that_the_asked_scale_tells_is_used_unless_it_is_the_only_one():
    odd = make_point("one", 2, 8, step_time_median_s=1.5 * TWO.step_s)
    found, step = predict_from_all(make_measured(WIDE, odd), (WIDE, odd), Asked(odd.setting))
    assert found == (WIDE,)
    assert step == predict_scale(make_measured(WIDE), WIDE, Asked(odd.setting))
    found, _ = predict_from_all(make_measured(odd), (odd,), Asked(odd.setting))
    assert found == (odd,)


def test_a_scale_of_another_cycle_leads_to_the_one_that_is_asked_for():
    slow = make_point("one", 2, 8, cycle_time_s=6e-3, step_time_median_s=TWO.step_s + 2.5e-3)
    found, step = predict_from_all(make_measured(WIDE, TWO, slow), (TWO, slow), Asked(TWO.setting, 6e-3))
    assert found == (TWO,)
    assert step.step_s == pytest.approx(slow.step_s)
    found, _ = predict_from_all(make_measured(WIDE, TWO, slow), (TWO, slow), Asked(TWO.setting))
    assert found == (slow,)
    # The default by its number is the default.
    found, _ = predict_from_all(make_measured(WIDE, TWO, slow), (TWO, slow), Asked(TWO.setting, DEFAULT_CYCLE_S))
    assert found == (slow,)


def test_scales_that_lead_nowhere_do_not_count():
    absurd = make_point("one", 1, 8, step_time_median_s=100.0)
    found, step = predict_from_all(make_measured(), (absurd, TWO), Asked(replace(TWO.setting, gradient_groups=2)))
    assert found == (TWO,)
    assert step.reason == ""


def test_without_a_prediction_the_nearest_says_why():
    found, step = predict_from_all(make_measured(), (ONE, TWO), Asked(replace(TWO.setting, global_batch=9)))
    assert len(found) == 1
    assert step.reason == step_model.UNEVEN_BATCH(samples=9, parts="2 ranks")
