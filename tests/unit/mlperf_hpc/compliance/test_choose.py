"""The rule set is chosen from the files present, and the reason is given."""

import datetime

import pytest
from unit.mlperf_hpc.log_factory import log_text, write_tree

from hpcai.core.errors import ConfigError
from hpcai.mlperf_hpc.compliance.checked_round import check_round, known_rule_set, read_checked_round
from hpcai.mlperf_hpc.compliance.choose import choose_by_date, choose_by_name
from hpcai.mlperf_hpc.rounds.index import SourceIndex


def in_year(year: int) -> float:
    return datetime.datetime(year, 7, 1, tzinfo=datetime.UTC).timestamp() * 1000


@pytest.mark.parametrize(
    ("name", "rule_set"),
    [("v0.7", "1.0.0"), ("v1.0", "1.0.0"), ("v2.0", "2.0.0"), ("V3.0", "3.0.0"), ("3.0", "3.0.0")],
)
def test_by_name(name, rule_set):
    choice = choose_by_name(name)
    assert choice.rule_set == rule_set
    assert name in choice.reason
    assert ("no rules for v0.7" in choice.reason) == (name == "v0.7")


@pytest.mark.parametrize("name", ["", "results", "v4.2", "tf1.15.0"])
def test_names_that_say_nothing(name):
    assert choose_by_name(name) is None


@pytest.mark.parametrize(
    ("year", "rule_set"), [(2020, "1.0.0"), (2021, "1.0.0"), (2022, "2.0.0"), (2023, "3.0.0"), (2031, "3.0.0")]
)
def test_by_date(year, rule_set):
    choice = choose_by_date(in_year(year))
    assert choice.rule_set == rule_set
    assert str(year) in choice.reason


@pytest.mark.parametrize("newest_ms", [None, 0, -1e30, 1e300, float("nan")])
def test_dates_that_say_nothing(newest_ms):
    assert choose_by_date(newest_ms) is None


def choice_of(folder, **arguments):
    return read_checked_round(folder, **arguments).choice


def test_newest_log_decides(tmp_path):
    """Logs of an earlier round are submitted again."""
    write_tree(tmp_path, logs=[log_text(start_ms=in_year(2021))])
    assert choice_of(tmp_path).rule_set == "1.0.0"
    write_tree(tmp_path, system="b", logs=[log_text(start_ms=in_year(2022))])
    assert choice_of(tmp_path).rule_set == "2.0.0"


def test_the_name_comes_before_the_date(tmp_path):
    write_tree(tmp_path, logs=[log_text(start_ms=in_year(2021))])
    (tmp_path / "README.md").write_text("# MLPerf HPC v2.0 Results\n")
    assert choice_of(tmp_path).rule_set == "2.0.0"
    assert choice_of(tmp_path, name="v3.0").rule_set == "3.0.0"


def test_openfold(tmp_path):
    write_tree(tmp_path, benchmark="openfold", logs=[log_text("openfold", start_ms=in_year(2021))])
    choice = choice_of(tmp_path)
    assert (choice.rule_set, "openfold" in choice.reason) == ("3.0.0", True)


def test_tree_of_v07_without_dates(tmp_path):
    write_tree(tmp_path, scaling=None, logs=[":::MLLOG {}\n"])
    assert "v0.7" in choice_of(tmp_path).reason


def test_nothing_tells(tmp_path):
    write_tree(tmp_path, logs=[":::MLLOG {}\n"])
    assert choice_of(tmp_path).rule_set == "3.0.0"


def test_an_explicit_one_wins(tmp_path):
    write_tree(tmp_path / "hpc_results_v1.0", logs=[log_text()])
    checked = read_checked_round(tmp_path / "hpc_results_v1.0", rule_set="2.0")
    assert checked.choice.rule_set == "2.0.0"
    assert {verdict.rule_set for verdict in checked.verdicts.values()} == {"2.0.0"}


def test_verdicts_are_of_the_chosen_rule_set_and_each_log_is_read_once(tmp_path):
    write_tree(tmp_path / "hpc_results_v1.0", logs=[log_text(), log_text()])
    seen = []
    checked, counts = check_round(
        SourceIndex(tmp_path / "hpc_results_v1.0"), lambda path, log: seen.append(path) or len(log.events)
    )
    assert sorted(seen) == sorted(checked.verdicts)
    assert list(counts) == list(checked.verdicts)
    assert min(counts.values()) > 30
    assert {verdict.rule_set for verdict in checked.verdicts.values()} == {"1.0.0"}
    assert {run.source for one in checked.round.submissions for run in one.runs} == set(checked.verdicts)


def test_a_foreseen_rule_set_that_the_round_disproves(tmp_path):
    write_tree(tmp_path, logs=[log_text(start_ms=in_year(2021)), log_text(start_ms=in_year(2023))])
    checked = read_checked_round(tmp_path)
    assert {verdict.rule_set for verdict in checked.verdicts.values()} == {"3.0.0"} == {checked.choice.rule_set}


@pytest.mark.parametrize("name", ["3.0.0", "3.0", "hpc_3.0.0"])
def test_names_of_a_rule_set(name):
    assert known_rule_set(name) == "3.0.0"


def test_unknown_rule_set():
    with pytest.raises(ConfigError, match="expected one of"):
        known_rule_set("0.7")


def test_a_log_that_was_cut_is_dated_by_its_first_event(tmp_path):
    whole = log_text(start_ms=in_year(2022))
    cut = tmp_path / "result_1.txt"
    cut.write_text(whole[: len(whole) // 2])
    choice = read_checked_round(cut).choice
    assert choice.rule_set == "2.0.0"
    assert "2022" in choice.reason


def test_a_folder_above_that_is_no_round_does_not_choose_the_rules(tmp_path):
    root = tmp_path / "hpcai_v2.0/submission"
    write_tree(root, logs=[log_text(start_ms=in_year(2023))])
    assert choice_of(root).rule_set == "3.0.0"
