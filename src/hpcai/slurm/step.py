"""Steps of a Slurm job: how to start one, and Slurm's messages about a failed one."""

import re
from collections.abc import Sequence

from hpcai.core.programs import find_program

LAST_RANK_WAIT_S = 300
"""Ranks end together, but the first one of a node then removes the staged data, which may take minutes."""
COMMON = ("--cpu-bind=none", "--export=ALL")
"""No --gpu-bind=none: with it, Slurm 22.05 removes CUDA_VISIBLE_DEVICES. Without it, all ranks see the whole node."""
RANKS_END_TOGETHER = ("--kill-on-bad-exit=1", f"--wait={LAST_RANK_WAIT_S}", "--input=none", "--label")
LABEL = r"^(?:\d+: |\[[^\]]*\]<\w+>:)?\s*"
"""Optional line prefixes of launchers: srun with --label, and horovodrun."""
_SLURM = rf"{LABEL}(?P<reason>(?:slurmstepd(?:-\S+)?|srun): error: "
STEP_FAILURES = (
    re.compile(rf"{_SLURM}.*(?:oom[_-]kill|OOM Killed|Out Of Memory|[Ee]xceeded (?:\w+ )?memory limit).*)"),
    re.compile(rf"{_SLURM}Node failure on .*)"),
    re.compile(rf"{_SLURM}\*\*\* .* DUE TO .*?)(?: \*\*\*)?\s*$"),
)
"""Slurm's messages on memory, nodes and limits, the best first."""
NODE_LOST = re.compile(rf"{_SLURM}(?:Node failure on |\*\*\* .* DUE TO NODE FAILURE).*?)(?: \*\*\*)?\s*$")
TASKS_END = re.compile(r"^srun: error: \S+: tasks? [\d,-]+: (?P<how>.*)$")
"""How tasks ended, in order (srun(1))."""


def step_command(hosts: Sequence[str], ranks_per_node: int) -> list[str]:
    """Return srun with the layout of a step inside this job; nothing is left to the environment.

    A step sees all of the job's resources on its nodes, and so does any concurrent one: no step waits for another, or
    for its memory. Ranks bind themselves to cores, in the same way under every launcher.
    """
    return [
        find_program("srun"),
        f"--nodes={len(hosts)}",
        f"--ntasks={len(hosts) * ranks_per_node}",
        f"--ntasks-per-node={ranks_per_node}",
        f"--nodelist={','.join(hosts)}",
        "--distribution=block:block",
        "--overlap",
        "--mem=0",
        *COMMON,
    ]
