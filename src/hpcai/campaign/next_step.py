"""The one command to run next, from what the doctor found."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from hpcai.campaign.doctor import Diagnosis
from hpcai.campaign.surroundings import REPORT


@dataclass(frozen=True)
class NextStep:
    """What to do next."""

    command: str
    """Blank: nothing, or nothing that one command could do."""
    why: str
    choice: str = ""
    """What can be done before; blank: nothing."""


def next_step(diagnosis: Diagnosis) -> NextStep:
    """Return the one thing to do next."""
    around, results = diagnosis.around, diagnosis.knowledge.results
    if around.controller == "alive":
        return NextStep(shlex.join(["hpcai", "status", str(results), "--watch"]), "the workflow is at work")
    if diagnosis.is_under_way:
        return NextStep(shlex.join(["hpcai", "doctor", str(results), "--wait"]), _wait_reason(diagnosis))
    if around.locked and around.controller == "elsewhere" and diagnosis.knowledge.note:
        host = diagnosis.knowledge.note.controller.host
        return NextStep("", f"run this command on {host}: only there can be seen whether the workflow still runs")
    if damages := [damage for one in diagnosis.every_state for damage in one.damages]:
        others = f"; {len(damages) - 1} more are named above" if len(damages) > 1 else ""
        return NextStep(damages[0].command, f"{damages[0].remedy}{others}")
    if around.changed:
        return NextStep("", "change the study back, or put aside the runs that are named above, then look again")
    return _start_step(diagnosis)


def _start_step(diagnosis: Diagnosis) -> NextStep:
    around, results = diagnosis.around, diagnosis.knowledge.results
    if why := _reason_to_start(diagnosis):
        command = _start_command(diagnosis)
    elif around.locked:
        command, why = f"{_shown_command(diagnosis)} --unlock", "all is done; a lock was left behind"
    else:
        command, why = "", f"nothing to do; the report is {results / REPORT}"
        if not (results / REPORT).exists():
            why = "nothing to do; the workflow was asked for no report"
    broken, choice = len(diagnosis.in_state("broken down")), ""
    if broken:
        retry = shlex.join(["hpcai", "retry", str(results)])
        choice = f"{broken} broke down, which is a result: `{retry}` first, if they shall be tried again"
    return NextStep(_in_working_folder(diagnosis, command), why, choice)


def _reason_to_start(diagnosis: Diagnosis) -> str:
    if diagnosis.missing:
        return f"{len(diagnosis.missing)} of {len(diagnosis.states)} measurements are missing"
    if diagnosis.around.missing_data:
        return "data are missing"
    return "all is measured; tables or report are missing or old" if diagnosis.around.report else ""


def _start_command(diagnosis: Diagnosis) -> str:
    note, around = diagnosis.knowledge.note, diagnosis.around
    command = shown = _shown_command(diagnosis)
    if around.incomplete and not {"--rerun-incomplete", "--ri"} & set(note.command if note else ()):
        command += " --rerun-incomplete"
    # With all options: without its own study's, the workflow would read another one before it unlocks.
    return f"{shown} --unlock && {command}" if around.locked else command


def _shown_command(diagnosis: Diagnosis) -> str:
    note = diagnosis.knowledge.note
    return note.shown_command if note else "snakemake"


def _wait_reason(diagnosis: Diagnosis) -> str:
    runs, queue = len(diagnosis.in_state("under way")), diagnosis.around.queue or ()
    names = sorted({job.name for job in queue})
    why = f"{runs} measurements are under way"
    if not names:
        return why
    note = diagnosis.knowledge.note
    if diagnosis.around.controller == "elsewhere" and note is not None:
        host = note.controller.host
        return f"{why}, {len(queue)} jobs are in Slurm's queue, perhaps for a workflow that is at work on {host}"
    ends = " && ".join(shlex.join(["scancel", f"--name={name}"]) for name in names)
    return f"{why}, {len(queue)} jobs are in Slurm's queue without a workflow that waits for them; or end them: {ends}"


def _in_working_folder(diagnosis: Diagnosis, command: str) -> str:
    working = diagnosis.knowledge.working_folder
    return command if not command or working == Path.cwd() else f"cd {shlex.quote(str(working))} && {command}"
