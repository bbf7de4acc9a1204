"""Failed jobs of a workflow and their reasons, from its journal, logs and Slurm's messages."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcai.campaign.journal import Job
from hpcai.core.messages import Message, at
from hpcai.measure.failure_reasons import tail_of

NO_REASON = Message("failures.no_reason", "no reason given")
LOST = Message("failures.lost", "{runs} failed: {reason}")

FILE = Path("logs/failures.jsonl")
"""Below the workflow's working folder: one JSON line per failed job (workflow/rules/journal.smk)."""
OUTCOMES_RULE = "require_results"
"""The rule that fails because of points without a result: the runs themselves give more details."""
LONGEST, NAMED = 500, 3
"""Largest number of characters of a reason, and of failed jobs named with it."""
_SBATCH = re.compile(r"SLURM sbatch failed\. The error message was '(?P<words>.*?)'\.?\s*$", re.MULTILINE | re.DOTALL)
"""How Snakemake's executor for Slurm quotes sbatch."""
_STAMP = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (?:[A-Z]+ )?")
_OWN_ERROR = re.compile(r"^(?:error: |hpcai\.core\.errors\.\w+: )")


@dataclass(frozen=True)
class Failure:
    """A failed job that has not succeeded since.

    Attributes
    ----------
    name
        Its product: the folder of a measurement, otherwise its rule with its distinguishing values.
    folder
        Folder of the measurement, below the results folder; blank for other jobs.
    reason
        In the words of Slurm, its log, or Snakemake.
    log
        File with more details; blank if there is none.
    is_refused
        Whether Slurm rejected it, so that it never started.
    """

    name: str
    folder: str
    reason: str
    log: str
    is_refused: bool


def failures_of(working_folder: Path) -> tuple[Failure, ...]:
    """Return the jobs that failed since the last start of the workflow and whose outputs are still missing."""
    last = {failed.outputs: (failed, message) for failed, message in _read(working_folder / FILE)}
    return tuple(
        _failure(failed, message, working_folder)
        for failed, message in last.values()
        if failed.rule != OUTCOMES_RULE and not all((working_folder / output).exists() for output in failed.outputs)
    )


def _read(path: Path) -> Iterator[tuple[Job, str]]:
    """Yield the recorded failures with Snakemake's message; lines cut off by a full disk are skipped."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            event: dict[str, Any] = json.loads(line)
            outputs, logs = tuple(map(str, event["output"])), tuple(map(str, event["log"]))
            yield Job(event["rule"], "", outputs, logs, {}, event["time_s"]), str(event["message"] or "")
        except (ValueError, KeyError, TypeError):
            continue


def _failure(failed: Job, message: str, working: Path) -> Failure:
    logs = [log for log in failed.logs if (working / log).is_file()]
    refused = _SBATCH.search(message)
    said = last_words(working / log) if (log := next(iter(logs), "")) else ""
    reason = (
        " ".join(refused["words"].split()) if refused else " ".join(said.split()) or message.partition("\n")[0].strip()
    )
    folder = failed.folder
    return Failure(
        name=failed.name if folder else f"{failed.rule} ({failed.outputs[0] if failed.outputs else 'no file'})",
        folder=failed.name if folder else "",
        reason=reason[:LONGEST] or NO_REASON(),
        log="" if refused else log,
        is_refused=refused is not None,
    )


def last_words(log: Path) -> str:
    """Return the end of a log: our own error in full, otherwise its last line; blank if it is empty."""
    try:
        lines = [line.rstrip() for line in tail_of(log).splitlines() if line.strip()]
    except OSError:
        return ""
    own = [number for number, line in enumerate(lines) if _OWN_ERROR.search(line)]
    said = lines[own[-1] :] if own else lines[-1:]
    return _OWN_ERROR.sub("", _STAMP.sub("", "\n".join(said))).strip()


def say_failures(failures: Sequence[Failure]) -> list[tuple[str, Failure]]:
    """Return, for each reason, one line with the jobs that failed and why, and the first of them."""
    by_reason: dict[str, list[Failure]] = {}
    for failure in failures:
        by_reason.setdefault(failure.reason, []).append(failure)
    return [(f"{_names([one.name for one in same])}: {reason}", same[0]) for reason, same in by_reason.items()]


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


@dataclass(frozen=True)
class LostPoint:
    """A point of the study whose runs all failed: their number, and the reason of the last failure."""

    name: str
    runs: int
    reason: str

    @property
    def words(self) -> str:
        """The point and its reason, in one line."""
        return at(
            str(self.name), LOST(runs="its run" if self.runs == 1 else f"all its {self.runs} runs", reason=self.reason)
        )
