"""Every state of a run that a crash, a full disk or an edit can leave is recognised from its folder."""

import json
import shutil

import pytest
from unit.campaign.result_folders import (
    DEAD,
    POINT,
    finish_group,
    finish_run,
    interrupt,
    leave_claim,
    open_attempt,
    publish,
    run_folder,
)
from unit.record_factory import make_record
from unit.refusals import told

from hpcai.campaign.damages import PLAN_REMEDY
from hpcai.campaign.live import live_runs
from hpcai.campaign.run_folders import RunFolder, discarded_folders, present_folders
from hpcai.campaign.states import LEFT_BEHIND, state_of
from hpcai.core.errors import RecordError
from hpcai.core.sealed import sealed_json
from hpcai.measure.claim import claimed
from hpcai.measure.publish import restore
from hpcai.records.files import read_record, write_json


def look(results, folder, *, instances=None, check_files=False):
    name = str(folder.relative_to(results))
    live = {run.name: run for run in live_runs(results)}
    return state_of(RunFolder(results, name, instances), live.get(name), check_files=check_files)


def test_finished_and_broken_down(tmp_path):
    finished = look(tmp_path, finish_run(tmp_path))
    assert (finished.state, finished.outcome) == ("finished", "converged")
    assert finished.wall_s > 12
    broken = look(tmp_path, finish_run(tmp_path, "timed_out", repetition=2))
    assert (broken.state, broken.outcome) == ("broken down", "timed_out")
    assert "limits.run_s" in broken.reason


def test_nothing_there(tmp_path):
    folder = tmp_path / "runs" / "cosmoflow_mini" / "fp32" / "n1x1" / "r1"
    assert look(tmp_path, folder).state == "not started"
    (folder / "attempts").mkdir(parents=True)
    assert look(tmp_path, folder).state == "not started"


def test_under_way(tmp_path):
    folder = run_folder(tmp_path)
    with claimed(folder):
        found = look(tmp_path, folder)
        assert found.state == "under way"
        assert found.live.holder.words in found.reason
    assert look(tmp_path, folder).state == "not started"


def test_young_claim_of_an_unseen_node_counts_as_at_work_and_an_old_one_as_left_behind(tmp_path):
    folder = run_folder(tmp_path)
    leave_claim(folder, age_s=1)
    assert look(tmp_path, folder).state == "under way"
    leave_claim(folder)
    found = look(tmp_path, folder)
    assert found.state == "not started"
    assert told(found.leftovers[0], LEFT_BEHIND)["holder"].startswith("process 4 on gone")


def test_interrupted_with_its_reason(tmp_path):
    folder = run_folder(tmp_path)
    interrupt(open_attempt(folder), "cancelled (scancel)")
    found = look(tmp_path, folder)
    assert (found.state, found.reason, found.leftovers) == ("interrupted", "cancelled (scancel)", ())


def test_supervisor_vanished_without_a_verdict(tmp_path):
    folder = run_folder(tmp_path)
    interrupt(open_attempt(folder), "cancelled (scancel)")
    last = open_attempt(folder, "20260103T030405Z-abcdef")
    found = look(tmp_path, folder)
    assert found.state == "interrupted"
    assert "its supervisor left no verdict" in found.reason
    (last / "supervisor.json").write_text(json.dumps(DEAD))
    assert "process 4 on gone" in look(tmp_path, folder).reason
    assert "20260103T030405Z-abcdef" in found.leftovers[0]


def test_published_but_not_put_where_it_is_waited_for(tmp_path):
    folder = finish_run(tmp_path)
    (folder / "record.json").unlink()
    assert look(tmp_path, folder).state == "adoptable"


def test_retried_breakdown_is_to_be_measured_again(tmp_path):
    folder = finish_run(tmp_path, "failed")
    (folder / "record.json").unlink()
    found = look(tmp_path, folder)
    assert found.state == "not started"
    assert "tried again" in found.reason


@pytest.mark.parametrize("content", [b"", b"[]", b'{"outcome": "well", "wall_s": 1}', b'{"outcome": "converged"}'])
def test_damaged_record_with_a_good_original_is_restored(tmp_path, content):
    folder = finish_run(tmp_path)
    (folder / "record.json").write_bytes(content)
    found = look(tmp_path, folder)
    assert found.state == "damaged"
    assert str(folder / "record.json") in found.reason
    assert found.damages[0].command == f"hpcai restore {folder}"


def test_truncated_record_names_its_place(tmp_path):
    folder = finish_run(tmp_path)
    whole = (folder / "record.json").read_bytes()
    (folder / "record.json").write_bytes(whole[: len(whole) // 2])
    assert "line" in look(tmp_path, folder).reason


def test_damaged_plan_is_removed(tmp_path):
    folder = run_folder(tmp_path)
    (folder / "plan.json").write_text("")
    found = look(tmp_path, folder)
    assert (found.state, found.damages[0].command) == ("damaged", f"rm {folder / 'plan.json'}")
    finished = finish_run(tmp_path, repetition=2)
    (finished / "plan.json").write_text("{")
    for found in (look(tmp_path, finished), look(tmp_path, finished, check_files=True)):
        assert (found.state, found.outcome) == ("damaged", "converged")
        assert [damage.command for damage in found.damages] == [f"rm {finished / 'plan.json'}"]
        assert [damage.remedy for damage in found.damages] == [PLAN_REMEDY]
        assert "next start writes" not in PLAN_REMEDY  # no plan is written for a run that is not measured again


def test_run_that_started_meanwhile_is_under_way(tmp_path):
    folder = run_folder(tmp_path)
    with claimed(folder):
        open_attempt(folder)
        assert state_of(RunFolder(tmp_path, str(folder.relative_to(tmp_path))), None).state == "under way"


def test_both_records_damaged_are_put_aside(tmp_path):
    folder = finish_run(tmp_path)
    for path in (folder / "record.json", folder / "raw" / "record.json"):
        path.write_text("{")
    assert look(tmp_path, folder).damages[0].command.startswith(f"hpcai discard {folder} ")


def test_record_without_its_raw_files(tmp_path):
    folder = finish_run(tmp_path)
    shutil.rmtree(folder / "raw")
    found = look(tmp_path, folder)
    assert found.state == "damaged"
    assert found.damages[0].command.startswith("mv ")


@pytest.mark.parametrize("name", ["record.json", "raw/record.json"])
def test_an_edited_copy_is_never_the_one_that_is_put_back(tmp_path, name):
    folder = finish_run(tmp_path)
    whole = (folder / name).read_text()
    (folder / name).write_text(whole.replace('"0.28.1"', '"0.28.2"'))
    found = look(tmp_path, folder, check_files=True)
    assert (found.state, found.damages[0].command) == ("damaged", f"hpcai restore {folder}")
    restore(folder)
    assert {(folder / copy).read_text() for copy in ("record.json", "raw/record.json")} == {whole}
    assert look(tmp_path, folder, check_files=True).state == "finished"


def test_the_same_change_in_both_copies_is_noticed(tmp_path):
    folder = finish_run(tmp_path)
    for path in (folder / "record.json", folder / "raw/record.json"):
        path.write_text(path.read_text().replace('"0.28.1"', '"0.28.2"'))
    found = look(tmp_path, folder)
    assert found.state == "damaged"
    assert found.damages[0].command.startswith(f"hpcai discard {folder} ")
    with pytest.raises(RecordError):
        restore(folder)


def test_an_original_that_is_gone_comes_back_from_the_published_copy(tmp_path):
    folder = finish_run(tmp_path)
    (folder / "raw/record.json").unlink()
    assert look(tmp_path, folder).damages[0].command == f"hpcai restore {folder}"
    restore(folder)
    assert look(tmp_path, folder, check_files=True).state == "finished"


def test_records_without_a_digest_are_read_and_counted(tmp_path):
    folder = finish_run(tmp_path)
    assert look(tmp_path, folder).unsealed == 0
    record = read_record(folder / "record.json")
    for path in (folder / "record.json", folder / "raw/record.json"):
        write_json(record, path)
    found = look(tmp_path, folder, check_files=True)
    assert (found.state, found.unsealed) == ("finished", 1)
    # Both can be read, and it is unknown which one is right.
    write_json(record.model_copy(update={"reason": "another"}), folder / "record.json")
    assert look(tmp_path, folder, check_files=True).damages[0].command.startswith("hpcai discard")
    with pytest.raises(RecordError):
        restore(folder)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda file: file.unlink(), "is missing"),
        (lambda file: file.write_text("epoch"), "found 5 bytes, the record says 16"),
        (lambda file: file.write_text("epoch 1\nepoch 3\n"), "SHA-256"),
    ],
)
def test_raw_files_are_checked_only_when_asked(tmp_path, damage, words):
    folder = finish_run(tmp_path)
    damage(folder / "raw" / "output.log")
    assert look(tmp_path, folder).state == "finished"
    found = look(tmp_path, folder, check_files=True)
    assert found.state == "damaged"
    assert words in found.reason


def profile_folder(results, **capture):
    settings = {**POINT, "kind": "profiled", "profile": "timeline", "max_steps": 3}
    record = make_record(**settings)
    folder = results / "profiles" / "timeline" / record.run_id
    if capture.pop("run", True):
        publish(folder, record)
    folder.mkdir(parents=True, exist_ok=True)
    if capture:
        (folder / "capture.json").write_text(json.dumps({"reason": "", **capture}))
    return folder


def test_profile_that_was_measured(tmp_path):
    found = look(tmp_path, profile_folder(tmp_path, status="measured"))
    assert (found.state, found.outcome) == ("finished", "measured")


def test_profile_without_its_tool_is_a_result(tmp_path):
    found = look(tmp_path, profile_folder(tmp_path, run=False, status="not_measured", reason="perf is not here"))
    assert (found.state, found.outcome, found.reason) == ("finished", "not measured", "perf is not here")


def test_profile_whose_capture_is_missing_is_adopted(tmp_path):
    assert look(tmp_path, profile_folder(tmp_path)).state == "adoptable"


def test_profile_whose_capture_is_damaged_is_written_again(tmp_path):
    folder = profile_folder(tmp_path, status="measured")
    (folder / "capture.json").write_text("")
    assert look(tmp_path, folder).damages[0].command == f"rm {folder / 'capture.json'}"


def test_a_changed_capture_or_group_is_found_and_written_again(tmp_path):
    profile, group = profile_folder(tmp_path, status="measured"), finish_group(tmp_path)
    for path in (profile / "capture.json", group / "group.json"):
        content = {"status": "measured", "reason": "", "counted": 2, "instances": 2}
        path.write_bytes(sealed_json(content))
        assert look(tmp_path, path.parent, instances=2).state == "finished"
        path.write_bytes(sealed_json(content).replace(b'"counted": 2', b'"counted": 1'))
        found = look(tmp_path, path.parent, instances=2)
        assert (found.state, found.damages[0].command) == ("damaged", f"rm {path}")


def test_measured_profile_whose_run_is_gone(tmp_path):
    assert look(tmp_path, profile_folder(tmp_path, run=False, status="measured")).state == "damaged"


def test_weak_group(tmp_path):
    folder = finish_group(tmp_path)
    found = look(tmp_path, folder, instances=2)
    assert (found.state, found.outcome) == ("finished", "2 of 2 instances count")
    (folder / "group.json").unlink()
    assert look(tmp_path, folder, instances=2).state == "adoptable"


def test_weak_group_that_lacks_an_instance(tmp_path):
    folder = finish_group(tmp_path)
    assert look(tmp_path, folder, instances=3).state == "interrupted"
    (folder / "group.json").unlink()
    assert look(tmp_path, folder, instances=3).state == "not started"
    interrupt(open_attempt(folder / "i3"), "node n2 failed")
    found = look(tmp_path, folder, instances=3)
    assert (found.state, found.reason) == ("interrupted", "i3: node n2 failed")


def test_instances_of_several_attempts_are_no_group(tmp_path):
    folder = finish_group(tmp_path)
    shutil.rmtree(folder / "i2")
    other = {"record": {"attempt": "a2-i2"}, "repetition": 2}
    publish(folder / "i2", make_record(**{**POINT, "kind": "weak", "instances": 2, **other}))
    found = look(tmp_path, folder, instances=2)
    assert (found.state, "several attempts" in found.reason) == ("interrupted", True)


def test_weak_group_with_a_broken_and_with_a_damaged_instance(tmp_path):
    folder = finish_group(tmp_path, ("converged", "failed"))
    found = look(tmp_path, folder, instances=2)
    assert found.state == "broken down"
    assert found.outcome == "1 of 2 instances count"
    (folder / "i1" / "record.json").write_text("{")
    found = look(tmp_path, folder, instances=2)
    assert found.state == "damaged"
    assert found.damages[0].command == f"hpcai restore {folder / 'i1'}"


def test_what_is_there_and_what_was_put_aside(tmp_path):
    finish_run(tmp_path)
    finish_group(tmp_path)
    profile_folder(tmp_path, status="measured")
    aside = run_folder(tmp_path, repetition=2)
    aside.rename(aside.parent / "r2x")
    (aside.parent / "discarded").mkdir()
    (aside.parent / "r2x").rename(aside.parent / "discarded" / "r2-20260102T030405Z")
    assert present_folders(tmp_path) == [
        "runs/cosmoflow_mini/fp32/n1x1/r1",
        "profiles/timeline/cosmoflow_mini/fp32/n1x1/r1",
        "weak/cosmoflow_mini/fp32/n1x1",
    ]
    assert discarded_folders(tmp_path) == ["runs/cosmoflow_mini/fp32/n1x1/discarded/r2-20260102T030405Z"]
