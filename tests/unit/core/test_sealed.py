"""Sealed content is returned unchanged or refused."""

import json

import pytest

from hpcai.core.sealed import seal, seal_drawing, sealed_json, unseal, unseal_drawing

TEXT = b'{\n "a": 1,\n "b": [\n  2\n ]\n}\n'


def test_sealed_text_is_json_and_comes_back():
    assert unseal(seal(TEXT)) == (TEXT, True)
    assert {**json.loads(TEXT), "content_sha256": json.loads(seal(TEXT))["content_sha256"]} == json.loads(seal(TEXT))
    assert unseal(TEXT) == (TEXT, False)


def test_no_bit_of_the_content_changes_unnoticed():
    sealed = seal(TEXT)
    for place in range(8 * (len(TEXT) - len("\n}\n"))):
        flipped = bytearray(sealed)
        flipped[place // 8] ^= 1 << place % 8
        with pytest.raises(ValueError, match="changed"):
            unseal(bytes(flipped))


def test_written_again_by_another_program_it_is_refused():
    with pytest.raises(ValueError, match="changed"):
        unseal(json.dumps(json.loads(seal(TEXT))).encode())


@pytest.mark.parametrize("text", [b"{}", b"{}\n", b"", b'{"a": 1}\n'])
def test_what_is_laid_out_otherwise_cannot_be_sealed(text):
    with pytest.raises(ValueError, match="expected"):
        seal(text)


def test_every_flipped_bit_of_a_sealed_drawing_is_noticed():
    drawing = b'<svg width="72pt"><path d="M 1 2"/></svg>'
    sealed = seal_drawing(drawing)
    assert unseal_drawing(sealed) == (drawing + b"\n", True)
    assert unseal_drawing(drawing) == (drawing, False)
    for length in range(len(sealed)):
        if length not in {len(drawing), len(drawing) + 1}:
            with pytest.raises(ValueError, match="truncated or changed"):
                unseal_drawing(sealed[:length])
    for place in range(8 * len(sealed)):
        flipped = bytearray(sealed)
        flipped[place // 8] ^= 1 << place % 8
        try:
            found = unseal_drawing(bytes(flipped))
        except ValueError:
            continue
        # A comment of another name is not ours; the drawing before it is complete.
        assert found.text.startswith(drawing)


def test_plain_values_are_sealed_and_an_empty_object_has_nothing_to_seal():
    assert json.loads(unseal(sealed_json({"a": [1, "ü"]})).text) == {"a": [1, "ü"]}
    assert sealed_json({}) == b"{}\n"
