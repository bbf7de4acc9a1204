"""Time to compute at a batch: as timed, between timed batches, and never outside of them."""

import math

import pytest
from unit.predict.steps.made_blocks import make_block, make_step

from hpcai.metrics.scaling.model_limits import NOT_COVERED
from hpcai.predict.steps.compute import BETWEEN, BLOCKS, NOT_TIMED, OUTSIDE, STEPS, TIMED, compute_at

TIMES = [
    make_step(make_block(count=1, time_s=2.0), batch=8, step_s=3.5, update_s=0.5),
    make_step(make_block(count=1, time_s=6.0), batch=16, step_s=7.7, update_s=0.7),
    make_step(make_block(count=1, time_s=99.0), batch=12, network="other"),
]


def test_a_timed_batch_takes_its_step_less_the_update():
    found = compute_at(TIMES, "net", 16)
    assert (found.gradients_s, found.update_s, found.reason) == (7.0, 0.7, "")
    assert TIMED.find_in(found.basis) == {"what": STEPS, "batch": "16"}


def test_between_two_timed_batches_time_is_on_a_line():
    found = compute_at(TIMES, "net", 10)
    assert (found.gradients_s, found.update_s) == pytest.approx((4.0, 0.55))
    assert BETWEEN.find_in(found.basis) == {"what": STEPS, "low": "8", "high": "16"}


def test_without_the_step_of_each_batch_it_is_the_sum_of_blocks_at_all_of_them():
    found = compute_at([TIMES[0].model_copy(update={"step_s": None}), *TIMES[1:]], "net", 16)
    assert found.gradients_s == 6.0
    assert TIMED.find_in(found.basis)["what"] == BLOCKS


@pytest.mark.parametrize("batch", [4, 32])
def test_outside_of_the_timed_batches_nothing_is_guessed(batch):
    found = compute_at(TIMES, "net", batch)
    assert math.isnan(found.gradients_s)
    assert OUTSIDE.find_in(found.reason)["high"] == "16"


def test_what_was_not_timed_or_not_covered_has_a_reason():
    assert NOT_TIMED.find_in(compute_at(TIMES, "unknown", 8).reason)
    lacking = make_step(make_block(time_s=None), batch=8)
    assert NOT_COVERED.find_in(compute_at([lacking], "net", 8).reason)
    assert NOT_TIMED.find_in(compute_at([make_step(precision="bf16")], "net", 8).reason)
