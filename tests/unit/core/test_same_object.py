"""Objects as keys by identity."""

from hpcai.core.same_object import SameObject


def test_equal_objects_are_different_keys():
    first, second = [1], [1]
    assert SameObject(first) == SameObject(first)
    assert SameObject(first) != SameObject(second)
    assert SameObject(first) != first
    assert {SameObject(first): "a", SameObject(second): "b"}[SameObject(first)] == "a"
