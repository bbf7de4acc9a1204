"""Attempts at a run: each is opened once, and every attempt gets a verdict, however it ended.

A finished attempt has a `record.json` and is published. An interrupted one stays in `attempts/` with an
`interrupted.json`. An attempt with neither is still running, or its supervisor vanished; the next attempt then
records that.
"""

import json
import logging
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hpcai.config.plan_file import read_plan, write_plan
from hpcai.config.runs import RunPlan
from hpcai.core.disturbance import say_disturbance
from hpcai.core.errors import RecordError, RunRefusedError
from hpcai.core.files import sync
from hpcai.core.messages import Message
from hpcai.measure.claim_holder import Holder, parse_holder, this_process
from hpcai.measure.interruption import Interruption, Signals
from hpcai.measure.progress import read_epochs
from hpcai.measure.publish import (
    CAPTURE,
    DIGEST,
    INSTANCE,
    INTERRUPTED,
    RESERVE,
    RESERVE_BYTES,
    comparable,
    give_back_reserve,
    publish,
)
from hpcai.measure.rank_files import gather_rank_files
from hpcai.measure.watch import end_marked_processes
from hpcai.records.files import ATTEMPTS, RAW, RECORD, read_part, read_record, write_json, write_record
from hpcai.records.run import FINISHED, Attempt, RunRecord
from hpcai.records.weak import GROUP
from hpcai.slurm.job import state_of

SUPERVISOR = "supervisor.json"
"""In each attempt: its current or former supervisor."""
logger = logging.getLogger(__name__)
OPENING = Message("attempts.opening", "its supervisor vanished while it opened the attempt")
VANISHED = Message("attempts.vanished", "its supervisor on {where} vanished {after}{says}")
BEFORE_TRAINING = Message("attempts.before_training", "before the training had begun")
AFTER_EPOCHS = Message("attempts.after_epochs", "after {epochs} epoch{s}")
UNREADABLE = Message("attempts.unreadable", "its verdict cannot be read: {file}: {why}")


def attempt_name() -> str:
    """Return a name for a new attempt that contains the time."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}"


def attempt_folder(folder: Path, name: str) -> Path:
    """Return the folder of an attempt at the run in ``folder`` before publication."""
    return folder / ATTEMPTS / name


@dataclass(frozen=True)
class PublishedSeeds:
    """Seeds of the published runs of a point, read once per measurement: a group has hundreds of instances.

    Attributes
    ----------
    point
        Folder of the point's runs, or of a group's instances.
    """

    point: Path

    @cached_property
    def _by_folder(self) -> dict[Path, int | None]:
        plans = sorted(self.point.glob(f"*/{RAW}/plan.json"))
        return {plan.parent.parent: read_plan(plan).seed for plan in plans}

    def refuse_repeated(self, folder: Path, plan: RunPlan) -> None:
        """Refuse the seed of another run; the run in ``folder`` is opened, and is no longer published itself.

        Raises
        ------
        RunRefusedError
            If another run of the point was measured with this seed.
        ConfigError
            If the plan of a published run is damaged.
        """
        self._by_folder.pop(folder, None)
        for other, seed in self._by_folder.items():
            if seed == plan.seed:
                raise RunRefusedError(
                    f"{folder}: seed {plan.seed} was used by {other} already; the runs of a result need different "
                    f"seeds (MLPerf HPC rules): change the study's `seed`"
                )


def open_attempt(
    folder: Path, plan: RunPlan, name: str, published: PublishedSeeds | None = None
) -> tuple[Path, RunPlan]:
    """Create the folder of a new attempt; return it and the plan with its seed filled in.

    A published failure is first moved to the attempts. Earlier attempts whose supervisors vanished get their verdicts,
    and their leftovers on this node are ended.

    Parameters
    ----------
    folder
        Folder of the run.
    plan
        Its plan; a missing seed is drawn.
    name
        Name of the attempt.
    published
        Seeds of the other runs of the point, shared by all runs of a measurement; None: they are read now.

    Raises
    ------
    RunRefusedError
        If another run of the same point was measured with this seed.
    """
    _withdraw(folder)
    _settle_vanished(folder)
    seeded = plan.model_copy(update={"seed": plan.seed or secrets.randbelow(2**31 - 1) + 1})
    (published or PublishedSeeds(folder.parent)).refuse_repeated(folder, seeded)
    attempt = attempt_folder(folder, name)
    (attempt / "ranks").mkdir(parents=True)
    # Random bytes, because some file systems compress.
    (attempt / RESERVE).write_bytes(os.urandom(RESERVE_BYTES))
    (attempt / SUPERVISOR).write_text(json.dumps(this_process().to_json()) + "\n")
    write_plan(seeded, attempt / "plan.json")
    (attempt / DIGEST).write_text(seeded.digest + "\n")
    return attempt, seeded


def _withdraw(folder: Path) -> None:
    """Move a published run to the attempts, starting with the file that marks it as measured."""
    if not (folder / RAW).exists():
        return
    target = attempt_folder(folder, read_record(folder / RAW / RECORD).attempt)
    for stale in (RECORD, CAPTURE):
        (folder / stale).unlink(missing_ok=True)
    if INSTANCE.fullmatch(folder.name):
        (folder.parent / GROUP).unlink(missing_ok=True)
    # Copies of results may lack their empty folders.
    target.parent.mkdir(exist_ok=True)
    os.rename(folder / RAW, target)


def adopt_finished(folder: Path, plan: RunPlan) -> None:
    """Publish the attempt of a finished training whose supervisor was killed before publication, if there is one.

    Call this only while holding the claim. Of several attempts, the first is published.

    Parameters
    ----------
    folder
        Folder of a run; instances of a weak-scaling group are published together or not at all.
    plan
        The requested run: attempts at anything else are left alone.
    """
    if (folder / RAW).exists():
        return
    for attempt in sorted((folder / ATTEMPTS).glob("*")):
        record = _finished_record(attempt, plan)
        if record is not None:
            logger.warning("%s: its training was finished, but not published: published now", attempt)
            publish(attempt, folder, record)
            return


def _finished_record(attempt: Path, plan: RunPlan) -> RunRecord | None:
    """Return the record of an attempt that only lacks publication; None if there is none, or it is incomplete."""
    if not (attempt / RECORD).exists() or (attempt / INTERRUPTED).exists():
        return None
    try:
        record = read_record(attempt / RECORD)
    except (RecordError, OSError):
        return None
    if record.outcome not in FINISHED or record.plan_digest != comparable(plan, record.plan).digest:
        return None
    lost = [one.path for one in record.artefacts if _size_bytes(attempt / one.path) != one.bytes]
    if lost:
        logger.warning("%s: its training was finished, but %s is missing or cut: repeated", attempt, ", ".join(lost))
    return None if lost else record


def _size_bytes(file: Path) -> int | None:
    try:
        return file.stat().st_size
    except OSError:
        return None


def earlier_attempts(folder: Path) -> tuple[Attempt, ...]:
    """Return the attempts that failed or were interrupted, oldest first.

    An unreadable verdict still counts as an attempt: it must not cost the next attempt.
    """
    return tuple(_verdict_of(attempt) for attempt in sorted((folder / ATTEMPTS).glob("*")) if has_verdict(attempt))


def _verdict_of(attempt: Path) -> Attempt:
    file = attempt / (INTERRUPTED if (attempt / INTERRUPTED).exists() else RECORD)
    try:
        return _of_record(attempt) if file.name == RECORD else read_part(Attempt, file)
    except RecordError as error:
        refused = error.__cause__ if isinstance(error.__cause__, OSError) else None
        why = (refused.strerror or type(refused).__name__) if refused else "damaged or of another version"
    return _interrupted(attempt, UNREADABLE(file=file.name, why=why), None)


def _of_record(attempt: Path) -> Attempt:
    return _of_finished(attempt, read_record(attempt / RECORD))


def _of_finished(attempt: Path, record: RunRecord) -> Attempt:
    supervisor = supervisor_of(attempt)
    return Attempt(
        attempt=record.attempt,
        outcome=record.outcome,
        reason=record.reason,
        started_utc=record.started_utc,
        host=supervisor.host if supervisor else None,
        slurm_job=supervisor.slurm_job or None if supervisor else None,
        epochs=len(record.epochs),
    )


def supervisor_of(attempt: Path) -> Holder | None:
    """Return the current or former supervisor of an attempt; None if unknown."""
    try:
        return parse_holder((attempt / SUPERVISOR).read_bytes())
    except OSError:
        return None


@contextmanager
def kept(attempts: Sequence[Path], signals: Signals) -> Iterator[None]:
    """Record why attempts ended without a record if the measuring block does not complete."""

    def interrupt(reason: str) -> None:
        for attempt in attempts:
            note_interruption(attempt, reason, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))

    signals.call_first(interrupt)
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Interruption):
            interrupt(f"given up: {str(error) or type(error).__name__}")
        for attempt in attempts:
            gather_rank_files(attempt)
        raise


def note_interruption(attempt: Path, reason: str, ended_utc: str | None) -> None:
    """Give an attempt its verdict, unless it has one, was never opened, or is already published."""
    if not attempt.is_dir() or has_verdict(attempt):
        return
    verdict = _interrupted(attempt, reason, ended_utc)
    try:
        give_back_reserve(attempt)
        write_json(verdict, attempt / INTERRUPTED)
        sync(attempt / INTERRUPTED)
    except OSError as error:
        # The next attempt detects the missing verdict.
        logger.warning("%s: the verdict cannot be written (%s): %s", attempt, error.strerror, reason)


def set_aside(attempt: Path, record: RunRecord, reason: str) -> None:
    """Keep a disturbed attempt with its record, but do not publish it: it is repeated."""
    verdict = _of_finished(attempt, record).model_copy(update={"outcome": "disturbed", "reason": reason})
    write_json(verdict, attempt / INTERRUPTED)
    write_record(record, attempt / RECORD)


def why_repeat(records: Sequence[RunRecord], folder: Path) -> str:
    """Return why a measurement must be repeated; blank to publish it.

    Failures are published. So is a disturbed run that has used up the repeats that the study allows.

    Parameters
    ----------
    records
        Of a run, or of all instances of a weak-scaling group.
    folder
        Folder of the run, or of one instance, with the attempts set aside before.
    """
    disturbed = [record for record in records if record.outcome in FINISHED and record.is_disturbed]
    if not disturbed:
        return ""
    tolerance = disturbed[0].plan.limits.disturbance
    before = sum(one.outcome == "disturbed" for one in earlier_attempts(folder))
    if before >= tolerance.repeats:
        return ""
    return f"disturbed: {say_disturbance(disturbed[0].disturbance)}; the limit is {tolerance.others_ratio:.1%}"


def _interrupted(attempt: Path, reason: str, ended_utc: str | None) -> Attempt:
    """Return the verdict of an attempt without a result, from the files in its folder."""
    supervisor = supervisor_of(attempt)
    return Attempt(
        attempt=attempt.name,
        outcome="interrupted",
        reason=reason,
        started_utc=supervisor.started_utc if supervisor else None,
        ended_utc=ended_utc,
        host=supervisor.host if supervisor else None,
        slurm_job=supervisor.slurm_job or None if supervisor else None,
        epochs=_epochs_of(attempt),
    )


def has_verdict(attempt: Path) -> bool:
    """Return whether an attempt has ended and its end is recorded."""
    return (attempt / RECORD).exists() or (attempt / INTERRUPTED).exists()


def _settle_vanished(folder: Path) -> None:
    """Give verdicts to attempts whose supervisors vanished; call this only while holding the claim."""
    for attempt in sorted((folder / ATTEMPTS).glob("*")):
        if attempt.is_dir() and not has_verdict(attempt):
            end_marked_processes(attempt.name)
            note_interruption(attempt, _vanished_words(attempt), None)
            gather_rank_files(attempt)


def _vanished_words(attempt: Path) -> str:
    supervisor, epochs = supervisor_of(attempt), _epochs_of(attempt)
    if supervisor is None:
        return OPENING()
    job_id = supervisor.slurm_job
    where = f"{supervisor.host}{f' (Slurm job {job_id})' if job_id else ''}"
    after = BEFORE_TRAINING() if epochs is None else AFTER_EPOCHS(epochs=epochs, s="s" * (epochs != 1))
    job = state_of(job_id) if job_id else None
    says = ""
    if job is not None and job.restarts > supervisor.slurm_restart:
        says = "; Slurm has put its job back into the queue since"
    elif job is not None and job.has_ended:
        says = f"; Slurm says {job.state}"
    return VANISHED(where=where, after=after, says=says)


def _epochs_of(attempt: Path) -> int | None:
    path = attempt / "epochs.jsonl"
    try:
        return len(read_epochs(path)) if path.exists() else None
    except OSError:
        return None
