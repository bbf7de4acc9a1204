"""What is no file, or no file of ours, is refused by every reader of results and settings, and nothing blocks."""

import random

import pytest
from attack.hostile import HARMLESS, read_all, readers_of
from attack.hostile_files import files

FILES = files(random.Random(18))
CHEAP = [name for name in FILES if not name.endswith("bomb")]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("group", ["results", "settings"])
@pytest.mark.parametrize("name", CHEAP)
def test_no_reader_takes_it(tmp_path, group, name):
    path = tmp_path / "hostile"
    FILES[name](path)
    for reader, ending, words in read_all(readers_of([])[group], path):
        harmless = {(reader, name), (reader, "*")} & HARMLESS
        assert ending == "refused" or (ending == "accepted" and harmless), (reader, words)
    assert {one.name for one in tmp_path.iterdir()} <= {"hostile"}
