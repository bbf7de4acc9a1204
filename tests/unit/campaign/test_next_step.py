"""The doctor's report on targets, locks and damage, and the one command that it names for them."""

import pytest
from unit.campaign.result_folders import campaign, finish_run, publish
from unit.campaign.test_doctor import START, doctor, finish_all, lock
from unit.campaign.test_surroundings import fake_squeue
from unit.record_factory import make_record
from unit.refusals import told

from hpcai.campaign.controller_note import this_controller, write_note
from hpcai.campaign.doctor import LOCKED_IN_JOB, UNLOCK_LIKE_STARTED, diagnose
from hpcai.campaign.next_step import (
    ASKED_FOR_IS_THERE,
    AT_WORK,
    LOOK_WHERE_STARTED,
    ONCE_JOB_ENDED,
    QUEUED_ELSEWHERE,
    next_step,
)
from hpcai.campaign.states import NO_RECORD, UNCAPTURED


def ask_for(results, *targets, options=("--profile", "slurm")):
    """Write the note of a workflow that has ended, and was asked for targets."""
    ended = this_controller().model_copy(update={"pid": 2**22 + 1})
    write_note(campaign(), results, ("snakemake", *options, *targets), ended, frozenset(targets))


def test_targets_that_are_there_are_not_asked_for_again(results, capsys):
    one = str((finish_run(results) / "record.json").relative_to(results.parent))
    ask_for(results, one)
    text = doctor(capsys)[1]
    told(text, ASKED_FOR_IS_THERE)
    assert text.endswith(f"\n  {START}\n")
    lock(results)
    assert doctor(capsys)[1].endswith(f"\n  {START} --unlock && {START}\n")


def test_targets_that_are_missing_are_asked_for_again(results, capsys):
    other = "results/runs/cosmoflow_mini/fp32/n1x2/r1/record.json"
    ask_for(results, str((finish_run(results) / "record.json").relative_to(results.parent)), other)
    assert doctor(capsys)[1].endswith(f"{other}\n")
    ask_for(results, "measure")
    assert doctor(capsys)[1].endswith(f"\n  {START} measure\n")


@pytest.mark.parametrize("target", ["data", "pack", "score_study"])
def test_stages_that_are_done_are_not_asked_for_again(results, capsys, target):
    ask_for(results, target)
    assert doctor(capsys)[1].endswith(f"\n  {START}\n")


@pytest.mark.parametrize("once", ["--touch", "-F", "--forcerun predict", "--until measure"])
def test_what_was_meant_for_one_start_is_not_asked_for_again(results, capsys, once):
    finish_all(results)
    ask_for(results, options=("--profile", "slurm", *once.split()))
    (results / "report.html").unlink()
    assert doctor(capsys)[1].endswith(f"\n  {START}\n")


def test_missing_data_are_asked_for_by_their_stage(results, capsys):
    (results.parent / "data" / "cosmoflow_mini" / "manifest.json").unlink()
    ask_for(results, "data")
    assert doctor(capsys)[1].endswith(f"\n  {START} data\n")


def test_unlocking_is_shown_with_the_options_of_the_last_start(results, capsys):
    finish_all(results)
    ask_for(results, "measure", options=("--configfile", "my.yaml", "--"))
    lock(results)
    text = doctor(capsys)[1]
    unlock = "snakemake --configfile my.yaml --unlock --"
    assert f"-> `{unlock} measure`, once nothing runs" in text
    assert "`snakemake --unlock`" not in text
    (results / "campaign.json").unlink()
    told(doctor(capsys)[1], UNLOCK_LIKE_STARTED)


@pytest.mark.parametrize("note", [None, "{"])
def test_lock_of_a_workflow_that_nobody_noted_is_not_removed(results, capsys, note):
    (results / "campaign.json").unlink()
    if note is not None:
        (results / "campaign.json").write_text(note)
    finish_run(results)
    assert not diagnose(results).may_be_under_way
    lock(results)
    diagnosis = diagnose(results)
    assert (diagnosis.around.controller, diagnosis.may_be_under_way) == ("unknown", True)
    step = next_step(diagnosis)
    assert (step.command, step.why) == ("", LOOK_WHERE_STARTED(unlock=UNLOCK_LIKE_STARTED()))
    assert doctor(capsys)[0] == 2


def test_queue_of_a_workflow_that_nobody_noted_is_not_cancelled(results):
    (results / "campaign.json").unlink()
    fake_squeue(results.parent / "bin", f'echo "7|PENDING|Resources|run-7|{results.parent}|rule_train"')
    told(next_step(diagnose(results)).why, QUEUED_ELSEWHERE)


def fake_scontrol(results, state):
    program = results.parent / "bin" / "scontrol"
    program.write_text(f"#!/bin/sh\necho 'JobId=4711 JobName=x JobState={state} Restarts=0'\n")
    program.chmod(0o755)


def test_controller_in_a_slurm_job_is_looked_for_there(results, capsys):
    there = this_controller().model_copy(update={"host": "n17", "slurm_job": "4711"})
    write_note(campaign(), results, ("snakemake", "--profile", "slurm"), there)
    lock(results)
    text = doctor(capsys)[1]
    assert LOCKED_IN_JOB(job="4711", host="n17") in text
    assert ONCE_JOB_ENDED(job="4711", command=f"{START} --unlock && {START}") in text
    assert text.endswith("\n  squeue --job=4711\n")
    fake_scontrol(results, "TIMEOUT")
    assert doctor(capsys)[1].endswith(f"\n  {START} --unlock && {START}\n")
    fake_scontrol(results, "RUNNING")
    assert f"Next: {AT_WORK()}" in doctor(capsys)[1]


def test_profile_whose_broken_run_has_no_capture_is_missing(results, capsys):
    finish_all(results)
    capture = next(results.glob("profiles/timeline/**/capture.json"))
    name = str(capture.parent.relative_to(results))
    capture.unlink()
    publish(results / name, make_record("failed", benchmark="cosmoflow_mini", variant="fp32"))
    text = doctor(capsys)[1]
    assert [one.folder.name for one in diagnose(results).missing] == [name]
    assert told(text, UNCAPTURED)["path"].endswith("capture.json")
    assert text.endswith(f"\n  {START}\n")


def test_published_run_without_any_record_is_damaged(results, capsys):
    folder = finish_run(results)
    for record in (folder / "record.json", folder / "raw" / "record.json"):
        record.unlink()
    status, text = doctor(capsys)
    shown = folder.relative_to(results.parent)
    assert status == 3
    assert NO_RECORD(published=f"{shown}/raw", record=f"{shown}/raw/record.json") in text
    assert "ask its owner" not in text
    assert text.endswith(f'\n  hpcai discard {shown} --reason "damaged files"\n')
    (folder / "raw" / "plan.json").unlink()
    assert doctor(capsys)[1].endswith(f"\n  mv {shown} {shown}.damaged\n")


def test_damaged_plan_of_a_published_run_is_named(results, capsys):
    plan = finish_run(results) / "plan.json"
    plan.write_text('{"run')
    status, text = doctor(capsys)
    shown = plan.relative_to(results.parent)
    assert status == 3
    assert f"{shown}: no valid JSON" in text
    assert text.endswith(f"\n  rm {shown}\n")
