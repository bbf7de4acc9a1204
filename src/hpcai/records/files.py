"""Files of records: written whole, sources of later numbers with the digest of their own bytes, checked when read."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from hpcai.core.errors import ParseError, RecordError
from hpcai.core.files import file_sha256, read_regular, write_atomically
from hpcai.core.messages import Message
from hpcai.core.sealed import Unsealed, sealed_model, unseal
from hpcai.records.run import Artefact, RunRecord
from hpcai.records.shared_parts import with_shared_parts

RECORD = "record.json"
RUN_RECORDS = f"runs/*/*/*/r*/{RECORD}"
"""Records of the runs in a study's folder of results: by benchmark, variant, scale and repeat."""
RAW = "raw"
"""Subfolder of a published run with its raw files and the original of its record."""
ATTEMPTS = "attempts"
"""Subfolder of a run for its attempts: running, failed, interrupted or disturbed."""
DISCARDED = "discarded"
"""Folder beside runs for those that were put aside."""
FILE_CHANGED = Message(
    "records.file_changed",
    "{path}: found SHA-256 {found}, expected {expected} as {noted}; the raw file was changed or lost: restore it "
    "from a backup, or `hpcai discard {folder} --reason WHY`, then measure again",
)

MOST_PLACES = 3
"""Wrong places of a file that are named: a file of another kind has as many as it has keys."""
OTHER_KEYS = {"missing", "extra_forbidden"}
"""Errors that say less than a wrong value does."""
MADE_BY_WORKFLOW = "start the workflow again to create it"

Part = TypeVar("Part", bound=BaseModel)


def write_json(part: BaseModel, path: Path) -> None:
    """Write a model as JSON atomically."""
    write_atomically(path, (part.model_dump_json(indent=1) + "\n").encode())


def write_sealed(part: BaseModel, path: Path) -> None:
    """Write the source of later numbers: a model as JSON with the digest of its own bytes."""
    write_atomically(path, sealed_model(part))


def write_record(record: RunRecord, path: Path) -> None:
    """Write a run record with the digest of its own bytes atomically."""
    write_sealed(record, path)


def read_part(model: type[Part], path: Path, made_by: str = MADE_BY_WORKFLOW) -> Part:
    """Read one model, checked against its own digest if it has one.

    Parameters
    ----------
    model, path
        What to read, and from which file.
    made_by
        How the file is made, for the error if it is missing.

    Raises
    ------
    RecordError
        If the file is missing, was changed since it was written, is not JSON, or does not match the model; names the
        first places.
    """
    try:
        return _validate(model.model_validate_json, path, unseal(read_regular(path)).text, _advise_again)
    except OSError as error:
        raise _unreadable(path, error, made_by) from error
    except ValueError as error:
        raise RecordError(f"{path}: {error}; {_advise_again(path)}") from error


def read_record(path: Path) -> RunRecord:
    """Read and check a run record.

    Raises
    ------
    RecordError
        If the record is missing or damaged, was changed since it was written, or contradicts itself.
    """
    try:
        return _validate(_parse_record, path, read_record_text(path).text, _advise_copy)
    except OSError as error:
        raise _unreadable(path, error) from error


def find_records(place: Path) -> list[Path]:
    """Return the records of published runs: a record itself, or those of a folder of runs at any depth.

    Of a results folder only ``runs`` and ``weak`` count, because submissions in it hold copies.
    """
    if place.is_file():
        return [place]
    folders = [one for one in (place / "runs", place / "weak") if one.is_dir()] or [place]
    others = {RAW, ATTEMPTS, DISCARDED}
    found = (path for folder in folders for path in sorted(folder.rglob(RECORD)))
    return [path for path in found if not others & {*path.relative_to(place).parts}]


def read_record_text(path: Path) -> Unsealed:
    """Return the JSON of a run record, checked against its own digest; all readers of records use this.

    Records of earlier versions have no digest and are returned unchanged.

    Raises
    ------
    RecordError
        If a byte was changed since it was written; names the other copy if that one is intact.
    OSError
        If the file does not exist or cannot be read.
    """
    try:
        return unseal(read_regular(path))
    except ValueError as error:
        raise RecordError(f"{path}: {error}; {_advise_copy(path)}") from error


def sound_copy(folder: Path) -> Path | None:
    """Return the intact copy of a published run's record; None if there is none, or it cannot be determined.

    A valid digest is proof. Of two copies without digests, from a study of an earlier version, a readable one is
    considered intact; if both are readable but differ, neither is certain.

    Parameters
    ----------
    folder
        Folder of the run, with the original in ``raw`` and the copy for the workflow.
    """
    paths = (folder / RAW / RECORD, folder / RECORD)
    found = {path: copy for path in paths if (copy := _valid_copy(path))}
    sealed = [path for path, copy in found.items() if copy.is_sealed]
    if sealed:
        return sealed[0]
    return next(iter(found), None) if len(set(found.values())) == 1 else None


def _valid_copy(path: Path) -> Unsealed | None:
    try:
        copy = unseal(read_regular(path))
        RunRecord.model_validate_json(copy.text)
    except (OSError, ValueError):
        return None
    return copy


def _advise_copy(path: Path) -> str:
    folder = path.parent.parent if path.parent.name == RAW else path.parent
    sound = sound_copy(folder)
    if sound is None or sound == path:
        return f"`hpcai restore {folder}` restores an intact copy, if there is one"
    return f"{sound} is intact: `hpcai restore {folder}` restores it"


def _advise_again(path: Path) -> str:
    return f"if the workflow wrote it, `rm {path}`, and its next start recreates it"


def _unreadable(path: Path, error: OSError, made_by: str = MADE_BY_WORKFLOW) -> RecordError:
    if isinstance(error, FileNotFoundError):
        return RecordError(f"{path}: no such file; {made_by}")
    remedy = "name a file in it" if path.is_dir() else "put the file back, or ask its owner for access"
    return RecordError(f"{path}: cannot be read ({error.strerror}); {remedy}")


def _parse_record(content: bytes) -> RunRecord:
    try:
        return RunRecord.model_validate(with_shared_parts(content))
    except (ValueError, TypeError, LookupError):
        # Whatever is wrong, the record as a whole names its place.
        return RunRecord.model_validate_json(content)


def _validate(parse: Callable[[bytes], Part], path: Path, content: bytes, advise: Callable[[Path], str]) -> Part:
    try:
        return parse(content)
    except ValidationError as error:
        wrong = sorted(error.errors(), key=lambda detail: detail["type"] in OTHER_KEYS)
        places = [
            f"{'.'.join(map(str, detail['loc'])) or 'whole file'}: found "
            f"{'nothing' if detail['type'] == 'missing' else repr(str(detail['input'])[:80])}; {detail['msg']}"
            for detail in wrong
        ]
        more = [f"and {len(places) - MOST_PLACES} more"] if len(places) > MOST_PLACES else []
        lines = "\n  ".join([*places[:MOST_PLACES], *more])
        what = "damaged, of another version, or another kind of file"
        raise RecordError(f"{path}: {what} ({advise(path)}):\n  {lines}") from error


def check_artefact(path: Path, artefact: Artefact, folder: Path, noted: str = "in the record") -> Path:
    """Return a raw file after verifying it against its recorded size and digest.

    Parameters
    ----------
    path, artefact
        The file, and its entry.
    folder
        Folder of the run, for the remedy.
    noted
        Location of the digest, for the error.

    Raises
    ------
    ParseError
        If it was changed or lost since: no flipped bit may become a number.
    """
    found = file_sha256(path) if path.is_file() else "no file"
    if found != artefact.sha256:
        raise ParseError(
            FILE_CHANGED(path=path, found=found[:12], expected=artefact.sha256[:12], noted=noted, folder=folder)
        )
    return path


def check_raw_file(record: RunRecord, path: Path) -> Path:
    """Return a file of a run's raw folder, verified if the run's record lists it (:func:`check_artefact`).

    Parameters
    ----------
    record
        Record of the run.
    path
        A file directly in its raw folder, which may be missing if the record does not list it.

    Raises
    ------
    ParseError
        If it was changed or lost since the record was written.
    """
    listed = next((one for one in record.artefacts if one.path == path.name), None)
    return check_artefact(path, listed, path.parent.parent) if listed else path
