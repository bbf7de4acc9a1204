"""Slurm's answers about a job, which may be missing, slow or unexpected."""

import pytest

from hpcai.slurm.job import down_nodes, own_job, state_of

LINE = (
    "JobId=17 JobName=x JobState=FAILED UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901759 Nice=0 "
    "Account=(null) QOS=(null) JobState=COMPLETING Reason=TimeLimit Dependency=(null) Requeue=1 Restarts=2 BatchFlag=1 "
    "Reboot=0 ExitCode=0:15 RunTime=00:00:03 TimeLimit=1-00:10:00 TimeMin=N/A EndTime=2026-11-22T05:00:42 "
    "PreemptEligibleTime=2026-11-22T04:51:43 PreemptTime=None NodeList=n[1-2] BatchHost=n1 NumNodes=2 "
    "Command=/run.sh JobState=PENDING WorkDir=/"
)


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Fake programs of Slurm with answers given by a test."""

    def install(name, script):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    own_job.cache_clear()
    yield install
    own_job.cache_clear()


def test_what_is_told(slurm):
    slurm("scontrol", f"echo 'JobId=171 JobState=RUNNING'; echo '{LINE}'")
    job = state_of("17")
    assert (job.job_id, job.state, job.reason, job.restarts) == ("17", "COMPLETING", "TimeLimit", 2)
    assert (job.nodes, job.time_limit_s, job.end_time) == ("n[1-2]", 87000, "2026-11-22T05:00:42")
    assert (job.preempted, job.has_ended) == (False, False)


def test_what_is_not_told_is_blank(slurm):
    slurm(
        "scontrol",
        "echo 'JobId=17 JobState=PREEMPTED Reason=None Restarts=? TimeLimit=UNLIMITED NodeList=(null) "
        "EndTime=Unknown PreemptTime=2026-11-22T04:51:43'",
    )
    job = state_of("17")
    assert (job.reason, job.restarts, job.nodes, job.time_limit_s, job.end_time) == ("", 0, "", None, "")
    assert (job.preempted, job.has_ended) == (True, True)


@pytest.mark.parametrize(
    "script",
    [
        "echo slurm_load_jobs error: Invalid job id specified >&2; exit 1",
        "sleep 60",
        "printf '\\377\\000garbage\\nJobId=17\\n'",
        "echo 'JobId=18 JobState=RUNNING'",
        "exit 127",
    ],
)
def test_no_answer_is_no_job(slurm, script):
    slurm("scontrol", f"exec {script}" if script.startswith("sleep") else script)
    assert state_of("17", ask_s=1.0) is None


def test_no_slurm_is_no_job(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert state_of("17") is None
    assert down_nodes("n[1-2]") == []


def test_the_own_job_is_asked_for_once(slurm, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert own_job() is None
    own_job.cache_clear()
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    slurm("scontrol", f"echo '{LINE}'")
    assert own_job().restarts == 2
    slurm("scontrol", "exit 1")
    assert own_job().restarts == 2


def test_failed_nodes(slurm):
    slurm("sinfo", "echo n3; echo n2; echo n3")
    assert down_nodes("n[1-3]") == ["n2", "n3"]
    assert down_nodes("") == []
