"""Reads the journal of one workflow start (`HPCAI_JOURNAL`): what happened to its jobs."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

TIMED = {"record.json", "group.json"}
MEASURED = {*TIMED, "capture.json"}
"""Outputs of jobs whose folder tells how far they are."""


@dataclass
class Job:
    """One job; of one that is tried again the last try."""

    rule: str
    stage: str
    outputs: tuple[str, ...]
    logs: tuple[str, ...]
    wildcards: Mapping[str, str]
    started_s: float
    """Time of day [s]."""
    ended_s: float | None = None
    state: Literal["running", "done", "failed", "interrupted"] = "running"

    @property
    def name(self) -> str:
        """What it makes: the folder of a measurement, otherwise its rule with what tells it from the others."""
        if folder := self.folder:
            return str(folder.relative_to("results")) if folder.is_relative_to("results") else str(folder)
        return " ".join([self.rule, "/".join(self.wildcards.values())]).strip()

    @property
    def folder(self) -> Path | None:
        """Folder of the measurement that it makes; None: it makes none."""
        return next((Path(output).parent for output in self.outputs if Path(output).name in MEASURED), None)

    @property
    def is_timed(self) -> bool:
        """Whether it makes a timed run, or a weak-scaling group."""
        return any(Path(output).name in TIMED for output in self.outputs)

    def seconds(self, now_s: float) -> float:
        """How long it took, or has taken by now [s]."""
        return max((self.ended_s if self.ended_s is not None else now_s) - self.started_s, 0.0)


@dataclass
class Journal:
    """The jobs of one start, as far as they are written down; :meth:`read_on` reads what has been added."""

    path: Path
    jobs: dict[int, Job] = field(default_factory=dict)
    """By Snakemake's number, in the order of their start."""
    planned: Counter[str] = field(default_factory=Counter)
    """Jobs that are to be done, by rule; without those that only name a target."""
    stage_of: dict[str, str] = field(default_factory=dict)
    """Stage of each rule, in the order of the stages."""
    ending: bool = False
    """Whether an end was asked for: what ends badly from now on was interrupted."""
    _read_bytes: int = 0

    def read_on(self) -> None:
        """Take in whole lines that were added since the last call; nothing is read if there are none."""
        try:
            if self.path.stat().st_size == self._read_bytes:
                return
            with self.path.open("rb") as file:
                file.seek(self._read_bytes)
                added = file.read()
        except FileNotFoundError:
            return
        whole = added[: added.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        for line in whole.splitlines():
            self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        if event["event"] == "run_info":
            self.stage_of = event["stages"]
            self.planned = Counter({rule: count for rule, count in event["jobs"].items() if rule in self.stage_of})
        elif event["event"] == "job_info":
            self._start(event)
        elif job := self.jobs.get(event["number"]):
            job.ended_s = event["time_s"]
            job.state = "done" if event["event"] == "job_finished" else self._bad_end

    @property
    def _bad_end(self) -> Literal["failed", "interrupted"]:
        return "interrupted" if self.ending else "failed"

    def _start(self, event: dict[str, Any]) -> None:
        rule, number = event["rule"], event["number"]
        self.jobs.pop(number, None)
        if rule in self.stage_of:
            outputs, logs = tuple(event["output"]), tuple(event["log"])
            self.jobs[number] = Job(rule, self.stage_of[rule], outputs, logs, event["wildcards"], event["time_s"])

    @property
    def stages(self) -> list[str]:
        """Stages that have jobs in this start, in their order."""
        return list(dict.fromkeys(stage for rule, stage in self.stage_of.items() if self.planned[rule]))

    def planned_of(self, stage: str) -> int:
        """How many jobs of a stage are to be done."""
        return sum(count for rule, count in self.planned.items() if self.stage_of[rule] == stage)

    def in_state(self, state: str) -> list[Job]:
        """Jobs in a state, in the order of their start."""
        return [job for job in self.jobs.values() if job.state == state]

    def end_running(self, now_s: float) -> None:
        """Take what is still running for ended: the workflow has ended, and did not say so of each."""
        for job in self.in_state("running"):
            job.ended_s, job.state = now_s, self._bad_end


def read_journals(paths: Iterable[Path]) -> list[Journal]:
    """Read journals of earlier starts; one that is damaged is left out."""
    journals = []
    for path in paths:
        journal = Journal(path)
        try:
            journal.read_on()
        except (OSError, ValueError, KeyError):
            continue
        journals.append(journal)
    return journals
