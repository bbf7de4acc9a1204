"""Requirements: the values that they allow, and their wording."""

import math

import pytest
from pydantic import ValidationError

from hpcai.rules.requirement import ONE_KEY, Requirement


@pytest.mark.parametrize(
    ("required", "allowed", "refused", "words"),
    [
        ({"equals": 0.9}, [0.9], [0.91, "0.9", None], "0.9"),
        ({"equals": 524288}, [524288, 524288.0], [1], "524,288"),
        ({"equals": True}, [True], [1, False], "true"),
        ({"equals": [128, 64]}, [(128, 64), [128, 64]], [(64, 128), (128,), 128], "[128, 64]"),
        ({"one_of": ["sgd", "lars"]}, ["lars"], ["SGD", None], "sgd or lars"),
        ({"at_least": 0, "below": 1}, [0, 0.5], [1, -0.1, "0", math.nan, None], "at least 0 and below 1"),
        ({"above": 0, "at_most": 0.124}, [0.124], [0, 0.1241], "above 0 and at most 0.124"),
        ({"each": {"above": 0}}, [(1, 2), ()], [(0, 1), 1], "each above 0"),
        ({"free": True}, [None, 1, "x"], [], "free"),
    ],
)
def test_requirement(required, allowed, refused, words):
    requirement = Requirement.model_validate(required)
    assert all(requirement.allows(value) for value in allowed)
    assert not any(requirement.allows(value) for value in refused)
    assert requirement.words == words


@pytest.mark.parametrize("required", [{}, {"equals": 1, "one_of": [1]}, {"free": True, "at_least": 0}])
def test_a_requirement_requires_one_thing(required):
    with pytest.raises(ValidationError, match=ONE_KEY.pattern):
        Requirement.model_validate(required)
