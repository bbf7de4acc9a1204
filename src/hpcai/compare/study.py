"""Read one results folder: its runs with their scores, its settings, and the recorded facts about each point."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from hpcai.catalogue.points import POINT, label_of
from hpcai.core.errors import RecordError
from hpcai.core.files import read_regular
from hpcai.core.sealed import unseal
from hpcai.core.table_files import read_parquet
from hpcai.records.files import read_record_text

NEEDED = (
    "run_id", "study", "suite", "workload", *POINT, "ranks", "outcome", "quality_target",
    "started_utc", "attempt", "data_source", "best_quality",
)  # fmt: skip
"""Required columns of the table of runs."""


class PointKey(NamedTuple):
    """Identity of a point: benchmark, variant, engine and scale; the fields of `POINT`."""

    benchmark: str
    variant: str
    engine: str
    scale: str

    @property
    def label(self) -> str:
        """The point as a single word."""
        return label_of(self._asdict())


@dataclass(frozen=True)
class Study:
    """One results folder.

    Attributes
    ----------
    folder
        The folder, as named by the user.
    name
        Name of the study, or of all studies in it.
    runs
        The table `runs`, with the columns of `run_scores` if that table exists.
    points
        The table `scores`, or else `scales`; empty if there is neither.
    settings
        Contents of `study.json`; empty if it is missing.
    records
        Existing run records by run id, not validated, because a comparison must also read records of older
        versions.
    tables
        The files that were read.
    """

    folder: Path
    name: str
    runs: pd.DataFrame
    points: pd.DataFrame
    settings: Mapping[str, Any]
    records: Mapping[str, Mapping[str, Any]]
    tables: tuple[Path, ...]

    @property
    def first_start(self) -> str:
        """Start of the first run (UTC); blank without runs."""
        return str(self.runs["started_utc"].min()) if len(self.runs) else ""

    @property
    def commits(self) -> str:
        """Commits of the code that measured."""
        return ", ".join(sorted({str(commit) for commit in self.runs.get("commit", []) if commit}))

    def point_runs(self) -> dict[PointKey, pd.DataFrame]:
        """Return the runs of each point, by the order of the table."""
        groups = self.runs.groupby(list(PointKey._fields), sort=False)
        return {PointKey(*map(str, key)): group for key, group in groups}

    def point_row(self, key: PointKey) -> Mapping[str, Any]:
        """Return a point's row of the table of scores or scales; empty without one."""
        if self.points.empty:
            return {}
        mask = pd.Series(True, index=self.points.index)
        for name in PointKey._fields:
            mask &= self.points[name] == getattr(key, name)
        found = self.points[mask]
        return {str(name): value for name, value in found.iloc[0].items()} if len(found) else {}


def read_study(folder: str | Path) -> Study:
    """Read one results folder; the raw data need not exist.

    Parameters
    ----------
    folder
        A results folder: ``tables/runs.parquet`` is required; ``tables/run_scores.parquet``, ``tables/scores.parquet``,
        ``study.json`` and ``runs/*/record.json`` are used if they exist.

    Raises
    ------
    RecordError
        If it is not a results folder, or one of its files is damaged or of another version.
    """
    place = Path(folder)
    runs_file = place / "tables" / "runs.parquet"
    if not runs_file.is_file():
        raise RecordError(f"{place}: not a results folder, tables/runs.parquet is missing; {_advice(place)}")
    runs = read_parquet(runs_file)
    missing = [name for name in NEEDED if name not in runs]
    if missing:
        raise RecordError(
            f"{runs_file}: without the columns {', '.join(missing)}; regenerate the table with this version"
        )
    runs, tables = _add_scores(runs, runs_file)
    points_file = next(
        filter(Path.is_file, (runs_file.with_name(f"{name}.parquet") for name in ("scores", "scales"))), None
    )
    points = read_parquet(points_file) if points_file else pd.DataFrame()
    settings_file = place / "study.json"
    settings = _read_json(settings_file) if settings_file.is_file() else {}
    records = _read_records(place, runs)
    name = str(settings.get("name") or ", ".join(sorted(set(runs["study"].astype(str)))))
    return Study(place, name, runs, points, settings, records, (*tables, *filter(None, [points_file])))


def _advice(place: Path) -> str:
    if (place / "results" / "tables" / "runs.parquet").is_file():
        return f"write {place / 'results'}"
    if not place.is_dir():
        return "there is no such folder"
    return "specify the folder `results` of a study with tables"


def _add_scores(runs: pd.DataFrame, runs_file: Path) -> tuple[pd.DataFrame, tuple[Path, ...]]:
    """Add the scores of the runs, if that table exists."""
    file = runs_file.with_name("run_scores.parquet")
    if not file.is_file():
        return runs, (runs_file,)
    scores = read_parquet(file)
    if "run_id" not in scores or scores["run_id"].duplicated().any():
        raise RecordError(f"{file}: found no column run_id with one row for each run; make the table again")
    new = ["run_id", *(name for name in scores.columns if name not in runs)]
    return runs.merge(scores[new], on="run_id", how="left", validate="1:1"), (runs_file, file)


def _read_records(place: Path, runs: pd.DataFrame) -> dict[str, Mapping[str, Any]]:
    files = {str(run_id): place / "runs" / str(run_id) / "record.json" for run_id in runs["run_id"]}
    return {run_id: _read_record(file) for run_id, file in files.items() if file.is_file()}


def _read_record(file: Path) -> Mapping[str, Any]:
    record = _read_json(file, lambda path: read_record_text(path).text)
    for part in ("plan", "provenance"):
        if not isinstance(record.get(part), dict):
            raise RecordError(f"{file}: found no `{part}`; expected a run record; `hpcai restore` restores one")
    return record


def _unsealed(file: Path) -> bytes:
    return unseal(read_regular(file)).text


def _read_json(file: Path, read: Callable[[Path], bytes] = _unsealed) -> Mapping[str, Any]:
    try:
        content = json.loads(read(file))
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"{file}: cannot be read as JSON ({str(error)[:120]}); restore the file") from error
    if not isinstance(content, dict):
        raise RecordError(f"{file}: found a {type(content).__name__}, an object with settings is expected")
    return content
