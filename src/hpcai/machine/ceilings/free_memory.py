"""Memory that a measurement may still use: of the machine, and of the job that runs it, whichever is less."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


@dataclass(frozen=True)
class FreeMemory:
    """Free memory [byte], and what sets it: the machine, a control group, or a limit of Slurm."""

    size_bytes: int
    limited_by: str


def free_memory(
    environment: Mapping[str, str] = os.environ, membership: Path = MEMBERSHIP, cgroups: Path = CGROUPS
) -> FreeMemory:
    """Return what this process can still allocate before the machine, its control groups or Slurm stop it.

    Slurm enforces a job's memory by control groups, or without them by polling the resident sets of its processes
    (``JobAcctGatherParams=OverMemoryKill``, slurm.conf(5)), so both are asked.
    """
    limits = [FreeMemory(psutil.virtual_memory().available, "the machine")]
    limits += _left_by_groups(membership, cgroups)
    limits += _left_by_slurm(environment)
    return min(limits, key=lambda limit: limit.size_bytes)


def _left_by_groups(membership: Path, cgroups: Path) -> Iterator[FreeMemory]:
    """Yield what each group with a limit leaves, from this process's own up to the root (cgroups(7))."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:  # not Linux, or no /proc
        return
    for line in lines:
        _, controllers, own = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        version = _V1 if controllers else _V2
        root = cgroups / "memory" if controllers else cgroups
        # In a container the path may be the host's: groups that are not there limit nothing that can be read.
        parts = Path(own.lstrip("/")).parts
        for depth in range(len(parts), -1, -1):
            left_bytes = version.left_bytes(root.joinpath(*parts[:depth]))
            if left_bytes is not None:
                yield FreeMemory(left_bytes, "the control group of the job")


@dataclass(frozen=True)
class _Files:
    """Files of a group's memory in one version of control groups."""

    limit: str
    used: str
    cached: str

    def left_bytes(self, group: Path) -> int | None:
        """Return limit less use; cached files that nobody uses give way. None where nothing limits."""
        try:
            limit = (group / self.limit).read_text().strip()
            used_bytes = int((group / self.used).read_text())
            cached = re.search(rf"^{self.cached} (\d+)$", (group / "memory.stat").read_text(), re.MULTILINE)
        except (OSError, ValueError):
            return None
        if not limit.isdigit():  # "max"
            return None
        return max(0, int(limit) - used_bytes + int(cached[1] if cached else 0))


_V1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2 = _Files("memory.max", "memory.current", "inactive_file")


_LIMITS_OF_SLURM = {
    "SLURM_MEM_PER_NODE": None,
    "SLURM_MEM_PER_CPU": "SLURM_CPUS_ON_NODE",
    "SLURM_MEM_PER_GPU": "SLURM_GPUS_ON_NODE",
}
"""Variables that limit a job's memory, and those that tell how many of each there are on this node."""


def _left_by_slurm(environment: Mapping[str, str]) -> Iterator[FreeMemory]:
    """Yield the limit of the job less this process: MiB per node, core or accelerator (sbatch(1)); 0 is no limit."""
    for name, times in _LIMITS_OF_SLURM.items():
        try:
            limit_mib = int(environment[name]) * (int(environment[times]) if times else 1)
        except (KeyError, ValueError):
            continue
        if limit_mib > 0:
            yield FreeMemory(max(0, (limit_mib << 20) - psutil.Process().memory_info().rss), name)
