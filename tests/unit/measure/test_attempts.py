"""Every attempt has a verdict in the end, whatever ended it."""

import errno
import json
import os
import re
import subprocess
import time

import psutil
import pytest
from unit.record_factory import make_record
from unit.refusals import told

from hpcai.config.plan_file import read_plan, write_plan
from hpcai.core.errors import ConfigError, RunRefusedError
from hpcai.measure import attempts as module
from hpcai.measure.attempts import (
    AFTER_EPOCHS,
    BEFORE_TRAINING,
    OPENING,
    UNREADABLE,
    VANISHED,
    PublishedSeeds,
    adopt_finished,
    attempt_folder,
    earlier_attempts,
    kept,
    note_interruption,
    open_attempt,
)
from hpcai.measure.claim_holder import this_process
from hpcai.measure.interruption import Interruption, Signals
from hpcai.measure.publish import CAPTURE, INTERRUPTED, RAW, RECORD, published
from hpcai.measure.watch import ATTEMPT_VARIABLE
from hpcai.records.files import read_part, read_record, write_json
from hpcai.records.run import Artefact, Attempt
from hpcai.records.weak import GROUP
from hpcai.slurm.job import SlurmJob

PLAN = make_record().plan


@pytest.fixture
def folder(tmp_path):
    return tmp_path / PLAN.run_id


def write_epochs(attempt, count):
    lines = (epoch.model_dump_json() + "\n" for epoch in make_record().epochs[:count])
    (attempt / "epochs.jsonl").write_text("".join(lines))


def vanish(attempt, **changes):
    """As an attempt looks whose supervisor is gone."""
    supervisor = {**this_process().to_json(), "host": "n1", "slurm_job": "17", **changes}
    (attempt / module.SUPERVISOR).write_text(json.dumps(supervisor))


def test_an_attempt_says_who_watches_it(folder):
    attempt, _ = open_attempt(folder, PLAN, "a1")
    assert attempt == attempt_folder(folder, "a1")
    assert module.supervisor_of(attempt).pid == os.getpid()
    assert earlier_attempts(folder) == ()


@pytest.mark.parametrize(
    ("state", "restarts", "says"),
    [
        ("NODE_FAIL", 0, "; Slurm says NODE_FAIL"),
        ("RUNNING", 0, ""),
        ("PENDING", 1, "; Slurm has put its job back into the queue since"),
        (None, 0, ""),
    ],
)
def test_an_attempt_whose_supervisor_vanished_gets_its_verdict(folder, monkeypatch, state, restarts, says):
    attempt, _ = open_attempt(folder, PLAN, "a1")
    write_epochs(attempt, 3)
    vanish(attempt)
    job = SlurmJob("17", state, "", restarts, "n1", preempted=False, time_limit_s=None, end_time="")
    monkeypatch.setattr(module, "state_of", lambda _: job if state else None)
    open_attempt(folder, PLAN, "a2")
    (verdict,) = earlier_attempts(folder)
    assert verdict.reason == VANISHED(where="n1 (Slurm job 17)", after=AFTER_EPOCHS(epochs=3, s="s"), says=says)
    assert (verdict.attempt, verdict.outcome, verdict.epochs) == ("a1", "interrupted", 3)
    assert (verdict.host, verdict.slurm_job, verdict.ended_utc) == ("n1", "17", None)
    assert verdict.started_utc == module.supervisor_of(attempt).started_utc


def test_a_supervisor_that_vanished_at_once(folder):
    attempt_folder(folder, "a1").mkdir(parents=True)
    vanished, _ = open_attempt(folder, PLAN, "a2")
    vanish(vanished, slurm_job="")
    open_attempt(folder, PLAN, "a3")
    assert [(verdict.reason, verdict.epochs) for verdict in earlier_attempts(folder)] == [
        (OPENING(), None),
        (VANISHED(where="n1", after=BEFORE_TRAINING(), says=""), None),
    ]


def test_ranks_of_a_vanished_attempt_are_ended_first(folder):
    open_attempt(folder, PLAN, "a1-of-this-test")
    rank = subprocess.Popen(["sleep", "60"], env={**os.environ, ATTEMPT_VARIABLE: "a1-of-this-test"})
    open_attempt(folder, PLAN, "a2")
    assert not psutil.pid_exists(rank.pid)
    rank.wait()


def test_a_verdict_is_written_once(folder):
    attempt, _ = open_attempt(folder, PLAN, "a1")
    write_epochs(attempt, 1)
    note_interruption(attempt, "first", "2026-01-02T03:04:05Z")
    note_interruption(attempt, "second", None)
    verdict = read_part(Attempt, attempt / INTERRUPTED)
    assert (verdict.reason, verdict.ended_utc, verdict.epochs) == ("first", "2026-01-02T03:04:05Z", 1)
    open_attempt(folder, PLAN, "a2")
    assert earlier_attempts(folder) == (verdict,)


def test_broken_and_interrupted_attempts_are_listed_in_order(folder):
    for name, record in (("a1", make_record("failed", record={"attempt": "a1"})), ("a2", None)):
        attempt, _ = open_attempt(folder, PLAN, name)
        if record:
            write_json(record, attempt / "record.json")
    open_attempt(folder, PLAN, "a3")
    found = earlier_attempts(folder)
    assert [(one.attempt, one.outcome) for one in found] == [("a1", "failed"), ("a2", "interrupted")]
    assert found[0].epochs == 3


def publish_plans(point, count):
    """As the folders of published runs with seeds 1, 2, ... look; return them with their plans."""
    runs = {}
    for number in range(1, count + 1):
        plan = PLAN.model_copy(update={"repetition": number, "seed": number})
        (point / f"r{number}" / RAW).mkdir(parents=True)
        write_plan(plan, point / f"r{number}" / RAW / "plan.json")
        record = make_record("failed", record={"attempt": f"a{number}"})
        write_json(record, point / f"r{number}" / RAW / RECORD)
        runs[point / f"r{number}"] = plan
    return runs


def test_seeds_of_the_others_are_read_once_per_measurement(tmp_path, monkeypatch):
    runs, read = publish_plans(tmp_path, 5), []
    monkeypatch.setattr(module, "read_plan", lambda file: read.append(file) or read_plan(file))
    seeds = PublishedSeeds(tmp_path)
    *withdrawn, last = runs
    for folder in withdrawn[:3]:
        open_attempt(folder, runs[folder], "b1", seeds)
    # A withdrawn run keeps its seed for itself no longer, and a published one still does.
    open_attempt(withdrawn[3], runs[withdrawn[0]], "b1", seeds)
    with pytest.raises(RunRefusedError):
        open_attempt(withdrawn[3], runs[last], "b2", seeds)
    assert len(read) == 4


def test_a_damaged_plan_of_another_run_is_noticed(tmp_path):
    first, second = publish_plans(tmp_path, 2).items()
    file = second[0] / RAW / "plan.json"
    file.write_bytes(file.read_bytes().replace(b'"seed": 2', b'"seed": 3'))
    with pytest.raises(ConfigError, match=re.escape(str(file))):
        open_attempt(*first, "b1")


def test_what_breaks_a_measurement_is_its_verdict(folder):
    def measure():
        open_attempt(folder, PLAN, "a1")
        raise ValueError("no launcher")

    with pytest.raises(ValueError, match="no launcher"), kept([attempt_folder(folder, "a1")], Signals()):
        measure()
    (verdict,) = earlier_attempts(folder)
    assert verdict.reason == "given up: no launcher"
    assert verdict.ended_utc <= time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def test_an_interruption_is_written_down_before_anything_is_ended(folder, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    attempt, signals, seen = attempt_folder(folder, "a1"), Signals(), []

    def measure():
        open_attempt(folder, PLAN, "a1")
        try:
            signals.interrupt(15)
        finally:
            seen.append(read_part(Attempt, attempt / INTERRUPTED).reason)

    with pytest.raises(Interruption), kept([attempt, attempt_folder(folder, "never opened")], signals):
        measure()
    assert seen == ["ended from outside by SIGTERM"]
    assert len(earlier_attempts(folder)) == 1


def test_a_full_disk_hides_no_error(folder, monkeypatch):
    open_attempt(folder, PLAN, "a1")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "write_json", full)
    with pytest.raises(ValueError, match="the cause"), kept([attempt_folder(folder, "a1")], Signals()):
        raise ValueError("the cause")
    assert earlier_attempts(folder) == ()


@pytest.mark.parametrize(
    ("name", "content"),
    [(INTERRUPTED, b""), (RECORD, b'{"schema_version": 0}'), (INTERRUPTED, b"\x80"), (RECORD, b"[")],
    ids=["empty-verdict", "other-version", "no-text", "no-json"],
)
def test_a_verdict_that_cannot_be_read_loses_no_other_attempt(folder, name, content):
    damaged, _ = open_attempt(folder, PLAN, "a1")
    write_epochs(damaged, 2)
    vanish(damaged)
    (damaged / name).write_bytes(content)
    open_attempt(folder, PLAN, "a2")
    open_attempt(folder, PLAN, "a3")
    first, second = earlier_attempts(folder)
    assert (first.outcome, first.epochs, first.host, first.slurm_job) == ("interrupted", 2, "n1", "17")
    assert first.reason == UNREADABLE(file=name, why="damaged or of another version")
    assert second.attempt == "a2"


def test_a_verdict_that_the_system_does_not_give_is_one_that_cannot_be_read(folder):
    (attempt_folder(folder, "a1") / RECORD).mkdir(parents=True)
    (verdict,) = earlier_attempts(folder)
    facts = told(verdict.reason, UNREADABLE)
    assert facts["file"] == "record.json"
    assert "a folder" in facts["why"]


def finish_attempt(folder, name, **changes):
    """As an attempt looks whose supervisor was killed before it could rename it."""
    attempt, _ = open_attempt(folder, PLAN, name)
    (attempt / "output.log").write_text("12345")
    artefact = Artefact(path="output.log", bytes=5, sha256="0" * 64)
    record = make_record(record={"attempt": name, "artefacts": (artefact,), **changes})
    write_json(record, attempt / RECORD)
    return attempt, record


def test_a_finished_attempt_is_published_instead_of_repeated(folder):
    attempt, record = finish_attempt(folder, "a1")
    adopt_finished(folder, PLAN)
    assert published(folder, PLAN) == record
    assert read_record(folder / RECORD) == record
    assert not attempt.exists()
    assert not (folder / RAW / "output.log").stat().st_mode & 0o222


def test_of_finished_attempts_the_first_is_published(folder):
    _, first = finish_attempt(folder, "a1")
    second, _ = finish_attempt(folder, "a2")
    for _ in range(2):
        adopt_finished(folder, PLAN)
        assert read_record(folder / RECORD) == first
        assert second.is_dir()


def lose(attempt):
    (attempt / "output.log").unlink()


def cut(attempt):
    (attempt / "output.log").write_text("123")


def give_up(attempt):
    (attempt / INTERRUPTED).touch()


def damage(attempt):
    (attempt / RECORD).write_text("")


def break_down(attempt):
    write_json(make_record("failed"), attempt / RECORD)


@pytest.mark.parametrize("harm", [lose, cut, give_up, damage, break_down])
def test_only_a_whole_finished_attempt_is_published(folder, harm):
    attempt, _ = finish_attempt(folder, "a1")
    harm(attempt)
    adopt_finished(folder, PLAN)
    assert attempt.is_dir()
    assert not (folder / RAW).exists()


def test_a_finished_attempt_at_another_run_stays_where_it_is(folder):
    attempt, record = finish_attempt(folder, "a1")
    adopt_finished(folder, PLAN.model_copy(update={"rule_set": "hpc_2.0.0"}))
    assert attempt.is_dir()
    adopt_finished(folder, PLAN.model_copy(update={"seed": None}))  # drawn by the attempt
    assert read_record(folder / RECORD) == record


def break_published(folder):
    folder.mkdir(parents=True)
    record = make_record("failed")
    (folder / RAW).mkdir()
    write_json(record, folder / RAW / RECORD)
    for name in (RECORD, CAPTURE):
        (folder / name).touch()
    return record


def test_a_breakdown_that_is_repeated_leaves_no_record_that_says_otherwise(folder):
    record = break_published(folder)
    # The folder of attempts is not there: copies may come without what was empty.
    open_attempt(folder, PLAN, "a2")
    assert [path.name for path in folder.iterdir()] == ["attempts"]
    assert read_record(attempt_folder(folder, "a1") / RECORD) == record


def test_an_instance_that_is_repeated_leaves_no_record_of_its_group(tmp_path):
    folder = tmp_path / "i1"
    break_published(folder)
    (tmp_path / GROUP).touch()
    open_attempt(folder, PLAN, "a2")
    assert [path.name for path in tmp_path.iterdir()] == ["i1"]


def test_on_a_full_disk_a_verdict_takes_the_room_that_was_kept_for_it(folder, monkeypatch):
    attempt, _ = open_attempt(folder, PLAN, "a1")
    assert (attempt / module.RESERVE).stat().st_size == module.RESERVE_BYTES

    def write(part, path):
        if (path.parent / module.RESERVE).exists():
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write_json(part, path)

    monkeypatch.setattr(module, "write_json", write)
    note_interruption(attempt, "given up", None)
    assert read_part(Attempt, attempt / INTERRUPTED).reason == "given up"
