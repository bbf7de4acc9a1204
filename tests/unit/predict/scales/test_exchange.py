"""Exchange of a step from measured calls: work, waiting, cycles, and what calls take in trainings."""

import math
from dataclasses import replace

import pytest
from unit.predict.scales.made_scales import CALL_S, GRADIENTS, WORK_S, links, make_point

from hpcai.predict.scales.exchange import cycle_of, exchange_time

SETTING = make_point("one", 2, 8).setting


def calls(cycle_s=math.nan, **changes):
    return exchange_time(links(), "horovod", replace(SETTING, **changes), GRADIENTS, cycle_s)


def test_all_but_the_fastest_transfer_is_waiting():
    found = calls(gradient_groups=4)
    assert found.calls_s == pytest.approx(4 * CALL_S)
    assert found.waiting_s == pytest.approx(4 * (CALL_S - WORK_S))


@pytest.mark.parametrize(("cycle_s", "more_s"), [(5e-3, 2e-3), (1e-3, 0.0), (0.5e-3, -0.25e-3)])
def test_a_call_waits_for_half_of_what_the_cycle_is_longer(cycle_s, more_s):
    found = calls(cycle_s)
    assert found.calls_s == pytest.approx(CALL_S + more_s)
    assert found.waiting_s == pytest.approx(CALL_S - WORK_S + more_s)


def test_a_shorter_cycle_takes_no_more_than_the_waiting():
    assert calls(-1.0).waiting_s == pytest.approx(0)


def test_in_a_training_only_waiting_changes():
    found, longer = calls(5e-3), calls(5e-3).in_training(1.5, "")
    assert longer.calls_s == pytest.approx(1.5 * CALL_S + 2e-3)
    assert longer.calls_s - longer.waiting_s == pytest.approx(found.calls_s - found.waiting_s)
    assert calls(ranks=1).in_training(1.5, "") == calls(ranks=1)
    refused = calls(compression="fp16")
    assert refused.in_training(1.5, "") is refused


def test_the_cycle_of_a_scale_is_that_of_its_row():
    assert math.isnan(cycle_of(make_point("one", 2, 8)))
    assert cycle_of(make_point("one", 2, 8, cycle_time_s=5e-3)) == 5e-3
