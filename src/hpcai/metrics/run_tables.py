"""Convert run records to tables: one row per run or epoch, as CSV and Parquet with units in the column names."""

import gc
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any

import pandas as pd

from hpcai.catalogue.points import SERIES
from hpcai.catalogue.profiles import PROFILES
from hpcai.catalogue.tables import columns_of
from hpcai.catalogue.tables import tables as known_tables
from hpcai.core.errors import RecordError, TableError
from hpcai.core.messages import Message
from hpcai.core.sealed import sealed_json
from hpcai.core.table_files import read_parquet, write_parquet
from hpcai.metrics.joining import join_tables
from hpcai.metrics.quietness import quiet_columns
from hpcai.metrics.roofline.samples_above import NODE_LOCAL, SHARED
from hpcai.metrics.scaling.efficiency import compute_scaling
from hpcai.metrics.scaling.scales import POINT_SETTINGS, summarise_scales
from hpcai.metrics.scaling.trials import mark_extremes
from hpcai.metrics.scores.of_run import score_run, time_parts, time_shares
from hpcai.metrics.scores.validity import invalid_reasons, join_reasons, result_flags, valid_for
from hpcai.metrics.scores.verdicts import summarise_verdicts
from hpcai.metrics.summary import summarise_study
from hpcai.records.files import read_record
from hpcai.records.run import EpochRecord, RunRecord
from hpcai.rules.table import rules_of

__all__ = [
    "collect_epochs",
    "collect_runs",
    "collect_verdicts",
    "compute_scaling",
    "join_tables",
    "read_groups",
    "read_records",
    "rows_as_json",
    "run_tables",
    "summarise_scales",
    "summarise_study",
    "write_table",
    "write_tables",
]

RUN_TWICE = Message(
    "run_tables.run_twice",
    "one record per run is allowed, found {found}; remove one of each from the list",
)
SCALE_KEYS = [*SERIES, "nodes", "ranks_per_node"]


def read_records(paths: Iterable[str | Path]) -> list[RunRecord]:
    """Read and check run records, in the order of the paths.

    Raises
    ------
    RecordError
        If any record is damaged; names all damaged files at once.
    """
    records, damaged = [], []
    with _nothing_collected():
        for path in paths:
            try:
                records.append(read_record(Path(path)))
            except RecordError as error:
                damaged.append(str(error))
    if damaged:
        count = f"{len(damaged)} of {len(records) + len(damaged)} run records cannot be read"
        raise RecordError(f"{count}; no table is made without them:\n" + "\n".join(damaged))
    return records


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Collect no garbage: all of the many objects stay, and looking through them takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def run_tables(paths: Sequence[str | Path], records: Sequence[RunRecord] | None = None) -> dict[str, pd.DataFrame]:
    """Return the tables that follow from records alone, by name.

    Parameters
    ----------
    paths
        Files ``record.json`` of the timed runs.
    records
        Their content, in the same order, if they have been read: with thousands, that takes as long as all else.

    Raises
    ------
    RecordError
        If any record is damaged, or if two paths hold the same run.
    """
    read = read_records(paths) if records is None else records
    runs = _runs_table(read, paths)
    scaling = compute_scaling(runs)
    return {
        "runs": runs,
        "epochs": _epochs_table(read),
        "verdicts": summarise_verdicts(read),
        "scales": summarise_scales(runs, scaling),
        "scaling": scaling,
    }


def read_groups(paths: Iterable[str | Path]) -> dict[str, list[RunRecord]]:
    """Read the records of weak-scaling instances from the files ``group.json`` above them.

    Raises
    ------
    RecordError
        If any record is damaged.
    """
    return {str(path): read_records(sorted(Path(path).parent.glob("i*/record.json"))) for path in paths}


def collect_runs(paths: Iterable[str | Path]) -> pd.DataFrame:
    """Return one row per run, failed ones included.

    Parameters
    ----------
    paths
        Files ``record.json``; each row names its own in ``record_path``.

    Returns
    -------
    pandas.DataFrame
        Sorted by benchmark, variant, scale and repetition. Numbers that were not measured are NaN. Times in seconds,
        sizes in bytes; the units end the column names. ``dropped`` marks the runs that the row of their scale leaves
        out (:func:`hpcai.metrics.scaling.trials.mark_extremes`), in all tables alike.

    Raises
    ------
    RecordError
        If any record is damaged, or if two paths hold the same run.
    """
    files = list(paths)
    return _runs_table(read_records(files), files)


def _runs_table(records: Iterable[RunRecord], files: Iterable[str | Path]) -> pd.DataFrame:
    rows = [_run_row(record, Path(path)) for record, path in zip(records, files, strict=True)]
    runs = _frame(rows, columns_of("runs"), [*SCALE_KEYS, "repetition"])
    twice = runs[runs.duplicated("run_id", keep=False)]
    if not twice.empty:
        found = ", ".join(f"{row.run_id} in {row.record_path}" for row in twice.itertuples())
        raise RecordError(RUN_TWICE(found=found))
    runs["dropped"] = mark_extremes(runs)
    return runs.astype({"dirty": "boolean", "ranks_identical": "boolean"}).copy()


def collect_epochs(paths: Iterable[str | Path]) -> pd.DataFrame:
    """Return one row per completed epoch of every run, with the run's scale, outcome and target.

    Raises
    ------
    RecordError
        If any record is damaged.
    """
    return _epochs_table(read_records(paths))


def _epochs_table(records: Iterable[RunRecord]) -> pd.DataFrame:
    trained = [record for record in records if record.epochs]
    columns = columns_of("epochs")
    own = [name for name in EpochRecord.model_fields if name in columns]
    # A row for each epoch with all facts of its run would be most of the memory, so these are repeated by column.
    facts = [{**_identity(record), **_target(record)} for record in trained]
    runs = pd.DataFrame.from_records(facts, columns=None if facts else [name for name in columns if name not in own])
    repeated = runs.loc[runs.index.repeat([len(record.epochs) for record in trained])].reset_index(drop=True)
    take = attrgetter(*own)
    rows = [take(epoch) for record in trained for epoch in record.epochs]
    epochs = repeated.drop(columns=own, errors="ignore").join(pd.DataFrame.from_records(rows, columns=own))
    epochs = _sorted(epochs.reindex(columns=columns), [*SCALE_KEYS, "repetition", "epoch"])
    optional = [name for name in EpochRecord.model_fields if name not in ("epoch", "steps", "samples")]
    epochs = epochs.astype(dict.fromkeys(optional, "float64"))
    epochs["train_rate_samples_per_s"] = (epochs["samples"] / epochs["train_s"]).where(epochs["train_s"] > 0)
    return epochs


def collect_verdicts(paths: Iterable[str | Path]) -> pd.DataFrame:
    """Return the verdicts of the rules, one row per benchmark, variant, level or division, and violated rule.

    Raises
    ------
    RecordError
        If any record is damaged.
    """
    return summarise_verdicts(read_records(paths))


def write_table(frame: pd.DataFrame, csv: str | Path, parquet: str | Path) -> None:
    """Write a table as CSV and Parquet, each file atomically; equal frames give equal bytes.

    Parameters
    ----------
    frame
        A table whose column names end with their units. NaN becomes an empty cell.
    csv, parquet
        Files to write.
    """
    for path, write in ((Path(csv), _to_csv), (Path(parquet), write_parquet)):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        write(frame, temporary)
        os.replace(temporary, path)


def write_tables(tables: Mapping[str, pd.DataFrame], folder: Path) -> None:
    """Write tables as ``NAME.csv`` and ``NAME.parquet`` into a folder (:func:`write_table`).

    Raises
    ------
    TableError
        If a table's columns differ from the catalogue; then nothing is written.
    """
    complete = {name: _complete(name, frame) for name, frame in tables.items()}
    for name, frame in complete.items():
        write_table(frame, folder / f"{name}.csv", folder / f"{name}.parquet")


def _complete(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its declared columns; a table without rows may lack some."""
    if name not in known_tables() and any(name in kind.columns for kind in PROFILES.values()):
        return frame  # each profile declares its own tables, and views have no other columns
    found, expected = list(frame.columns), list(columns_of(name))
    if frame.empty and set(found) < set(expected):
        return frame.reindex(columns=expected)
    if found != expected:
        wrong = {"unknown": set(found) - set(expected), "missing": set(expected) - set(found)}
        said = "; ".join(f"{word}: {', '.join(sorted(map(str, names)))}" for word, names in wrong.items() if names)
        raise TableError(
            f"table {name}: {said or 'columns in another order'}; expected those of src/hpcai/catalogue/tables/*.yaml "
            "in their order: change what makes the table, or its declaration"
        )
    return frame


def rows_as_json(files: Iterable[Path]) -> bytes:
    """Return the rows of Parquet files as one JSON object with its digest, by file name; empty cells become null."""
    tables = {file.stem: read_parquet(file) for file in files}
    rows = {name: json.loads(frame.to_json(orient="records", double_precision=15)) for name, frame in tables.items()}
    return sealed_json(rows)


def _to_csv(frame: pd.DataFrame, path: Path) -> None:
    frame.to_csv(path, index=False, lineterminator="\n", encoding="utf-8")


PLACES = {"node_local": NODE_LOCAL, "shared": SHARED}
"""Names of storage locations in tables, by those in records."""


def _run_row(record: RunRecord, path: Path) -> dict[str, Any]:
    parts = time_parts(record)
    return {
        **_identity(record),
        **_target(record),
        "wall_s": record.wall_s,
        **vars(score_run(record)),
        **vars(parts),
        **vars(time_shares(parts)),
        **vars(quiet_columns(record)),
        **_resources(record),
        **vars(record.input_source),
        **_provenance(record),
        "valid_for": valid_for(record),
        "invalid_reasons": join_reasons(invalid_reasons(record)),
        "flags": join_reasons(result_flags(record)),
        "record_path": str(path),
    }


def _identity(record: RunRecord) -> dict[str, Any]:
    plan, point = record.plan, record.plan.point
    return {
        "run_id": record.run_id,
        "study": plan.study,
        "suite": plan.benchmark.suite,
        "benchmark": point.benchmark,
        "workload": plan.benchmark.workload,
        "variant": point.variant,
        "scale": point.scale,
        "nodes": point.nodes,
        "ranks_per_node": point.ranks_per_node,
        "ranks": point.ranks,
        "repetition": plan.repetition,
        "outcome": record.outcome,
        "reason": record.reason,
        "method": record.method,
        **{name: _setting(getattr(point, name)) for name in POINT_SETTINGS},
        "global_batch_samples": plan.global_batch,
        "part_bytes": plan.part_bytes,
        "seed": _number(record.training.seed if record.training else plan.seed),
        "data_source": record.data_source,
        "rule_set": plan.rule_set,
        "time_staging": plan.time_staging,
        "runs_by_rule": rules_of(plan.benchmark.suite).results.runs_of(plan.benchmark.workload),
        "attempt": record.attempt,
        "earlier_attempts": len(record.earlier_attempts),
        "started_utc": record.started_utc,
    }


def _target(record: RunRecord) -> dict[str, Any]:
    report = record.training
    return {
        "quality_metric": report.quality_metric if report else "",
        "quality_unit": report.quality_unit if report else "",
        "quality_target": record.plan.benchmark.target.value,
        "parameters": _number(report.parameters if report else None),
        "epochs": len(record.epochs),
    }


def _resources(record: RunRecord) -> dict[str, Any]:
    staging = record.training.staging if record.training else None
    reads = [rank.read_bytes for rank in record.ranks]
    faults = [rank.page_faults_per_step for rank in record.ranks if rank.page_faults_per_step is not None]
    return {
        "peak_memory_bytes": _number(max((rank.peak_memory_bytes for rank in record.ranks), default=None)),
        "page_faults_per_step": _number(max(faults, default=None)),
        "read_bytes": _number(sum(read or 0 for read in reads) if reads and None not in reads else None),
        "staging_packed_bytes": _number(staging.packed_bytes if staging else None),
        "staging_content_bytes": _number(staging.content_bytes if staging else None),
        "staging_place": PLACES.get(staging.place, "") if staging else "",
        "ranks_identical": len({rank.weights_sha256 for rank in record.ranks}) == 1 if record.ranks else None,
    }


def _provenance(record: RunRecord) -> dict[str, Any]:
    origin = record.provenance
    return {
        "machine": record.plan.machine.name,
        "commit": origin.commit or "",
        "dirty": origin.dirty,
        "lock_sha256": origin.lock_sha256 or "",
        "page_cache": origin.page_cache,
        "plan_digest": record.plan_digest,
    }


def _frame(rows: Sequence[dict[str, Any]], columns: Sequence[str], order: list[str]) -> pd.DataFrame:
    return _sorted(pd.DataFrame.from_records(list(rows), columns=list(columns)), order)


def _sorted(frame: pd.DataFrame, order: list[str]) -> pd.DataFrame:
    # A copy holds columns of one type together: otherwise each selection of rows takes every column by itself.
    return frame.sort_values(order, kind="stable", ignore_index=True).copy()


def _setting(value: str | float | None) -> str | float:
    """Return a setting as a cell: a blank one becomes NaN, so that numeric columns stay numeric."""
    return float("nan") if value is None else value


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)
