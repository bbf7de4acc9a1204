"""The record of an attempt that ended: reports from other nodes may be late or missing."""

import socket
import threading
import time

import pytest
from unit.record_factory import make_provenance, make_record

from hpcai.core.errors import RecordError
from hpcai.measure import recording
from hpcai.measure.publish import RESERVE
from hpcai.measure.recording import record_attempt
from hpcai.measure.watch import Ending
from hpcai.records.files import write_json

RECORD = make_record(nodes=2)
FACTS = {"data_source": "generated", "started_utc": "2026-01-02T03:04:05Z"}


@pytest.fixture
def attempt(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "LOOK_S", 0.02)
    (tmp_path / "ranks").mkdir()
    (tmp_path / "output.log").write_text("epoch 1\n")
    return tmp_path


def record_of(attempt, exit_status=0):
    ending = Ending(verdict="ended", exit_status=exit_status, started_monotonic_s=0.0, wall_s=RECORD.wall_s)
    return record_attempt(RECORD.plan, attempt, ending, make_provenance(), FACTS)


def report(attempt, ranks):
    for rank in ranks:
        write_json(rank, attempt / f"ranks/rank{rank.placement.rank}.json")
    write_json(RECORD.training, attempt / "training.json")


@pytest.mark.parametrize("rank_here", [0, 1])
def test_a_launch_is_timed_only_by_the_clock_of_one_node(attempt, rank_here):
    ranks = list(RECORD.ranks)
    placement = ranks[rank_here].placement.model_copy(update={"hostname": socket.gethostname()})
    ranks[rank_here] = ranks[rank_here].model_copy(update={"placement": placement})
    report(attempt, ranks)
    record = record_of(attempt)
    assert record.outcome == "converged"
    assert record.launch_s == (RECORD.training.started_monotonic_s if rank_here == 0 else None)


def test_a_report_that_comes_late_is_waited_for(attempt):
    report(attempt, RECORD.ranks[:1])

    def late():
        time.sleep(0.5)
        report(attempt, RECORD.ranks[1:])

    thread = threading.Thread(target=late)
    thread.start()
    record = record_of(attempt)
    thread.join()
    assert record.outcome == "converged"
    assert len(record.ranks) == 2


def test_a_report_that_never_comes_is_a_reason(attempt, monkeypatch):
    monkeypatch.setattr(recording, "LATE_S", 0.1)
    report(attempt, RECORD.ranks[:1])
    record = record_of(attempt)
    assert record.outcome == "failed"
    assert "the ranks' reports are not complete" in record.reason
    assert "rank1.json" in record.reason


def test_after_a_failure_nothing_is_waited_for(attempt, monkeypatch):
    monkeypatch.setattr(recording.time, "sleep", lambda _: pytest.fail("waited"))
    record = record_of(attempt, exit_status=137)
    assert record.reason == (
        "the launcher ended with exit status 137: epoch 1: killed by signal 9 (often: out of memory)"
    )


def test_files_that_vanish_or_are_only_hidden_give_up_no_run(attempt, monkeypatch):
    report(attempt, RECORD.ranks)
    (attempt / ".nfs000000000001").touch()
    (attempt / "vanishes").touch()
    real = recording.file_sha256

    def sha256(path):
        if path.name == "vanishes":
            path.unlink()
        return real(path)

    monkeypatch.setattr(recording, "file_sha256", sha256)
    record = record_of(attempt)
    assert record.outcome == "converged"
    names = {artefact.path for artefact in record.artefacts}
    assert "output.log" in names
    assert not names & {"vanishes", ".nfs000000000001"}


def test_what_makes_no_record_is_one_sentence(attempt):
    ending = Ending(verdict="ended", exit_status=137, started_monotonic_s=0.0, wall_s=-1.0)
    with pytest.raises(RecordError, match=r"what was reported makes no record \(wall_s: Input should be"):
        record_attempt(RECORD.plan, attempt, ending, make_provenance(), FACTS)


def test_a_full_disk_is_the_reason_whatever_the_output_ends_with(attempt, monkeypatch):
    monkeypatch.setattr(recording, "LATE_S", 0.0)
    monkeypatch.setattr(recording, "why_full", lambda _: "No space left on device")
    (attempt / RESERVE).write_bytes(b"x")
    for status in (1, 0):  # a rank ended, or wrote no report
        record = record_of(attempt, exit_status=status)
        assert record.outcome == "failed"
        assert f"{attempt}: No space left on device" in record.reason
        assert RESERVE not in [one.path for one in record.artefacts]


def test_a_run_that_ended_well_is_well_on_a_disk_that_is_full_by_now(attempt, monkeypatch):
    report(attempt, RECORD.ranks)
    monkeypatch.setattr(recording, "why_full", lambda _: "No space left on device")
    assert record_of(attempt).outcome == "converged"


@pytest.mark.parametrize(("verdict", "outcome"), [("timed_out", "timed_out"), ("stalled", "failed")])
def test_a_launcher_that_hangs_on_a_full_disk_is_ended_and_the_disk_is_named(attempt, monkeypatch, verdict, outcome):
    monkeypatch.setattr(recording, "why_full", lambda _: "Disk quota exceeded")
    ending = Ending(verdict=verdict, exit_status=-15, started_monotonic_s=0.0, wall_s=RECORD.wall_s)
    record = record_attempt(RECORD.plan, attempt, ending, make_provenance(), FACTS)
    assert record.outcome == outcome
    assert f"{attempt}: Disk quota exceeded" in record.reason
