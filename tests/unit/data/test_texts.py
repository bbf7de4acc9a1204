from pathlib import Path

import pytest

from hpcai.data.packed import PackedMember
from hpcai.data.table import Table
from hpcai.data.texts import Paths, Texts

NAMES = ["train/a", "", "ä/ö", "odd\udcff", "z" * 300]


def test_texts_are_those_of_the_list() -> None:
    found = Texts.of(iter(NAMES))
    assert list(found) == NAMES
    assert (len(found), found[-1], found[2]) == (5, NAMES[-1], "ä/ö")
    assert list(found[1:4]) == list(found[:4][1:]) == NAMES[1:4]
    assert list(found[::-2]) == NAMES[::-2]
    assert not Texts.of([])
    with pytest.raises(IndexError):
        found[5]


def test_paths_are_those_of_the_table() -> None:
    facts = {"offset": 0, "packed_bytes": 1, "content_bytes": 1, "content_crc32c": "0" * 8, "record_offsets": (0,)}
    names = [f"train/{number}" for number in range(9)]
    found = Paths(Path("/node"), Table.of(PackedMember, [PackedMember(name=name, **facts) for name in names]), "name")
    assert list(found) == [Path("/node", name) for name in names]
    assert (found[-1], list(found[2:4])) == (Path("/node/train/8"), list(found)[2:4])
