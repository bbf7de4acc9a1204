"""What a study tells of input and exchange beyond its parts."""

from dataclasses import replace

import pandas as pd
import pytest
from unit.predict.scales.made_scales import CALL_S, IN_TRAINING, INPUT_S, links, make_measured, make_point

from hpcai.predict.scales import learnt


def test_both_are_recovered_from_a_study_that_follows_them():
    found = make_measured().learnt
    assert found.input_s == pytest.approx({(name, "horovod"): INPUT_S for name in ("one", "two", "three")})
    assert found.exchange_of("horovod").ratio == pytest.approx(IN_TRAINING)
    assert found.exchange_of("horovod").basis.code == learnt.IN_TRAINING.code


def test_the_median_over_benchmarks_counts():
    odd = make_point("two", 2, 8, step_time_median_s=1.1 * make_point("two", 2, 8).step_s)
    points = [point for point in make_measured().points if point.setting.ranks == 1 or point.benchmark != "two"]
    assert make_measured(*points, odd).learnt.exchange_of("horovod").ratio == pytest.approx(IN_TRAINING)


def test_a_scale_that_is_left_out_tells_nothing():
    odd = make_point("one", 2, 8, step_time_median_s=make_point("one", 2, 8).step_s + 0.01)
    measured = make_measured(make_point("one", 1, 8), odd)
    assert measured.learnt.exchange_of("horovod").ratio > 2
    without = replace(measured, points=measured.points[:1]).learnt.exchange_of("horovod")
    assert without.ratio == 1
    assert without.basis.code == learnt.NOT_IN_TRAINING.code


def test_an_engine_tells_nothing_of_anothers_exchange():
    """The median of one benchmark with each would be a ratio that neither engine has."""
    engines = {"one": "jax", "two": "tensorflow"}
    points = [make_point(name, ranks, 8, engine=engine) for name, engine in engines.items() for ranks in (1, 2)]
    slow = make_point("one", 2, 8, engine="jax", step_time_median_s=points[1].step_s + CALL_S)
    calls = pd.concat([links().assign(engine=engine) for engine in engines.values()])
    found = make_measured(points[0], slow, *points[2:], links=calls).learnt
    assert found.exchange_of("jax").ratio == pytest.approx(IN_TRAINING + 1)
    assert found.exchange_of("tensorflow").ratio == pytest.approx(IN_TRAINING)
    assert found.exchange_of("horovod").ratio == 1
    assert found.exchange_of("horovod").basis.code == learnt.NOT_IN_TRAINING.code


@pytest.mark.parametrize("changes", [{"precision": "bf16"}, {"gradient_groups": 2}, {"cycle_time_s": 5e-3}])
def test_unusual_trainings_tell_nothing_of_exchange(changes):
    points = (make_point("one", 1, 8), make_point("one", 2, 8, **changes))
    assert make_measured(*points).learnt.exchange_of("horovod").basis.code == learnt.NOT_IN_TRAINING.code


def test_an_absurd_exchange_is_not_believed():
    slow = links().assign(time_s=10 * links()["time_s"])
    found = make_measured(links=slow).learnt.exchange_of("horovod")
    assert found.ratio == 1
    assert found.basis.code == learnt.ODD_EXCHANGE.code
