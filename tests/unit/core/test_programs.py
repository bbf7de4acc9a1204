"""Programs: how one ended, and what it said last."""

import os
import shutil

import pytest

from hpcai.core import programs
from hpcai.core.programs import ENDED, KILLED, LONGEST_QUOTE, last_words, say_ending


@pytest.mark.parametrize(
    ("return_code", "ending"),
    [
        (0, ENDED(status=0)),
        (3, ENDED(status=3)),
        (-6, KILLED(signal_name="SIGABRT")),
        (-40, KILLED(signal_name="signal 40")),
    ],
)
def test_how_a_process_ended(return_code, ending):
    assert say_ending(return_code) == ending


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("", "nothing was printed"),
        ("\n  no luck  \n\n", "no luck"),
        ("ValueError: first\nKeyError: 'b'\nleaves\n", "KeyError: 'b'"),
        ("jaxlib.Error: none\n", "jaxlib.Error: none"),
        ("E0000 no device\nW0000 slow\n", "E0000 no device"),
        ("x" * 2000, "x" * LONGEST_QUOTE),
    ],
)
def test_the_last_words_of_a_process(printed, said):
    assert last_words(printed) == said


def test_a_program_beside_this_python_is_found_where_nobody_activated_its_environment(tmp_path, monkeypatch):
    for folder in ("here", "elsewhere"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tool").touch(0o755)
    monkeypatch.setattr(programs.sys, "executable", str(tmp_path / "here/python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    programs.let_be_found("tool")
    assert shutil.which("tool") == str(tmp_path / "here/tool")
    monkeypatch.setenv("PATH", str(tmp_path / "elsewhere"))
    programs.let_be_found("tool")
    assert os.environ["PATH"] == str(tmp_path / "elsewhere")
