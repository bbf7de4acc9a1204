"""What a run's files and its launcher's end are made of."""

import pytest
from unit.record_factory import make_provenance, make_record

from hpcai.measure.supervise import last_error, read_epochs, record_attempt, scratch_folder
from hpcai.measure.watch import Ending

PLAN = make_record().plan


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            "[1]<stderr>:Traceback\n[1]<stderr>:hpcai.errors.StagingError: /scratch: found 3 bytes free\nexit code 1\n",
            "/scratch: found 3 bytes free",
        ),
        ("[0]<stderr>:ValueError: shapes differ\nProcess 0 exit with status code 1.\n", "ValueError: shapes differ"),
        ("chatter\nProcess 1 was terminated by signal 9\n", "Process 1 was terminated by signal 9"),
        ("chatter\nlast words\n", "last words"),
        ("", "no output"),
    ],
)
def test_the_reason_of_a_failure(tmp_path, output, reason):
    (tmp_path / "output.log").write_text(output)
    assert last_error(tmp_path / "output.log") == reason


def test_a_run_that_failed_is_judged_as_well(tmp_path):
    (tmp_path / "output.log").write_text("Process 1 was terminated by signal 9\n")
    ending = Ending(verdict="ended", exit_status=9, started_monotonic_s=0.0, wall_s=3.0)
    facts = {"data_source": "generated", "started_utc": "2026-01-02T03:04:05Z"}
    record = record_attempt(PLAN, tmp_path, ending, make_provenance(), facts)
    assert record.outcome == "failed"
    closed, opened = record.verdicts
    assert not closed.valid
    assert {"official_data", "target_reached", "seeds"} <= {finding.rule for finding in closed.deviations}
    assert "seeds" not in {finding.rule for finding in opened.deviations}


def test_an_epoch_that_is_still_being_written_is_left_out(tmp_path):
    path = tmp_path / "epochs.jsonl"
    assert read_epochs(path) == ()
    line = make_record().epochs[0].model_dump_json()
    path.write_text(f"{line}\n{line[:20]}")
    assert len(read_epochs(path)) == 1


def test_scratch_belongs_to_the_attempt(monkeypatch, tmp_path):
    machine = PLAN.machine.model_copy(
        update={"storage": PLAN.machine.storage.model_copy(update={"node_local": "${TMPDIR}/x"})}
    )
    plan = PLAN.model_copy(update={"machine": machine})
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert scratch_folder(plan, "a1") == tmp_path / "x" / "a1"
    monkeypatch.delenv("TMPDIR")
    assert str(scratch_folder(plan, "a1")) == "/tmp/x/a1"
