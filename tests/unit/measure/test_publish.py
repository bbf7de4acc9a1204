"""A run is published once, never overwritten, never silently repeated."""

import errno
import json
import shutil
import stat

import pytest
from unit.campaign.result_folders import publish as lay_out
from unit.record_factory import make_machine, make_plan, make_record
from unit.refusals import refused

from hpcai.core.errors import ConfigError, RecordError, RunRefusedError
from hpcai.measure import attempts, publish
from hpcai.measure.claim import claimed
from hpcai.measure.publish import AT_WORK, GIVEN_UP
from hpcai.metrics.scores.validity import invalid_reasons
from hpcai.records.files import read_record, write_json
from hpcai.records.run import Artefact, Capture
from hpcai.rules.judge import judge


def attempt_of(folder, record):
    attempt, seeded = attempts.open_attempt(folder, record.plan, attempts.attempt_name())
    return attempt, record.model_copy(update={"attempt": attempt.name, "plan": seeded, "plan_digest": seeded.digest})


def publish_run(folder, record):
    attempt, record = attempt_of(folder, record)
    publish.publish(attempt, folder, record)
    return record


@pytest.fixture
def record():
    return make_record()


def test_publish_and_find_again(tmp_path, record):
    folder = tmp_path / record.run_id
    assert publish.published(folder, record.plan) is None
    done = publish_run(folder, record)
    assert read_record(folder / publish.RECORD) == done
    assert publish.published(folder, record.plan) == done
    raw = folder / publish.RAW / publish.RECORD
    assert not raw.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)


def test_second_attempt_cannot_be_published(tmp_path, record):
    folder = tmp_path / record.run_id
    first, first_record = attempt_of(folder, record)
    second, second_record = attempt_of(folder, record)
    (first / publish.INTERRUPTED).unlink()  # as if nobody had known of the first
    publish.publish(first, folder, first_record)
    with pytest.raises(RunRefusedError, match="another attempt was published"):
        publish.publish(second, folder, second_record)
    assert read_record(folder / publish.RECORD).attempt == first.name
    assert (second / publish.RECORD).exists()


def test_an_attempt_that_was_given_up_cannot_be_published(tmp_path, record):
    folder = tmp_path / record.run_id
    first, first_record = attempt_of(folder, record)
    attempt_of(folder, record)
    with refused(RunRefusedError, GIVEN_UP):
        publish.publish(first, folder, first_record)
    assert not (folder / publish.RECORD).exists()


def test_a_full_file_system_leaves_nothing_half_written(tmp_path, record, monkeypatch):
    folder = tmp_path / record.run_id
    attempt, record = attempt_of(folder, record)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("hpcai.core.files.os.fdopen", full)
    with pytest.raises(OSError, match="No space"):
        publish.publish(attempt, folder, record)
    monkeypatch.undo()
    assert not list(folder.rglob("*record.json*"))
    publish.publish(attempt, folder, record)
    assert read_record(folder / publish.RECORD) == record


def test_a_record_is_on_storage_before_it_is_published(tmp_path, record, monkeypatch):
    folder, done = tmp_path / record.run_id, []
    attempt, record = attempt_of(folder, record)
    real = publish.os.rename
    monkeypatch.setattr(publish, "sync", done.append)
    monkeypatch.setattr(publish.os, "rename", lambda *paths: (done.append("renamed"), real(*paths)))
    publish.publish(attempt, folder, record)
    assert done == [attempt / publish.RECORD, attempt, "renamed", folder]


def test_other_settings_are_refused(tmp_path, record):
    folder = tmp_path / record.run_id
    publish_run(folder, record)
    recipe = record.plan.benchmark.recipe.model_copy(update={"base_learning_rate": 0.5})
    benchmark = record.plan.benchmark.model_copy(update={"recipe": recipe})
    changed = record.plan.model_copy(update={"benchmark": benchmark})
    message = r"benchmark.recipe.base_learning_rate: .* -> 0.5.*hpcai discard"
    with pytest.raises(RunRefusedError, match=message):
        publish.published(folder, changed)
    with pytest.raises(ConfigError, match=message):
        publish.refuse_changed([(tmp_path, {record.run_id: changed})])
    publish.refuse_changed([(tmp_path, {record.run_id: record.plan})])


def test_facts_declared_later_leave_a_finished_run_as_it_is(tmp_path, record):
    folder = tmp_path / record.run_id
    done = publish_run(folder, record)
    asked = record.plan.model_copy(update={"machine": make_machine(nodes=3)})
    assert asked.digest != done.plan_digest
    assert publish.published(folder, asked) == done
    drawn = asked.model_copy(update={"seed": None})
    assert publish.published(folder, drawn) == done


def test_facts_declared_later_leave_a_finished_group_as_it_is(tmp_path):
    plans = [make_plan(kind="weak", instances=2, repetition=number) for number in (1, 2)]
    for number in (1, 2):
        own = {"kind": "weak", "instances": 2, "repetition": number}
        lay_out(tmp_path / f"i{number}", make_record(**own, record={"attempt": f"a-i{number}"}))
    done = publish.published_group(tmp_path, plans)
    assert len(done) == 2
    asked = [plan.model_copy(update={"machine": make_machine(nodes=3)}) for plan in plans]
    assert publish.published_group(tmp_path, asked) == done
    other = [plan.model_copy(update={"machine": make_machine(memory_bytes="16 GiB")}) for plan in plans]
    with refused(RunRefusedError, publish.OTHER_SETTINGS):
        publish.published_group(tmp_path, other)


def test_breakdown_is_kept_as_an_earlier_attempt(tmp_path):
    failed = make_record(outcome="failed")
    folder = tmp_path / failed.run_id
    first = publish_run(folder, failed)
    assert publish.published(folder, failed.plan) is None
    assert publish.forget_breakdowns(tmp_path) == [folder]
    assert not (folder / publish.RECORD).exists()
    publish_run(folder, make_record())
    assert [attempt.attempt for attempt in attempts.earlier_attempts(folder)] == [first.attempt]
    assert publish.forget_breakdowns(tmp_path) == []


@pytest.mark.parametrize(
    ("repair", "error", "message"),
    [
        (publish.forget_breakdowns, RunRefusedError, publish.NO_FOLDER),
        (publish.restore, RecordError, publish.NO_RUN),
    ],
)
def test_repairs_of_a_folder_that_is_not_there_are_refused(tmp_path, repair, error, message):
    with refused(error, message):
        repair(tmp_path / "nope")


def test_all_refused_runs_are_named_at_once(tmp_path, record):
    changed = record.plan.model_copy(update={"rule_set": "hpc_2.0.0"})
    for kind in ("timeline", "power"):
        publish_run(tmp_path / kind / record.run_id, record)
    kinds = [(tmp_path / kind, {record.run_id: changed}) for kind in ("timeline", "power")]
    with pytest.raises(ConfigError, match="timeline") as refused:
        publish.refuse_changed(kinds)
    assert len(str(refused.value).splitlines()) == 2
    moved = publish.discard_all(tmp_path, "other rules")
    assert len(moved) == 2
    publish.refuse_changed(kinds)
    with pytest.raises(RunRefusedError, match="or one above such folders"):
        publish.discard_all(tmp_path, "again")


def test_profiles_without_a_tool_are_tried_again(tmp_path, record):
    missing, there = tmp_path / "io" / record.run_id, tmp_path / "power" / record.run_id
    publish_run(there, record)
    for folder, raw in ((missing, ()), (there, (Artefact(path="raw/a", bytes=1, sha256="0"),))):
        folder.mkdir(parents=True, exist_ok=True)
        status, reason = ("measured", "") if raw else ("not_measured", "no tool")
        capture = Capture(profile="io", run_id=record.run_id, tool="none", status=status, reason=reason, raw=raw)
        write_json(capture, folder / publish.CAPTURE)
    assert publish.forget_breakdowns(tmp_path) == [missing]
    assert not (missing / publish.CAPTURE).exists()
    assert (there / publish.CAPTURE).exists()


def test_copies_of_records_in_report_documents_are_no_runs(tmp_path):
    failed = make_record(outcome="failed")
    folder = tmp_path / "runs" / failed.run_id
    publish_run(folder, failed)
    copy = tmp_path / "hpc_ai500" / "cosmoflow_tiny" / "logs" / failed.run_id
    shutil.copytree(folder, copy)
    assert publish.forget_breakdowns(tmp_path) == [folder]
    assert (copy / publish.RECORD).exists()
    assert [moved.parent.parent for moved in publish.discard_all(tmp_path, "a test")] == [folder.parent]
    assert (copy / publish.RECORD).exists()


def test_no_run_is_discarded_while_one_of_them_is_measured(tmp_path, record):
    for kind in ("io", "timeline"):
        publish_run(tmp_path / kind / record.run_id, record)
    last = tmp_path / "timeline" / record.run_id
    with claimed(last) as claim, refused(RunRefusedError, AT_WORK, holder=claim.holder.words):
        publish.discard_all(tmp_path, "a test")
    assert (tmp_path / "io" / record.run_id / publish.RECORD).exists()
    assert len(publish.discard_all(tmp_path, "a test")) == 2


def test_repeated_seed_is_refused(tmp_path, record):
    publish_run(tmp_path / record.run_id, record)
    other = record.plan.model_copy(update={"repetition": record.plan.repetition + 1})
    with pytest.raises(RunRefusedError, match=f"seed {record.plan.seed} was used by"):
        attempts.open_attempt(tmp_path / other.run_id, other, "a2")


def test_seed_from_entropy_is_written_down(tmp_path, record):
    plan = record.plan.model_copy(update={"seed": None, "seeds": "entropy"})
    attempt, seeded = attempts.open_attempt(tmp_path / plan.run_id, plan, "a1")
    assert seeded.seed is not None
    assert json.loads((attempt / "plan.json").read_text())["seed"] == seeded.seed
    # Written down, it is still not a seed that the study derived.
    judged = [record.model_copy(update={"verdicts": judge(of, record.facts)}) for of in (record.plan, seeded)]
    assert [any("seeds derived" in reason for reason in invalid_reasons(one)) for one in judged] == [True, False]


def test_discard_moves_and_restore_puts_back(tmp_path, record):
    folder = tmp_path / record.run_id
    publish_run(folder, record)
    (folder / publish.RECORD).write_text("damaged")
    publish.republish(folder)
    assert read_record(folder / publish.RECORD).run_id == record.run_id
    with claimed(folder) as claim, refused(RunRefusedError, AT_WORK, holder=claim.holder.words):
        publish.discard(folder, "a test")
    target = publish.discard(folder, "a test")
    assert not folder.exists()
    assert (target / "reason.txt").read_text() == "a test\n"
    assert (target / publish.RAW / "plan.json").exists()
    with pytest.raises(RunRefusedError, match="no published run here"):
        publish.discard(folder, "again")
