"""Acceptance on a real Slurm: healthy nodes pass; one whose matrix products a limit slows is found."""

import csv
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import psutil
import pytest
from slurm.campaigns import SlurmCampaign
from unit.refusals import told
from workflow_project import edit_yaml

from hpcai.core.files import file_sha256
from hpcai.machine.ceilings import sustained
from hpcai.machine.ceilings.sampling import Sample
from hpcai.records.acceptance import NONE_YET, NOT_PASSED, Accepted
from hpcai.records.files import read_part

CPU = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 100_000
CORES = 2  # of the machine file
# Least distance from the wanted loss, in rates that noise moves by a few percent, and attempts to come that near.
TOLERANCE, TRIALS = 0.03, 5
RUN = "cosmoflow_mini/fp32/n1x1"
# The nodes share the cores of this machine, so they take turns, and differ less than nodes of their own do.
SETTINGS = {
    "at_once": 1, "passes": 12, "assumed_spread_ratio": 0.005, "measure_s": 8, "file_bytes": "32 MiB",
    "benchmark": "slow", "training_steps": 80,
}  # fmt: skip
AGAIN = ("acceptance", "--forcerun", "measure_acceptance")


@pytest.fixture(scope="module")
def campaign(cluster, tmp_path_factory):
    """A study whose runs need an acceptance; its short training is a real one."""
    rows = ["slow real 1 2", "cosmoflow_mini fp32 1 1"]
    folder = tmp_path_factory.mktemp("acceptance")
    campaign = SlurmCampaign(folder, cluster, rows, acceptance=SETTINGS, requires_acceptance="1 h")
    edit_yaml(campaign.folder / "config/benchmarks/slow.yaml", data__train_samples=48)  # for six ranks as well
    # Copies need arrays larger than the caches, which may be hundreds of MiB: the jobs have all memory of their node.
    node_mib = cluster.run("sinfo", "--noheader", "--partition=cpu", "--format=%m").stdout.split()[0]
    edit_yaml(campaign.folder / "config/machines/box.yaml", memory_bytes=f"{int(node_mib)} MiB")
    return campaign


@contextmanager
def limited(cluster, node):
    """A group of all processes of a node, jobs to come as well, whose quota of processor time the block sets."""
    group = CPU / f"hpcai-{os.getpid()}"
    try:
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
    except OSError as error:
        pytest.skip(f"needs the cpu controller of cgroup v1: {error}")
    try:
        move(processes_of(cluster, node), group)
        yield group
    finally:
        set_cores(group, None)
        move(processes_of(cluster, node), CPU)
        cluster.wait_for(lambda: not (group / "cgroup.procs").read_text().split(), 30, "the group to be empty")
        group.rmdir()


def set_cores(group, cores):
    """Set the processor time of a group, in cores; None: no limit."""
    quota_us = "-1" if cores is None else str(int(cores * PERIOD_US))
    (group / "cpu.cfs_quota_us").write_text(quota_us)


def gemm_rate(cluster, node):
    """Median rate of the acceptance's own matrix products in a job on a node."""
    options = ["--threads", CORES, "--device", "cpu", "--repeats", 9, "--precision", 0.02, "--longest-s", 8]
    job = ["srun", f"--nodelist={node}", "--nodes=1", "--ntasks=1", f"--cpus-per-task={CORES}"]
    done = cluster.run(*job, sys.executable, "-m", sustained.MODULE, *options, "--window-s", 0.5)
    return median(Sample.model_validate_json(line).value for line in done.stdout.splitlines())


def loss_of(cluster, node, group, cores):
    """Loss of a node's rate by a limit, measured between two rates without it."""
    rates = []
    for limit in (None, cores, None):
        set_cores(group, limit)
        rates.append(gemm_rate(cluster, node))
    set_cores(group, cores)
    return 1 - rates[1] / ((rates[0] + rates[2]) / 2)


def slow_down(cluster, node, group, share):
    """Limit a node so that its rate falls by a share: healthy nodes do not use all of their cores all of the time."""
    cores, found = (1 - share) * CORES, []
    for _ in range(TRIALS):
        found.append(loss_of(cluster, node, group, cores))
        if abs(found[-1] - share) <= TOLERANCE:
            return cores
        cores *= (1 - share) / (1 - found[-1])
    pytest.fail(f"{node}: losses of {found} instead of {share}: the host is too busy to slow a node by a known share")


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
@pytest.mark.parametrize("share", [0.2, 0.1])
def test_a_slowed_node_is_found(campaign, share):
    with limited(campaign.cluster, "n2") as group:
        cores = slow_down(campaign.cluster, "n2", group, share)
        assert campaign.run(*AGAIN) == 0, campaign.output
        after = loss_of(campaign.cluster, "n2", group, cores)
    assert after == pytest.approx(share, abs=2 * TOLERANCE), "the node was not slowed by that share all the time"
    status, said = campaign.hpcai("acceptance")
    assert status in {2, 3}, said
    assert verdicts(campaign)["n2"] in {"suspicious", "broken"}
    assert {verdicts(campaign)[node] for node in ("n1", "n3")} == {"healthy"}
    campaign.hpcai("discard", f"results/runs/{RUN}", "--reason", "again")
    assert campaign.run(f"results/runs/{RUN}/r1/record.json", "--restart-times", "0") != 0
    told(campaign.output, NOT_PASSED)
