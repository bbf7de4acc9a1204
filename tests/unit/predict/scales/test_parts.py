"""Parts of a step at other scales."""

import pytest
from unit.predict.scales.made_scales import SLOWEST, make_measured

from hpcai.predict.scales import parts


def test_the_slowest_rank_is_slower_the_more_there_are():
    scatter = make_measured().scatter["one"]
    assert parts.slowest_of(scatter, 1).ratio == 1
    assert parts.slowest_of(scatter, 2).ratio == pytest.approx(SLOWEST)
    assert parts.slowest_of(None, 2).basis.code == parts.NO_SCATTER.code
