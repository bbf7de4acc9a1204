"""Input beyond timed steps, and how computing changes with the batch."""

import math
from dataclasses import replace

import pytest
from unit.predict.scales.made_scales import INPUT_S, alone_s, make_measured, make_point, timed_s

from hpcai.predict.scales import computing
from hpcai.predict.scales.computing import MOST_INPUT_RATIO, calibration_to_step, change_of, input_per_sample_s

ONE = make_point("one", 1, 8)


def input_of(step_s, **changes):
    point = make_point("one", 1, 8, step_time_median_s=step_s)
    return input_per_sample_s(make_measured(point, make_point("two", 1, 8), **changes), "one", "horovod")


def test_input_is_what_one_rank_takes_beyond_the_timed_step():
    assert input_of(alone_s(8)) == pytest.approx(INPUT_S)
    assert input_of(0.9 * timed_s(8)) == 0
    assert input_per_sample_s(make_measured(make_point("one", 2, 8)), "one", "horovod") == 0


def test_input_is_the_median_over_scales_of_one_rank():
    points = [make_point("one", 1, 8, step_time_median_s=timed_s(8) + one) for one in (0.08, 0.16, 0.8)]
    assert input_per_sample_s(make_measured(*points), "one", "horovod") == pytest.approx(0.02)


def test_an_engine_tells_nothing_of_anothers_input():
    points = (make_point("one", 1, 8, step_time_median_s=2 * timed_s(8)), make_point("one", 1, 8, engine="jax"))
    assert input_per_sample_s(make_measured(*points), "one", "jax") == pytest.approx(INPUT_S)
    assert input_per_sample_s(make_measured(*points), "one", "tensorflow") == 0


def test_with_cores_of_its_own_input_is_hidden():
    assert input_of(alone_s(8), shared_core=False) == 0


def test_more_than_input_can_explain_is_not_taken_for_input():
    most_s = (1 + MOST_INPUT_RATIO) * timed_s(8)
    assert input_of(0.99 * most_s) > 0
    assert input_of(1.01 * most_s) == 0


def test_input_changes_as_samples_do_and_the_rest_as_timed_steps():
    smaller = replace(ONE.setting, global_batch=4)
    found = change_of(make_measured(), ONE, alone_s(8), smaller, INPUT_S)
    assert found.ratio == pytest.approx(alone_s(4) / alone_s(8))
    assert found.basis.code == computing.WITH_INPUT.code
    slow_s = 1.2 * timed_s(8) + 8 * INPUT_S
    found = change_of(make_measured(), ONE, slow_s, smaller, INPUT_S)
    assert found.ratio * slow_s == pytest.approx(1.2 * timed_s(4) + 4 * INPUT_S)
    without = change_of(make_measured(), ONE, alone_s(8), smaller, 0.0)
    assert without.ratio == pytest.approx(timed_s(4) / timed_s(8))
    assert without.basis.code == computing.BY_STEP.code


def test_timed_steps_are_calibrated_without_input():
    assert calibration_to_step(make_measured(), ONE, alone_s(8), INPUT_S) == pytest.approx(1)
    assert math.isnan(calibration_to_step(make_measured(steps=()), ONE, alone_s(8), INPUT_S))
    assert math.isnan(calibration_to_step(make_measured(), make_point("one", 1, 8, precision="bf16"), 1.0, INPUT_S))
