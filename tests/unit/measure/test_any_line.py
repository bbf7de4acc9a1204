"""A supervisor that is hit at a line drawn by chance: when the run is started again, one right record is published."""

import random

import pytest
from attack.faults import hit_lines
from attack.tally import Tally

from hpcai.measure import claim

LINES = 6


def test_signals_at_lines_drawn_by_chance(tmp_path, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setattr(claim, "WAIT_S", 0.05)
    monkeypatch.setattr(claim, "REFRESH_S", 0.1)
    tally = Tally("lines")
    hit_lines(tally, tmp_path, random.Random(18), LINES)
    assert len(tally.cases) == LINES
    assert not tally.bad


@pytest.mark.parametrize("verdict", ["silent", "traceback"])
def test_what_is_bad_is_counted(verdict, capsys):
    tally = Tally("made up")
    tally.add("a file", "a bit", verdict, "another number")
    tally.add("a file", "a digit", "noticed")
    assert [case.what for case in tally.bad] == ["a bit"]
    assert verdict.upper() in capsys.readouterr().out
    assert tally.rows()[0][:3] == ("made up: a file", "2", "1")
