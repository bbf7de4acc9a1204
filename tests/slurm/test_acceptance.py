"""Acceptance on a real Slurm: healthy nodes pass; a node with slow products, storage or link is found."""

import csv
import os
import sys
from contextlib import ExitStack, contextmanager
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

CPU, STORAGE = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/blkio")  # controllers of cgroup v1
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
# Of a healthy node where the kernel limits them: less than this machine gives three nodes at once, whatever it does.
STORAGE_BYTES_PER_S, LINK_BIT_PER_S = 20e6, 400e6
LIMITED = SETTINGS | {"at_once": None, "passes": 8, "repeats": 3, "measure_s": 40}


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
def grouped(cluster, node, controller):
    """A control group of all processes of a node, jobs to come as well; its limits end with it."""
    group = controller / f"hpcai-{os.getpid()}-{node}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"needs the {controller.name} controller of cgroup v1: {error}")
    try:
        move(processes_of(cluster, node), group)
        yield group
    finally:
        move(processes_of(cluster, node), controller)
        cluster.wait_for(lambda: not (group / "cgroup.procs").read_text().split(), 30, "the group to be empty")
        group.rmdir()


@contextmanager
def limited(cluster, node):
    """A group of a node whose quota of processor time the block sets."""
    with grouped(cluster, node, CPU) as group:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        try:
            yield group
        finally:
            set_cores(group, None)


@contextmanager
def storage_of(cluster, node, bytes_per_s):
    """All files of a node are written and read no faster than that."""
    device = os.stat(cluster.scratch).st_dev
    disk = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    disk = disk.parent if (disk / "partition").exists() else disk  # limits apply to whole disks
    with grouped(cluster, node, STORAGE) as group:
        for way in ("read", "write"):
            number = (disk / "dev").read_text().strip()
            (group / f"blkio.throttle.{way}_bps_device").write_text(f"{number} {int(bytes_per_s)}")
        yield


@contextmanager
def link_of(cluster, node, bit_per_s):
    """The bridge sends a node no more than that."""
    limit = ["tbf", "rate", f"{int(bit_per_s)}bit", "burst", "256kb", "limit", "4mb"]
    cluster.on_bridge("tc", "qdisc", "replace", "dev", node, "root", *limit)
    try:
        yield
    finally:
        cluster.on_bridge("tc", "qdisc", "delete", "dev", node, "root")


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


def verdicts(campaign, measure="all"):
    """Verdicts by subject, from the table."""
    with (campaign.folder / "results/acceptance/acceptance.csv").open() as table:
        return {row["subject"]: row["verdict"] for row in csv.DictReader(table) if row["measure"] == measure}


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


@pytest.mark.slow
def test_slow_storage_and_a_slow_link_are_found(campaign):
    """Of a tenth, of one node each. All nodes have limits: the machine's own rates change by more than that."""
    edit_yaml(campaign.folder / "config/tiny.yaml", acceptance=LIMITED)
    slower = {storage_of: "n2", link_of: "n3"}
    usual = {storage_of: STORAGE_BYTES_PER_S, link_of: LINK_BIT_PER_S}
    with ExitStack() as limits:
        for limit, slow in slower.items():
            for node in campaign.cluster.nodes:
                rate = usual[limit] * (0.9 if node == slow else 1)
                limits.enter_context(limit(campaign.cluster, node, rate))
        assert campaign.run(*AGAIN) == 0, campaign.output
    status, said = campaign.hpcai("acceptance")
    assert status in {2, 3}, said
    of_storage = [f"{place} {way}" for place in ("scratch", "shared storage") for way in ("write and fsync", "read")]
    for measure, slow in (dict.fromkeys(of_storage, "n2") | {"allreduce bandwidth, best pair": "n3"}).items():
        found = verdicts(campaign, measure)
        assert {node for node in found if found[node] in {"suspicious", "broken"}} == {slow}, (measure, found)
