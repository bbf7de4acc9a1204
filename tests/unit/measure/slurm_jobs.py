"""Slurm's answers about jobs, as its commands give them."""

import subprocess
from collections.abc import Iterator

import pytest

from hpcai.slurm import allocation

DETAILS = (
    "JobId=7 JobName=train UserId=ada(1001) Requeue=1 Restarts=2 BatchFlag=1 RunTime=00:00:09 Partition=cpu "
    "ReqNodeList=n9 ExcNodeList=n8 NodeList={nodes} BatchHost=n1 NumNodes=3 NumCPUs=12 Command=/x/run.sh\n"
)


class Scontrol:
    """scontrol of a cluster with one job, number 7."""

    def __init__(self, *hosts: str, nodes: str = "n[1-2,5]") -> None:
        self.hosts, self.failures = hosts or ("n1", "n2", "n5"), 0
        self.details = DETAILS.format(nodes=nodes)

    def __call__(self, command: list[str], **_: object) -> subprocess.CompletedProcess:
        if self.failures:
            self.failures -= 1
            return subprocess.CompletedProcess(command, 1, stdout="", stderr="Unable to contact slurm controller\n")
        if command[1:3] == ["show", "job"]:
            assert command[-1] == "7"
            return subprocess.CompletedProcess(command, 0, stdout=self.details)
        assert command[1:3] == ["show", "hostnames"]
        return subprocess.CompletedProcess(command, 0, stdout="\n".join(self.hosts) + "\n")


def enter_job(monkeypatch: pytest.MonkeyPatch, scontrol: Scontrol) -> None:
    """Be inside the job, from which Snakemake's executor has removed all other variables."""
    allocation._read_allocation.cache_clear()
    monkeypatch.setattr(allocation.subprocess, "run", scontrol)
    monkeypatch.setattr(allocation._scontrol.retry, "sleep", lambda _: None)
    monkeypatch.setenv("SLURM_JOB_ID", "7")


def outside_of_jobs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Be outside of any job, also where the tests run in one."""
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    yield
    allocation._read_allocation.cache_clear()
