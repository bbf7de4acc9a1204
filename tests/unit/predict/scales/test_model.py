"""Steps at other scales: parts by hand, and nothing where a part is missing."""

from dataclasses import replace

import pytest
from unit.predict.scales import made_scales
from unit.predict.scales.made_scales import (
    CALL_S,
    CONTENTION,
    IN_TRAINING,
    INPUT_S,
    SLOWEST,
    WORK_S,
    make_measured,
    make_point,
)

from hpcai.predict.scales import computing, exchange, model, parts
from hpcai.predict.scales.model import Asked, predict_scale
from hpcai.predict.steps import compute
from hpcai.predict.what_if import step_model

ONE, TWO = make_point("one", 1, 8), make_point("one", 2, 8)


def ask(start, **changes):
    return predict_scale(make_measured(), start, Asked(replace(start.setting, **changes)))


@pytest.mark.parametrize(("start", "target"), [(ONE, TWO), (TWO, ONE)])
def test_exact_parts_give_the_measured_step(start, target):
    found = ask(start, ranks=target.setting.ranks)
    assert found.reason == ""
    assert found.step_s == pytest.approx(target.step_s)
    assert found.compute_s == pytest.approx(made_scales.alone_s(8 // target.setting.ranks))


def test_the_same_batch_of_a_rank_needs_no_timed_step():
    start = make_point("one", 1, 3, step_time_median_s=2.0)
    found = ask(start, ranks=2, global_batch=6)
    assert found.step_s == pytest.approx(2.0 * CONTENTION * SLOWEST + IN_TRAINING * CALL_S)


def test_micro_batches_are_computed_one_after_another():
    found = ask(ONE, accumulation=2)
    assert found.compute_s == pytest.approx(2 * 1.0 + made_scales.UPDATE_S + 8 * INPUT_S)


def test_on_one_core_only_waiting_hides_behind_the_backward_pass():
    found = ask(TWO, gradient_groups=4)
    assert found.exchange_s == pytest.approx(4 * IN_TRAINING * CALL_S)
    assert found.exposed_s == pytest.approx(IN_TRAINING * CALL_S + 3 * WORK_S)
    apart = predict_scale(make_measured(shared_core=False), TWO, Asked(replace(TWO.setting, gradient_groups=4)))
    assert apart.exposed_s == pytest.approx(CALL_S)


def test_another_cycle_lengthens_the_waiting_of_each_call():
    found = predict_scale(make_measured(), TWO, Asked(replace(TWO.setting, fusion_bytes=2000.0), 6e-3))
    assert found.exchange_s == pytest.approx(2 * (IN_TRAINING * CALL_S + 2.5e-3))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ranks": 3}, step_model.UNEVEN_BATCH),
        ({"precision": "bf16"}, computing.OTHER_PRECISION),
        ({"compression": "fp16"}, exchange.HALF_PRECISION),
        ({"spatial_parts": 2}, model.SHARED_SAMPLES),
        ({"ranks": 4}, parts.NO_CONTENTION),
        ({"nodes": 2}, exchange.NO_CALLS),
        ({"global_batch": 64}, compute.OUTSIDE),
    ],
)
def test_what_was_not_measured_is_refused(changes, message):
    start = TWO if "precision" in changes or "compression" in changes else ONE
    ranks = {} if "ranks" in changes else {"ranks": 2}
    found = ask(start, **{**ranks, **changes})
    assert found.reason.code == message.code
    assert found.step_s != found.step_s


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": ()}, model.NO_PARAMETERS),
        ({"contention": made_scales.groups().assign(contention_ratio=0.4)}, parts.FACTORS),
        ({"links": made_scales.links().assign(bytes=1)}, exchange.OTHER_SIZE),
    ],
)
def test_a_part_that_is_missing_or_absurd_is_named(changes, message):
    found = predict_scale(make_measured(**changes), ONE, Asked(replace(ONE.setting, ranks=2)))
    assert found.reason.code == message.code


def test_a_scale_far_off_its_timed_step_starts_nothing():
    start = make_point("one", 1, 8, step_time_median_s=3 * made_scales.timed_s(8))
    assert not ask(start, ranks=2).step_s > 0
