"""Facts that a job of Slurm gets about itself."""

import pytest
from unit.measure.slurm_jobs import Scontrol, enter_job, outside_of_jobs
from unit.refusals import refused

from hpcai.config.machine import this_node
from hpcai.core.errors import LaunchError
from hpcai.slurm import allocation
from hpcai.slurm.allocation import NO_NODES, NO_SCONTROL, REFUSED, find_allocation

outside = pytest.fixture(autouse=True)(outside_of_jobs)


def test_outside_of_a_job_there_is_none():
    assert find_allocation() is None


def test_nodes_of_a_job(monkeypatch):
    enter_job(monkeypatch, Scontrol())
    job = find_allocation()
    assert (job.job_id, job.nodes) == ("7", ("n1", "n2", "n5"))


def test_a_controller_that_is_restarted_loses_no_run(monkeypatch):
    scontrol = Scontrol()
    scontrol.failures = allocation.TRIES - 1
    enter_job(monkeypatch, scontrol)
    assert find_allocation().nodes == ("n1", "n2", "n5")
    scontrol.failures = 99
    assert find_allocation().nodes == ("n1", "n2", "n5")  # known already


def test_a_controller_that_is_gone(monkeypatch):
    scontrol = Scontrol()
    scontrol.failures = 99
    enter_job(monkeypatch, scontrol)
    with refused(LaunchError, REFUSED, status=1, words="Unable to contact slurm controller"):
        find_allocation()


def test_a_job_that_has_no_nodes(monkeypatch):
    enter_job(monkeypatch, Scontrol(nodes="(null)"))
    with refused(LaunchError, NO_NODES, place="scontrol show job 7"):
        find_allocation()


def test_no_slurm_at_all(monkeypatch):
    enter_job(monkeypatch, Scontrol())
    monkeypatch.undo()
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(allocation._scontrol.retry, "sleep", lambda _: None)
    with refused(LaunchError, NO_SCONTROL):
        find_allocation()


def test_a_node_goes_by_the_name_that_slurm_has_for_it():
    assert this_node({"SLURMD_NODENAME": "n1"}) == "n1"
    assert "." not in this_node({})
