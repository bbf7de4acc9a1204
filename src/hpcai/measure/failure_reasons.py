"""Why a launcher failed, from what it and its ranks wrote."""

import os
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcai.launchers.registry import LAUNCHERS
from hpcai.slurm.step import LABEL, NODE_LOST, STEP_FAILURES, TASKS_END

TAIL_BYTES = 1 << 20
"""So much of an output's end is looked at: a run that floods its output must not use up the supervisor's memory."""
_OWN_ERROR = re.compile(r"hpcai\.core\.errors\.\w+: (?P<reason>.*)")
_ANY_ERROR = re.compile(rf"{LABEL}(?P<reason>(?:[\w.]+\.)?\w*(?:Error|Exception)\b:.*|error: .*)$")
REASONS = (
    *STEP_FAILURES,
    _OWN_ERROR,
    re.compile(rf"{LABEL}(?P<reason>.*(?:No space left on device|Disk quota exceeded).*)$"),
    *(words for launcher in LAUNCHERS.values() for words in launcher.failure_words),
    _ANY_ERROR,
    re.compile(r"^(?P<reason>.*(?:signal|[Kk]illed|Segmentation|terminated|exit code).*)$"),
    re.compile(r"^(?P<reason>.*\S.*)$"),
)
"""What tells best why a launcher failed, the best first: Slurm's word on memory, nodes and limits; our own error; a
full disk; a launcher's word on a rank that a signal ended; any error; a signal; the last words."""
_SIGNALLED = 128
"""A shell adds a signal's number to this (bash(1), EXIT STATUS), as Horovod does."""
_KILLED = re.compile(r"\b(?:[Ss]ignal 9|Killed|status code (?:137|-9)|[Ee]xit code: (?:137|-9))")
_TOLD = re.compile(r"memory|oom|DUE TO|Node failure", re.IGNORECASE)
_KILLED_STATUS = (-9, 137)
KILLED = "killed by signal 9 (often: out of memory)"


@dataclass(frozen=True)
class _FirstEnd:
    """Which rank ended first, and how, by a launcher's word."""

    rank: int
    code: int
    label: str
    """What the launcher puts before each of the rank's lines."""
    begin: int
    """Where the launcher's word begins: what it says of its own end hides what the ranks have said before."""

    @classmethod
    def told(cls, text: str) -> "_FirstEnd | None":
        """Return what a launcher's output tells; None if it does not tell."""
        for launcher in LAUNCHERS.values():
            match = launcher.first_end and launcher.first_end.pattern.search(text)
            if launcher.first_end and match:
                rank = int(match["rank"])
                return cls(rank, int(match["code"]), launcher.first_end.label.format(rank=rank), match.start())
        return None

    @property
    def by_signal(self) -> str:
        """The rank and the signal that ended it, in words; blank if it was none."""
        number = self.code - _SIGNALLED
        if number not in set(signal.Signals):
            return ""
        how = KILLED if number == signal.SIGKILL else f"ended by signal {number} ({signal.Signals(number).name})"
        return f"rank {self.rank}: {how}"

    def words(self, lines: Sequence[str]) -> str:
        """Return how the rank ended, and its last words."""
        own = [line.partition(":")[2].strip() for line in lines if line.startswith(self.label)]
        last = next(filter(None, reversed(own)), "no output")
        return f"rank {self.rank}: ended with status {self.code}: {last}"[:500]


def why(output: Path, exit_status: int) -> str:
    """Return the part of a launcher's output that tells best why it ended with this status."""
    number, reason = _best(tail_of(output))
    killed = _KILLED.search(reason) or (number == len(REASONS) - 1 and exit_status in _KILLED_STATUS)
    return f"{reason}: {KILLED}" if killed and not _TOLD.search(reason) else reason


def lost_node(output: Path) -> str:
    """Return the line of a launcher's output in which Slurm says that it lost a node of the run; blank if none does."""
    lines = tail_of(output).splitlines()
    match = next((found for line in lines if (found := NODE_LOST.search(line))), None)
    return match["reason"].strip()[:500] if match else ""


def _best(text: str) -> tuple[int, str]:
    """Return the place in REASONS of what tells best, and its words."""
    first = _FirstEnd.told(text)
    lines = (text[: first.begin] if first else text).splitlines()
    for number, pattern in enumerate(REASONS):
        # A task that was killed is why the others have lost it, unless it was killed because another one failed.
        if number == REASONS.index(_OWN_ERROR) + 1 and (ended := _first_end_by_signal(lines, first)):
            return number, ended
        if match := _last(pattern, lines, first):
            return number, match["reason"].strip()[:500]
        if pattern is _ANY_ERROR and first:
            # What follows in this order would find the launcher's own words.
            return number, first.words(lines)
    return len(REASONS) - 1, "no output"


def _last(pattern: re.Pattern[str], lines: Sequence[str], first: _FirstEnd | None) -> re.Match[str] | None:
    """Return the last match of a pattern; of errors the one of the rank that ended first, which the others lost."""
    if pattern is _ANY_ERROR and first:
        own = [line for line in lines if line.startswith(first.label)]
        lines = own if any(map(pattern.search, own)) else lines
    return next((found for line in reversed(lines) if (found := pattern.search(line))), None)


def _first_end_by_signal(lines: Sequence[str], told: _FirstEnd | None) -> str:
    """Return the word on what ended first, if it was a signal that ended it; else blank."""
    if told:
        return told.by_signal
    first = next((line for line in lines if TASKS_END.match(line.strip())), "").strip()
    return "" if not first or "Exited with exit code" in first or first.endswith("Terminated") else first[:500]


def tail_of(output: Path) -> str:
    """Return the end of a text file, however long it is."""
    with output.open("rb") as stream:
        size_bytes = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size_bytes - TAIL_BYTES))
        return stream.read().decode(errors="replace")
