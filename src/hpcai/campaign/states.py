"""The state of every measurement of a results folder, from the files in its folder."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from hpcai.campaign.damages import (
    Damage,
    RecordFacts,
    advise_discard,
    advise_removal,
    advise_restore,
    find_damages,
    find_plan_damage,
    read_facts,
    read_json,
    read_record_json,
)
from hpcai.campaign.live import LiveRun
from hpcai.campaign.run_folders import RunFolder
from hpcai.core.errors import RecordError
from hpcai.core.messages import Message, at
from hpcai.measure.attempts import has_verdict, supervisor_of
from hpcai.measure.claim import CLAIM, holder_of, live_holder
from hpcai.measure.publish import CAPTURE, INTERRUPTED
from hpcai.records.files import ATTEMPTS, RAW, RECORD
from hpcai.records.run import FINISHED
from hpcai.records.weak import GROUP

NO_RECORD = Message("states.no_record", "{published} is there, but its record {record} is not")
UNCAPTURED = Message("states.uncaptured", "{reason}; {path} is missing: it will be tried again")
LEFT_BEHIND = Message("states.left_behind", "left behind by {holder}")

State = Literal["finished", "broken down", "under way", "interrupted", "adoptable", "damaged", "not started"]
"""adoptable: measured and published, but the file awaited by the workflow is missing."""
STATES: tuple[State, ...] = get_args(State)
PUBLISHED: tuple[State, ...] = ("finished", "broken down", "adoptable")


@dataclass(frozen=True)
class RunState:
    """The state of one measurement."""

    folder: RunFolder
    state: State
    outcome: str = ""
    """Outcome of a finished or failed run; "not measured" for a profile without a tool."""
    reason: str = ""
    wall_s: float | None = None
    started_utc: str = ""
    attempt: str = ""
    live: LiveRun | None = None
    is_lost: bool = False
    """Whether it has no result: it, or every instance of its group, failed."""
    is_uncaptured: bool = False
    """Whether it is a profile whose run is published but whose capture is missing: the workflow repeats it."""
    damages: tuple[Damage, ...] = ()
    is_cached: bool = False
    """Whether a cache, not storage, served its input."""
    unsealed: int = 0
    """Published records without a digest, from an earlier version: changes cannot be detected."""
    leftovers: tuple[str, ...] = field(default=(), compare=False)
    """Left behind by vanished supervisors; the next start cleans them up."""


def state_of(folder: RunFolder, live: LiveRun | None, *, check_files: bool = False) -> RunState:
    """Return the state of one measurement without changing anything.

    Parameters
    ----------
    folder
        Its existing or future folder.
    live
        The process at work on it, if any.
    check_files
        Validate whole records, and raw files against the recorded sizes and digests.
    """
    if not folder.path.is_dir():
        return RunState(folder, "not started")
    # Check again: a run started meanwhile would seem to have left no verdict.
    if live is None and (holder := live_holder(folder.path)):
        live = LiveRun(folder.name, holder)
    if live is not None:
        return RunState(folder, "under way", reason=live.holder.words, live=live)
    if folder.stage == "weak":
        found = _group_state(folder, check_files=check_files)
    else:
        found = _run_state(folder, folder.path, check_files=check_files)
        found = _profile_state(found) if folder.stage == "profiles" else found
    return replace(found, leftovers=tuple(_leftovers(folder.path)))


def _run_state(folder: RunFolder, path: Path, *, check_files: bool) -> RunState:
    """Return the state of one run, possibly an instance of a group; its plan is checked in every state."""
    found, plan = _record_state(folder, path, check_files=check_files), find_plan_damage(path)
    if plan is None:
        return found
    damages = (*found.damages, plan)
    return replace(found, state="damaged", reason="; ".join(one.what for one in damages), damages=damages)


def _record_state(folder: RunFolder, path: Path, *, check_files: bool) -> RunState:
    published = path / RECORD
    try:
        if published.exists():
            return _published(folder, path, read_facts(published), check_files=check_files)
    except RecordError as error:
        return _damaged(folder, error, advise_restore(path))
    return _unrecorded(folder, path) if (path / RAW).is_dir() else _unpublished(folder, path)


def _unrecorded(folder: RunFolder, path: Path) -> RunState:
    """Return the state of a published run without the record that the workflow expects."""
    original = path / RAW / RECORD
    try:
        facts = read_facts(original)
    except RecordError as error:
        return _damaged(folder, error, advise_discard(path))
    except FileNotFoundError:
        if not (path / RAW).is_dir():
            # It was set aside during the check.
            raise
        missing = RecordError(NO_RECORD(published=path / RAW, record=original))
        return _damaged(folder, missing, advise_discard(path))
    if facts.outcome in FINISHED:
        reason = f"{original} is published, {RECORD} is missing"
        return RunState(folder, "adoptable", facts.outcome, reason, attempt=facts.attempt)
    return RunState(folder, "not started", reason=f"tried again after a failure: {facts.reason}")


def _published(folder: RunFolder, path: Path, facts: RecordFacts, *, check_files: bool) -> RunState:
    damages = tuple(find_damages(path, check_files=check_files))
    state: State = "damaged" if damages else "finished" if facts.outcome in FINISHED else "broken down"
    return RunState(
        folder,
        state,
        facts.outcome,
        "; ".join(damage.what for damage in damages) or facts.reason,
        facts.wall_s,
        facts.started_utc,
        facts.attempt,
        damages=damages,
        is_lost=state == "broken down",
        unsealed=int(not facts.is_sealed),
        is_cached=facts.is_cached,
    )


def _profile_state(run: RunState) -> RunState:
    """Return the state of a profile: that of its run, and whether its capture is recorded."""
    path = run.folder.path / CAPTURE
    if not path.exists():
        return _uncaptured(run, path)
    if run.state in {"damaged", "broken down"}:
        return run
    try:
        capture = read_json(path)
        status, reason = capture["status"], capture["reason"]
    except (RecordError, KeyError) as error:
        return _damaged(run.folder, *advise_removal(path, error, "the published run"))
    if status == "measured" and run.state == "not started":
        missing = RecordError(f"{path} is there, but the raw files of its run are not")
        return _damaged(run.folder, missing, advise_discard(run.folder.path))
    if status == "measured":
        return replace(run, outcome="measured", reason="") if run.state == "finished" else run
    return replace(run, state="finished", outcome="not measured", reason=reason)


def _uncaptured(run: RunState, path: Path) -> RunState:
    if run.state == "finished":
        return replace(run, state="adoptable", reason=f"{path} is missing, its run is published")
    if run.state == "broken down":
        return replace(run, is_uncaptured=True, reason=UNCAPTURED(reason=run.reason, path=path))
    return run


def _group_state(folder: RunFolder, *, check_files: bool) -> RunState:
    """Return the state of a weak-scaling group from its record and its instances."""
    numbers = range(1, (folder.instances or _instances_there(folder.path)) + 1)
    instances = [_run_state(folder, folder.path / f"i{number}", check_files=check_files) for number in numbers]
    damages = tuple(damage for one in instances for damage in one.damages)
    reasons = [
        f"i{number}: {one.reason}"
        for number, one in zip(numbers, instances, strict=True)
        if one.reason and one.state not in PUBLISHED
    ]
    if damages:
        return RunState(folder, "damaged", reason="; ".join(damage.what for damage in damages), damages=damages)
    attempts = {one.attempt.removesuffix(f"-i{number}") for number, one in zip(numbers, instances, strict=True)}
    if len(attempts - {""}) > 1:
        return RunState(folder, "interrupted", reason="its instances are of several attempts: all are measured again")
    path = folder.path / GROUP
    if path.exists():
        return _published_group(folder, path, instances, reasons)
    if instances and all(one.state in PUBLISHED for one in instances):
        return RunState(folder, "adoptable", reason=f"all instances are published, {path} is missing")
    interrupted = any(one.state == "interrupted" for one in instances)
    return RunState(folder, "interrupted" if interrupted else "not started", reason="; ".join(reasons[:1]))


def _published_group(folder: RunFolder, path: Path, instances: Sequence[RunState], reasons: Sequence[str]) -> RunState:
    try:
        group = read_json(path)
        outcome = f"{group['counted']} of {group['instances']} instances count"
    except (RecordError, KeyError) as error:
        return _damaged(folder, *advise_removal(path, error, "the published instances"))
    if any(one.state not in PUBLISHED for one in instances):
        return RunState(folder, "interrupted", reason="; ".join(reasons) or "an instance has no record")
    broken = [one for one in instances if one.state == "broken down"]
    walls = [one.wall_s for one in instances if one.wall_s is not None]
    return RunState(
        folder,
        "broken down" if broken else "finished",
        outcome,
        f"{len(broken)} of {len(instances)} failed: {broken[0].reason}" if broken else "",
        max(walls, default=None),
        instances[0].started_utc if instances else "",
        is_lost=len(broken) == len(instances) > 0,
        unsealed=sum(one.unsealed for one in instances),
    )


def _instances_there(path: Path) -> int:
    return sum(1 for folder in path.glob("i*") if folder.name[1:].isdigit())


def _unpublished(folder: RunFolder, path: Path) -> RunState:
    """Return the state of an unpublished run, from its last attempt."""
    attempts = sorted(attempt for attempt in _listed(path / ATTEMPTS) if attempt.is_dir())
    if not attempts:
        return RunState(folder, "not started")
    last = attempts[-1]
    for name in (INTERRUPTED, RECORD):
        if (last / name).exists():
            try:
                found = read_record_json(last / name) if name == RECORD else read_json(last / name)
                reason = str(found.get("reason") or "no reason given")
            except RecordError as error:
                reason = str(error)
            return RunState(folder, "interrupted", reason=reason)
    supervisor = supervisor_of(last)
    who = f"its supervisor, {supervisor.words}," if supervisor else "its supervisor"
    return RunState(folder, "interrupted", reason=f"{who} left no verdict: it was killed or its node was lost")


def _leftovers(path: Path) -> Iterator[str]:
    """Yield what vanished supervisors have left behind."""
    if holder := holder_of(path):
        yield at(str(path / CLAIM), LEFT_BEHIND(holder=holder.words))
    for own in (path, *(folder for folder in _listed(path) if folder.name[:1] == "i")):
        for attempt in _listed(own / ATTEMPTS):
            if attempt.is_dir() and not has_verdict(attempt):
                yield f"{attempt}: an attempt without a verdict"


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _damaged(folder: RunFolder, error: RecordError, remedy: tuple[str, str]) -> RunState:
    damage = Damage(" ".join(str(error).split()), *remedy)
    return RunState(folder, "damaged", reason=damage.what, damages=(damage,))
