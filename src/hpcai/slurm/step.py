"""Steps of a Slurm job: how one is started, and what Slurm says of one that failed."""

import re
from collections.abc import Sequence

from hpcai.core.programs import find_program

LAST_RANK_WAIT_S = 300
"""Ranks end together, but the first of a node then removes what was staged there, which may take minutes."""
COMMON = ("--cpu-bind=none", "--export=ALL")
"""No --gpu-bind=none: Slurm 22.05 then takes CUDA_VISIBLE_DEVICES away. Without it all ranks see all of their node."""
RANKS_END_TOGETHER = ("--kill-on-bad-exit=1", f"--wait={LAST_RANK_WAIT_S}", "--input=none", "--label")
LABEL = r"^(?:\d+: |\[[^\]]*\]<\w+>:)?\s*"
"""What launchers may put before each line: srun with --label, and horovodrun."""
_SLURM = rf"{LABEL}(?P<reason>(?:slurmstepd(?:-\S+)?|srun): error: "
STEP_FAILURES = (
    re.compile(rf"{_SLURM}.*(?:oom[_-]kill|OOM Killed|Out Of Memory|[Ee]xceeded (?:\w+ )?memory limit).*)"),
    re.compile(rf"{_SLURM}Node failure on .*)"),
    re.compile(rf"{_SLURM}\*\*\* .* DUE TO .*?)(?: \*\*\*)?\s*$"),
)
"""Slurm's word on memory, nodes and limits, the best first."""
NODE_LOST = re.compile(rf"{_SLURM}(?:Node failure on |\*\*\* .* DUE TO NODE FAILURE).*?)(?: \*\*\*)?\s*$")
TASKS_END = re.compile(r"^srun: error: \S+: tasks? [\d,-]+: (?P<how>.*)$")
"""How tasks ended, in the order in which they did (srun(1))."""


def step_command(hosts: Sequence[str], ranks_per_node: int) -> list[str]:
    """Return srun with the layout of a step inside this job; nothing of it is left to the environment.

    A step sees all that the job was given of its nodes, and so does any other at the same time: no step waits for
    another, or for the memory of another. Ranks bind themselves to cores, in the same way under every launcher.
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
