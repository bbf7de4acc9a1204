"""Publish attempts: each run is published once, by a rename, and never overwritten.

A run's folder holds `record.json` (awaited by the workflow), `raw/` (the published attempt with the original of the
record) and `attempts/` (running, failed or interrupted); that of a profiled run also holds `capture.json`.
Instances of a weak-scaling group are such folders next to the group's `group.json`; they are repeated together.
"""

import errno
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hpcai.config.machine import Machine
from hpcai.config.plan_file import read_plan
from hpcai.config.runs import RunPlan
from hpcai.core.errors import ConfigError, RecordError, ResultsError, RunRefusedError
from hpcai.core.files import sync, write_atomically
from hpcai.core.messages import Message, at
from hpcai.measure.claim import live_holder
from hpcai.records.files import (
    DISCARDED,
    RAW,
    RECORD,
    find_records,
    read_part,
    read_record,
    sound_copy,
    write_record,
)
from hpcai.records.run import FINISHED, Capture, RunRecord
from hpcai.records.weak import GROUP

GIVEN_UP = Message("publish.given_up", "was abandoned by another process, because this one sent no heartbeat")
AT_WORK = Message("publish.at_work", "{holder}, measures here; wait for it, or end it (`{remedy}`)")
OTHER_SETTINGS = Message(
    "publish.other_settings",
    "is measured already, with other settings ({changes}). A finished measurement is never overwritten: give the "
    "new settings a variant of their own in the run table, or restore the old ones, or put the old run aside "
    "with `hpcai discard {folder} --reason WHY`",
)
NO_RUN = Message(
    "publish.no_run",
    "no published run here; name a folder such as results/runs/B/V/n1x2/r1, or one above such folders",
)
NO_RECORDS = Message("publish.no_records", "found no {record} below it; name the results folder of a study")
NO_FOLDER = Message("publish.no_folder", "no such folder; name the results folder of a study, or one of its runs")

CAPTURE = "capture.json"
INTERRUPTED = "interrupted.json"
DIGEST = "plan.sha256"
TOOL = "instrument.json"
SHARE = "instance.json"
"""In each attempt at an instance of a group: its share of the machine."""
NODES = "nodes.json"
"""In each attempt at a run that starts alone: its nodes' reports before the ranks started."""
REPETITION = re.compile(r"[ri]\d+")
INSTANCE = re.compile(r"i\d+")
MEASURED = ("runs", "weak", "profiles")
"""Subfolders of a results folder that hold measurements."""
RESERVE, RESERVE_BYTES = "reserve", 1 << 18
"""In each running attempt: space released for its record or verdict if the disk is full by then."""


def published(folder: Path, plan: RunPlan) -> RunRecord | None:
    """Return the record published in ``folder``, if the run is finished.

    Raises
    ------
    RunRefusedError
        If it was measured with other settings.
    """
    original = folder / RAW / RECORD
    if not original.exists():
        return None
    record = read_record(original)
    if record.outcome not in FINISHED:
        return None
    if record.plan_digest != comparable(plan, record.plan).digest:
        raise RunRefusedError(_changed(folder, record.plan, plan))
    return record


def published_group(folder: Path, plans: Sequence[RunPlan]) -> tuple[RunRecord, ...] | None:
    """Return the records of a weak-scaling group published in ``folder``, if it is complete.

    It is complete if all instances were measured at the same time, and no failed one is to be repeated.

    Raises
    ------
    RunRefusedError
        If an instance was measured with other settings.
    """
    folders = [folder / f"i{plan.repetition}" for plan in plans]
    if not all((own / RAW / RECORD).exists() for own in folders):
        return None
    records = tuple(read_record(own / RAW / RECORD) for own in folders)
    to_retry = [
        record
        for own, record in zip(folders, records, strict=True)
        if record.outcome not in FINISHED and not (own / RECORD).exists()
    ]
    if to_retry or len({group_attempt(record) for record in records}) > 1:
        return None
    for own, plan, record in zip(folders, plans, records, strict=True):
        if record.plan_digest != comparable(plan, record.plan).digest:
            raise RunRefusedError(_changed(own, record.plan, plan))
    return records


def group_attempt(record: RunRecord) -> str:
    """Return the common prefix of the attempts of all instances that were measured at the same time."""
    return record.attempt.removesuffix(f"-i{record.plan.repetition}")


def comparable(plan: RunPlan, measured: RunPlan) -> RunPlan:
    """Return a plan for comparison with that of a finished run.

    A seed from system entropy becomes the one that was drawn. What the machine file only declares becomes what it
    declared then: filling a gap or correcting a number afterwards does not change a run.
    """
    seeded = plan.model_copy(update={"seed": measured.seed}) if plan.seed is None else plan
    return seeded.with_declared(measured.machine)


def kept_plan(plan: RunPlan, path: Path) -> RunPlan:
    """Return the existing plan if it describes the same run, else ``plan``.

    Changes that do not affect a run (a title, a limit, the submitter, what the machine file only declares) must not
    make the workflow repeat it. A run still to be measured or repeated takes the current values, including its image
    and limits, which are not settings of a run. A plan that cannot be read counts as missing.
    """
    if not path.exists() or not (path.parent / RAW).exists() or not _has_record(path.parent):
        return plan
    try:
        written = read_plan(path)
    except ConfigError:
        return plan
    # A digest is the most expensive step here, and most plans are unchanged.
    return written if written == plan or written.digest == comparable(plan, written).digest else plan


def _has_record(folder: Path) -> bool:
    """Return whether the file awaited by the workflow exists; instances of a group are repeated together."""
    if INSTANCE.fullmatch(folder.name):
        return (folder.parent / GROUP).exists()
    return (folder / RECORD).exists() or (folder / CAPTURE).exists()


def refuse_changed(plans: Iterable[tuple[Path, Mapping[str, RunPlan]]]) -> dict[Path, Machine]:
    """Fail early if a published run was measured with settings that differ from its plan.

    Parameters
    ----------
    plans
        Folders of runs, each with the plans of its runs by run id.

    Returns
    -------
    dict
        By folder of each run that is not to be repeated, and the same but for what the machine file only declares: the
        file as it was then (:meth:`RunPlan.with_declared`).

    Raises
    ------
    ConfigError
        Names every such run, the changes and the possible remedies.
    """
    problems: list[str] = []
    then: dict[Path, Machine] = {}
    known: list[RunPlan] = []
    for run, run_id, planned in ((runs / name, name, own) for runs, own in plans for name in own):
        stamp = run / RAW / DIGEST
        # Most runs of a new study are not published yet, so their plans are not needed.
        if not stamp.exists():
            continue
        plan, digest = planned[run_id], stamp.read_text().strip()
        if plan.digest == digest:
            continue
        old = _plan_then(run, plan, digest, known)
        if comparable(plan, old).digest == digest:
            if _has_record(run):
                then[run] = old.machine
        elif plan.seed is not None:  # a run with a seed of its own compares itself
            problems.append(_changed(run, old, plan))
    if problems:
        raise ConfigError("\n".join(problems))
    return then


def _plan_then(run: Path, plan: RunPlan, digest: str, known: list[RunPlan]) -> RunPlan:
    """Return the plan of a published run, or one of the known ones that has its machine file.

    A campaign has a few versions of the file, and reading a plan takes longer than comparing it.
    """
    for one in known:
        if comparable(plan, one).digest == digest:
            return one
    old = read_plan(run / RAW / "plan.json")
    # No digest of a run with a seed of its own is recognised by another run's plan.
    if plan.seed is not None and comparable(plan, old).digest == digest:
        known.append(old)
    return old


def _changed(folder: Path, old: RunPlan, new: RunPlan) -> str:
    before, after = (_flat(plan.model_dump(mode="json")) for plan in (old, comparable(new, old)))
    keys = [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]
    changes = ", ".join(f"{key}: {before.get(key)} -> {after.get(key)}" for key in keys)
    return at(str(folder), OTHER_SETTINGS(changes=changes, folder=folder))


def _flat(value: object, prefix: str = "") -> dict[str, object]:
    if not isinstance(value, dict):
        return {prefix: value}
    return {
        path: leaf for key, part in value.items() for path, leaf in _flat(part, f"{prefix}.{key}".strip(".")).items()
    }


def publish(attempt: Path, folder: Path, record: RunRecord) -> None:
    """Write the record into the attempt, rename the attempt to `raw/`, then copy the record to its final place.

    Raises
    ------
    RunRefusedError
        If another run was published here meanwhile, or this attempt was considered vanished.
    """
    if (attempt / INTERRUPTED).exists():
        raise RunRefusedError(at(str(attempt), GIVEN_UP()))
    give_back_reserve(attempt)
    for file in attempt.rglob("*"):
        # Files that a network file system keeps hidden for open readers may vanish meanwhile (.nfs*).
        with suppress(FileNotFoundError):
            if file.is_file():
                file.chmod(0o444)
    write_record(record, attempt / RECORD)
    (attempt / RECORD).chmod(0o444)
    # From here on, losing the node must not leave a published run with an empty record.
    sync(attempt / RECORD)
    sync(attempt)
    try:
        # rename(2) refuses to replace a non-empty folder: of two writers, only one can publish.
        os.rename(attempt, folder / RAW)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise
        raise RunRefusedError(f"{folder / RAW}: another attempt was published; this one stays in {attempt}") from error
    sync(folder)
    republish(folder)


def republish(folder: Path) -> None:
    """Copy the record of the published attempt to the place where the workflow expects it."""
    write_atomically(folder / RECORD, (folder / RAW / RECORD).read_bytes(), durable=True)


def give_back_reserve(attempt: Path) -> None:
    """Release the reserve for the attempt's remaining files: a full disk must not cost a verdict."""
    (attempt / RESERVE).unlink(missing_ok=True)


def restore(folder: Path) -> Path:
    """Restore both copies of a run's record from the intact one; return the copy that was used.

    Raises
    ------
    RecordError
        If the run is not published, or neither copy is known to be intact.
    """
    if not (folder / RAW).exists() and not (folder / RECORD).exists():
        raise RecordError(at(str(folder), NO_RUN()))
    sound = sound_copy(folder) if (folder / RAW).is_dir() else None
    if sound is None:
        raise RecordError(
            f"{folder}: found no {RECORD} that is known to be right, expected one there or in {RAW}/; restore one "
            f"from a backup, or put the run aside with `hpcai discard {folder} --reason WHY`"
        )
    content = sound.read_bytes()
    for copy in (folder / RAW / RECORD, folder / RECORD):
        if copy != sound:
            write_atomically(copy, content, durable=True)
    (folder / RAW / RECORD).chmod(0o444)
    return sound


def discard_all(folder: Path, reason: str) -> list[Path]:
    """Move aside the run in a folder, or every run below it, such as all profiles of one kind.

    For an instance of a weak-scaling group, the whole group moves.

    Raises
    ------
    RunRefusedError
        If there is no run, or a process is at work on one of them; then none is moved.
    """
    runs = [path.parent.parent for path in _find(folder, f"{RAW}/plan.json")]
    found = sorted({_measured_together(run) for run in runs if REPETITION.fullmatch(run.name)})
    if not found:
        raise RunRefusedError(at(str(folder), NO_RUN()))
    # All of them before the first one moves: a refusal half-way would not name those that moved.
    for run in found:
        _refuse_live(run)
    return [discard(run, reason) for run in found]


def discard(folder: Path, reason: str) -> Path:
    """Move a run aside with the reason; nothing is deleted.

    Raises
    ------
    RunRefusedError
        If the folder is neither a run nor a weak-scaling group, or a process is at work there.
    """
    if not (folder / RAW / "plan.json").exists() and not any(folder.glob(f"i*/{RAW}/plan.json")):
        raise RunRefusedError(at(str(folder), NO_RUN()))
    _refuse_live(folder)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    target = folder.parent / DISCARDED / f"{folder.name}-{stamp}"
    target.parent.mkdir(exist_ok=True)
    os.rename(folder, target)
    (target / "reason.txt").write_text(reason + "\n")
    return target


def _refuse_live(folder: Path) -> None:
    if holder := live_holder(folder):
        raise RunRefusedError(at(str(folder), AT_WORK(holder=holder.words, remedy=holder.remedy)))


def timed_records(place: Path) -> list[Path]:
    """Return the records of timed runs in a results folder, a folder of runs, or the record that is named itself.

    A results folder holds copies of records, too, such as in its report documents, and those of earlier attempts; only
    those that the workflow awaits in ``runs`` count.

    Raises
    ------
    ResultsError
        If there is none.
    """
    runs = [path for path in find_records(place) if not {"profiles", "weak"} & {*path.relative_to(place).parts}]
    if not runs:
        raise ResultsError(at(str(place), NO_RECORDS(record=RECORD)))
    return runs


def forget_breakdowns(runs: Path) -> list[Path]:
    """Remove the published records of failed runs, so that the workflow measures them again.

    A weak-scaling group is repeated as a whole, because its instances must train at the same time.

    The same applies to profiles without a capture: the tool may be available now.

    Parameters
    ----------
    runs
        A results folder, or a folder of runs at any depth.

    Raises
    ------
    RunRefusedError
        If there is no such folder.
    """
    if not runs.is_dir():
        raise RunRefusedError(at(str(runs), NO_FOLDER()))
    broken = [path for path in _in_runs(runs, RECORD) if read_record(path).outcome not in FINISHED]
    missing = [path for path in _in_runs(runs, CAPTURE) if read_part(Capture, path).status == "not_measured"]
    folders = sorted({_measured_together(path.parent) for path in (*broken, *missing)})
    for folder in folders:
        (folder / CAPTURE).unlink(missing_ok=True)
        (folder / GROUP).unlink(missing_ok=True)
    for path in broken:
        path.unlink()
    return folders


def _in_runs(runs: Path, name: str) -> Iterable[Path]:
    """Return the files of a name in run folders (r1, i2, ...) at any depth, excluding runs set aside."""
    return sorted(path for path in _find(runs, name) if REPETITION.fullmatch(path.parent.name))


def _find(folder: Path, name: str) -> Iterable[Path]:
    """Yield the files of a name at any depth, excluding runs set aside.

    Of a results folder only the folders of measurements count: its report documents hold copies of records.
    """
    measured = [own for own in (folder / part for part in MEASURED) if own.is_dir()]
    for own in measured or [folder]:
        yield from (path for path in own.rglob(name) if DISCARDED not in path.relative_to(folder).parts)


def _measured_together(run: Path) -> Path:
    """Return the folder of a run; for an instance, that of its group."""
    return run.parent if INSTANCE.fullmatch(run.name) else run
