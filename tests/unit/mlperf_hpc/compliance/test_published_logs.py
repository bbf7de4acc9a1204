"""All 135 logs of round v0.7: verdicts and failing keys equal the package's; it is asked about a part, or all."""

import functools
import tarfile
from pathlib import Path

import pytest
from mlperf_logging.compliance_checker import mlp_parser
from mlperf_logging.compliance_checker.mlp_parser import ruleset_100
from unit.mlperf_hpc.compliance.authority import ARCHIVE, SHARED, ask_package, assert_equal, own_keys, published

from hpcai.mlperf_hpc.compliance.checked_round import read_checked_round
from hpcai.mlperf_hpc.compliance.model import RULE_SETS


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    with tarfile.open(published(ARCHIVE)) as content:
        content.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize(
    ("every", "asked"), [(5, 1), pytest.param(1, len(RULE_SETS), marks=pytest.mark.slow)], ids=["part", "all"]
)
def test_verdicts_equal_the_packages(unpacked, monkeypatch, every, asked):
    """Ask the package about every so manieth log by so many rule sets; one after the other if by one.

    Its parsers of the three rule sets are the same text; each log is parsed once to save time.
    """
    parse = functools.lru_cache(maxsize=1)(ruleset_100.parse_file)
    monkeypatch.setattr(mlp_parser, "parse_file", lambda path, ruleset: parse(path))
    ours = {rule_set: read_checked_round(ARCHIVE, rule_set=rule_set).verdicts for rule_set in RULE_SETS}
    assert {rule_set: len(verdicts) for rule_set, verdicts in ours.items()} == dict.fromkeys(RULE_SETS, 135)
    assert [sum(one.complies for one in verdicts.values()) for verdicts in ours.values()] == [20, 20, 20]
    for number, source in enumerate(sorted(ours["1.0.0"])[::every]):
        for rule_set in [*RULE_SETS, *RULE_SETS][number % len(RULE_SETS) :][:asked]:
            verdict = ours[rule_set][source]
            assert (verdict.complies, own_keys(verdict)) == ask_package(unpacked / source, rule_set), source


def test_rule_set_of_the_archive():
    checked = read_checked_round(published(ARCHIVE))
    assert checked.choice.rule_set == "1.0.0"
    assert "no rules for v0.7" in checked.choice.reason


def test_subset(tmp_path):
    folder = published(SHARED / "mlperf_hpc_v0.7_subset")
    logs = sorted(folder.rglob("result_*.txt"))
    assert logs
    for log in logs[:5]:
        assert_equal(log.read_bytes(), tmp_path, "2.0.0")
