"""Report the state of everything in a results folder without changing it."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from hpcai.campaign.damages import Damage
from hpcai.campaign.failures import Failure, LostPoint, failures_of, say_failures
from hpcai.campaign.gpu_site import Part, Wanted, look_at_gpu_site
from hpcai.campaign.live import AtWork, LiveRun, live_runs
from hpcai.campaign.live import wait_until_idle as wait_for_runs_and_jobs
from hpcai.campaign.planned import Knowledge, know
from hpcai.campaign.run_folders import NAMED, RunFolder, discarded_folders, planned_folders, present_folders
from hpcai.campaign.states import RunState, state_of
from hpcai.campaign.surroundings import (
    ControllerState,
    Space,
    controller_state,
    incomplete_files,
    is_locked,
    missing_data,
    report_problem,
    spaces,
)
from hpcai.catalogue.profiles import PROFILES
from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message, at
from hpcai.measure.publish import refuse_changed
from hpcai.slurm.queue import QueuedJob, queued_jobs
from hpcai.slurm.sbatch_request import advise

INCOMPLETE = Message("doctor.incomplete", "{files} files were being written when their job ended ({names})")
UNLOCK_LIKE_STARTED = Message("doctor.unlock_like_started", "the command it was started with, plus --unlock")
LOCK_LEFT = Message("doctor.lock_left", "{folder} is locked by a workflow that has ended")
LOCKED_ON = Message("doctor.locked_on", "on {host}, which cannot be seen from here")
LOCKED_IN_JOB = Message("doctor.locked_in_job", "in Slurm job {job} on {host}, which cannot be seen from here")
LOCKED = Message("doctor.locked", "{folder} is locked by a workflow {where}")
CANNOT_READ = Message("doctor.cannot_read", "cannot be read ({reason})")
ASK_FOR_ACCESS = Message("doctor.ask_for_access", "ask its owner for access, or try again when the file system is back")
REFUSED_BY_SLURM = Message("doctor.refused_by_slurm", "Slurm rejected {jobs}")
LACKING = Message("doctor.lacking", "accelerators: {part}: found {found}, expected {needed}")
MEND = Message("doctor.mend", "fix the cause{where}; the next start tries again")

STAGES = frozenset(
    {"data", "pack", "measure", "characterise", "views", "scores", "analyse", "predict", "regressors", "rounds"}
)
"""Workflow targets that end before the study's report."""

LINES = 40
"""Number of kinds of failures listed."""
SHOWN = 3
"""Number of files named."""
LOOKED_AT_ONCE = 8
"""Folders checked concurrently: on a network file system, most of the time is spent waiting for the server."""


@dataclass(frozen=True)
class Problem:
    """A problem outside the runs themselves, and its remedy."""

    what: str
    remedy: str


@dataclass(frozen=True)
class Surroundings:
    """State around the runs."""

    controller: ControllerState
    queue: tuple[QueuedJob, ...] | None
    locked: bool
    incomplete: tuple[str, ...]
    missing_data: tuple[str, ...]
    changed: str
    """Published runs that the study now requests with other settings; blank if there are none, or no study was read."""
    report: str
    """Missing or outdated parts of tables and report; blank if there are none."""
    spaces: tuple[Space, ...]
    failures: tuple[Failure, ...] = ()
    """Jobs that failed since the last start of the workflow."""

    @property
    def may_run_unseen(self) -> bool:
        """Whether a workflow may run that is not visible from here: on another host, or nothing tells where it ran."""
        return self.locked and self.controller in {"elsewhere", "unknown"}


@dataclass(frozen=True)
class Diagnosis:
    """The state of a results folder."""

    knowledge: Knowledge
    states: tuple[RunState, ...]
    """States of all planned measurements, or of all existing ones if the plan is unknown."""
    not_planned: tuple[RunState, ...]
    discarded: tuple[str, ...]
    around: Surroundings
    gpu_site: tuple[Part, ...] = ()
    """Prerequisites for accelerators here; empty if neither requested nor needed by the study."""

    @property
    def counts(self) -> dict[str, Counter[str]]:
        """Number of measurements per state, by stage."""
        counts = {stage: Counter[str]() for stage in NAMED}
        for one in self.states:
            counts[one.folder.stage][one.state] += 1
        return counts

    @property
    def every_state(self) -> tuple[RunState, ...]:
        """All states, planned or not."""
        return (*self.states, *self.not_planned)

    @property
    def lost_points(self) -> list[LostPoint]:
        """Points without a result: all of their runs, or all instances of their groups, failed."""
        points: dict[str, list[RunState]] = {}
        for one in self.states:
            if one.folder.stage != "profiles":
                points.setdefault(one.folder.point, []).append(one)
        return [
            LostPoint(point, len(runs), runs[-1].reason)
            for point, runs in points.items()
            if all(one.is_lost for one in runs)
        ]

    def in_state(self, *states: str) -> list[RunState]:
        """Return the planned measurements in some states; those at work or damaged count even if not planned."""
        others = (one for one in self.not_planned if one.state in {"under way", "damaged"})
        return [one for one in (*self.states, *others) if one.state in states]

    @property
    def is_under_way(self) -> bool:
        """Whether something is running, or will run without further action."""
        return bool(self.in_state("under way") or self.around.queue or self.around.controller == "alive")

    @property
    def may_be_under_way(self) -> bool:
        """The same, or a workflow may be running that is not visible from here."""
        return self.is_under_way or self.around.may_run_unseen

    @property
    def missing(self) -> list[RunState]:
        """Planned measurements that the workflow will run when started."""
        uncaptured = [one for one in self.in_state("broken down") if one.is_uncaptured]
        return self.in_state("not started", "interrupted", "adoptable") + uncaptured

    @property
    def exit_status(self) -> int:
        """0: all finished and intact; 2: something is missing, failed or running; 3: something is damaged."""
        if self.in_state("damaged"):
            return 3
        around = self.around
        unwell = around.missing_data or around.changed or around.report or around.locked
        return 2 if self.missing or self.in_state("broken down") or self.is_under_way or unwell else 0


def diagnose(results: Path, study: Path | None = None, *, check_files: bool = False, gpu: bool = False) -> Diagnosis:
    """Examine a results folder.

    Parameters
    ----------
    results
        Results folder.
    study
        A study file to compare with; None for the plan of the last start, or the default study.
    check_files
        Validate whole records, and raw files against the recorded sizes and digests; reads everything.
    gpu
        Check the prerequisites for accelerators, even if the study's machine has none.

    Raises
    ------
    ConfigError
        If the folder does not exist, or the study is invalid.
    """
    knowledge = know(results, study)
    planned = planned_folders(results, knowledge.planned.points) if knowledge.planned else {}
    # Check for running processes first: a run that ends meanwhile is then "under way", never "without a verdict".
    live = {run.name: run for run in live_runs(results)}
    others = [RunFolder(results, name) for name in present_folders(results) if name not in planned]
    look = partial(_state, live=live, check_files=check_files)
    with ThreadPoolExecutor(LOOKED_AT_ONCE) as pool:
        states, other_states = tuple(pool.map(look, planned.values())), tuple(pool.map(look, others))
    if knowledge.planned is None:
        states, other_states = other_states, ()
    around = _look_around(knowledge, [one.folder.name for one in states])
    states = tuple(_with_failure(one, around.failures) for one in states)
    discarded = tuple(discarded_folders(results))
    return Diagnosis(knowledge, states, other_states, discarded, around, _look_for_accelerators(knowledge, gpu=gpu))


def _look_for_accelerators(knowledge: Knowledge, *, gpu: bool) -> tuple[Part, ...]:
    campaign = knowledge.campaign
    if not gpu and (campaign is None or campaign.machine.device.kind == "cpu"):
        return ()
    return look_at_gpu_site(Wanted.of(campaign))


def _with_failure(one: RunState, failures: Sequence[Failure]) -> RunState:
    """Add to a measurement that never started why its job failed, if known."""
    if one.state != "not started" or one.reason:
        return one
    reason = next((failure.reason for failure in failures if failure.folder == one.folder.name), "")
    return replace(one, reason=reason)


def _state(folder: RunFolder, live: dict[str, LiveRun], *, check_files: bool) -> RunState:
    try:
        try:
            return state_of(folder, live.get(folder.name), check_files=check_files)
        except FileNotFoundError:
            # It was published or set aside during the check.
            return state_of(folder, None, check_files=check_files)
    except OSError as error:
        # Nothing is known about this one; the others can still be checked.
        what = at(str(error.filename or folder.path), CANNOT_READ(reason=error.strerror))
        damage = Damage(what, ASK_FOR_ACCESS(), "")
        return RunState(folder, "damaged", reason=what, damages=(damage,))


def _look_around(knowledge: Knowledge, names: list[str]) -> Surroundings:
    working, note, planned = knowledge.working_folder, knowledge.note, knowledge.planned
    return Surroundings(
        controller=controller_state(note.controller if note else None, working),
        queue=queued_jobs(working),
        locked=is_locked(working),
        incomplete=tuple(incomplete_files(working)),
        missing_data=tuple(missing_data(planned.datasets, working)) if planned else (),
        changed=_changed_settings(knowledge),
        report="" if note and STAGES & set(note.repeated) else report_problem(knowledge.results, names),
        spaces=spaces(knowledge.results, planned.node_local if planned else None),
        failures=failures_of(working),
    )


def _changed_settings(knowledge: Knowledge) -> str:
    campaign, results = knowledge.campaign, knowledge.results
    if campaign is None:
        return ""
    profiles = [(results / "profiles" / kind, campaign.profiles(kind)) for kind in PROFILES]
    try:
        refuse_changed([(results / "runs", campaign.plans()), (results / "weak", campaign.weak_plans()), *profiles])
    except ConfigError as error:
        return str(error)
    return ""


def _first_of(names: Sequence[str]) -> str:
    """Return the first names: of a thousand files all would say less."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def problems_of(diagnosis: Diagnosis) -> list[Problem]:
    """Return the problems outside the runs, worst first."""
    found = [Problem(damage.what, damage.remedy) for one in diagnosis.every_state for damage in one.damages]
    around, knowledge = diagnosis.around, diagnosis.knowledge
    if around.changed:
        found.append(Problem(around.changed, "the workflow cannot start until this is resolved"))
    full = [space for space in around.spaces if space.is_full]
    found += [Problem(f"{space.what}: almost full ({space.place})", "make space first") for space in full]
    if around.locked and around.controller != "alive":
        found.append(_lock_problem(diagnosis))
    if around.incomplete and around.controller != "alive":
        names = _first_of(around.incomplete)
        found.append(
            Problem(
                INCOMPLETE(files=len(around.incomplete), names=names),
                "--rerun-incomplete makes them again; a measured run is only published again",
            )
        )
    found += [
        Problem(LACKING(part=part.name, found=part.found, needed=part.needed), part.remedy)
        for part in diagnosis.gpu_site
        if part.state == "missing"
    ]
    found += _failure_problems(diagnosis)
    if around.missing_data:
        found.append(Problem(f"missing: {_first_of(around.missing_data)}", "the next start prepares them"))
    if around.report:
        found.append(Problem(around.report, "the next start writes it"))
    if unsealed := sum(one.unsealed for one in diagnosis.every_state):
        found.append(_unsealed_problem(unsealed))
    if knowledge.note_problem:
        found.append(Problem(knowledge.note_problem, "until then, use --study to say what is planned"))
    leftovers = [left for one in diagnosis.every_state if one.state != "under way" for left in one.leftovers]
    if leftovers:
        more = f" and {len(leftovers) - 1} more" if len(leftovers) > 1 else ""
        found.append(Problem(f"{leftovers[0]}{more}", "nothing: the next start of the run cleans it up"))
    return found


def _failure_problems(diagnosis: Diagnosis) -> list[Problem]:
    """Return failed jobs, and points without a result."""
    found = []
    for words, first in say_failures(diagnosis.around.failures)[:LINES]:
        if first.is_refused:
            found.append(Problem(REFUSED_BY_SLURM(jobs=words), advise(first.reason)))
        else:
            where = f", see {first.log}" if first.log else ""
            found.append(Problem(f"failed: {words}", MEND(where=where)))
    return found + [
        Problem(lost.words, "it has no result: `hpcai retry`, once the cause is fixed")
        for lost in diagnosis.lost_points
    ]


def _unsealed_problem(count: int) -> Problem:
    what = f"{count} run records contain no digest, because an earlier version wrote them"
    return Problem(what, "nothing: they can be read, but a changed digit would not be detected")


def _lock_problem(diagnosis: Diagnosis) -> Problem:
    note, working = diagnosis.knowledge.note, diagnosis.knowledge.working_folder
    # Without its own study's options, the workflow would read another study before unlocking.
    unlock = f"`{note.command_with('--unlock')}`" if note else UNLOCK_LIKE_STARTED()
    if diagnosis.around.controller == "ended":
        return Problem(LOCK_LEFT(folder=working), f"{unlock}, once nothing runs")
    where = LOCKED_ON(host=note.controller.host) if note else "it is not known whether it still runs"
    look = "check there whether it still runs"
    if note and note.controller.slurm_job:
        where = LOCKED_IN_JOB(job=note.controller.slurm_job, host=note.controller.host)
        look = f"check whether it still runs (`squeue --job={note.controller.slurm_job}`)"
    return Problem(LOCKED(folder=working, where=where), f"{look}; if it does not: {unlock}")


def wait_until_idle(results: Path, say: Callable[[str], object], longest_s: float | None = None) -> None:
    """Wait until no run, Slurm job or workflow of a results folder is active.

    Parameters
    ----------
    results
        Results folder.
    say
        Called with the reason for waiting.
    longest_s
        Longest wait [s]; None for no limit.
    """
    knowledge = know(results, None)
    working, note = knowledge.working_folder, knowledge.note

    def workflow() -> list[AtWork]:
        alive = controller_state(note.controller if note else None, working) == "alive"
        return [AtWork("the workflow itself")] if alive else []

    wait_for_runs_and_jobs(results, working, say, longest_s, workflow)
