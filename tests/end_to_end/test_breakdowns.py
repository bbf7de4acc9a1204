"""Runs that break down are rows, not the end: the campaign finishes and the report shows them.

Their ranks only obey the plan (tests/stub_ranks): what happens to real ones is in test_ranks.py.
"""

import os
import re
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
from end_to_end.hit_ranks import AHEAD_S, filling_up, hitting_a_rank, ranks_of
from workflow_project import ROOT, STUB_RANKS, Project, edit_yaml

from hpcai.campaign.failures import LOST
from hpcai.catalogue.profiles import PROFILES
from hpcai.core.machine_lock import PLACE_VARIABLE
from hpcai.data.pack import read_pack
from hpcai.measure.watch import GRACE_S, KILLED_S
from hpcai.records.files import read_record

HEADER = (ROOT / "tests/config/runs/tiny.tsv").read_text().splitlines()[0]
CAPTURES = [f"results/profiles/{profile}/diverges/d/n1x1/r1/capture.json" for profile in PROFILES]
# A hanging rank has to be found before the limit strikes, also where other work makes the start slow.
LIMIT_S, STALL_S = 50, 25
LIMITS = {"run_s": LIMIT_S, "stall_s": STALL_S, "disturbance": {"repeats": 0}}  # tests share the machine
WRITTEN_S = 30.0
PAUSE_S = 3.0
ENDLESS = {"recipe__max_epochs": 10_000, "target__value": 1e-9}
TMPFS = ["mount", "-t", "tmpfs"]


def make_study(folder, benchmarks, rows, **study):
    """A copy of the tests' configuration with benchmarks that differ as told."""
    shutil.copytree(ROOT / "tests/config", folder / "config")
    for name, changes in benchmarks.items():
        path = folder / f"config/benchmarks/{name}.yaml"
        shutil.copy(folder / "config/benchmarks/cosmoflow_mini.yaml", path)
        edit_yaml(path, name=name, **changes)
    lines = ("\t".join([*row.split(), "1", "fp32", "none", ""]) for row in rows)
    (folder / "config/runs/tiny.tsv").write_text("\n".join([HEADER, *lines]) + "\n")
    edit_yaml(folder / "config/tiny.yaml", benchmarks=list(benchmarks), **study)
    return Project(folder, study=folder / "config/tiny.yaml", environment=STUB_RANKS)


@contextmanager
def training_beside(project, *runs):
    """Make runs that mostly wait, each by a Snakemake and with a place to lock of its own, beside what is done here."""

    def train(run):
        place = project.directory / f"locked/{run}"
        place.mkdir(parents=True)
        alone = Project(project.directory, study=project.study, environment=STUB_RANKS | {PLACE_VARIABLE: str(place)})
        return alone.snakemake(target_of(run), "--nolock")

    assert project.snakemake("pack").returncode == 0  # the calls may not pack the same data at the same time
    with ThreadPoolExecutor(len(runs)) as pool:
        waiting = [pool.submit(train, run) for run in runs]
        yield
    for done in (one.result() for one in waiting):
        assert done.returncode == 0, done.stdout


def target_of(run):
    return f"results/runs/{run}/r1/record.json"


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """A run that diverges, one with a killed rank, one with a hanging rank, one whose rank pauses, and more."""
    folder = tmp_path_factory.mktemp("breakdowns")
    benchmarks = {
        "well": {},
        "diverges": {"recipe__base_learning_rate": 1e12, "recipe__warmup_epochs": 0},
        "killed": ENDLESS,
        "hangs": ENDLESS,
        "pauses": {"recipe__max_epochs": 50, "target__value": 0.1},
        "endless": ENDLESS,
    }
    rows = ["well w 1 2", "diverges d 1 1", "killed k 1 2", "hangs h 1 2", "pauses p 1 2", "endless e 1 2"]
    project = make_study(folder, benchmarks, rows, limits=LIMITS, time_staging=False)
    runs = folder / "results/runs"
    with (
        hitting_a_rank(runs / "killed/k/n1x2/r1", "epochs.jsonl") as killed,
        hitting_a_rank(runs / "hangs/h/n1x2/r1", "epochs.jsonl", signal.SIGSTOP) as stopped,
        hitting_a_rank(runs / "pauses/p/n1x2/r1", "epochs.jsonl", signal.SIGSTOP, PAUSE_S + AHEAD_S) as paused,
    ):
        with training_beside(project, "hangs/h/n1x2", "endless/e/n1x2"):
            others = map(target_of, ("well/w/n1x2", "diverges/d/n1x1", "killed/k/n1x2", "pauses/p/n1x2"))
            done = project.snakemake(*others, *CAPTURES, "--nolock")
        assert done.returncode == 0, done.stdout
    done = project.snakemake("measure")
    assert done.returncode == 0, done.stdout
    assert killed, "no rank was there to be killed"
    assert stopped, "no rank was there to be stopped"
    assert len(stopped) == 2, "the rank that was stopped is still there"
    assert paused, "no rank was there to be stopped for a while"
    # A report of what is there: of the machine and of the runs that are well, other studies tell the same.
    done = project.snakemake("report", config=["measure=false"])
    assert done.returncode == 0, done.stdout
    project.hung = stopped
    return project


def outcome(campaign, run):
    record = read_record(campaign.directory / f"results/runs/{run}/r1/record.json")
    return record.outcome, record.reason, record


def test_campaign_finishes_and_shows_all_runs(campaign):
    runs = pd.read_csv(campaign.directory / "results/tables/runs.csv").set_index("benchmark")
    assert runs["outcome"].to_dict() == {
        "well": "converged",
        "diverges": "diverged",
        "killed": "failed",
        "hangs": "failed",
        "pauses": "converged",
        "endless": "timed_out",
    }
    assert runs["time_to_train_s"].notna().to_dict() == {
        "well": True,
        "diverges": False,
        "killed": False,
        "hangs": False,
        "pauses": True,
        "endless": False,
    }
    html = (campaign.directory / "results/report.html").read_text()
    assert all(name in html for name in runs.index)


def test_staging_off_the_clock(campaign):
    kind, _, record = outcome(campaign, "well/w/n1x2")
    assert kind == "converged"
    staging = record.training.staging
    assert not staging.on_clock
    assert staging.staging_s > 0


def test_diverged(campaign):
    kind, reason, record = outcome(campaign, "diverges/d/n1x1")
    assert kind == "diverged"
    assert "loss" in reason
    assert record.training is not None
    log = (campaign.directory / "results/runs/diverges/d/n1x1/r1/raw/mllog.txt").read_text()
    assert '"status": "aborted"' in log


def test_killed_rank_ends_the_run_soon(campaign):
    kind, reason, record = outcome(campaign, "killed/k/n1x2")
    assert kind == "failed"
    assert "exit status" in reason
    assert re.search(r"rank [01]: killed by signal 9", reason)
    assert record.wall_s < LIMIT_S
    assert record.epochs
    assert record.time_to_train_s is None


def test_a_hanging_rank_ends_the_run_in_a_bounded_time(campaign):
    kind, reason, record = outcome(campaign, "hangs/h/n1x2")
    assert kind == "failed"
    assert f"{STALL_S} s without a sign of life" in reason
    # From the signal, as a start takes longer beside other work: the silence, then the launcher's time to end
    # a rank that obeys nothing.
    stopped_s, ended_s = campaign.hung
    assert ended_s - stopped_s < STALL_S + GRACE_S + KILLED_S + 5
    # A second where nothing else runs.
    written_s = (campaign.directory / f"results/runs/{record.run_id}/record.json").stat().st_mtime
    assert written_s - ended_s < WRITTEN_S


def test_a_pause_is_told_beside_the_time_that_holds_it(campaign):
    _, _, record = outcome(campaign, "pauses/p/n1x2")
    report = record.training
    assert report.stalls.count >= 1
    assert PAUSE_S <= report.stalls.longest_s < report.run_s
    assert report.stalls.beside_s < report.stalls.longest_s / 5
    # The epochs' sign of life comes after their steps.
    assert report.longest_gap_s >= report.stalls.longest_s
    tables = campaign.directory / "results/tables"
    runs = pd.read_csv(tables / "runs.csv").set_index("benchmark")
    assert runs.loc["pauses", "stalls"] == report.stalls.count
    assert runs.loc["well", "stalls"] == 0
    assert runs.loc[["hangs", "endless"], "stalls"].isna().all()
    assert pd.read_csv(tables / "scales.csv").set_index("benchmark").loc["pauses", "n_stalled"] == 1
    html = (campaign.directory / "results/report.html").read_text()
    assert "stalled 1/1: " in html
    assert "include a pause: pauses/p/n1x2/r1" in html


def test_time_limit(campaign):
    kind, reason, record = outcome(campaign, "endless/e/n1x2")
    assert kind == "timed_out"
    assert f"time limit of {LIMIT_S} s" in reason
    assert record.epochs
    assert LIMIT_S <= record.wall_s < LIMIT_S + 15


def test_nothing_is_left_behind(campaign):
    for path in campaign.directory.glob("results/runs/*/*/*/r1/record.json"):
        record = read_record(path)
        assert not ranks_of(record.attempt)
        scratch = Path(record.provenance.command[record.provenance.command.index("--scratch") + 1])
        assert not list(scratch.parent.glob(f"{scratch.name}*"))


def test_points_without_a_result_end_the_workflow_badly_after_its_report(campaign):
    assert campaign.dry_run("all", config=["measure=false"])["require_results"] == 1
    done = campaign.snakemake("results/outcomes.json", config=["measure=false"])
    assert done.returncode == 1
    assert "3 of 6 points have none" in done.stdout
    for point in ("killed/k/n1x2", "hangs/h/n1x2", "endless/e/n1x2"):
        assert re.search(f"runs/{point}: {LOST.pattern}", done.stdout)
    assert "Traceback" not in done.stdout
    assert (campaign.directory / "results/workflow_report.html").exists()
    assert not (campaign.directory / "results/outcomes.json").exists()
    doctor = subprocess.run(["hpcai", "doctor"], cwd=campaign.directory, capture_output=True, text=True, check=False)
    assert doctor.returncode == 2
    assert LOST(runs="runs/killed/k/n1x2: its run", reason="the launcher ended") in doctor.stdout


def test_retry_keeps_the_failed_attempt(campaign):
    command = ["hpcai", "retry", "results/runs"]
    done = subprocess.run(command, cwd=campaign.directory, capture_output=True, text=True, check=True)
    assert "3 runs to repeat" in done.stdout
    assert campaign.dry_run("measure") == {"train": 3, "measure": 1}
    # What was published goes back, so that the other tests find the campaign as it was.
    for run in ("killed/k/n1x2", "hangs/h/n1x2", "endless/e/n1x2"):
        subprocess.run(["hpcai", "restore", f"results/runs/{run}/r1"], cwd=campaign.directory, check=True)


def test_scratch_too_small(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run([*TMPFS, "-o", "size=64k", "tmpfs", small], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("mounting a small file system is not permitted here")
    try:
        folder = tmp_path / "study"
        folder.mkdir()
        project = make_study(folder, {"well": {}}, ["well w 1 2"])
        edit_yaml(folder / "config/machines/box.yaml", storage__node_local=str(small))
        done = project.snakemake("measure")
        # Found before any rank starts: nothing was measured, so that nothing is recorded.
        assert done.returncode == 1
        assert str(small) in done.stdout
        assert "bytes free, expected at least" in done.stdout
        run = folder / "results/runs/well/w/n1x2/r1"
        assert not (run / "record.json").exists()
        assert not list(run.glob("attempts/*/output.log"))
        assert not list(small.iterdir())
        subprocess.run(["mount", "-o", "remount,size=64m", small], check=True)
        assert project.snakemake("measure").returncode == 0
        kind, _, record = outcome(project, "well/w/n1x2")
        assert kind == "converged"
        assert [earlier.outcome for earlier in record.earlier_attempts] == ["interrupted"]
        assert not list(small.iterdir())
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_disk_that_fills_up_while_ranks_write_is_the_reason(tmp_path):
    results = tmp_path / "study/results"
    results.mkdir(parents=True)
    if subprocess.run([*TMPFS, "-o", "size=8m", "tmpfs", results], capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system is not permitted here")
    try:
        project = make_study(tmp_path / "study", {"endless": ENDLESS}, ["endless e 1 2"], limits=LIMITS)
        run = results / "runs/endless/e/n1x2/r1"
        with filling_up(results, run, "epochs.jsonl"):
            done = project.snakemake("results/runs/endless/e/n1x2/r1/record.json")
        (results / "filler").unlink()
        assert done.returncode == 0, done.stdout
        kind, reason, record = outcome(project, "endless/e/n1x2")
        assert kind == "failed"
        assert "No space left on device" in reason
        assert record.epochs
        assert not [one.path for one in record.artefacts if one.path == "reserve"]
        assert "Traceback" not in done.stdout
    finally:
        subprocess.run(["umount", results], check=True)


def test_damaged_data_stops_before_training(tmp_path):
    # Nobody activated the environment: rules find its `hpcai` all the same.
    project = Project(tmp_path, environment=STUB_RANKS | {"PATH": os.defpath})
    assert project.snakemake("pack").returncode == 0
    pack = read_pack(tmp_path / "data/cosmoflow_mini/packed/packed.json")
    member = pack.shards[0].members[0]
    shard = tmp_path / "data/cosmoflow_mini/packed" / pack.shards[0].file
    damaged = bytearray(shard.read_bytes())
    damaged[member.offset + member.packed_bytes // 2] ^= 1
    shard.write_bytes(damaged)
    run = "results/runs/cosmoflow_mini/fp32/n1x1/r1"
    assert project.snakemake(f"{run}/record.json").returncode == 0
    record = read_record(tmp_path / run / "record.json")
    assert record.outcome == "failed"
    assert shard.name in record.reason
    assert member.name in record.reason
