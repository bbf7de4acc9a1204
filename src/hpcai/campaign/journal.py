"""Read the journal of one workflow start (`HPCAI_JOURNAL`): the history of its jobs."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

TIMED = {"record.json", "group.json"}
MEASURED = {*TIMED, "capture.json"}
"""Outputs of jobs whose folder shows their progress."""


@dataclass
class Job:
    """One job; after retries, the last try."""

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
        """Its product: the folder of a measurement, otherwise its rule with its distinguishing values."""
        if folder := self.folder:
            return str(folder.relative_to("results")) if folder.is_relative_to("results") else str(folder)
        return " ".join([self.rule, "/".join(self.wildcards.values())]).strip()

    @property
    def folder(self) -> Path | None:
        """Folder of its measurement; None for other jobs."""
        return next((Path(output).parent for output in self.outputs if Path(output).name in MEASURED), None)

    @property
    def is_timed(self) -> bool:
        """Whether it makes a timed run or a weak-scaling group."""
        return any(Path(output).name in TIMED for output in self.outputs)

    def seconds(self, now_s: float) -> float:
        """Its duration, so far if it is running [s]."""
        return max((self.ended_s if self.ended_s is not None else now_s) - self.started_s, 0.0)


@dataclass
class Journal:
    """The jobs of one start, as far as recorded; :meth:`read_on` reads additions."""

    path: Path
    jobs: dict[int, Job] = field(default_factory=dict)
    """By Snakemake's number, in the order of their start."""
    planned: Counter[str] = field(default_factory=Counter)
    """Planned jobs by rule, without those that only name a target."""
    stage_of: dict[str, str] = field(default_factory=dict)
    """Stage of each rule, in the order of the stages."""
    rounds: tuple[str, ...] = ()
    """Published rounds of the study, as it names them."""
    ending: bool = False
    """Whether an end was requested: jobs that fail afterwards were interrupted."""
    _read_bytes: int = 0

    def read_on(self) -> None:
        """Read complete lines added since the last call; nothing is read if there are none."""
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
            self.stage_of, self.rounds = event["stages"], tuple(event.get("rounds", ()))
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
        """Stages with jobs in this start, in order."""
        return list(dict.fromkeys(stage for rule, stage in self.stage_of.items() if self.planned[rule]))

    def planned_of(self, stage: str) -> int:
        """Return the number of planned jobs of a stage."""
        return sum(count for rule, count in self.planned.items() if self.stage_of[rule] == stage)

    def in_state(self, state: str) -> list[Job]:
        """Jobs in a state, in the order of their start."""
        return [job for job in self.jobs.values() if job.state == state]

    def end_running(self, now_s: float) -> None:
        """Mark running jobs as ended: the workflow has ended without reporting each of them."""
        for job in self.in_state("running"):
            job.ended_s, job.state = now_s, self._bad_end


def read_journals(paths: Iterable[Path]) -> list[Journal]:
    """Read journals of earlier starts; damaged ones are skipped."""
    journals = []
    for path in paths:
        journal = Journal(path)
        try:
            journal.read_on()
        except (OSError, ValueError, KeyError):
            continue
        journals.append(journal)
    return journals
