"""Programs: how one ended, and what it said last."""

import os

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


@pytest.mark.parametrize("path", ["", "elsewhere", "elsewhere:here"])
def test_the_program_beside_this_python_is_found_whichever_environment_is_active(tmp_path, monkeypatch, path):
    for file in ("here/tool", "here/other", "elsewhere/tool", "elsewhere/lone"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch(0o755)
    monkeypatch.setattr(programs.sys, "executable", str(tmp_path / "here/python"))
    before = ":".join(str(tmp_path / folder) for folder in path.split(":"))
    monkeypatch.setenv("PATH", before)
    programs.let_be_found("lone")
    assert os.environ["PATH"] == before
    for _ in range(2):  # the jobs of a workflow start with the PATH of the workflow
        programs.let_be_found("other", "tool")
        assert os.environ["PATH"] == f"{tmp_path / 'here'}:{before}"
