"""Sums of blocks: their values, their refusals, and the columns next to them."""

import math

import pytest
from unit.predict.steps.made_blocks import make_block, make_report, make_step

from hpcai.core.disturbance import Tolerance
from hpcai.metrics.scaling.model_limits import NOT_COVERED
from hpcai.predict.steps.accuracy import (
    ERRORS,
    NO_ERROR,
    NO_UPDATE,
    SAID_DISTURBED,
    WALL,
    collect_block_steps,
    collect_block_times,
    describe_goals,
    print_steps,
    sum_blocks,
    tabulate_blocks,
)
from hpcai.predict.steps.report import BlocksReport
from hpcai.records.files import read_part, write_sealed


def test_a_step_is_its_blocks_as_often_as_it_has_them_and_the_update():
    found = sum_blocks(make_step(make_block(), make_block(count=1, time_s=0.25)))
    assert found.step_s == 3 * 1.0 + 0.25 + 0.5
    assert (found.covered_ratio, found.reason) == (1.0, "")
    assert sum_blocks(make_step(arguments_s=0.125)).gradients_s == 3 * 1.0 + 0.125


@pytest.mark.parametrize(("missing", "is_refused"), [({"work_flop": 31.0}, True), ({"work_flop": 29.0}, False),
                                                     ({"work_flop": 0.0, "moved_bytes": 4.0}, True)])  # fmt: skip
def test_less_than_nine_tenths_of_the_work_are_no_estimate(missing, is_refused):
    lacking = make_block(**{"count": 1, "time_s": None, "moved_bytes": 0.0, "reason": "crash", **missing})
    found = sum_blocks(make_step(make_block(), lacking))
    assert math.isnan(found.step_s) == is_refused
    assert bool(NOT_COVERED.find_in(found.reason)) == is_refused
    assert found.covered_ratio < 1


def test_a_step_without_update_or_blocks_has_a_reason():
    assert sum_blocks(make_step(update_s=None)).reason == NO_UPDATE()
    dead = sum_blocks(make_step(blocks=(), step_s=None, update_s=None, reason="died"))
    assert dead.reason == "died"
    assert math.isnan(dead.step_s)


def test_the_table_has_errors_with_their_sign_and_goal():
    steps = collect_block_steps(make_report(make_step(), make_step(step_s=3.4)), Tolerance(), "file")
    assert steps["relative_error_ratio"].tolist() == pytest.approx([3.5 / 4 - 1, 3.5 / 3.4 - 1])
    assert steps["within_goal"].tolist() == [False, True]
    assert set(steps["quiet"]) == {"quiet"}
    assert steps["blocks"].tolist() == [3, 3]


def test_blocks_have_their_share_of_the_step():
    times = collect_block_times(make_report(make_step(make_block(), make_block(time_s=None))), "file")
    assert times["share_ratio"].iloc[0] == 3 / 4
    assert times["time_s"].isna().tolist() == [False, True]


def test_goals_are_judged_on_all_steps_that_have_an_error():
    steps = collect_block_steps(make_report(make_step(), make_step(step_s=None)), Tolerance(), "")
    facts = ERRORS.find_in(describe_goals(steps))
    assert (facts["known"], facts["steps"], facts["median"], facts["worst"]) == ("1", "2", "12.5%", "12.5%")
    assert describe_goals(steps.iloc[1:]) == NO_ERROR(steps=1)


@pytest.mark.parametrize(("others_s", "is_said"), [(0.0, False), (5.0, True)])
def test_a_disturbed_machine_is_said(others_s, is_said):
    printed = print_steps(make_report(others_s=others_s), Tolerance())
    assert bool(SAID_DISTURBED.find_in(printed)) == is_said
    assert "3500.00" in printed


@pytest.mark.parametrize(("wall_s", "verdict"), [(180.0, "met"), (225.0, "missed")])
def test_the_time_stands_beside_its_goal(wall_s, verdict):
    found = WALL.find_in(print_steps(make_report().model_copy(update={"wall_s": wall_s}), Tolerance()))
    assert (found["wall_s"], found["goal_s"], found["verdict"]) == (f"{wall_s:.0f}", "180", verdict)


def test_the_table_has_the_coverage_of_each_step():
    blocks = (make_block(work_flop=95.0, moved_bytes=19.0), make_block(work_flop=5.0, moved_bytes=1.0, time_s=None))
    line = next(one for one in print_steps(make_report(make_step(*blocks)), Tolerance()).splitlines() if "net " in one)
    assert "95%" in line.split()


def test_tables_are_made_of_files_or_empty(tmp_path):
    file = tmp_path / "blocks.json"
    write_sealed(make_report(), file)
    reports = {str(file): read_part(BlocksReport, file)}
    assert [len(one) for one in tabulate_blocks(reports, Tolerance()).values()] == [1, 1, 0]
    assert [len(one) for one in tabulate_blocks({}, Tolerance()).values()] == [0, 0, 0]
