"""Input of a document: runs of one benchmark, its rows of the tables, the machine file, raw logs."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

import pandas as pd

from hpcai.config.machine import Machine
from hpcai.config.study import Study
from hpcai.core.errors import ConfigError, RecordError
from hpcai.core.files import file_sha256
from hpcai.core.messages import Message
from hpcai.core.sealed import seal
from hpcai.core.table_files import read_parquet
from hpcai.measure.provenance import environment_facts
from hpcai.metrics.run_tables import read_records
from hpcai.metrics.scaling.trials import COMPLETE
from hpcai.metrics.scores.columns import SCORE_COLUMNS, TRIAL_COLUMNS
from hpcai.records.files import RAW, RECORD, read_record, read_record_text
from hpcai.records.run import Artefact, RunRecord
from hpcai.rules.table import rules_of

SUITE = "hpc_ai500"
ENCLOSURES = "evidence"
"""Folder of the source files of numbers, besides the runs."""
MAX_COPIED_BYTES = 5_000_000
"""Larger raw files are listed with their SHA-256 instead of copied."""
LINK_COLUMNS = ("what", "scope", "ranks", "bytes", "time_s", "time_min_s", "source")
FIT_COLUMNS = (
    "what", "scope", "ranks", "bandwidth_bytes_per_s", "bandwidth_error_bytes_per_s", "misfit_ratio", "source",
)  # fmt: skip
TABLES = {"run_scores": TRIAL_COLUMNS, "scores": SCORE_COLUMNS, "links": LINK_COLUMNS, "link_fits": FIT_COLUMNS}
"""Tables that a document reads, and the columns that it may show."""
SOURCES = (
    ("run_scores", "work_source"), ("run_scores", "power_source"), ("links", "source"), ("link_fits", "source"),
)  # fmt: skip
"""Columns that name the source files of a document's numbers, besides the records."""
FileStatus = Literal["copied", "copied: variables withheld", "named: large", "named: not text", "missing", "changed"]
HANDED_IN: tuple[FileStatus, ...] = ("copied", "copied: variables withheld")
RESULT_FILE = re.compile(r"\bresults/[^\s,;]+")
"""A file of the study as named in tables: relative to the folder that contains the results folder."""
NO_RECORD = Message(
    "evidence.no_record",
    "no record of the benchmark {benchmark!r} among {files} files: a report document needs runs; measure them, or "
    "leave the benchmark out of the study",
)


@dataclass(frozen=True)
class LogFile:
    """One raw file of a run: its location, its entry in the record, and its status in the document."""

    path: Path
    name: str
    bytes: int
    sha256: str
    status: FileStatus

    @property
    def handed_in(self) -> bool:
        """Whether the document's folder has a copy."""
        return self.status in HANDED_IN


@dataclass(frozen=True)
class Enclosure:
    """A source file of numbers besides the runs: its name in tables, and its copy."""

    source: str
    file: LogFile


@dataclass(frozen=True)
class Run:
    """One run: its record, the record's file, and its raw files."""

    record: RunRecord
    path: Path
    logs: tuple[LogFile, ...]

    @property
    def folder(self) -> str:
        """Location of the run's files in the document's folder."""
        return f"logs/{self.record.run_id}"

    @property
    def trained_to_its_end(self) -> bool:
        """Whether it is a trial: a training that neither stopped early nor diverged."""
        return self.record.outcome in COMPLETE

    def log(self, name: str) -> LogFile | None:
        """Return the raw file with a given name."""
        return next((log for log in self.logs if log.name == name), None)


@dataclass(frozen=True)
class Evidence:
    """All evidence on one benchmark of a study."""

    benchmark: str
    machine: Machine
    study: Study | None
    runs: tuple[Run, ...]
    frames: Mapping[str, pd.DataFrame]
    enclosures: tuple[Enclosure, ...] = ()

    @property
    def records(self) -> tuple[RunRecord, ...]:
        """Records of all runs."""
        return tuple(run.record for run in self.runs)

    @property
    def machine_file(self) -> str:
        """Name of the machine file, for instructions."""
        return f"machine file machines/{self.machine.name}.yaml"

    def place(self, text: str) -> str:
        """Return a text in which copied files of the study have the path of their copies."""
        copies = {one.source: one.file.name for one in self.enclosures if one.file.handed_in}
        return RESULT_FILE.sub(lambda found: copies.get(found[0], found[0]), text)


def read_evidence(
    benchmark: str, records: Sequence[Path], tables: Mapping[str, Path], machine: Machine, study: Study | None = None
) -> Evidence:
    """Read the runs of a benchmark and its rows of the tables.

    Raises
    ------
    RecordError
        If a record is damaged, or none belongs to this benchmark.
    ConfigError
        If the benchmark does not belong to HPC AI500.
    """
    files = [Path(path) for path in records]
    own = [(record, path) for record, path in zip(read_records(files), files, strict=True) if _of(record) == benchmark]
    if not own:
        raise RecordError(NO_RECORD(benchmark=benchmark, files=len(files)))
    suite = own[0][0].plan.benchmark.suite
    if suite != SUITE:
        raise ConfigError(
            f"benchmark {benchmark!r}: found a benchmark of {rules_of(suite).title}; its report document is defined "
            f"by the rules of {rules_of(SUITE).title} only: choose one of that suite"
        )
    runs = sorted((Run(_withhold(record), path, find_logs(record, path.parent)) for record, path in own), key=_order)
    frames = {name: _rows(tables.get(name), columns, benchmark) for name, columns in TABLES.items()}
    return Evidence(benchmark, machine, study, tuple(runs), frames, _find_enclosures(frames, _results_folder(runs[0])))


def find_logs(record: RunRecord, folder: Path) -> tuple[LogFile, ...]:
    """Return the raw files of a record, each compared with its recorded size and SHA-256."""
    raw = folder / RAW
    own = raw / RECORD
    logs = [_log(raw / artefact.path, artefact) for artefact in record.artefacts]
    if own.is_file():
        facts = Artefact(path=RECORD, bytes=own.stat().st_size, sha256=file_sha256(own))
        logs.append(_log(own, facts))
    return tuple(sorted(logs, key=lambda log: log.name))


def _find_enclosures(frames: Mapping[str, pd.DataFrame], results: Path) -> tuple[Enclosure, ...]:
    """Return the files that the tables name as sources, sorted by path."""
    columns = (frames[name][column] for name, column in SOURCES if column in frames[name])
    texts = {str(text) for column in columns for text in column.dropna()}
    sources = sorted({found for text in texts for found in RESULT_FILE.findall(text)})
    return tuple(Enclosure(source, _enclosed(source, results)) for source in sources)


def _enclosed(source: str, results: Path) -> LogFile:
    relative = PurePosixPath(source).relative_to("results")
    path, name = results / relative, f"{ENCLOSURES}/{relative}"
    if ".." in relative.parts or not path.is_file():
        return LogFile(path, name, 0, "", "missing")
    return _log(path, Artefact(path=name, bytes=path.stat().st_size, sha256=file_sha256(path)))


def _results_folder(run: Run) -> Path:
    """Return the folder that contains ``runs/RUN_ID/record.json``."""
    parents = run.path.absolute().parents
    return parents[min(len(PurePosixPath(run.record.run_id).parts) + 1, len(parents) - 1)]


def _withhold(record: RunRecord) -> RunRecord:
    """Return a record without variables that new records exclude, such as those with a credential."""
    kept = environment_facts(record.provenance.environment)
    return record.model_copy(update={"provenance": record.provenance.model_copy(update={"environment": kept})})


def _holds_withheld(path: Path) -> bool:
    if path.name != RECORD:
        return False
    record = read_record(path)
    return _withhold(record) != record


def content_to_hand_in(file: LogFile) -> bytes:
    """Return the content of a file's copy: its bytes, or a record without data that must not be disclosed."""
    if file.status == "copied":
        return file.path.read_bytes()
    # Not through the model of a record, which would add fields of later versions.
    text, is_sealed = read_record_text(file.path)
    record = json.loads(text)
    record["provenance"]["environment"] = environment_facts(record["provenance"]["environment"])
    withheld = (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode()
    return seal(withheld) if is_sealed else withheld


def _log(path: Path, artefact: Artefact) -> LogFile:
    status: FileStatus = "copied"
    if not path.is_file():
        status = "missing"
    elif file_sha256(path) != artefact.sha256:
        status = "changed"
    elif artefact.bytes > MAX_COPIED_BYTES:
        status = "named: large"
    elif not _is_text(path):
        status = "named: not text"
    elif _holds_withheld(path):
        status = "copied: variables withheld"
    return LogFile(path, artefact.path, artefact.bytes, artefact.sha256, status)


def _is_text(path: Path) -> bool:
    data = path.read_bytes()
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data


def _of(record: RunRecord) -> str:
    return record.plan.benchmark.name


def _order(run: Run) -> tuple[str, int, int, int]:
    point = run.record.plan.point
    return point.variant, point.nodes, point.ranks_per_node, run.record.plan.repetition


def _rows(path: Path | None, columns: Sequence[str], benchmark: str) -> pd.DataFrame:
    """Return the rows of a benchmark; none if the table does not exist."""
    if path is None or not path.exists():
        return pd.DataFrame(columns=list(columns))
    frame = read_parquet(path)
    return frame[frame["benchmark"] == benchmark].reset_index(drop=True) if "benchmark" in frame else frame
