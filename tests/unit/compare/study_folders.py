"""Results folders of made-up studies, as the workflow leaves them: records, the table of runs, scores, the study."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
from unit.record_factory import make_provenance, make_record, write_records

from hpcai.metrics.run_tables import collect_runs, write_table
from hpcai.metrics.scaling.scales import summarise_scales
from hpcai.records.run import RunRecord

SOFTWARE = {"python": "3.11.2", "tensorflow": "2.18.1", "horovod": "0.28.1"}


def make_runs(
    repeats: int = 5, ranks: tuple[int, ...] = (1, 2), *, factor: float = 1.0, day: int = 2, **plan: Any
) -> list[RunRecord]:
    """Return converged runs whose epochs take ``factor`` times as long, made on a day of January."""
    records = []
    for count in ranks:
        for repetition in range(1, repeats + 1):
            made = make_record(ranks_per_node=count, repetition=repetition, **plan)
            records.append(_slow(made, factor, f"2026-01-{day:02d}T03:{repetition:02d}:00Z"))
    return records


def move(records: list[RunRecord], **provenance: Any) -> list[RunRecord]:
    """Return the same runs of another provenance: commit, software, machine."""
    return [record.model_copy(update={"provenance": make_provenance(**provenance)}) for record in records]


def write_study(
    folder: Path, records: list[RunRecord], *, name: str = "default", scores: dict[str, Any] | None = None
) -> Path:
    """Write a results folder and return it; ``scores`` become columns of `run_scores`, one value or one per run."""
    paths = write_records(records, folder / "runs")
    runs, scales = _tables(records, paths)
    tables = folder / "tables"
    write_table(runs, tables / "runs.csv", tables / "runs.parquet")
    write_table(scales, tables / "scales.csv", tables / "scales.parquet")
    if scores:
        frame = pd.DataFrame({"run_id": runs["run_id"], **scores})
        write_table(frame, tables / "run_scores.csv", tables / "run_scores.parquet")
    (folder / "study.json").write_text(json.dumps({"name": name, "title": "A study", "seed": 1}))
    return folder


def _tables(records: list[RunRecord], paths: list[Path]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return runs and scales; of records that were there before, in whatever folder, they are not made again."""
    known = tuple(record.model_dump_json() for record in records)
    if known not in _MADE:
        runs = collect_runs(paths)
        _MADE[known] = runs, summarise_scales(runs)
    runs, scales = _MADE[known]
    places = {record.run_id: str(path) for record, path in zip(records, paths, strict=True)}
    return runs.assign(record_path=runs["run_id"].map(places)), scales.copy()


_MADE: dict[tuple[str, ...], tuple[pd.DataFrame, pd.DataFrame]] = {}


def _slow(record: RunRecord, factor: float, started_utc: str) -> RunRecord:
    training = record.training
    assert training is not None
    epochs = tuple(
        epoch.model_copy(
            update={
                "train_s": epoch.train_s * factor,
                "step_time_median_s": (epoch.step_time_median_s or 0.0) * factor,
            }
        )
        for epoch in training.epochs
    )
    more = sum(epoch.train_s for epoch in epochs) - sum(epoch.train_s for epoch in training.epochs)
    step_s = (training.step_time_median_s or 0.0) * factor
    update = {"epochs": epochs, "run_s": training.run_s + more, "step_time_median_s": step_s}
    report = training.model_copy(update=update)
    changes = {"training": report, "wall_s": record.wall_s + more, "started_utc": started_utc}
    return record.model_copy(update=changes)
