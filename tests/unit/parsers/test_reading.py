"""Shared by all readers: text decoding, and guessing a file's type."""

import pytest
from unit.parsers.artefacts import cuts, flips, foreign

from hpcai.core.errors import ParseError
from hpcai.parsers.identify import looks_like
from hpcai.parsers.text import read_lines


def test_utf8_utf16_and_windows_line_ends_are_one_text(tmp_path):
    text = 'a,b\r\n"\x1b[31m1\x1b[0m",µs\r\n'
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        (tmp_path / encoding).write_bytes(text.encode(encoding))
        assert read_lines(tmp_path / encoding, "a table") == ["a,b", '"1",µs']


@pytest.mark.parametrize("kind", ["empty", "binary", "latin1", "one huge line", "nul", "elf"])
def test_what_is_no_text_is_refused(tmp_path, kind):
    with pytest.raises(ParseError, match="expected a table of nvprof"):
        read_lines(foreign(tmp_path)[kind], "a table of nvprof")


def test_missing_file_is_named(tmp_path):
    with pytest.raises(ParseError, match=r"nothing\.csv: No such file"):
        read_lines(tmp_path / "nothing.csv", "a table")


@pytest.mark.parametrize(
    ("kind", "words"),
    [("empty", "an empty file"), ("blanks", "a file of blanks"), ("prose", "unknown text that begins with 'It was"),
     ("html", "an HTML page"), ("gzip", "a gzip file"), ("elf", "a program")],
)  # fmt: skip
def test_a_foreign_file_is_told_by_its_looks(tmp_path, kind, words):
    assert words in looks_like(foreign(tmp_path)[kind])


def test_damage_is_damage():
    data = bytes(range(100))
    assert all(len(part) == place for place, part in cuts(data))
    assert all(part != data for _, part in flips(data))
