"""Acceptance on a real Slurm: healthy nodes pass; one that loses a fifth of its processor time is to be found."""

import csv
import os
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from slurm.campaigns import SlurmCampaign
from unit.refusals import told
from workflow_project import edit_yaml

from hpcai.core.files import file_sha256
from hpcai.records.acceptance import NONE_YET, NOT_PASSED, Accepted
from hpcai.records.run import read_part

CPU = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 100_000
RUN = "cosmoflow_mini/fp32/n1x1"
# The nodes share the cores of this machine, so they take turns.
SETTINGS = {
    "at_once": 1, "measure_s": 8, "file_bytes": "32 MiB", "benchmark": "slow", "training_steps": 80,
}  # fmt: skip
AGAIN = ("acceptance", "--forcerun", "measure_acceptance")


@pytest.fixture(scope="module")
def campaign(cluster, tmp_path_factory):
    """A study whose runs need an acceptance; its short training is a real one."""
    rows = ["slow real 1 2", "cosmoflow_mini fp32 1 1"]
    folder = tmp_path_factory.mktemp("acceptance")
    campaign = SlurmCampaign(folder, cluster, rows, acceptance=SETTINGS, requires_acceptance="1 h")
    edit_yaml(campaign.folder / "config/benchmarks/slow.yaml", data__train_samples=48)  # for six ranks as well
    return campaign


@contextmanager
def slowed(cluster, node, share):
    """Take a share of the processor time of a node away: its job's processes stand still at the end of each period."""
    group = CPU / f"hpcai-{os.getpid()}"
    try:
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
    except OSError as error:
        pytest.skip(f"needs the cpu controller of cgroup v1: {error}")
    quota_us = int((1 - share) * PERIOD_US * len(os.sched_getaffinity(0)))
    (group / "cpu.cfs_quota_us").write_text(str(quota_us))
    try:
        move(processes_of(cluster, node), group)
        yield
    finally:
        move(processes_of(cluster, node), CPU)
        cluster.wait_for(lambda: not (group / "cgroup.procs").read_text().split(), 30, "the group to be empty")
        group.rmdir()


def processes_of(cluster, node):
    root = psutil.Process(cluster._nodes[node].pid)
    return [root.pid, *(process.pid for process in root.children(recursive=True))]


def move(processes, group):
    for process in processes:
        try:
            (group / "cgroup.procs").write_text(str(process))
        except ProcessLookupError:
            continue


def verdicts(campaign):
    """Verdicts by subject, from the table."""
    with (campaign.folder / "results/acceptance/acceptance.csv").open() as table:
        return {row["subject"]: row["verdict"] for row in csv.DictReader(table) if row["measure"] == "all"}


@pytest.mark.slow
def test_healthy_nodes_pass_and_runs_rely_on_it(campaign):
    record = f"results/runs/{RUN}/r1/record.json"
    assert campaign.run(record, "--restart-times", "0") != 0
    told(campaign.output, NONE_YET)
    assert campaign.run("acceptance") == 0, campaign.output
    status, said = campaign.hpcai("acceptance")
    assert status == 0, said
    pairs = {"n1 + n2", "n1 + n3", "n2 + n3"}
    found = verdicts(campaign)
    assert {"n1", "n2", "n3", "all nodes"} <= set(found)
    assert {frozenset(name.split(" + ")) for name in found if " + " in name} == {
        frozenset(p.split(" + ")) for p in pairs
    }
    judged = campaign.folder / "results/acceptance/acceptance.json"
    accepted = read_part(Accepted, judged)
    measures = {one.measure for one in accepted.findings if one.value is not None}
    assert {"gemm fp32", "memory copy", "scratch write and fsync", "training", "training of all nodes"} <= measures
    assert {"allreduce latency", "allreduce bandwidth", "allreduce latency, ring of 3"} <= measures
    assert campaign.run(record) == 0, campaign.output
    assert campaign.record(RUN).provenance.acceptance.sha256 == file_sha256(judged)


@pytest.mark.slow
@pytest.mark.xfail(
    reason="a quota of 80 % makes a node 9 to 16 % slower, less than three nodes and 42 comparisons can tell from "
    "noise: docs/how-to/accept_a_machine.md"
)
def test_a_node_slowed_by_a_fifth_is_found(campaign):
    with slowed(campaign.cluster, "n2", 0.2):
        assert campaign.run(*AGAIN) == 0, campaign.output
    status, said = campaign.hpcai("acceptance")
    assert status in {2, 3}, said
    assert verdicts(campaign)["n2"] in {"suspicious", "broken"}
    assert {verdicts(campaign)[node] for node in ("n1", "n3")} == {"healthy"}
    campaign.hpcai("discard", f"results/runs/{RUN}", "--reason", "again")
    assert campaign.run(f"results/runs/{RUN}/r1/record.json", "--restart-times", "0") != 0
    told(campaign.output, NOT_PASSED)
