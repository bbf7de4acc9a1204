"""Small submissions for tests of the list."""

from datetime import date
from pathlib import Path

import pandas as pd
from unit.record_factory import make_study, write_records

from hpcai.catalogue.tables import columns_of
from hpcai.core.table_files import write_parquet
from hpcai.listing.packages import make_submission, write_package
from hpcai.metrics.run_tables import run_tables
from hpcai.metrics.scores.trial_scores import score_trials

DAY = date(2026, 11, 1)
"""Day on which all packages are submitted."""
DECLARED = """name: {name}
title: {title}
citation: {{document: A paper, date: {day}}}
machines:
  site: {{title: {machine}, device: V100, nodes: 8, devices_per_node: 8}}
workloads:
  image_classification:
    workload: image_classification
    suite: hpc_ai500
    dataset: {dataset}
    quality_metric: top1_accuracy
    quality_target: 0.763
    exponent: 5
    flop_per_sample: 2.3e+10
results:
- {{name: {result}, workload: image_classification, machine: site, nodes: 8, ranks: 64, precision: fp32,
   train_rate_samples_per_s: {rate}, quality: 0.763, where: table 1}}
"""


def write_declared(folder: Path, name: str = "paper", **changes: object) -> Path:
    """Write a file of one declared result."""
    facts = {
        "title": "Results", "day": "2021-03-01", "machine": "Cluster", "rate": 1000.0, "result": "one",
        "dataset": "imagenet (official)",
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.yaml"
    file.write_text(DECLARED.format(name=name, **{**facts, **changes}), encoding="utf-8")
    return file


def pack(source: Path, folder: Path, embargo: date | None = None) -> Path:
    """Write a package of a submission into a folder; its name is the source's."""
    target = folder / source.stem
    submission = make_submission(source, name=source.stem, organisation="An Org", embargo=embargo, license_name="CC0")
    write_package(source, target, submission.model_copy(update={"submitted": DAY}))
    return target


def write_results(folder: Path, **study: object) -> Path:
    """Write a results folder with records and their scores, without work of a sample."""
    paths = write_records(make_study(**{"repeats": 2, **study}), folder / "runs")
    write_scores(folder, paths)
    return folder


def write_scores(folder: Path, records: list[Path]) -> None:
    """Write the tables of a results folder that a submission needs."""
    runs = run_tables(records)["runs"]
    empty = [pd.DataFrame(columns=list(columns_of(name))) for name in ("work", "power")]
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    write_parquet(runs, folder / "tables" / "runs.parquet")
    write_parquet(score_trials(runs, *empty), folder / "tables" / "run_scores.parquet")
