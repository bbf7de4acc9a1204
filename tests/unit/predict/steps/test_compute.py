"""Time to compute at a batch: as timed, between timed batches, and never outside of them."""

import math

import pytest
from unit.predict.steps.made_blocks import make_block, make_step

from hpcai.metrics.scaling.model_limits import NOT_COVERED
from hpcai.predict.steps.compute import BETWEEN, NOT_TIMED, OUTSIDE, TIMED, compute_at

STEPS = [
    make_step(make_block(count=1, cpu_time_s=2.0), batch=8, update_s=0.5),
    make_step(make_block(count=1, cpu_time_s=6.0), batch=16, update_s=0.7),
    make_step(make_block(count=1, cpu_time_s=99.0), batch=12, network="other"),
]


def test_a_timed_batch_is_the_sum_of_its_blocks():
    found = compute_at(STEPS, "net", 16)
    assert (found.gradients_s, found.update_s, found.reason) == (6.0, 0.7, "")
    assert TIMED.find_in(found.basis)["batch"] == "16"


def test_between_two_timed_batches_time_is_on_a_line():
    found = compute_at(STEPS, "net", 10)
    assert (found.gradients_s, found.update_s) == pytest.approx((3.0, 0.55))
    assert BETWEEN.find_in(found.basis) == {"low": "8", "high": "16"}


@pytest.mark.parametrize("batch", [4, 32])
def test_outside_of_the_timed_batches_nothing_is_guessed(batch):
    found = compute_at(STEPS, "net", batch)
    assert math.isnan(found.gradients_s)
    assert OUTSIDE.find_in(found.reason)["high"] == "16"


def test_what_was_not_timed_or_not_covered_has_a_reason():
    assert NOT_TIMED.find_in(compute_at(STEPS, "unknown", 8).reason)
    lacking = make_step(make_block(cpu_time_s=None), batch=8)
    assert NOT_COVERED.find_in(compute_at([lacking], "net", 8).reason)
    assert NOT_TIMED.find_in(compute_at([make_step(precision="bf16")], "net", 8).reason)
