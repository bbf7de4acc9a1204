"""Free memory: of the machine, of control groups of both versions, and of a job of Slurm."""

import psutil
import pytest

from hpcai.machine.ceilings.free_memory import free_memory

MIB = 1 << 20
NAMES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}
LINES = {1: "4:memory:/slurm/job_7\n0::/", 2: "0::/slurm/job_7"}


@pytest.fixture
def free(tmp_path):
    """Free memory of a process in a group of a version, and in a job with an environment."""

    def of(version: int = 2, **environment: str):
        member = tmp_path / "cgroup"
        member.write_text(LINES[version] + "\n")
        return free_memory(environment, member, tmp_path)

    return of


def group(root, version, place, limit, used_mib=0, cached_mib=0):
    folder = root / ("memory" if version == 1 else "") / place
    folder.mkdir(parents=True, exist_ok=True)
    limit_name, used_name, cached_name = NAMES[version]
    (folder / limit_name).write_text(f"{limit}\n")
    (folder / used_name).write_text(f"{used_mib * MIB}\n")
    (folder / "memory.stat").write_text(f"active_file 1\n{cached_name} {cached_mib * MIB}\n")


def test_without_limits_it_is_the_machines(free):
    found = free()
    assert found.limited_by == "the machine"
    assert 0 < found.size_bytes <= psutil.virtual_memory().total


@pytest.mark.parametrize("version", [1, 2])
def test_a_group_leaves_its_limit_less_its_use_but_caches_of_files_give_way(free, tmp_path, version):
    group(tmp_path, version, "slurm/job_7", 100 * MIB, used_mib=60, cached_mib=20)
    found = free(version)
    assert found.size_bytes == 60 * MIB
    assert "control group" in found.limited_by


@pytest.mark.parametrize("version", [1, 2])
def test_the_tightest_of_the_groups_above_counts(free, tmp_path, version):
    group(tmp_path, version, "slurm/job_7", "max" if version == 2 else (1 << 63) - 4096)
    group(tmp_path, version, "slurm", 50 * MIB, used_mib=20)
    group(tmp_path, version, "", 40 * MIB, used_mib=5)
    assert free(version).size_bytes == 30 * MIB


def test_a_group_that_is_used_up_leaves_nothing(free, tmp_path):
    group(tmp_path, 2, "slurm/job_7", 10 * MIB, used_mib=20)
    assert free().size_bytes == 0


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        ({"SLURM_MEM_PER_NODE": "2048"}, "SLURM_MEM_PER_NODE"),
        ({"SLURM_MEM_PER_CPU": "512", "SLURM_CPUS_ON_NODE": "4"}, "SLURM_MEM_PER_CPU"),
        ({"SLURM_MEM_PER_GPU": "1024", "SLURM_GPUS_ON_NODE": "2"}, "SLURM_MEM_PER_GPU"),
    ],
)
def test_a_job_of_slurm_leaves_its_limit_less_this_process(free, limits, name):
    found = free(**limits)
    assert found.limited_by == name
    assert 0 < found.size_bytes < 2048 * MIB


@pytest.mark.parametrize("value", ["0", "all"])
def test_no_limit_of_slurm_is_none(free, value):
    assert free(SLURM_MEM_PER_NODE=value).limited_by == "the machine"
