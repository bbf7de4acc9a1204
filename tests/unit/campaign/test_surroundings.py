"""Locks, markers, data, disks, report and Slurm's queue around the runs of a campaign."""

import os
import shutil
import time
from base64 import urlsafe_b64encode
from types import SimpleNamespace

import pytest
from unit.campaign.result_folders import finish_run

from hpcai.campaign import surroundings
from hpcai.campaign.controller_note import Controller, PlannedDataset, this_controller
from hpcai.campaign.surroundings import (
    LITTLE_SPACE_BYTES,
    controller_state,
    incomplete_files,
    is_locked,
    missing_data,
    report_problem,
    spaces,
)
from hpcai.slurm.queue import COLUMNS, QueuedJob, parse_queue, queued_jobs

ELSEWHERE = Controller(host="login9", pid=5, process_started=1.0)


def test_controller_states(tmp_path):
    assert controller_state(None, tmp_path) == "unknown"
    assert controller_state(this_controller(), tmp_path) == "alive"
    assert controller_state(this_controller().model_copy(update={"pid": 2**22 + 1}), tmp_path) == "ended"
    assert controller_state(this_controller().model_copy(update={"process_started": 1.0}), tmp_path) == "ended"
    assert controller_state(ELSEWHERE, tmp_path) == "elsewhere"


class Process(SimpleNamespace):
    def cmdline(self):
        return self.command

    def cwd(self):
        return self.folder


@pytest.mark.parametrize(
    ("command", "is_leader"),
    [
        (["/env/bin/python", "/env/bin/snakemake", "--profile", "slurm"], True),
        (["python", "-m", "snakemake"], True),
        (["python", "-m", "snakemake", "--nolock", "train"], False),
        (["/env/bin/python3.11", "/env/bin/snakemake"], True),
        (["/env/bin/python", "-u", "-m", "snakemake"], True),
        (["vim", "snakemake"], False),
        (["python", "-m", "pip"], False),
    ],
)
def test_a_workflow_is_known_by_its_command_and_folder(tmp_path, monkeypatch, command, is_leader):
    here = Process(pid=1, command=command, folder=str(tmp_path))
    other = Process(pid=2, command=["snakemake"], folder="/")
    monkeypatch.setattr(surroundings.psutil, "process_iter", lambda: [here, other])
    assert controller_state(None, tmp_path) == ("alive" if is_leader else "unknown")


def test_lock(tmp_path):
    assert not is_locked(tmp_path)
    (tmp_path / ".snakemake" / "locks").mkdir(parents=True)
    assert not is_locked(tmp_path)
    (tmp_path / ".snakemake" / "locks" / "0.output.lock").touch()
    assert is_locked(tmp_path)


def test_markers_of_files_that_are_there(tmp_path):
    folder = tmp_path / ".snakemake" / "incomplete"
    folder.mkdir(parents=True)
    for name in ("results/tables/runs.csv", "results/gone.csv"):
        (folder / urlsafe_b64encode(name.encode()).decode()).touch()
    coded = urlsafe_b64encode(b"a/long/name.csv").decode()
    (folder / f"@{coded[:7]}").mkdir()
    (folder / f"@{coded[:7]}" / coded[7:]).touch()
    (folder / "no base64").touch()
    for name in ("results/tables/runs.csv", "a/long/name.csv"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    assert incomplete_files(tmp_path) == ["a/long/name.csv", "results/tables/runs.csv"]


def test_missing_data(tmp_path):
    datasets = (PlannedDataset(name="a", packed=True), PlannedDataset(name="b", packed=False))
    (tmp_path / "data" / "a").mkdir(parents=True)
    (tmp_path / "data" / "a" / "manifest.json").touch()
    assert missing_data(datasets, tmp_path) == ["data/a/packed/packed.json", "data/b/manifest.json"]


def test_spaces(tmp_path, monkeypatch):
    monkeypatch.setenv("SCRATCH", str(tmp_path))
    results, scratch = spaces(tmp_path, "${SCRATCH}/not/made/yet")
    assert results.free_bytes > 0
    assert scratch.place == str(tmp_path)
    monkeypatch.delenv("SCRATCH")
    assert spaces(tmp_path, "${SCRATCH}/hpcai")[1].free_bytes is None
    assert spaces(tmp_path, "${TMPDIR}/hpcai")[1].free_bytes > 0
    assert len(spaces(tmp_path, None)) == 1


def test_full_disk(tmp_path, monkeypatch):
    for free, is_full in ((LITTLE_SPACE_BYTES - 1, True), (LITTLE_SPACE_BYTES, False)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        assert spaces(tmp_path, None)[0].is_full == is_full


def test_report(tmp_path):
    folder = finish_run(tmp_path)
    names = [str(folder.relative_to(tmp_path))]
    assert "runs.parquet: not written yet" in report_problem(tmp_path, names)
    (tmp_path / "tables").mkdir()
    for path in (tmp_path / "tables" / "runs.parquet", tmp_path / "report.html"):
        path.touch()
    assert report_problem(tmp_path, names) == ""
    later = time.time() + 10
    os.utime(folder / "record.json", (later, later))
    assert f"older than {folder / 'record.json'}" in report_problem(tmp_path, names)


def test_profiled_runs_come_after_the_table_of_runs(tmp_path):
    for number, name in enumerate(("tables/runs.parquet", "profiles/io/c/r1/record.json", "report.html")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (1000 + number, 1000 + number))
    assert report_problem(tmp_path, ["profiles/io/c/r1"]) == ""
    os.utime(tmp_path / "report.html", (1000, 1000))
    assert "report.html: older" in report_problem(tmp_path, ["profiles/io/c/r1"])


def test_queue_is_that_of_the_working_folder(tmp_path):
    other = tmp_path / "other"
    lines = [
        f"17|PENDING|Resources|run-1|{tmp_path}|rule_train_wildcards_cosmoflow_fp32_n2x4_r1",
        f"18|RUNNING|None|run-1|{tmp_path}|rule_pack_data",
        f"19|RUNNING|None|interactive|{tmp_path}|(null)",
        f"20|RUNNING|None|run-2|{other}|rule_train",
        "slurm_load_jobs error: Unable to contact slurm controller",
    ]
    assert parse_queue("\n".join(lines), tmp_path) == (
        QueuedJob("17", "PENDING", "Resources", "run-1", "train cosmoflow_fp32_n2x4_r1"),
        QueuedJob("18", "RUNNING", "None", "run-1", "pack_data"),
    )


def fake_squeue(folder, script):
    program = folder / "squeue"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_squeue_is_asked(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert queued_jobs(tmp_path) is None
    fake_squeue(tmp_path, f'[ "$3" = "--format={COLUMNS}" ] && echo "7|RUNNING|None|run|{tmp_path}|rule_train"')
    assert queued_jobs(tmp_path) == (QueuedJob("7", "RUNNING", "None", "run", "train"),)
    fake_squeue(tmp_path, "exit 1")
    assert queued_jobs(tmp_path) is None
