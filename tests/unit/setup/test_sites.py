"""Studies written for whole sites: every value has its command or a marked gap, and everything is valid."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from unit.refusals import refused
from unit.setup.recorded import NAMES, answers_of

from hpcai.config.load import load_study_file
from hpcai.core.errors import ConfigError
from hpcai.setup.command import NO_SLURM, _write, init, site_of
from hpcai.setup.files import machine_file, open_gaps

ROOT = Path(__file__).parents[3]
SALLOC = {"SLURM_JOB_ID": "7", "SLURM_JOB_PARTITION": "h100"}
"""Of the shell of salloc, which stays on the login node."""
IN_JOB = {**SALLOC, "SLURMD_NODENAME": "gh101"}
LOGIN: dict[str, str] = {}


class Written:
    """The files written for a site."""

    def __init__(self, folder, site, partition="", account="", environment=LOGIN, **changes):
        self.site = site_of(answers_of(site, **changes), partition, account, environment)
        _write(folder, self.site, ROOT)
        self.study = folder / "config/study.yaml"
        self.campaign = load_study_file(self.study)
        self.machine = self.campaign.machine
        (self.machine_file,) = (folder / "config/machines").glob("*.yaml")
        self.profile_file = folder / "profiles/slurm/config.yaml"

    @property
    def profile(self):
        return yaml.safe_load(self.profile_file.read_text())

    @property
    def resources(self):
        return self.profile["default-resources"]

    @property
    def gaps(self):
        files = [self.machine_file, *([self.profile_file] if self.profile_file.exists() else [])]
        return {gap.split(": ")[2] for gap in open_gaps(files)}

    def source(self, key):
        text = self.machine_file.read_text() + (self.profile_file.read_text() if self.profile_file.exists() else "")
        (line,) = [line for line in text.splitlines() if line.strip().startswith(f"{key}:")]
        return line.partition("  # ")[2]


@pytest.mark.parametrize("name", NAMES)
def test_every_site_gets_a_valid_study_whose_values_have_sources(tmp_path, name):
    written = Written(tmp_path / "study", name, partition="" if name != "mixed_25_05" else "long")
    assert written.campaign.plans()
    for key in ("nodes", "cores_per_node", "ranks_per_node"):
        assert written.source(key), key
    assert written.machine.device.peaks == {}, "peaks are never guessed"
    assert {"peaks"} <= written.gaps
    assert machine_file(written.campaign, written.study) == written.machine_file


def test_a_site_without_accounting(tmp_path):
    written = Written(tmp_path / "study", "plain_20_11")
    machine = written.machine
    assert (machine.name, machine.nodes, machine.cores_per_node) == ("plainsite_batch", 38, 36)
    assert machine.memory_bytes == 191000 * 2**20
    assert (machine.ranks_per_node, machine.cores_per_rank) == (2, 18)
    assert machine.storage.node_local == "/scratch/local/hpcai-scratch-${UID}"
    assert machine.storage.shared == "beegfs at /work"
    assert written.resources["slurm_partition"] == "batch"
    assert not {"slurm_account", "qos"} & set(written.resources)
    assert written.profile["slurm-status-command"] == "squeue"
    assert "set-resources" not in written.profile
    assert "acceptance" not in yaml.safe_load(written.study.read_text())
    assert written.campaign.study.limits.run_s == 900
    assert "openmpi/4.1.1" in written.machine_file.read_text()
    # The login node's processor differs from the nodes'.
    assert machine.device.model == ""
    # The node of another shape is down: the constraint is not needed now, but nothing else distinguishes the nodes.
    assert {"model", "nodes"} <= written.gaps


def test_accounts_partitions_and_limits_of_a_university(tmp_path):
    written = Written(tmp_path / "study", "university_23_02")
    # The most nodes that are alike; MaxNodes of the partition; the feature that the others lack.
    assert (written.machine.nodes, written.machine.cores_per_node) == (16, 48)
    assert "MaxNodes=16" in written.source("nodes")
    assert written.resources["constraint"] == "cascadelake"
    # Both the account for one partition and the one for all may use it; sacctmgr names the default.
    assert written.resources["slurm_account"] == "proj_ai"
    assert "teaching" in written.source("slurm_account")
    assert "proj_gpu" not in written.source("slurm_account")
    # Of accounts on another cluster of the same database neither names nor limits count.
    assert "proj_old" not in written.source("slurm_account")
    assert (written.profile["jobs"], written.resources["runtime"]) == (20, 240)
    assert written.machine.storage.node_local.startswith("${TMPDIR}")
    assert "node_local" in written.gaps
    # The login node's only port does not describe the nodes' network.
    assert written.machine.links.network is None
    assert "links.network" in written.gaps


@pytest.mark.parametrize(
    ("tres", "nodes"),
    [("node=6", 6), ("cpu=512,mem=2T", 5), ("cpu=40", 1), ("node=20", 16), ("gres/gpu=2", 16), ("", 16)],
)
def test_what_one_job_may_have_bounds_its_nodes(tmp_path, tres, nodes):
    """A node has 48 cores, which Slurm counts as 96 CPUs; the partition allows 16 nodes."""
    own = {"associations": f"uni-cluster 2|proj_ai||normal|normal|||{tres}"}
    for change in (*({"qos": f"part_general||{limits}||"} for limits in (f"{tres}|", f"|{tres}")), own):
        written = Written(tmp_path / "study", "university_23_02", **change)
        assert written.machine.nodes == nodes
        assert tres.split(",")[0] in written.source("nodes") or nodes == 16
        shutil.rmtree(tmp_path / "study")


@pytest.mark.parametrize(
    ("of_user", "of_account", "jobs"),
    [("4", "", 4), ("", "7", 7), ("4", "3", 3), ("0", "", 1), ("50", "", 20), ("", "", 20)],
)
def test_a_qos_bounds_the_jobs_in_the_queue(tmp_path, of_user, of_account, jobs):
    """The partition has a QOS, and so have the jobs, also if they name none."""
    for qos in ("part_general", "normal"):
        written = Written(tmp_path / qos, "university_23_02", qos=f"{qos}||||{of_user}|{of_account}")
        assert written.profile["jobs"] == jobs
        assert jobs == 20 or f"of QOS {qos}" in written.source("jobs")


def test_jobs_without_a_default_qos_have_the_limits_of_normal(tmp_path):
    limits = {"associations": "uni-cluster 2|proj_ai||high,normal||||", "qos": "normal|00:50:00||node=3||"}
    written = Written(tmp_path / "study", "university_23_02", **limits)
    assert (written.resources["runtime"], written.machine.nodes) == (50, 3)
    assert "MaxTRESPU of QOS normal" in written.source("nodes")


def test_another_account_has_limits_of_its_own(tmp_path):
    written = Written(tmp_path / "study", "university_23_02", account="teaching")
    assert written.resources["slurm_account"] == "teaching"
    assert written.resources["runtime"] == 240
    gpu = Written(tmp_path / "gpu", "university_23_02", partition="gpu", account="proj_gpu")
    assert gpu.profile["jobs"] == 10
    assert "MaxSubmit" in gpu.source("jobs")


def test_accelerators_and_what_a_node_keeps_for_itself(tmp_path):
    written = Written(tmp_path / "study", "university_23_02", partition="gpu")
    machine = written.machine
    assert (machine.accelerators_per_node, machine.ranks_per_node, machine.device.kind) == (4, 4, "gpu")
    assert (machine.nodes, machine.cores_per_node, machine.cores_per_rank) == (9, 60, 15)
    assert machine.memory_bytes == 500000 * 2**20
    assert "MaxMemPerNode=500000" in written.source("memory_bytes")
    assert machine.device.model == "a100"
    assert {"model", "memory_bytes", "software.container"} <= written.gaps
    assert written.resources["constraint"] in {"a100", "hdr", "milan"}
    # Reserved resources are subtracted unless a limit is lower.
    unlimited = answers_of("university_23_02")["partitions"].text.replace(
        "MaxMemPerNode=500000", "MaxMemPerNode=UNLIMITED"
    )
    free = Written(tmp_path / "free", "university_23_02", partition="gpu", partitions=unlimited)
    assert free.machine.memory_bytes == (515558 - 8192) * 2**20


def test_inside_an_allocation_the_node_itself_is_asked(tmp_path):
    written = Written(tmp_path / "study", "accelerators_24_11", environment=IN_JOB)
    machine = written.machine
    assert (machine.name, machine.nodes, machine.accelerators_per_node) == ("aicluster_h100", 16, 8)
    assert machine.device.model == "NVIDIA H100 80GB HBM3"
    assert machine.device.memory_bytes == 81559 * 2**20
    # As many CPUs as the partition gives a job; it remains open whether it then allocates whole nodes.
    assert machine.cores_per_node == 124
    assert machine.memory_bytes == 12000 * 128 * 2**20
    assert "cores_per_node" in written.gaps
    assert machine.storage.node_local == "/local/hpcai-scratch-${UID}"
    assert machine.links.network.bandwidth_bytes_per_s == 400e9 / 8
    assert "mlx5_0/1" in machine.links.network.source
    # Slurm forgets jobs too soon for squeue, but has accounting.
    assert written.profile["slurm-status-command"] == "sacct"
    # Two QOS may use the partition, but not the default one.
    assert "qos" not in written.resources
    assert "qos" in written.gaps


@pytest.mark.parametrize(
    ("environment", "changes"),
    [
        (SALLOC, {}),
        (IN_JOB | {"SLURMD_NODENAME": "gh999"}, {}),
        (IN_JOB, {"partition": "mig"}),
        (IN_JOB, {"nodes": "NodeName=gh101 RealMemory=1031000 Sockets=2 Partitions=h100"}),
        (IN_JOB, {"nodes": "NodeName=gh101 RealMemory=2058240 Sockets=4 Partitions=h100"}),
    ],
    ids=["salloc", "unknown", "partition", "memory", "sockets"],
)
def test_a_host_that_is_none_of_the_nodes_to_measure_on_is_not_described(tmp_path, environment, changes):
    written = Written(tmp_path / "study", "accelerators_24_11", environment=environment, **changes)
    assert written.resources["slurm_partition"] == changes.get("partition", "h100")
    assert written.machine.device.memory_bytes is None
    assert written.machine.links.network is None
    assert written.machine.storage.node_local.startswith("${TMPDIR}")


def test_on_a_login_node_of_the_same_site_the_node_is_not_known(tmp_path):
    written = Written(tmp_path / "study", "accelerators_24_11")
    assert written.machine.device.model == "h100"
    assert written.machine.device.memory_bytes is None
    assert written.machine.links.network is None
    assert written.machine.storage.node_local.startswith("${TMPDIR}"), "TmpFS has another name on each node"


def test_a_short_limit_shortens_runs_and_all_other_jobs(tmp_path):
    written = Written(tmp_path / "study", "mixed_25_05", account="geo")
    assert written.machine.name == "cluster_2mix_short"
    assert written.campaign.study.limits.run_s == 900
    assert written.resources["runtime"] == 40
    assert written.campaign.study.acceptance.limit_s == 40 * 60
    assert {one["runtime"] for one in written.profile["set-resources"].values()} == {40}
    assert written.machine.memory_bytes == 60000 * 2**20, "MaxMemPerNode of scontrol show config"
    shorter = answers_of("mixed_25_05")["partitions"].text.replace("MaxTime=00:40:00", "MaxTime=00:20:00")
    short = Written(tmp_path / "short", "mixed_25_05", account="geo", partitions=shorter)
    assert short.campaign.study.limits.run_s == 300, "(20 - 10) minutes for two attempts"
    assert short.campaign.study.acceptance.limit_s == 20 * 60


def test_memory_that_slurm_was_not_told_is_a_gap(tmp_path):
    sinfo = answers_of("plain_20_11")["sinfo"].text.replace("|191000|", "|1|")
    written = Written(tmp_path / "study", "plain_20_11", sinfo=sinfo)
    assert "memory_bytes" in written.gaps
    assert (written.machine.memory_bytes, written.resources["mem_mb"]) == (2**30, 1024)


def test_memory_of_a_cpu_may_be_limited_on_the_whole_cluster(tmp_path):
    config = answers_of("plain_20_11")["config"].text + "\nMaxMemPerCPU = 4000"
    written = Written(tmp_path / "study", "plain_20_11", config=config)
    assert written.machine.memory_bytes == 36 * 4000 * 2**20
    assert "scontrol show config: MaxMemPerCPU=4000" in written.source("memory_bytes")


def test_cpus_without_a_layout_are_not_sockets(tmp_path):
    """A node of `NodeName=c001 CPUs=64`, which may be 32 cores of two threads, and a virtual machine."""
    sinfo = answers_of("plain_20_11")["sinfo"].text
    flat = Written(tmp_path / "flat", "plain_20_11", sinfo=sinfo.replace("|2|18|1|", "|64|1|1|"))
    machine = flat.machine
    assert (machine.cores_per_node, machine.ranks_per_node, machine.cores_per_rank) == (64, 2, 32)
    assert "cores_per_node" in flat.gaps
    eight = Written(tmp_path / "eight", "plain_20_11", sinfo=sinfo.replace("|2|18|1|", "|8|1|1|"))
    assert (eight.machine.ranks_per_node, "cores_per_node" in eight.gaps) == (8, False)
    virtual = Written(tmp_path / "virtual", "workstation", lscpu="Core(s) per socket: 1\nSocket(s): 16")
    assert (virtual.machine.cores_per_node, virtual.machine.ranks_per_node) == (16, 2)


def test_a_limit_without_room_for_a_run_is_refused():
    shorter = answers_of("mixed_25_05")["partitions"].text.replace("MaxTime=00:40:00", "MaxTime=00:05:00")
    with pytest.raises(ConfigError, match=r"5 minutes.*--partition"):
        site_of(answers_of("mixed_25_05", partitions=shorter), environment=LOGIN)


def test_two_accounts_without_a_default_are_a_gap(tmp_path):
    written = Written(tmp_path / "study", "mixed_25_05")
    assert "slurm_account" not in written.resources
    assert "slurm_account" in written.gaps
    assert "bio, geo" in written.profile_file.read_text()
    denied = Written(tmp_path / "long", "mixed_25_05", partition="long")
    assert denied.resources["slurm_account"] == "geo"


def test_nodes_that_nothing_tells_apart_are_a_gap(tmp_path):
    written = Written(tmp_path / "study", "mixed_25_05", partition="long")
    assert written.machine.nodes == 4
    assert {"nodes", "constraint"} <= written.gaps


def test_two_types_of_accelerators_in_a_node_are_a_gap(tmp_path):
    written = Written(tmp_path / "study", "mixed_25_05", partition="duo")
    assert (written.machine.accelerators_per_node, written.machine.device.model) == (3, "")
    assert {"accelerators_per_node", "model"} <= written.gaps


def test_partitions_that_take_no_job_of_this_user_are_not_chosen():
    only = "\n".join(line for line in answers_of("mixed_25_05")["sinfo"].text.splitlines() if line.startswith("wide"))
    with pytest.raises(ConfigError, match="no partition with usable nodes"):
        site_of(answers_of("mixed_25_05", sinfo=only), environment=LOGIN)
    assert "condo" not in site_of(answers_of("university_23_02"), environment=LOGIN).profile.notes[0]
    own = site_of(answers_of("university_23_02", groups="pi_doe"), environment=LOGIN)
    assert "condo" in own.profile.notes[0]


def test_a_partition_that_is_not_there_is_named_with_all_that_are():
    with pytest.raises(ConfigError, match="batch, debug, fat"):
        site_of(answers_of("plain_20_11"), "gpu", environment=LOGIN)


def test_a_machine_without_slurm(tmp_path):
    written = Written(tmp_path / "study", "workstation", environment=IN_JOB)
    assert not written.profile_file.exists()
    machine = written.machine
    assert (machine.nodes, machine.cores_per_node, machine.ranks_per_node, machine.cores_per_rank) == (1, 16, 2, 8)
    assert machine.device.model == "NVIDIA RTX A6000"
    assert machine.storage.node_local == "/nvme/hpcai-scratch-${UID}"


def test_a_host_that_answers_nothing_is_all_gaps_and_still_valid(tmp_path):
    silent = dict.fromkeys([path.stem for path in (ROOT / "tests/data/sites/workstation").glob("*.txt")])
    written = Written(tmp_path / "study", "workstation", **silent)
    assert {"cores_per_node", "memory_bytes", "peaks", "node_local"} <= written.gaps
    assert "not answered: lscpu" in written.machine_file.read_text()


def test_what_a_site_prints_breaks_no_file(tmp_path):
    hostile = 'GPU "x"\x1b[1m: {evil: 1} # ${HOME}, 49140 MiB, 535.1'
    written = Written(tmp_path / "study", "workstation", gpus=hostile)
    assert written.machine.device.model.startswith('GPU "x"')


def test_gaps_are_found_with_their_lines(tmp_path):
    file = tmp_path / "box.yaml"
    file.write_text("name: box\n  # GAP peaks: the data sheet\n# a GAP: no\n")
    assert open_gaps([file]) == [f"{file}:2: open: peaks: the data sheet"]


def test_without_looking_around_a_study_for_every_machine_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")  # no command is available
    said = init(tmp_path / "new/study")
    campaign = load_study_file(tmp_path / "new/study/config/study.yaml")
    assert (campaign.machine.name, campaign.machine.cores_per_node) == ("two_cores", 2)
    assert "hpcai check config/study.yaml" in said
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["study"]


def test_the_next_command_reaches_a_folder_of_any_name(tmp_path):
    folder = tmp_path / "my study; no more"
    (said,) = [line for line in init(folder).splitlines() if line.startswith("next: cd ")]
    assert shlex.split(said)[2] == str(folder)


def test_a_folder_that_holds_something_is_refused(tmp_path):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(ConfigError, match="new or empty folder"):
        init(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "study").mkdir()
    init(tmp_path / "study", machine="My Box")
    assert (tmp_path / "study/config/machines/my_box.yaml").exists()


def test_partition_and_account_are_nothing_without_slurm(tmp_path):
    with pytest.raises(ConfigError, match="--here"):
        init(tmp_path / "study", partition="gpu")
    with pytest.raises(ConfigError, match="sinfo reports no partitions"):
        site_of(answers_of("workstation"), "gpu", environment=LOGIN)
    with refused(ConfigError, NO_SLURM, account="proj"):
        site_of(answers_of("workstation"), account="proj", environment=LOGIN)


def test_the_command_looks_around_here(tmp_path):
    """Whatever this host is, the files written for it are valid."""
    command = ["hpcai", "init", tmp_path / "study", "--here"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "expected at least" not in done.stderr:
        assert done.returncode == 0, done.stderr
        assert load_study_file(tmp_path / "study/config/study.yaml").plans()
