"""Parts of a step at other scales."""

import math
from dataclasses import replace

import pytest
from unit.predict.scales.made_scales import SLOWEST, make_measured, make_point

from hpcai.predict.scales import parts
from hpcai.predict.scales.exchange import ExchangeTime


def test_the_slowest_rank_is_slower_the_more_there_are():
    scatter = make_measured().scatter["one"]
    assert parts.slowest_of(scatter, 1).ratio == 1
    assert parts.slowest_of(scatter, 2).ratio == pytest.approx(SLOWEST)
    assert parts.slowest_of(None, 2).basis.code == parts.NO_SCATTER.code


@pytest.mark.parametrize("shared_core", [True, False])
def test_only_the_last_micro_batch_hides_the_exchange(shared_core):
    """The engine adds up the gradients of the others before anything travels."""
    measured, point = make_measured(shared_core=shared_core), make_point("one", 2, 8)
    settings = [replace(point.setting, accumulation=count, global_batch=8 * count) for count in (1, 4)]
    found = [parts.parts_of(measured, point, setting, math.nan) for setting in settings]
    slow = ExchangeTime(calls_s=4.0, waiting_s=3.0, messages=4)
    shown = [replace(one, exchange=slow).step(count * 1.0, 0.0)[1] for one, count in zip(found, (1, 4), strict=True)]
    assert shown[0] == shown[1]
    assert 1.0 < shown[0] < 4.0
