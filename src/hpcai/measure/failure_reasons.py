"""Find out why a launcher failed, from its output and that of its ranks."""

import os
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcai.launchers.registry import LAUNCHERS
from hpcai.slurm.step import LABEL, NODE_LOST, STEP_FAILURES, TASKS_END

TAIL_BYTES = 1 << 20
"""Bytes read from the end of an output: a run that floods it must not exhaust the supervisor's memory."""
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
"""Patterns that explain a launcher's failure, the best first: Slurm's messages on memory, nodes and limits; our own
error; a full disk; a launcher's message on a rank ended by a signal; any error; a signal; the last line."""
_SIGNALLED = 128
"""A shell adds a signal's number to this value (bash(1), EXIT STATUS), and so does Horovod."""
_KILLED = re.compile(r"\b(?:[Ss]ignal 9|Killed|status code (?:137|-9)|[Ee]xit code: (?:137|-9))")
_TOLD = re.compile(r"memory|oom|DUE TO|Node failure", re.IGNORECASE)
_KILLED_STATUS = (-9, 137)
KILLED = "killed by signal 9 (often: out of memory)"


@dataclass(frozen=True)
class _FirstEnd:
    """The rank that ended first, and how, according to the launcher."""

    rank: int
    code: int
    label: str
    """The launcher's prefix of the rank's lines."""
    begin: int
    """Start of the launcher's own message, after which its text hides that of the ranks."""

    @classmethod
    def told(cls, text: str) -> "_FirstEnd | None":
        """Return the first end in a launcher's output; None if it reports none."""
        for launcher in LAUNCHERS.values():
            match = launcher.first_end and launcher.first_end.pattern.search(text)
            if launcher.first_end and match:
                rank = int(match["rank"])
                return cls(rank, int(match["code"]), launcher.first_end.label.format(rank=rank), match.start())
        return None

    @property
    def by_signal(self) -> str:
        """The rank and the signal that ended it, in words; blank without a signal."""
        number = self.code - _SIGNALLED
        if number not in set(signal.Signals):
            return ""
        how = KILLED if number == signal.SIGKILL else f"ended by signal {number} ({signal.Signals(number).name})"
        return f"rank {self.rank}: {how}"

    def words(self, lines: Sequence[str]) -> str:
        """Return how the rank ended, and its last line."""
        own = [line.partition(":")[2].strip() for line in lines if line.startswith(self.label)]
        last = next(filter(None, reversed(own)), "no output")
        return f"rank {self.rank}: ended with status {self.code}: {last}"[:500]


def why(output: Path, exit_status: int) -> str:
    """Return the part of a launcher's output that best explains its exit status."""
    number, reason = _best(tail_of(output))
    killed = _KILLED.search(reason) or (number == len(REASONS) - 1 and exit_status in _KILLED_STATUS)
    return f"{reason}: {KILLED}" if killed and not _TOLD.search(reason) else reason


def lost_node(output: Path) -> str:
    """Return the line in which Slurm reports a lost node of the run; blank if there is none."""
    lines = tail_of(output).splitlines()
    match = next((found for line in lines if (found := NODE_LOST.search(line))), None)
    return match["reason"].strip()[:500] if match else ""


def _best(text: str) -> tuple[int, str]:
    """Return the index in REASONS of the best explanation, and its text."""
    first = _FirstEnd.told(text)
    lines = (text[: first.begin] if first else text).splitlines()
    for number, pattern in enumerate(REASONS):
        # A killed task explains why the others lost it, unless it was killed because another one failed.
        if number == REASONS.index(_OWN_ERROR) + 1 and (ended := _first_end_by_signal(lines, first)):
            return number, ended
        if match := _last(pattern, lines, first):
            return number, match["reason"].strip()[:500]
        if pattern is _ANY_ERROR and first:
            # The patterns after this one would match the launcher's own text.
            return number, first.words(lines)
    return len(REASONS) - 1, "no output"


def _last(pattern: re.Pattern[str], lines: Sequence[str], first: _FirstEnd | None) -> re.Match[str] | None:
    """Return the last match of a pattern; for errors, that of the rank that ended first, which the others lost."""
    if pattern is _ANY_ERROR and first:
        own = [line for line in lines if line.startswith(first.label)]
        lines = own if any(map(pattern.search, own)) else lines
    return next((found for line in reversed(lines) if (found := pattern.search(line))), None)


def _first_end_by_signal(lines: Sequence[str], told: _FirstEnd | None) -> str:
    """Return the message on the first end if a signal caused it; else blank."""
    if told:
        return told.by_signal
    first = next((line for line in lines if TASKS_END.match(line.strip())), "").strip()
    return "" if not first or "Exited with exit code" in first or first.endswith("Terminated") else first[:500]


def tail_of(output: Path) -> str:
    """Return the end of a text file of any length."""
    with output.open("rb") as stream:
        size_bytes = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size_bytes - TAIL_BYTES))
        return stream.read().decode(errors="replace")
