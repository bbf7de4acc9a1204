"""The single command to run next, from the doctor's findings."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from hpcai.campaign.doctor import UNLOCK_LIKE_STARTED, Diagnosis
from hpcai.campaign.surroundings import REPORT
from hpcai.core.messages import Message

AT_WORK = Message("next_step.at_work", "the workflow is running")
LOOK_THERE = Message(
    "next_step.look_there", "run this command on {host}: only there can it check whether the workflow still runs"
)
LOOK_WHERE_STARTED = Message(
    "next_step.look_where_started",
    "no note says where the workflow that locked the folder was started: check whether it still runs there; if it does "
    "not: {unlock}",
)
LOOK_IN_SLURM = Message(
    "next_step.look_in_slurm", "check whether Slurm job {job} on {host}, in which the workflow ran, is still running"
)
ONCE_JOB_ENDED = Message("next_step.once_job_ended", "once Slurm job {job} has ended: `{command}`")
CHANGE_BACK = Message(
    "next_step.change_back", "change the study back, or set aside the runs listed above, then try again"
)
ASKED_FOR_IS_THERE = Message(
    "next_step.asked_for_is_there", "; the targets of the last start exist, so this one builds everything"
)
NO_RESULT = Message(
    "next_step.no_result",
    "{points} no result, because all their runs failed: once the cause is fixed, try again",
)
NOTHING_TO_DO = Message("next_step.nothing_to_do", "nothing to do; the report is {report}")
RESULTS_TO_RETRY = Message(
    "next_step.results_to_retry",
    "{broken} failed, which counts as a result: run `{command}` first to retry them",
)
QUEUED_ELSEWHERE = Message(
    "next_step.queued_elsewhere",
    "{why}, {jobs} jobs are in Slurm's queue, perhaps of a workflow that is running on {host}",
)

MAKES = {
    "data": {"data"},
    "pack": {"data", "packed"},
    "measure": {"data", "packed", "runs", "weak"},
    "characterise": {"data", "packed", "profiles"},
    "views": {"data", "packed", "profiles"},
    "scores": {"data", "packed", "runs"},
    "analyse": {"data", "packed", "runs"},
    "predict": {"data", "packed", "runs"},
    "regressors": {"data", "packed", "runs"},
    "all": {"data", "packed", "runs", "weak", "profiles"},
}
"""Products that each stage of the workflow always makes."""


@dataclass(frozen=True)
class NextStep:
    """What to do next."""

    command: str
    """Blank if there is nothing to do, or nothing that one command could do."""
    why: str
    choice: str = ""
    """Optional step before it; blank if there is none."""


def next_step(diagnosis: Diagnosis) -> NextStep:
    """Return the single next step."""
    around, results = diagnosis.around, diagnosis.knowledge.results
    if around.controller == "alive":
        return NextStep(shlex.join(["hpcai", "status", str(results), "--watch"]), AT_WORK())
    if diagnosis.is_under_way:
        return NextStep(shlex.join(["hpcai", "doctor", str(results), "--wait"]), _wait_reason(diagnosis))
    if around.may_run_unseen:
        return _look_step(diagnosis)
    if damages := [damage for one in diagnosis.every_state for damage in one.damages]:
        others = f"; {len(damages) - 1} more are named above" if len(damages) > 1 else ""
        return NextStep(damages[0].command, f"{damages[0].remedy}{others}")
    if around.changed:
        return NextStep("", CHANGE_BACK())
    return _start_step(diagnosis)


def _look_step(diagnosis: Diagnosis) -> NextStep:
    """Return how to check whether a workflow that is not visible from here still runs."""
    note = diagnosis.knowledge.note
    if note is None:
        return NextStep("", LOOK_WHERE_STARTED(unlock=UNLOCK_LIKE_STARTED()))
    host, job = note.controller.host, note.controller.slurm_job
    if not job:
        return NextStep("", LOOK_THERE(host=host))
    why = LOOK_IN_SLURM(job=job, host=host)
    then = _in_working_folder(diagnosis, _start_command(diagnosis))
    return NextStep(shlex.join(["squeue", f"--job={job}"]), why, ONCE_JOB_ENDED(job=job, command=then))


def _start_step(diagnosis: Diagnosis) -> NextStep:
    around, results = diagnosis.around, diagnosis.knowledge.results
    if why := _reason_to_start(diagnosis):
        command = _start_command(diagnosis)
        if _are_targets_there(diagnosis):
            why += ASKED_FOR_IS_THERE()
            if note := diagnosis.knowledge.note:
                why += "" if note.command_with(targets=False) != note.shown_command else " (leave its targets out)"
    elif around.locked:
        command, why = _command(diagnosis, "--unlock"), "everything is done; a lock was left behind"
    elif lost := diagnosis.lost_points:
        points = "1 point has" if len(lost) == 1 else f"{len(lost)} points have"
        why = NO_RESULT(points=points)
        return NextStep(shlex.join(["hpcai", "retry", str(results)]), why)
    else:
        command, why = "", NOTHING_TO_DO(report=results / REPORT)
        if not (results / REPORT).exists():
            why = "nothing to do; no report was requested"
    broken, choice = len(diagnosis.in_state("broken down")), ""
    if broken:
        retry = shlex.join(["hpcai", "retry", str(results)])
        choice = RESULTS_TO_RETRY(broken=broken, command=retry)
    return NextStep(_in_working_folder(diagnosis, command), why, choice)


def _reason_to_start(diagnosis: Diagnosis) -> str:
    if diagnosis.missing:
        return f"{len(diagnosis.missing)} of {len(diagnosis.states)} measurements are missing"
    if diagnosis.around.missing_data:
        return "data are missing"
    return "everything is measured; tables or the report are missing or outdated" if diagnosis.around.report else ""


def _start_command(diagnosis: Diagnosis) -> str:
    note, around = diagnosis.knowledge.note, diagnosis.around
    is_asked = bool({"--rerun-incomplete", "--ri"} & set(note.repeated if note else ()))
    command = _command(diagnosis, *(["--rerun-incomplete"] if around.incomplete and not is_asked else []))
    # With all options: without its own study's, the workflow would read another study before unlocking.
    return f"{_command(diagnosis, '--unlock')} && {command}" if around.locked else command


def _command(diagnosis: Diagnosis, *options: str) -> str:
    """Return the command of the last start with more options, without targets that exist and need nothing."""
    if note := diagnosis.knowledge.note:
        return note.command_with(*options, targets=not _are_targets_there(diagnosis))
    return shlex.join(["snakemake", *options])


def _are_targets_there(diagnosis: Diagnosis) -> bool:
    """Return whether the last start had targets, and all of them exist."""
    note, working = diagnosis.knowledge.note, diagnosis.knowledge.working_folder
    missing = {one.folder.stage for one in diagnosis.missing}
    missing |= {"packed" if Path(file).name == "packed.json" else "data" for file in diagnosis.around.missing_data}
    targets = note.targets if note else ()
    # A target that is not a file name is a rule, which makes part of the report.
    to_make = (
        target
        for target in targets
        if (
            missing & MAKES[target]
            if target in MAKES
            else not target.isidentifier() and not (working / target).exists()
        )
    )
    return bool(targets) and not any(to_make)


def _wait_reason(diagnosis: Diagnosis) -> str:
    runs, queue = len(diagnosis.in_state("under way")), diagnosis.around.queue or ()
    why = f"{runs} measurements are in progress"
    if not queue:
        return why
    note = diagnosis.knowledge.note
    if diagnosis.around.controller in {"elsewhere", "unknown"}:
        host = note.controller.host if note else "another host"
        return QUEUED_ELSEWHERE(why=why, jobs=len(queue), host=host)
    ends = " && ".join(sorted({job.remedy for job in queue}))
    return f"{why}, {len(queue)} jobs are in Slurm's queue, but no workflow waits for them; or cancel them: {ends}"


def _in_working_folder(diagnosis: Diagnosis, command: str) -> str:
    working = diagnosis.knowledge.working_folder
    return command if not command or working == Path.cwd() else f"cd {shlex.quote(str(working))} && {command}"
