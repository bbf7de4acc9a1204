"""Failed jobs of a workflow and the reasons, from its journal, their logs and Slurm's messages."""

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
"""The rule that fails because of points without a result: the runs themselves tell more."""
LONGEST, NAMED = 500, 3
"""So many characters of a reason and so many jobs that failed for it are told."""
_SBATCH = re.compile(r"SLURM sbatch failed\. The error message was '(?P<words>.*?)'\.?\s*$", re.MULTILINE | re.DOTALL)
"""How Snakemake's executor for Slurm tells what sbatch said."""
_STAMP = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (?:[A-Z]+ )?")
_OWN_ERROR = re.compile(r"^(?:error: |hpcai\.core\.errors\.\w+: )")


@dataclass(frozen=True)
class Failure:
    """A job that failed, and has not been made good since.

    Attributes
    ----------
    name
        What it makes: the folder of a measurement, otherwise its rule with what tells it from the others.
    folder
        Folder of the measurement, below the results folder; blank if it makes none.
    reason
        In the words of Slurm, of its log, or of Snakemake.
    log
        Where to read more; blank: nowhere.
    is_refused
        Whether Slurm rejected it, so that it never started.
    """

    name: str
    folder: str
    reason: str
    log: str
    is_refused: bool


def failures_of(working_folder: Path) -> tuple[Failure, ...]:
    """Return the jobs that failed since the workflow was last started, whose outputs are still missing."""
    last = {failed.outputs: (failed, message) for failed, message in _read(working_folder / FILE)}
    return tuple(
        _failure(failed, message, working_folder)
        for failed, message in last.values()
        if failed.rule != OUTCOMES_RULE and not all((working_folder / output).exists() for output in failed.outputs)
    )


def _read(path: Path) -> Iterator[tuple[Job, str]]:
    """Yield what is written down, with Snakemake's message; a line that a full disk has cut is left out."""
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
    """Return the last words of a log: our own error whole, otherwise its last line; blank if it has none."""
    try:
        lines = [line.rstrip() for line in tail_of(log).splitlines() if line.strip()]
    except OSError:
        return ""
    own = [number for number, line in enumerate(lines) if _OWN_ERROR.search(line)]
    said = lines[own[-1] :] if own else lines[-1:]
    return _OWN_ERROR.sub("", _STAMP.sub("", "\n".join(said))).strip()


def say_failures(failures: Sequence[Failure]) -> list[tuple[str, Failure]]:
    """Return, for each reason, which jobs failed for it and why in one line, and the first of them."""
    by_reason: dict[str, list[Failure]] = {}
    for failure in failures:
        by_reason.setdefault(failure.reason, []).append(failure)
    return [(f"{_names([one.name for one in same])}: {reason}", same[0]) for reason, same in by_reason.items()]


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


@dataclass(frozen=True)
class LostPoint:
    """A point of the study all of whose runs failed: how many, and why the last one did."""

    name: str
    runs: int
    reason: str

    @property
    def words(self) -> str:
        """The point and its reason, in one line."""
        return at(
            str(self.name), LOST(runs="its run" if self.runs == 1 else f"all its {self.runs} runs", reason=self.reason)
        )
