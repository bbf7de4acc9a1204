"""Names of points: they contain the engine unless it is the default one or unknown."""

import math

import pytest

from hpcai.catalogue.points import POINT, SERIES, engine_words, label_of
from hpcai.config.runs import Point, engine_of_link


def test_a_series_is_a_point_without_its_scale():
    assert [*SERIES, "scale"] == POINT
    assert set(SERIES) <= set(Point.model_fields)


@pytest.mark.parametrize(
    ("row", "words"),
    [({"engine": "horovod"}, []), ({"engine": "tensorflow"}, ["tensorflow"]), ({"engine": math.nan}, []), ({}, [])],
)
def test_the_usual_engine_is_not_named(row, words):
    assert engine_words(row) == words
    parts = ["b", "v", *words, "n1x2"]
    assert label_of({"benchmark": "b", "variant": "v", "scale": "n1x2", **row}) == "/".join(parts)


@pytest.mark.parametrize(("engine", "name"), [("horovod", "n2x4"), ("tensorflow", "n2x4_tensorflow")])
def test_allreduces_are_named_after_scale_and_engine(engine, name):
    point = Point(benchmark="b", variant="v", nodes=2, ranks_per_node=4, engine=engine)
    assert point.link_name == name
    assert engine_of_link(name) == engine
