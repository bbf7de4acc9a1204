"""What goes into a page: sizes of drawings, JSON that cannot end its element, text without unprintable characters."""

import json

import pytest

from hpcai.report.embedding import embed_json, read_size, say_plainly


@pytest.mark.parametrize(
    ("drawing", "size"),
    [
        ('<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="72pt" height="36pt"></svg>', (96, 48)),
        ('<svg height="400" width="860.5" viewBox="0 0 1 1">', (860, 400)),
        ('<svg version="1.1" class="marks" width="10px" height="20px">', (10, 20)),
        ("<svg viewBox='0 0 1 1'>", (0, 0)),
    ],
)
def test_natural_size_of_a_drawing(drawing: str, size: tuple[int, int]) -> None:
    assert read_size(drawing) == size


def test_specification_cannot_end_its_element() -> None:
    data = {"title": "</script><script>alert(1)</script><!-- & \u2028 é"}
    text = str(embed_json(data))
    assert "<" not in text
    assert json.loads(text) == data


def test_unprintable_characters_are_left_out() -> None:
    assert say_plainly("a\u202eb\nc\x00\u00a0d") == "ab\nc\u00a0d".replace("\n", " ")
    assert say_plainly(3) == 3
