"""Output of `hpcai rules`."""

import sys
from pathlib import Path

import pytest

from hpcai.__main__ import main
from hpcai.config.load import load_study_file
from hpcai.rules import listing
from hpcai.rules.listing import WIDTH, list_rules, list_verdicts
from hpcai.rules.table import SUITES, rules_of

TESTS = Path(__file__).parents[2]


def test_all_rules_are_printed_with_their_sections():
    text = list_rules()
    lines = text.splitlines()
    for suite in SUITES:
        assert any(line.startswith(rules_of(suite).title) for line in lines)
        for rule in rules_of(suite).rules:
            assert any(line.startswith(f"    {rule.id} (") for line in lines), rule.id
    assert "looks at recipe.momentum: 0.875" in text
    assert listing.NEVER_KEPT(declared="a re-implementation") in text
    assert "where plan.rule_set: hpc_1.0.0 or hpc_2.0.0" in text
    assert listing.VFLOPS(exponents="image_classification 5, extreme_weather 10") in text
    assert listing.NO_VFLOPS() in text
    assert all(len(line) <= WIDTH for line in lines)


def test_a_study_is_judged_before_anything_is_run():
    text = list_verdicts(load_study_file(TESTS / "config" / "tiny.yaml"))
    for words in ("cosmoflow_mini/", "closed division: not valid", "- generated data [official_data:", "too few runs"):
        assert words in text
    later = listing.JUDGED_LATER.find_in(text)["facts"]
    assert " ".join(later.split()).split(", ") == ["init s", "outcome", "page cache", "parameters", "quality"]


@pytest.mark.parametrize("study", [[], [str(TESTS / "config" / "tiny.yaml")]])
def test_the_command(monkeypatch, capsys, study):
    monkeypatch.setattr(sys, "argv", ["hpcai", "rules", *study])
    assert main() == 0
    assert "MLPerf HPC" in capsys.readouterr().out
