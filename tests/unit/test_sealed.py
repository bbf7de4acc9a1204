"""What is sealed comes back as it was, or not at all."""

import json

import pytest

from hpcai.sealed import seal, unseal

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
