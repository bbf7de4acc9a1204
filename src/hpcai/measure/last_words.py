"""Why a launcher failed, from what it and its ranks wrote."""

import os
import re
from pathlib import Path

TAIL_BYTES = 1 << 20
"""So much of an output's end is looked at: a run that floods its output must not use up the supervisor's memory."""
_LABEL = r"^(?:\d+: |\[[^\]]*\]<\w+>:)?\s*"
"""What srun (--label) and horovodrun put before each line."""
_SLURM = rf"{_LABEL}(?P<reason>(?:slurmstepd(?:-\S+)?|srun): error: "
REASONS = (
    re.compile(rf"{_SLURM}.*(?:oom[_-]kill|OOM Killed|Out Of Memory|[Ee]xceeded (?:\w+ )?memory limit).*)"),
    re.compile(rf"{_SLURM}Node failure on .*)"),
    re.compile(rf"{_SLURM}\*\*\* .* DUE TO .*?)(?: \*\*\*)?\s*$"),
    re.compile(r"hpcai\.errors\.\w+: (?P<reason>.*)"),
    re.compile(r"^(?P<reason>.*noticed that process rank \d+ .* exited on signal .*)$"),
    re.compile(rf"{_LABEL}(?P<reason>(?:[\w.]+\.)?\w*(?:Error|Exception)\b:.*|error: .*)$"),
    re.compile(r"^(?P<reason>.*(?:signal|[Kk]illed|Segmentation|terminated|exit code).*)$"),
    re.compile(r"^(?P<reason>.*\S.*)$"),
)
"""What tells best why a launcher failed, the best first: Slurm's word on memory, nodes and limits; our own error; a
rank that a signal ended (mpirun); any error; a signal; the last words."""
_OWN_ERROR = 3
_NODE_LOST = re.compile(rf"{_SLURM}(?:Node failure on |\*\*\* .* DUE TO NODE FAILURE).*?)(?: \*\*\*)?\s*$")
_TASKS_END = re.compile(r"^srun: error: \S+: tasks? [\d,-]+: (?P<how>.*)$")
"""How tasks ended, in the order in which they did (srun(1))."""
_KILLED = re.compile(r"\b(?:[Ss]ignal 9|Killed|status code (?:137|-9)|[Ee]xit code: (?:137|-9))")
_TOLD = re.compile(r"memory|oom|DUE TO|Node failure", re.IGNORECASE)
_KILLED_STATUS = (-9, 137)
KILLED = "killed by signal 9 (often: out of memory)"


def why(output: Path, exit_status: int) -> str:
    """Return the part of a launcher's output that tells best why it ended with this status."""
    number, reason = _best(_tail(output).splitlines())
    killed = _KILLED.search(reason) or (number == len(REASONS) - 1 and exit_status in _KILLED_STATUS)
    return f"{reason}: {KILLED}" if killed and not _TOLD.search(reason) else reason


def lost_node(output: Path) -> str:
    """Return the line of a launcher's output in which Slurm says that it lost a node of the run; blank if none does."""
    lines = _tail(output).splitlines()
    match = next((found for line in lines if (found := _NODE_LOST.search(line))), None)
    return match["reason"].strip()[:500] if match else ""


def _best(lines: list[str]) -> tuple[int, str]:
    """Return the place in REASONS of what tells best, and its words."""
    for number, pattern in enumerate(REASONS):
        # A task that was killed is why the others have lost it, unless it was killed because another one failed.
        if number == _OWN_ERROR + 1 and (ended := _first_end_by_signal(lines)):
            return number, ended
        match = next((found for line in reversed(lines) if (found := pattern.search(line))), None)
        if match:
            return number, match["reason"].strip()[:500]
    return len(REASONS) - 1, "no output"


def _first_end_by_signal(lines: list[str]) -> str:
    """Return srun's line on the tasks that ended first, if it was a signal that ended them; else blank."""
    first = next((line for line in lines if _TASKS_END.match(line.strip())), "").strip()
    return "" if not first or "Exited with exit code" in first or first.endswith("Terminated") else first[:500]


def _tail(output: Path) -> str:
    with output.open("rb") as stream:
        size_bytes = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size_bytes - TAIL_BYTES))
        return stream.read().decode(errors="replace")
