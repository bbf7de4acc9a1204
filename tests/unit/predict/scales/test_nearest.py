"""The measured scale that a prediction starts from."""

from dataclasses import replace

from unit.predict.scales.made_scales import make_measured, make_point

from hpcai.predict.scales.model import Asked, predict_scale
from hpcai.predict.scales.nearest import predict_from_nearest
from hpcai.predict.what_if import step_model

ONE, TWO, WIDE = make_point("one", 1, 4), make_point("one", 2, 8), make_point("one", 1, 8)


def test_the_same_batch_of_a_rank_comes_first_then_the_nearest_ranks():
    measured = make_measured()
    own = (WIDE, ONE, TWO)
    start, step = predict_from_nearest(measured, own, Asked(replace(TWO.setting, global_batch=16)))
    assert start is WIDE
    assert step == predict_scale(measured, WIDE, Asked(replace(TWO.setting, global_batch=16)))
    start, _ = predict_from_nearest(measured, own, Asked(replace(TWO.setting, gradient_groups=2)))
    assert start is TWO


def test_a_measured_scale_is_not_predicted_from_itself_unless_it_is_the_only_one():
    assert predict_from_nearest(make_measured(), (ONE, TWO), Asked(TWO.setting))[0] is ONE
    assert predict_from_nearest(make_measured(), (TWO,), Asked(TWO.setting))[0] is TWO


def test_without_a_prediction_the_nearest_says_why():
    start, step = predict_from_nearest(make_measured(), (ONE, TWO), Asked(replace(TWO.setting, global_batch=9)))
    assert start is ONE or start is TWO
    assert step.reason == step_model.UNEVEN_BATCH(samples=9, parts="2 ranks")
