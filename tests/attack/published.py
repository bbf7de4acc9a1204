"""What is left of a run that was hit: one right record, and nothing else."""

from pathlib import Path

from hpcai.core.errors import HpcaiError
from hpcai.measure.attempts import has_verdict
from hpcai.records.files import read_record
from hpcai.records.run import FINISHED


def folder_problem(folder: Path) -> str:
    """Say what is wrong with the folder of a run; blank if one record is published and every attempt has a verdict."""
    published, original = folder / "record.json", folder / "raw/record.json"
    if not published.exists() or published.read_bytes() != original.read_bytes():
        return "no record is published, or two that differ"
    record = read_record(published)
    attempts = sorted((folder / "attempts").glob("*"))
    silent = [path.name for path in attempts if not has_verdict(path)]
    if silent:
        return f"attempts without a verdict: {silent}"
    finished = [path for path in attempts if _is_finished(path)]
    if finished:
        return f"finished attempts that are not published: {finished}"
    if (folder / "claim.json").exists():
        return "a claim was left"
    if record.outcome != "converged":
        return f"outcome {record.outcome}: {record.reason}"
    missing = {path.name for path in attempts} - {one.attempt for one in record.earlier_attempts}
    return f"attempts that the record does not name: {missing}" if missing else ""


def _is_finished(attempt: Path) -> bool:
    if not (attempt / "record.json").exists() or (attempt / "interrupted.json").exists():
        return False
    try:
        return read_record(attempt / "record.json").outcome in FINISHED
    except HpcaiError:
        return False
