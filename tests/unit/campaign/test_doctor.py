"""The doctor reports all states, one next command and an exit status, and changes nothing."""

import json
import shutil
from dataclasses import replace

import pytest
from unit.campaign.result_folders import (
    CONFIG,
    campaign,
    finish_group,
    finish_run,
    interrupt,
    note_of_dead_controller,
    open_attempt,
    run_folder,
)
from unit.campaign.test_surroundings import fake_squeue
from unit.record_factory import REASONS
from unit.refusals import told

from hpcai.campaign import doctor as doctor_module
from hpcai.campaign import states
from hpcai.campaign.controller_note import this_controller, write_note
from hpcai.campaign.doctor import (
    ASK_FOR_ACCESS,
    CANNOT_READ,
    INCOMPLETE,
    LOCK_LEFT,
    LOCKED,
    LOCKED_ON,
    SHOWN,
    diagnose,
    problems_of,
    wait_until_idle,
)
from hpcai.campaign.doctor_text import CACHED, diagnosis_as_dict
from hpcai.campaign.failures import LostPoint
from hpcai.campaign.live import END_IT, WAITS
from hpcai.campaign.next_step import (
    AT_WORK,
    CHANGE_BACK,
    LOOK_THERE,
    NO_RESULT,
    NOTHING_TO_DO,
    QUEUED_ELSEWHERE,
    RESULTS_TO_RETRY,
    next_step,
)
from hpcai.campaign.planned import NOT_KNOWN
from hpcai.campaign.status import say_status, status_of
from hpcai.cli.main import call
from hpcai.core.errors import ConfigError
from hpcai.measure.claim import claimed
from hpcai.measure.publish import OTHER_SETTINGS
from hpcai.records.files import read_record, write_json, write_record
from hpcai.records.input_reads import InputSizes, RankReads

START = "snakemake --profile slurm"


def finish_all(results, outcome="converged"):
    finish_run(results)
    for repetition in (1, 2):
        finish_run(results, outcome, repetition=repetition, ranks_per_node=2)
    finish_group(results)
    for state in diagnose(results).in_state("not started"):
        assert state.folder.stage == "profiles"
        state.folder.path.mkdir(parents=True)
        (state.folder.path / "capture.json").write_text('{"status": "not_measured", "reason": "no tool"}')
    (results / "tables").mkdir()
    for file in (results / "tables" / "runs.parquet", results / "report.html"):
        file.touch()


def lock(results):
    locks = results.parent / ".snakemake" / "locks"
    locks.mkdir(parents=True)
    (locks / "0.output.lock").touch()


def doctor(capsys, *arguments):
    status = call(["doctor", *arguments])
    return status, capsys.readouterr().out


def test_all_is_well(results, capsys):
    finish_all(results)
    before = sorted(path.stat().st_mtime_ns for path in results.rglob("*"))
    status, text = doctor(capsys)
    assert status == 0
    assert text.endswith(f"Next: {NOTHING_TO_DO(report='results/report.html')}\n")
    assert "timed runs" in text
    assert "profiles/counters" in text
    assert sorted(path.stat().st_mtime_ns for path in results.rglob("*")) == before


def test_runs_are_missing(results, capsys):
    finish_run(results)
    interrupt(open_attempt(run_folder(results, ranks_per_node=2)), "ended")
    status, text = doctor(capsys)
    assert status == 2
    assert "interrupted: runs/cosmoflow_mini/fp32/n1x2 r1: ended" in text
    assert "not started: runs/cosmoflow_mini/fp32/n1x2 r2\n" in text
    assert "not started: weak/cosmoflow_mini/fp32/n1x1\n" in text
    assert text.endswith(f"\n  {START}\n")


def test_broken_runs_are_a_choice(results, capsys):
    finish_all(results)
    broken = next(results.glob("runs/*/*/n1x2/r2"))
    shutil.rmtree(broken)
    finish_run(results, "failed", ranks_per_node=2, repetition=2)
    for file in (results / "tables" / "runs.parquet", results / "report.html"):
        file.touch()
    status, text = doctor(capsys)
    assert status == 2
    assert f"runs/cosmoflow_mini/fp32/n1x2 r2: {REASONS['failed']}" in text
    assert f"Choice: {RESULTS_TO_RETRY(broken=1, command='hpcai retry results')}" in text
    assert text.endswith(f"Next: {NOTHING_TO_DO(report='results/report.html')}\n")


def test_a_point_without_a_result_is_to_be_tried_again(results, capsys):
    finish_all(results, "failed")
    status, text = doctor(capsys)
    assert status == 2
    assert f"runs/cosmoflow_mini/fp32/n1x2 r1 r2: {REASONS['failed']}" in text
    lost = LostPoint("runs/cosmoflow_mini/fp32/n1x2", 2, REASONS["failed"])
    assert f"- {lost.words}" in text
    assert f"Next: {NO_RESULT(points='1 point has')}" in text
    assert text.endswith("\n  hpcai retry results\n")
    assert lost.words in say_status(status_of(results))


def test_damage_comes_before_missing_runs(results, capsys):
    folder = finish_run(results)
    (folder / "record.json").write_text("")
    status, text = doctor(capsys)
    assert status == 3
    assert text.endswith("\n  hpcai restore results/runs/cosmoflow_mini/fp32/n1x1/r1\n")


def test_orphans_are_waited_for_before_anything_else(results, capsys):
    folder = finish_run(results)
    (folder / "record.json").write_text("")
    lock(results)
    with claimed(run_folder(results, repetition=2)):
        status, text = doctor(capsys)
    assert status == 3
    assert "under way: runs/cosmoflow_mini/fp32/n1x1 r2: process" in text
    assert text.endswith("\n  hpcai doctor results --wait\n")


def test_jobs_in_the_queue_of_a_dead_controller(results, capsys):
    finish_all(results)
    job = f"7|PENDING|Resources|run-7|{results.parent}|rule_train_wildcards_x"
    fake_squeue(results.parent / "bin", f'echo "{job}"')
    status, text = doctor(capsys)
    assert status == 2
    assert "Slurm's queue: 1 (7 PENDING)" in text
    assert "scancel --name=run-7" in text
    assert text.endswith("\n  hpcai doctor results --wait\n")


def test_workflow_at_work(results, capsys):
    write_note(campaign(), results, ("snakemake",), this_controller())
    lock(results)
    status, text = doctor(capsys)
    assert status == 2
    assert "locked" not in text
    assert text.endswith(f"Next: {AT_WORK()}\n  hpcai status results --watch\n")


def test_stale_lock_and_files_being_written(results, capsys):
    lock(results)
    marker = results.parent / ".snakemake" / "incomplete" / "cmVzdWx0cy9jYW1wYWlnbi5qc29u"
    marker.parent.mkdir()
    marker.touch()
    status, text = doctor(capsys)
    assert status == 2
    told(text, LOCK_LEFT)
    assert INCOMPLETE(files=1, names="results/campaign.json") in text
    assert text.endswith(f"\n  {START} --unlock && {START} --rerun-incomplete\n")


def test_only_a_stale_lock(results, capsys):
    finish_all(results)
    lock(results)
    status, text = doctor(capsys)
    assert status == 2
    assert text.endswith(f"\n  {START} --unlock\n")


def test_locked_from_another_host(results, capsys):
    elsewhere = this_controller().model_copy(update={"host": "login9"})
    write_note(campaign(), results, ("snakemake",), elsewhere)
    lock(results)
    status, text = doctor(capsys)
    assert status == 2
    assert LOCKED(folder=results.parent, where=LOCKED_ON(host="login9")) in text
    assert f"Next: {LOOK_THERE(host='login9')}" in text


def test_jobs_in_the_queue_of_a_controller_on_another_host(results, capsys):
    elsewhere = this_controller().model_copy(update={"host": "login9"})
    write_note(campaign(), results, ("snakemake",), elsewhere)
    fake_squeue(results.parent / "bin", f'echo "7|PENDING|Resources|run-7|{results.parent}|rule_train"')
    text = doctor(capsys)[1]
    assert told(text, QUEUED_ELSEWHERE)["host"] == "login9"
    assert "scancel" not in text


def test_settings_that_changed(results, tmp_path, capsys):
    finish_run(results)  # with the record factory's settings, not with those of the study
    status, text = doctor(capsys, "results", "--study", str(CONFIG / "weak.yaml"))
    assert status == 2
    told(text, OTHER_SETTINGS)
    assert f"Next: {CHANGE_BACK()}" in text


def test_old_report_and_missing_data(results, capsys):
    finish_all(results)
    (results / "report.html").unlink()
    status, text = doctor(capsys)
    assert (status, text.endswith(f"\n  {START}\n")) == (2, True)
    note_of_dead_controller(results, ("snakemake", "measure"))
    assert doctor(capsys)[0] == 0
    (results.parent / "data" / "cosmoflow_mini" / "manifest.json").unlink()
    status, text = doctor(capsys)
    assert status == 2
    assert "missing: data/cosmoflow_mini/manifest.json" in text


def test_without_a_note_it_says_that_it_does_not_know(results, capsys):
    finish_all(results)
    (results / "campaign.json").unlink()
    status, text = doctor(capsys)
    assert status == 0
    told(text, NOT_KNOWN)
    (results / "campaign.json").write_text("{")
    assert "damaged or of another version" in doctor(capsys)[1]


def test_runs_that_the_study_does_not_plan_are_left_alone(results, capsys):
    finish_all(results)
    finish_run(results, variant="earlier")
    status, text = doctor(capsys)
    assert status == 0
    assert "1 (runs/cosmoflow_mini/earlier/n1x1/r1)" in text


def test_from_another_folder_and_as_json(results, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir("/")
    status, text = doctor(capsys, str(results), "--json", str(tmp_path / "found.json"))
    assert text.endswith(f"\n  cd {tmp_path} && {START}\n")
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["exit_status"] == status == 2
    assert found["counts"]["runs"] == {"not started": 3}
    assert found["runs"][0]["state"] == "not started"
    assert found["next"]["command"] == f"cd {tmp_path} && {START}"


def test_no_such_folder(tmp_path):
    with pytest.raises(ConfigError, match="no such folder"):
        diagnose(tmp_path / "nowhere")


def test_run_that_is_published_while_it_is_looked_at(results, monkeypatch):
    answers = iter([FileNotFoundError()])

    def state_of(folder, live, *, check_files):
        for error in answers:
            raise error
        return states.state_of(folder, live, check_files=check_files)

    monkeypatch.setattr(doctor_module, "state_of", state_of)
    assert diagnose(results).counts["runs"].total() == 3


def test_run_that_cannot_be_read_does_not_hide_the_others(results, monkeypatch, capsys):
    folder = finish_run(results)

    def state_of(run, live, *, check_files):
        if run.path.resolve() == folder:
            raise OSError(5, "Input/output error", str(folder / "record.json"))
        return states.state_of(run, live, check_files=check_files)

    monkeypatch.setattr(doctor_module, "state_of", state_of)
    status, text = doctor(capsys)
    assert status == 3
    assert f"{folder / 'record.json'}: {CANNOT_READ(reason='Input/output error')}" in text
    assert "not started: runs/cosmoflow_mini/fp32/n1x2 r1 r2" in text
    assert f"Next: {ASK_FOR_ACCESS()}" in text


def test_folder_that_cannot_be_read(results, monkeypatch, capsys):
    def refuse(*_arguments, **_options):
        raise PermissionError(13, "Permission denied", "results/runs")

    monkeypatch.setattr(doctor_module, "present_folders", refuse)
    with pytest.raises(ConfigError, match=r"results/runs: .*Permission denied"):
        doctor(capsys)


def test_full_disk_is_a_problem(results, monkeypatch):
    monkeypatch.setattr("hpcai.campaign.surroundings.LITTLE_SPACE_BYTES", 1 << 62)
    diagnosis = diagnose(results)
    assert any("almost full" in problem.what for problem in problems_of(diagnosis))
    assert next_step(diagnosis).command == START


def test_of_many_missing_files_the_first_are_named_and_the_json_has_all(results):
    found = diagnose(results)
    names = tuple(f"data/{number}/manifest.json" for number in range(1000))
    found = replace(found, around=replace(found.around, missing_data=names))
    (missing,) = [problem.what for problem in problems_of(found) if names[0] in problem.what]
    assert sum(name in missing for name in names) == SHOWN
    assert str(len(names) - SHOWN) in missing
    assert diagnosis_as_dict(found)["missing_data"] == list(names)


def test_wait_for_runs_and_queue(results, capsys):
    fake_squeue(results.parent / "bin", f'echo "7|RUNNING|None|run-7|{results.parent}|rule_train"')
    said = []

    def say(words):
        said.append(words)
        fake_squeue(results.parent / "bin", "exit 0")

    wait_until_idle(results, say)
    assert said == [
        END_IT(words=WAITS(count=1, what="Slurm job 7 (RUNNING: train)"), remedies="`scancel --name=run-7`")
    ]


def test_wait_for_a_limited_time(results, capsys):
    with claimed(run_folder(results)):
        status, text = doctor(capsys, "results", "--wait", "0.05")
    assert status == 2
    assert "under way" in text


def test_records_without_a_digest_are_a_finding_and_no_damage(results):
    folder = finish_run(results)
    assert not any("no digest" in problem.what for problem in problems_of(diagnose(results)))
    for path in (folder / "record.json", folder / "raw/record.json"):
        write_json(read_record(path), path)
    found = diagnose(results, check_files=True)
    assert not found.in_state("damaged")
    assert [problem.what[:2] for problem in problems_of(found) if "no digest" in problem.what] == ["1 "]


def test_runs_that_a_cache_served_are_named_and_no_problem(results, capsys):
    folder = finish_run(results)
    assert not any(state.is_cached for state in diagnose(results).every_state)
    for path in (folder / "record.json", folder / "raw/record.json"):
        record = read_record(path)
        reads = RankReads(staging_bytes=0, first_epoch_bytes=0, later_epochs_bytes=0, called_bytes=1)
        ranks = tuple(rank.model_copy(update={"reads": reads}) for rank in record.ranks)
        sizes = InputSizes(train_bytes=9, evaluation_bytes=9, file_system="ext4", staging_file_system="ext4")
        training = record.training.model_copy(update={"input": sizes})
        write_record(record.model_copy(update={"ranks": ranks, "training": training}), path)
    found = diagnose(results)
    (cached,) = [state for state in found.every_state if state.is_cached]
    assert cached.state == "finished"
    assert not any(cached.folder.name in problem.what for problem in problems_of(found))
    assert CACHED(runs=1, names=cached.folder.name) in doctor(capsys)[1]
