"""A run is measured once, even with concurrent callers, a killed supervisor or a failing file system."""

import dataclasses
import errno
import json
import os
import signal
import sys
import threading
import time

import pytest
from unit.acceptance_factory import make_measured, make_series
from unit.measure.fake_launchers import fake
from unit.measure.test_supervise import make_pack
from unit.record_factory import make_plan, make_provenance, make_record
from unit.refusals import refused

from hpcai.config.machine import NOT_ABSOLUTE, NOT_SET, this_node
from hpcai.config.plan_file import write_plan
from hpcai.config.study import Limits
from hpcai.core.disturbance import CoreUse, Quietness, Tolerance
from hpcai.core.errors import DatasetError, LaunchError, ResultsError, RunInterruptedError, RunRefusedError
from hpcai.core.files import file_sha256
from hpcai.data.manifest import Manifest, read_manifest, write_manifest
from hpcai.launchers.registry import LAUNCHERS
from hpcai.measure import claim, supervise
from hpcai.measure.attempts import earlier_attempts
from hpcai.measure.claim import TAKEN_OVER
from hpcai.measure.inputs import Inputs
from hpcai.measure.interruption import Interruption, Signals
from hpcai.measure.supervise import measure
from hpcai.metrics.acceptance import judge_acceptance
from hpcai.records.acceptance import FOLDER, JUDGED, NONE_YET
from hpcai.records.files import read_record, write_json, write_sealed

RANK = """
import pathlib, shutil, sys, time
from hpcai.data.stage_folder import own_stage
raw = pathlib.Path(sys.argv[sys.argv.index("--raw") + 1])
scratch = own_stage(pathlib.Path(sys.argv[sys.argv.index("--scratch") + 1]))
scratch.mkdir(parents=True)
(scratch / ".hpcai-stage").touch()
print("ready", flush=True)
time.sleep(SECONDS)
shutil.copytree(REPORTS, raw, dirs_exist_ok=True)
"""


class Run:
    """A run whose rank is a small program that writes reports instead of training."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.reports, self.patch = folder / "r1", folder / "reports", monkeypatch
        plan = make_plan(limits=Limits(run_s=60, stall_s=60))
        storage = plan.machine.storage.model_copy(update={"node_local": str(folder / "scratch")})
        machine = plan.machine.model_copy(update={"storage": storage})
        self.plan = plan.model_copy(update={"machine": machine})
        what = {"dataset": "tiny", "workload": "cosmoflow", "source": "generated", "edition": "v1"}
        manifest = Manifest(**what, sample_shape=(1,), splits={})
        write_manifest(manifest, folder / "manifest.json")
        write_plan(self.plan, folder / "plan.json")
        self.inputs = Inputs((folder / "plan.json",), folder / "manifest.json", None)
        self._report()
        origin = make_provenance(data_digest=manifest.digest)
        monkeypatch.setattr(supervise, "collect_provenance", lambda *_: origin)
        self.takes(0.1)

    def _report(self):
        record = make_record()
        (self.reports / "ranks").mkdir(parents=True)
        write_json(record.ranks[0], self.reports / "ranks/rank0.json")
        epoch = record.epochs[-1].model_copy(update={"epoch": 1, "train_s": 0.05, "evaluation_s": 0.0})
        short = {"run_s": 0.1, "epochs": (epoch,), "seed": self.plan.seed}
        write_json(record.training.model_copy(update=short), self.reports / "training.json")
        (self.reports / "epochs.jsonl").write_text(epoch.model_dump_json() + "\n")

    def is_disturbed(self, *, by_s):
        """Let other processes take `by_s` of ten seconds on two cores while the rank is timed."""
        rank = make_record().ranks[0]
        use = CoreUse(node="a", cores=2, wall_s=10.0, own_s=10.0, busy_s=10.0 + by_s, steal_s=0.0)
        quietness = Quietness(use=use, probe_before_flop_per_s=1e9, probe_after_flop_per_s=1e9)
        write_json(rank.model_copy(update={"quietness": quietness}), self.reports / "ranks/rank0.json")

    def takes(self, seconds):
        """Let the rank work for a number of seconds."""
        code = RANK.replace("SECONDS", repr(seconds)).replace("REPORTS", repr(str(self.reports)))
        self.patch.setitem(LAUNCHERS, "fake", fake(lambda _: [sys.executable, "-c", code]))

    def measure(self):
        return measure(self.inputs, self.folder, "fake")

    def when_ready(self, act):
        """Do something when the rank is at work."""

        def wait_and_act():
            deadline = time.monotonic() + 30
            while not [log for log in self.folder.glob("attempts/*/output.log") if "ready" in log.read_text()]:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            act()

        thread = threading.Thread(target=wait_and_act)
        thread.start()
        return thread


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setattr(claim, "WAIT_S", 0.05)
    monkeypatch.setattr(claim, "REFRESH_S", 0.1)
    return Run(tmp_path, monkeypatch)


def is_left(run):
    """Names in the folder of the run other than its attempts."""
    return {path.name for path in run.folder.iterdir()} - {"attempts"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_interrupted_run_is_measured_again(run, number):
    run.takes(60)
    thread = run.when_ready(lambda: os.kill(os.getpid(), number))
    with pytest.raises(RunInterruptedError, match="nothing is published") as error:
        run.measure()
    thread.join()
    assert error.value.status == 128 + number
    assert is_left(run) == set()
    assert not list((run.folder.parent / "scratch").iterdir())
    (interrupted,) = earlier_attempts(run.folder)
    assert (interrupted.outcome, interrupted.reason) == ("interrupted", f"ended from outside by {number.name}")
    run.takes(0.1)
    record = run.measure()
    assert record.outcome == "converged"
    assert record.earlier_attempts == (interrupted,)
    assert read_record(run.folder / "record.json") == record


def outcomes(run):
    return [attempt.outcome for attempt in earlier_attempts(run.folder)]


def test_a_disturbed_run_is_repeated_as_often_as_the_study_says(run):
    run.plan = run.plan.model_copy(update={"limits": Limits(disturbance=Tolerance(others_ratio=0.1, repeats=2))})
    write_plan(run.plan, run.inputs.plans[0])
    run.is_disturbed(by_s=4.0)
    record = run.measure()
    assert record.is_disturbed
    assert record.disturbance[0].others_s == 4.0
    assert outcomes(run) == ["disturbed", "disturbed"]
    assert [attempt.epochs for attempt in record.earlier_attempts] == [1, 1]
    assert read_record(run.folder / "record.json") == record
    assert run.measure() == record  # published again, not repeated


def test_a_quiet_run_is_not_repeated(run):
    run.is_disturbed(by_s=0.1)
    record = run.measure()
    assert not record.is_disturbed
    assert outcomes(run) == []


def test_what_was_set_aside_is_never_taken_for_a_result(run):
    run.is_disturbed(by_s=4.0)
    run.measure()
    for name in ("record.json", "raw/record.json"):
        (run.folder / name).unlink()
    (run.folder / "raw").rename(run.folder.parent / "elsewhere")
    run.is_disturbed(by_s=0.0)
    record = run.measure()
    assert not record.is_disturbed
    assert outcomes(run) == ["disturbed"]


def test_who_comes_second_adopts_what_the_first_published(run):
    run.takes(1.0)
    found = []
    first = threading.Thread(target=lambda: found.append(run.measure()))
    thread = run.when_ready(lambda: found.append(run.measure()))
    first.start()
    thread.join()
    first.join()
    assert len(found) == 2
    assert found[0] == found[1]
    assert is_left(run) == {"raw", "record.json"}
    assert not list((run.folder / "attempts").iterdir())


def test_a_run_that_was_taken_over_is_ended_and_not_published(run):
    run.takes(60)
    other = {"host": "elsewhere", "pid": 1}
    thread = run.when_ready(lambda: (run.folder / claim.CLAIM).write_text(json.dumps(other)))
    with refused(RunRefusedError, TAKEN_OVER):
        run.measure()
    thread.join()
    assert is_left(run) == {claim.CLAIM}
    (given_up,) = earlier_attempts(run.folder)
    assert "given up" in given_up.reason


def test_a_signal_that_comes_when_the_ranks_are_done_loses_nothing(run):
    real = supervise.record_attempt

    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        return real(*arguments)

    run.patch.setattr(supervise, "record_attempt", interrupted)
    assert run.measure().outcome == "converged"
    assert read_record(run.folder / "record.json").outcome == "converged"


def test_a_full_file_system_is_one_sentence_and_the_attempt_stays(run):
    real = supervise.publish.write_record

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device", "record.json")

    run.patch.setattr(supervise.publish, "write_record", full)
    with pytest.raises(
        ResultsError, match=r"record.json: No space left on device, so that .*r1 could not be completed"
    ):
        run.measure()
    assert is_left(run) == set()
    (given_up,) = earlier_attempts(run.folder)
    assert "No space left" in given_up.reason
    run.patch.setattr(supervise.publish, "write_record", real)
    assert run.measure().earlier_attempts == (given_up,)


@pytest.mark.parametrize(
    ("node_local", "message", "facts"),
    [
        ("${NOT_SET_HERE}/hpcai", NOT_SET, {"text": "${NOT_SET_HERE}/hpcai", "variables": "NOT_SET_HERE"}),
        ("scratch/hpcai", NOT_ABSOLUTE, {"folder": "scratch/hpcai"}),
    ],
)
def test_scratch_that_would_be_below_the_working_folder_opens_no_attempt(run, node_local, message, facts):
    storage = run.plan.machine.storage.model_copy(update={"node_local": node_local})
    machine = run.plan.machine.model_copy(update={"storage": storage})
    write_plan(run.plan.model_copy(update={"machine": machine}), run.inputs.plans[0])
    with refused(LaunchError, message, place="storage.node_local", host=this_node(), **facts):
        run.measure()
    assert not list(run.folder.iterdir())


def test_a_folder_that_cannot_be_made_is_one_sentence(run):
    run.folder.write_text("a file")
    with pytest.raises(ResultsError, match="File exists"):
        run.measure()


def test_a_rank_that_slurm_ended_with_its_job_is_no_result(run, monkeypatch):
    code = "import sys; sys.exit(143)"
    run.patch.setitem(LAUNCHERS, "fake", fake(lambda _: [sys.executable, "-c", code]))
    words = "cancelled in Slurm (scancel)"

    def interrupt(self):
        self._noted = True
        self._first(words)
        raise Interruption(words, signal.SIGTERM)

    monkeypatch.setattr(Signals, "interrupt_if_job_ends", interrupt)
    with pytest.raises(RunInterruptedError, match="scancel"):
        run.measure()
    assert is_left(run) == set()
    assert [one.reason for one in earlier_attempts(run.folder)] == [words]


def test_a_training_whose_supervisor_was_killed_before_the_rename_is_not_repeated(run, monkeypatch):
    def broken(*_):
        raise OSError(errno.EIO, "Input/output error", "raw")

    with monkeypatch.context() as patch:
        patch.setattr(supervise.publish.os, "rename", broken)
        with pytest.raises(ResultsError, match="Input/output error"):
            run.measure()
    (attempt,) = (run.folder / "attempts").iterdir()
    run.patch.setitem(LAUNCHERS, "fake", fake(lambda _: pytest.fail("it is repeated")))
    record = run.measure()
    assert (record.attempt, record.earlier_attempts) == (attempt.name, ())
    assert read_record(run.folder / "record.json") == record


def test_a_damaged_earlier_attempt_costs_no_finished_training(run):
    (run.folder / "attempts/a1").mkdir(parents=True)
    (run.folder / "attempts/a1/interrupted.json").touch()
    record = run.measure()
    assert record.outcome == "converged"
    assert "cannot be read" in record.earlier_attempts[0].reason


def fails_with(run, words):
    code = f"import sys; print({words!r}); sys.exit(1)"
    run.patch.setitem(LAUNCHERS, "fake", fake(lambda _: [sys.executable, "-c", code]))


def test_a_node_that_slurm_lost_is_no_result(run):
    fails_with(run, "srun: error: Node failure on n2")
    with pytest.raises(RunInterruptedError, match=r"a node of the run was lost \(srun: error: Node failure on n2\)"):
        run.measure()
    assert is_left(run) == set()


def test_a_node_that_does_not_answer_any_more_is_no_result(run):
    fails_with(run, "HorovodInternalError: Connection reset by peer")
    run.patch.setattr(supervise, "clean_nodes", lambda *_: ("n2",))
    with pytest.raises(RunInterruptedError, match="node n2 does not answer any more"):
        run.measure()
    (interrupted,) = earlier_attempts(run.folder)
    assert (interrupted.outcome, interrupted.reason) == ("interrupted", "node n2 does not answer any more")


def test_a_run_that_ended_well_is_a_result_whatever_its_nodes_do_afterwards(run):
    run.patch.setattr(supervise, "clean_nodes", lambda *_: ("n2",))
    assert run.measure().outcome == "converged"


def test_a_run_whose_supervisor_stood_still_is_no_result(run):
    real = supervise.watch
    still = {"verdict": "stood_still", "stood_still_s": 95.2}
    run.patch.setattr(supervise, "watch", lambda *arguments: dataclasses.replace(real(*arguments), **still))
    with pytest.raises(RunInterruptedError, match="stood still for 95 s: the times of this run mean nothing"):
        run.measure()
    assert is_left(run) == set()


def test_a_missing_shard_is_an_error_and_no_record(run, tmp_path):
    digest = read_manifest(run.inputs.manifest).digest
    pack = make_pack(manifest_digest=digest)
    file = tmp_path / "packed/packed.json"
    file.parent.mkdir()
    write_json(pack, file)
    run.inputs = dataclasses.replace(run.inputs, pack=file)
    with pytest.raises(DatasetError, match=pack.shards[0].file):
        run.measure()
    assert is_left(run) == set()
    assert outcomes(run) == ["interrupted"]
    (file.parent / pack.shards[0].file).write_bytes(bytes(pack.shards[0].bytes))
    assert run.measure().outcome == "converged"


def test_a_run_without_the_acceptance_that_its_study_requires_is_refused(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_plan(run.plan.model_copy(update={"requires_acceptance_s": 3600.0}), tmp_path / "plan.json")
    with refused(RunRefusedError, NONE_YET):
        run.measure()
    assert not (run.folder / "raw").exists()
    assert earlier_attempts(run.folder) == ()


def test_a_record_names_the_acceptance_and_a_finished_run_needs_none(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    judged = tmp_path / FOLDER / JUDGED
    judged.parent.mkdir(parents=True)
    series = [make_series(this_node(), "gemm fp32", (1.0, 1.0, 1.0))]
    measured = make_measured(series, [this_node()], machine=run.plan.machine.name)
    write_sealed(judge_acceptance(measured, "0" * 64, "x.json"), judged)
    write_plan(run.plan.model_copy(update={"requires_acceptance_s": 3600.0}), tmp_path / "plan.json")
    record = run.measure()
    assert record.provenance.acceptance.sha256 == file_sha256(judged)
    assert record.plan_digest == run.plan.digest
    judged.unlink()
    assert run.measure() == read_record(run.folder / "record.json")
