"""Foreign JSON: what nobody can store afterwards, and what fails otherwise than by ValueError."""

import pytest

from hpcai.parsers.json_text import read_json


def test_a_lone_surrogate_becomes_a_character_that_can_be_stored():
    assert read_json(r'{"name": "\ud800", "pair": "\ud83d\ude00"}') == {"name": "\ufffd", "pair": "\U0001f600"}


@pytest.mark.parametrize("text", ["", "[", "[" * 200_000, '{"a":' * 100_000, "9" * 5000])
def test_all_that_cannot_be_read_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"\w"):
        read_json(text)
