"""A study in which all runs of a point broke down does not end well."""

import json

import pytest
from unit.campaign.result_folders import finish_group, finish_run
from unit.record_factory import make_machine
from unit.refusals import told

from hpcai.campaign.failures import LOST
from hpcai.campaign.outcomes import NO_POINT, NO_RESULT, SOME_POINTS, write_outcomes
from hpcai.core.errors import NoResultError


@pytest.fixture
def judge(tmp_path):
    """Judge the records and groups that are there."""

    def judge():
        records = sorted(tmp_path.glob("results/runs/*/*/*/*/record.json"))
        groups = sorted(tmp_path.glob("results/weak/*/*/*/group.json"))
        write_outcomes(records, groups, tmp_path / "outcomes.json")
        return json.loads((tmp_path / "outcomes.json").read_text())

    return judge


def test_points_with_a_result_are_counted(tmp_path, judge):
    finish_run(tmp_path / "results")
    finish_run(tmp_path / "results", "diverged", ranks_per_node=2)
    finish_run(tmp_path / "results", "failed", ranks_per_node=2, repetition=2)
    finish_group(tmp_path / "results", ("failed", "not_converged"))
    assert judge() == {"points": 3, "without_result": 0}


def test_a_point_whose_runs_all_broke_down_is_named_with_its_reason(tmp_path, judge):
    finish_run(tmp_path / "results")
    for repetition, outcome in enumerate(("timed_out", "failed"), 1):
        finish_run(tmp_path / "results", outcome, ranks_per_node=2, repetition=repetition)
    with pytest.raises(NoResultError) as error:
        judge()
    whole, point = str(error.value).splitlines()
    assert told(told(whole, NO_RESULT)["points"], SOME_POINTS) == {"lost": "1", "points": "2"}
    lost = told(point, LOST)
    assert lost["runs"].endswith("n1x2: all its 2 runs")
    assert lost["reason"].startswith("rank 1")
    assert not (tmp_path / "outcomes.json").exists()


def test_a_group_whose_instances_all_broke_down_is_named(tmp_path, judge):
    finish_run(tmp_path / "results")
    finish_group(tmp_path / "results", ("failed", "timed_out"))
    with pytest.raises(NoResultError, match="weak/cosmoflow_mini/fp32/n1x1: all its 2 runs"):
        judge()


def test_a_study_without_any_result_says_so(tmp_path, judge):
    finish_run(tmp_path / "results", "failed")
    with pytest.raises(NoResultError) as error:
        judge()
    assert told(str(error.value), NO_RESULT)["points"] == NO_POINT()


def test_of_many_points_only_some_are_named(tmp_path, judge):
    for ranks in range(1, 15):
        finish_run(tmp_path / "results", "failed", ranks_per_node=ranks, machine=make_machine(ranks_per_node=16))
    with pytest.raises(NoResultError, match=r"\.\.\. and 4 more"):
        judge()
