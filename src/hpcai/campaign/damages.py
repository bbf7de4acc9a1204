"""Damage to published runs, and how to repair it."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic_core import from_json

from hpcai.core.errors import RecordError
from hpcai.core.files import file_sha256, read_regular
from hpcai.core.sealed import unseal
from hpcai.records.files import RAW, RECORD, read_record, read_record_text, sound_copy
from hpcai.records.input_reads import judge_json
from hpcai.records.run import Outcome

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True)
class Damage:
    """A damage and its remedy."""

    what: str
    remedy: str
    command: str


@dataclass(frozen=True)
class RecordFacts:
    """The parts of a run record that matter here."""

    outcome: Outcome
    reason: str
    wall_s: float
    started_utc: str
    attempt: str
    is_sealed: bool
    """Whether it contains its own digest; records of earlier versions do not."""
    is_cached: bool = False
    """Whether a cache served the input that should have come from storage."""


def find_damages(path: Path, *, check_files: bool) -> Iterator[Damage]:
    """Find damage to a published run; ``check_files`` verifies every raw file."""
    published, original = path / RECORD, path / RAW / RECORD
    if not original.exists():
        yield Damage(f"{published} is there, but its original {original} is not", *advise_restore(path))
    elif published.stat().st_size != original.stat().st_size or (
        check_files and published.read_bytes() != original.read_bytes()
    ):
        yield Damage(f"{published} is not the same as its original {original}", *advise_restore(path))
    elif check_files:
        yield from _file_damages(path)


def _file_damages(path: Path) -> Iterator[Damage]:
    try:
        record = read_record(path / RAW / RECORD)
    except RecordError as error:
        yield Damage(" ".join(str(error).split()), *advise_restore(path))
        return
    for artefact in record.artefacts:
        file = path / RAW / artefact.path
        if not file.is_file():
            yield Damage(f"{file}: is missing, but the record lists it", *advise_discard(path))
        elif file.stat().st_size != artefact.bytes:
            found = f"found {file.stat().st_size} bytes, the record says {artefact.bytes}"
            yield Damage(f"{file}: {found}", *advise_discard(path))
        elif file_sha256(file) != artefact.sha256:
            yield Damage(f"{file}: its SHA-256 is not the one in the record", *advise_discard(path))


PLAN_REMEDY = "remove it: a start writes plans only of runs that it measures, and a finished run has its own in raw/"


def find_plan_damage(path: Path) -> Damage | None:
    """Return what is wrong with the workflow's plan; without a valid one the workflow cannot start."""
    plan = path / "plan.json"
    try:
        if plan.exists():
            read_json(plan)
    except RecordError as error:
        what, (_, command) = advise_removal(plan, error, "the study")
        return Damage(str(what), PLAN_REMEDY, command)
    return None


def advise_removal(path: Path, error: Exception, source: str) -> tuple[RecordError, tuple[str, str]]:
    """Advise removing a file that can be regenerated; return the problem, remedy and command."""
    what = error if isinstance(error, RecordError) else RecordError(f"{path}: has no {error}")
    return what, (f"remove it: the next start writes it from {source}", shlex.join(["rm", str(path)]))


def advise_restore(path: Path) -> tuple[str, str]:
    """Advise restoring the intact copy of a record, if there is one; return remedy and command."""
    sound = sound_copy(path) if (path / RAW).is_dir() else None
    if sound is None:
        return advise_discard(path)
    return f"{sound} is intact: restore from it", f"hpcai restore {shlex.quote(str(path))}"


def advise_discard(path: Path) -> tuple[str, str]:
    """Advise measuring a run again while keeping the existing files; return remedy and command."""
    backup = "put the files back from a backup, or"
    if (path / RAW / "plan.json").exists():
        command = f'hpcai discard {shlex.quote(str(path))} --reason "damaged files"'
        return f"{backup} set the run aside, so that it is measured again", command
    # `hpcai discard` sets aside published runs; this one is not, or no longer, published.
    moved = shlex.join(["mv", str(path), f"{path}.damaged"])
    return f"{backup} move the folder away, so that the run is measured again", moved


def read_facts(path: Path) -> RecordFacts:
    """Read the relevant parts of a run record: full validation would take three times as long.

    Raises
    ------
    RecordError
        If it is not JSON, lacks a required part, or was changed since it was written.
    """
    text, is_sealed = read_record_text(path)
    found = _as_object(path, text)
    wall_s, told = found.get("wall_s"), found.get("outcome")
    outcome = next((one for one in OUTCOMES if one == told), None)
    if outcome is None:
        raise RecordError(f"{path}: outcome: found {told!r}; expected one of {', '.join(OUTCOMES)}")
    if not isinstance(wall_s, int | float):
        raise RecordError(f"{path}: wall_s: found {wall_s!r}; expected seconds")
    reason, started_utc, attempt = (str(found.get(key, "")) for key in ("reason", "started_utc", "attempt"))
    cached = judge_json(found).is_cached
    return RecordFacts(outcome, reason, float(wall_s), started_utc, attempt, is_sealed, cached)


def read_record_json(path: Path) -> dict[str, Any]:
    """Read a run record as plain JSON.

    Raises
    ------
    RecordError
        If it is not a JSON object, or was changed since it was written.
    """
    return _as_object(path, read_record_text(path).text)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file, verifying its own digest if it has one.

    Raises
    ------
    RecordError
        If it is not a JSON object, or was changed since it was written.
    """
    try:
        return _as_object(path, unseal(read_regular(path)).text)
    except ValueError as error:
        raise RecordError(f"{path}: {error}") from error


def _as_object(path: Path, content: bytes) -> dict[str, Any]:
    try:
        found = from_json(content)
    except ValueError as error:
        raise RecordError(f"{path}: no valid JSON ({error})") from error
    if not isinstance(found, dict):
        raise RecordError(f"{path}: found {type(found).__name__}; expected the keys of a record")
    return found
