"""Results folders as campaigns leave them: complete ones, and those left by crashes."""

import json
import os
import time
from pathlib import Path
from typing import Any

from unit.record_factory import make_plan, make_record

from hpcai.campaign.controller_note import this_controller, write_note
from hpcai.config.load import load_study_file
from hpcai.config.plan_file import write_plan
from hpcai.config.plans import Campaign
from hpcai.config.runs import RunPlan
from hpcai.core.files import file_sha256
from hpcai.records.files import write_record
from hpcai.records.run import Artefact, RunRecord
from hpcai.records.weak import GROUP

CONFIG = Path(__file__).parents[2] / "config"
POINT = {"benchmark": "cosmoflow_mini", "variant": "fp32"}
DEAD = {
    "host": "gone",
    "pid": 4,
    "process_started": 1.0,
    "slurm_job": "",
    "slurm_restart": 0,
    "started_utc": "2026-01-02T03:04:05Z",
}
"""The facts of a process that is no longer visible."""


def campaign(study: str = "weak") -> Campaign:
    """Return a checked study: two points of timed runs, their profiles, and a group of two instances."""
    return load_study_file(CONFIG / f"{study}.yaml")


def note_of_dead_controller(results: Path, command: tuple[str, ...] = ("snakemake", "--profile", "slurm")) -> None:
    """Write the note of a workflow that has ended: its process started at another time than any here."""
    # No Linux counts processes as far as this (PID_MAX_LIMIT of 64-bit kernels is 2**22).
    write_note(campaign(), results, command, this_controller().model_copy(update={"pid": 2**22 + 1}))


def finish_run(results: Path, outcome: Any = "converged", *, repetition: int = 1, **plan: Any) -> Path:
    """Publish one timed run with one raw file; return its folder."""
    settings = {**POINT, **plan}
    asked = make_plan(repetition=repetition, **settings)
    folder = results / "runs" / asked.run_id
    return publish(folder, make_record(outcome, repetition=repetition, **settings))


def publish(folder: Path, record: RunRecord) -> Path:
    """Lay out a published run."""
    raw = folder / "raw"
    raw.mkdir(parents=True)
    (raw / "output.log").write_text("epoch 1\nepoch 2\n")
    artefact = Artefact(path="output.log", bytes=16, sha256=file_sha256(raw / "output.log"))
    whole = record.model_copy(update={"artefacts": (artefact,)})
    write_plan(whole.plan, raw / "plan.json")
    (raw / "plan.sha256").write_text(whole.plan.digest + "\n")
    write_record(whole, raw / "record.json")
    write_record(whole, folder / "record.json")
    return folder


def run_folder(results: Path, **plan: Any) -> Path:
    """Return the folder of a timed run, made if it is not there."""
    folder = results / "runs" / make_plan(**{**POINT, **plan}).run_id
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def open_attempt(folder: Path, name: str = "20260102T030405Z-abcdef", plan: RunPlan | None = None) -> Path:
    """Lay out an attempt that is running, or whose supervisor is gone."""
    attempt = folder / "attempts" / name
    attempt.mkdir(parents=True)
    write_plan(plan or make_plan(**POINT), attempt / "plan.json")
    return attempt


def interrupt(attempt: Path, reason: str) -> None:
    """Leave the verdict of an attempt that was ended from outside."""
    verdict = {"attempt": attempt.name, "outcome": "interrupted", "reason": reason}
    (attempt / "interrupted.json").write_text(json.dumps(verdict))


def leave_claim(folder: Path, age_s: float = 1e6) -> None:
    """Leave the claim of a process on an unreachable node, without a known Slurm job."""
    claim = folder / "claim.json"
    claim.write_text(json.dumps(DEAD))
    then = time.time() - age_s
    os.utime(claim, (then, then))


def finish_group(results: Path, outcomes: tuple[Any, ...] = ("converged", "converged")) -> Path:
    """Publish a weak-scaling group of the study."""
    folder = results / "weak" / "cosmoflow_mini" / "fp32" / "n1x1"
    settings = {**POINT, "kind": "weak", "instances": len(outcomes)}
    for number, outcome in enumerate(outcomes, 1):
        publish(folder / f"i{number}", make_record(outcome, repetition=number, **settings))
    counted = sum(outcome == "converged" for outcome in outcomes)
    (folder / GROUP).write_text(json.dumps({"counted": counted, "instances": len(outcomes)}))
    return folder
