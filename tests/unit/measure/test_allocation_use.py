"""What an attempt was given: Slurm's words to numbers, and what is not told stays unknown."""

import os
import stat
from pathlib import Path

import pytest

from hpcai.measure import allocation_use
from hpcai.measure.allocation_use import (
    ALLOCATION,
    AllocationUse,
    duration_in_seconds,
    read_slurm_job,
    size_in_bytes,
    write_allocation,
)
from hpcai.records.files import read_part

JOB = (
    "JobId=17 JobName=Partition=odd NumNodes=9 UserId=somebody(1000) GroupId=somebody(1000) "
    "MCS_label=N/A Priority=4294901759 Nice=0 "
    "Account=secret QOS=normal JobState=RUNNING Reason=None Dependency=(null) Requeue=0 Restarts=0 BatchFlag=1 "
    "Reboot=0 ExitCode=0:0 RunTime=00:00:05 TimeLimit=1-02:03:04 TimeMin=N/A SubmitTime=2026-11-22T04:40:00 "
    "EligibleTime=2026-11-22T04:40:00 AccrueTime=2026-11-22T04:40:00 StartTime=2026-11-22T04:41:30 "
    "EndTime=2026-11-23T06:44:34 Deadline=N/A Partition=cpu AllocNode:Sid=login:99 ReqNodeList=(null) NodeList=n[1-2] "
    "BatchHost=n1 NumNodes=2 NumCPUs=8 NumTasks=2 CPUs/Task=2 ReqB:S:C:T=0:0:*:* TRES=cpu=8,mem=9.50G,node=2,billing=8 "
    "Socks/Node=* NtasksPerN:B:S:C=1:0:*:* CoreSpec=* MinCPUsNode=2 MinMemoryNode=4864M MinTmpDiskNode=0 "
    "Features=(null) OverSubscribe=NO Command=/run TRES=cpu=99 WorkDir=/here Comment=rule_train NumNodes=9 Power= \n"
)


def test_job_is_read_without_names_and_accounts() -> None:
    found = read_slurm_job(JOB, "17")
    assert found == AllocationUse(
        source="scontrol show job",
        slurm_job="17",
        restarts=0,
        partition="cpu",
        nodes=2,
        cores=8,
        memory_bytes=int(9.5 * 2**30),
        time_limit_s=((24 + 2) * 60 + 3) * 60 + 4,
        queue_wait_s=90,
    )
    assert "secret" not in found.model_dump_json()
    assert "somebody" not in found.model_dump_json()


def test_newer_slurm_tells_what_was_allocated() -> None:
    newer = JOB.replace("TRES=cpu=8,", "ReqTRES=cpu=2,mem=1G,node=1,billing=2 AllocTRES=cpu=16,")
    assert read_slurm_job(newer, "17").cores == 16


def test_wait_of_a_requeued_job_is_not_known() -> None:
    found = read_slurm_job(JOB.replace("Restarts=0", "Restarts=2"), "17")
    assert (found.restarts, found.queue_wait_s) == (2, None)


@pytest.mark.parametrize("text", ["", "slurm_load_jobs error: Invalid job id specified", JOB.replace("=17 ", "=18 ")])
def test_silence_is_a_reason_and_no_number(text: str) -> None:
    found = read_slurm_job(text, "17")
    assert found.source == "none"
    assert "scontrol show job 17" in found.reason
    assert (found.nodes, found.cores, found.memory_bytes, found.time_limit_s) == (None, None, None, None)


def test_missing_parts_are_named() -> None:
    found = read_slurm_job("JobId=17 NumNodes=1 NumCPUs=4 TimeLimit=UNLIMITED TRES=cpu=4,node=1", "17")
    assert (found.nodes, found.cores, found.memory_bytes, found.time_limit_s) == (1, 4, None, None)
    assert found.reason == "scontrol does not tell memory_bytes"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("600M", 600 << 20), ("1.5G", 3 << 29), ("300", 300 << 20), ("0", 0), ("", None), ("x", None)],
)
def test_sizes(text: str, expected: int | None) -> None:
    assert size_in_bytes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("00:10:00", 600.0), ("2-00:00:01", 172801.0), ("00:01.250", 1.25), ("UNLIMITED", None)]
)
def test_durations(text: str, expected: float | None) -> None:
    assert duration_in_seconds(text) == expected


def test_outside_slurm_it_is_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    write_allocation(tmp_path)
    found = read_part(AllocationUse, tmp_path / ALLOCATION)
    assert found.source == "operating system"
    assert found.nodes == 1
    assert found.cores == len(os.sched_getaffinity(0))
    assert found.time_limit_s is None


def test_the_controller_is_asked_once_for_all_instances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setattr(allocation_use, "_ask_slurm", lambda job: asked.append(job) or JOB)
    folders = [tmp_path / name for name in ("i1", "i2")]
    for folder in folders:
        folder.mkdir()
    write_allocation(*folders)
    assert asked == ["17"]
    assert [read_part(AllocationUse, folder / ALLOCATION).cores for folder in folders] == [8, 8]


def test_inside_slurm_the_controller_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "scontrol"
    script.write_text(f"#!/bin/sh\n[ \"$*\" = 'show job -o 17' ] || exit 1\ncat <<'END'\n{JOB}END\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    write_allocation(tmp_path)
    assert read_part(AllocationUse, tmp_path / ALLOCATION).cores == 8
    monkeypatch.setenv("SLURM_JOB_ID", "18")
    write_allocation(tmp_path)
    assert read_part(AllocationUse, tmp_path / ALLOCATION).source == "none"
