"""The status reports stages, running runs, and an expected end that is computed from finished runs or unknown."""

import time
from dataclasses import replace

import pytest
from typer import TyperException
from unit.campaign.result_folders import campaign, finish_run, note_of_dead_controller, open_attempt, run_folder
from unit.campaign.test_surroundings import fake_squeue
from unit.refusals import told

from hpcai.campaign.controller_note import UTC, this_controller, write_note
from hpcai.campaign.run_folders import RunFolder
from hpcai.campaign.states import RunState
from hpcai.campaign.status import (
    FIRST_OF_KIND,
    FROM_MEDIANS,
    NONE_FINISHED,
    NOT_BEFORE,
    TAKE_AT_LEAST,
    forecast,
    say_status,
    status_of,
)
from hpcai.catalogue.profiles import PROFILES
from hpcai.cli.main import call
from hpcai.measure.claim import claimed


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    write_note(campaign(), tmp_path / "results", ("snakemake",), this_controller())
    return tmp_path / "results"


def run(number, state="finished", wall_s=None, start_s=0.0, point="runs/b/v/n1x1", tmp_path=None):
    started = time.strftime(UTC, time.gmtime(1_000_000 + start_s)) if wall_s else ""
    return RunState(RunFolder(tmp_path, f"{point}/r{number}"), state, wall_s=wall_s, started_utc=started)


def test_forecast_from_medians_one_after_the_other(tmp_path):
    done = [run(1, wall_s=100), run(2, wall_s=120, start_s=200), run(3, wall_s=500, start_s=400)]
    found = forecast([*done, run(4, "not started"), run(5, "interrupted")], {})
    assert found.remaining_s == pytest.approx(240)
    facts = told(found.basis, FROM_MEDIANS)
    assert (facts["runs"], facts["width"]) == ("3", "1.0")


def test_forecast_divides_by_what_ran_at_the_same_time(tmp_path):
    done = [run(number, wall_s=100) for number in range(1, 5)]
    left = [run(number, "not started") for number in range(5, 13)]
    assert forecast([*done, *left], {}).remaining_s == pytest.approx(200)


def test_forecast_takes_off_what_a_run_has_behind_it():
    left = run(2, "under way")
    done = run(1, wall_s=100)
    assert forecast([done, left], {left.folder.name: 70.0}).remaining_s == pytest.approx(30)
    assert forecast([done, left], {left.folder.name: 170.0}).remaining_s == 0


def test_forecast_is_no_guess():
    other = run(1, "not started", point="runs/b/v/n1x2")
    found = forecast([run(1, wall_s=100), other], {})
    assert found.remaining_s is None
    assert found.basis == NONE_FINISHED(point="runs/b/v/n1x2", more="")
    overdue = run(2, "under way")
    assert forecast([run(1, wall_s=100), overdue, other], {overdue.folder.name: 170.0}).remaining_s is None
    broken = replace(run(1, "broken down", wall_s=5), outcome="failed")
    assert forecast([broken, run(2, "not started")], {}).remaining_s is None


@pytest.mark.parametrize("point", ["profiles/io/b/v/n1x1", "runs/b/v/n1x2"])
def test_forecast_leaves_out_the_first_of_their_kind(point):
    states = [run(1, wall_s=100), run(2, "not started"), run(1, "not started", point=point)]
    found = forecast(states, {})
    assert (found.remaining_s, found.unknown_runs) == (pytest.approx(100), 1)
    assert told(found.shown_basis, FIRST_OF_KIND)["runs"] == "1"


def test_the_end_is_a_lower_bound_while_profiles_and_groups_are_left(results):
    finish_run(results, ranks_per_node=2)
    finish_run(results)
    # Of the three timed runs one is left, and so are all profiles and the group.
    text = say_status(status_of(results))
    told(text, NOT_BEFORE)
    assert int(told(text, FIRST_OF_KIND)["runs"]) == len(PROFILES) + 1
    note_of_dead_controller(results)
    told(say_status(status_of(results)), TAKE_AT_LEAST)


def test_nothing_is_left():
    assert forecast([run(1, wall_s=100), run(2, "adoptable")], {}).remaining_s == 0


def test_status_of_a_campaign_at_work(results, tmp_path):
    finish_run(results, "failed", ranks_per_node=2)
    fake_squeue(tmp_path, f'echo "7|PENDING|Resources|run|{tmp_path}|rule_train"')
    folder = run_folder(results)
    with claimed(folder) as claim:
        attempt = open_attempt(folder, time.strftime("%Y%m%dT%H%M%SZ-bbbbbb", time.gmtime()))
        (attempt / "output.log").touch()
        (attempt / "epochs.jsonl").write_text('{"epoch": 2, "quality": 0.41}\n')
        text = say_status(status_of(results))
        assert claim is not None
    lines = text.splitlines()
    stages = {line[:12].strip(): line[12:].split() for line in lines[2:9]}
    assert stages["timed runs"] == ["3", "-", "1", "1", "1"]
    assert stages["data"] == ["1", "-", "not", "seen", "-", "1"]
    assert stages["weak groups"] == ["1", "-", "-", "-", "1"]
    assert any("epoch 2 done, quality 0.41 (target 0.3);" in line for line in lines)
    assert "1 PENDING: Resources" in text
    told(text, NONE_FINISHED)


def status(*arguments):
    return call(["status", *arguments])


def test_watch_ends_with_the_campaign(results, monkeypatch, capsys):
    ended = this_controller().model_copy(update={"pid": 2**22 + 1})
    naps = []

    def nap(seconds):
        naps.append(seconds)
        write_note(campaign(), results, ("snakemake",), ended)

    monkeypatch.setattr(time, "sleep", nap)
    assert status("results", "--watch", "3") == 0
    assert naps == [3.0]
    assert capsys.readouterr().out.count("weak groups") == 2


def test_watch_is_left_with_ctrl_c(results, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    assert status("results", "--watch") == 0


@pytest.mark.parametrize("text", ["0", "-1", "soon", "nan"])
def test_bad_interval(text):
    with pytest.raises(TyperException, match="expected a number of seconds above 0"):
        status("results", "--watch", text)
