"""The tree of a submission as paths and contents: systems, benchmarks and results of one organisation."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hpcai.core.errors import RecordError
from hpcai.mlperf_hpc.rounds.tree import PRUNED
from hpcai.mlperf_hpc.submission.code import Code
from hpcai.mlperf_hpc.submission.implementation_files import benchmark_readme, implementation_files
from hpcai.mlperf_hpc.submission.model import (
    IMPLEMENTATION,
    OpenPoint,
    Result,
    Submission,
    SubmittedRun,
    SubmittedSystem,
)
from hpcai.mlperf_hpc.submission.run_files import LOG
from hpcai.mlperf_hpc.submission.system_file import open_points, system_fields

FILE_MODE, SCRIPT_MODE = 0o644, 0o755


@dataclass(frozen=True)
class TreeFile:
    """A file of the tree: path below the output folder, content, and whether it is executable."""

    path: str
    content: bytes
    mode: int = FILE_MODE


def tree_files(submission: Submission, code: Code) -> Iterator[TreeFile]:
    """Yield the files of a submission; logs are copied byte for byte.

    Raises
    ------
    RecordError
        If a log differs from the one listed in its record.
    """
    org = submission.folder
    described: dict[str, Result] = {}
    for system in submission.systems:
        yield _text(f"{org}/systems/{system.name}.json", _json(system_fields(submission, system)))
        for result in system.results:
            described.setdefault(result.benchmark, result)
            folder = f"{org}/benchmarks/{result.benchmark}/implementations/{system.name}"
            for name, text in implementation_files(submission, system, result).items():
                yield _text(f"{folder}/{name}", text)
            yield from _logs(result_folder(submission, system, result), result)
    for benchmark, result in sorted(described.items()):
        folder = f"{org}/benchmarks/{benchmark}/implementations/{IMPLEMENTATION}"
        for name, (content, mode) in code.files.items():
            yield TreeFile(f"{folder}/{name}", content, mode)
        yield _text(f"{folder}/README.md", benchmark_readme(submission, result, code.sentence))


def result_folder(submission: Submission, system: SubmittedSystem, result: Result) -> str:
    """Return the folder of a result's logs."""
    return f"{submission.folder}/results/{system.name}/{result.scaling}/{result.benchmark}"


def all_open_points(submission: Submission) -> list[OpenPoint]:
    """Return the fields that the owner of the runs must fill in by hand."""
    return [
        point
        for system in submission.systems
        for point in open_points(f"{submission.folder}/systems/{system.name}.json", system_fields(submission, system))
    ]


def write_files(files: Iterator[TreeFile], folder: Path) -> None:
    """Write files below a folder."""
    for file in files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
        path.chmod(file.mode)


def _logs(folder: str, result: Result) -> Iterator[TreeFile]:
    for place, runs in ((folder, result.runs), (f"{folder}/{PRUNED}", result.pruned)):
        logs = [(run, run.log) for run in runs if run.log]
        for number, (run, log) in enumerate(logs, start=1):
            _require_listed(run, log)
            yield TreeFile(f"{place}/result_{number}.txt", log.read_bytes())


def _require_listed(run: SubmittedRun, log: Path) -> None:
    """Refuse a log that its record does not list; reading already checked that it is unchanged."""
    if LOG not in {artefact.path for artefact in run.record.artefacts}:
        raise RecordError(
            f"{log}: the record of {run.record.run_id} does not list it, expected its SHA-256 there; "
            "put the run aside with `hpcai discard`"
        )


def _text(path: str, text: str) -> TreeFile:
    return TreeFile(path, text.encode(), SCRIPT_MODE if path.endswith(".sh") else FILE_MODE)


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
