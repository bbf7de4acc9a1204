"""Names for imported logs in the tables of own studies: workload, dataset, metric, variant, scale, clock."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from hpcai.metrics.scores.columns import TIMINGS
from hpcai.mlperf_hpc.analysis.editions import BY_STEPS, FIRST_ROUND
from hpcai.mlperf_hpc.benchmarks import BENCHMARKS, OWN, WORKLOAD_OF
from hpcai.mlperf_hpc.rounds.model import LoggedRun
from hpcai.rules.table import rules_of
from hpcai.workloads.registry import title_of

SUITE = "mlperf_hpc"
STAGING_MAY_PRECEDE_FROM = "3.0.0"
"""First rule set in which staging may finish before the clock starts (benchmarks.md 8.2)."""
Row = Mapping[Any, Any]


class Task(NamedTuple):
    """A benchmark of the rounds in our own terms: workload, dataset and quality."""

    workload: str
    dataset: str
    quality_metric: str
    quality_unit: str = ""


TASKS = {
    **{
        name: Task(WORKLOAD_OF[name], facts.dataset, facts.quality_metric, facts.quality_unit)
        for name, facts in BENCHMARKS.items()
    },
    "openfold": Task("openfold", "openfold", "local_distance_difference_test"),
}
"""Keyed by folder of the rounds; names as in config/benchmarks/*.yaml and the training reports."""
FIRST_ROUND_SAMPLES = {
    (name, samples): dataset
    for name, facts in BENCHMARKS.items()
    for samples, dataset in facts.first_round_datasets.items()
}
"""Other editions of a dataset, by benchmark and training samples (config/datasets.tsv)."""

FIRST_ROUND_BY_STEPS = {name: facts.first_round_model for name, facts in BENCHMARKS.items() if facts.first_round_model}
"""Other editions of a benchmark on the same data (:func:`hpcai.mlperf_hpc.analysis.editions.evaluated_by_steps`), with
another model."""


TITLES = {
    **{task.workload: f"{title_of(task.workload)} ({rules_of(SUITE).title})" for task in TASKS.values()},
    "openfold": f"OpenFold ({rules_of(SUITE).title})",
    **{
        name: f"{title_of(workload)} ({rules_of(SUITE).title} {FIRST_ROUND})"
        for workload, facts in OWN.items()
        for name in (*facts.first_round_datasets.values(), facts.first_round_model)
        if name
    },
}
"""Readable names of the benchmarks of the rounds by what :func:`benchmark_of` calls them."""


def task_of(benchmark: str) -> Task:
    """Return a benchmark in our names; an unknown one keeps its own name."""
    return TASKS.get(benchmark, Task(benchmark, benchmark, ""))


def edition_of(row: Row) -> str:
    """Return the dataset of a row of ``mlperf_runs`` or ``mlperf_results`` without its source."""
    return FIRST_ROUND_SAMPLES.get((row["benchmark"], row["train_samples"]), task_of(row["benchmark"]).dataset)


def benchmark_of(row: Row) -> str:
    """Return the benchmark: the workload, or a separate name if another edition of it was trained.

    Parameters
    ----------
    row
        A row of ``mlperf_runs`` or ``mlperf_results``, with `by_steps`.
    """
    task = task_of(row["benchmark"])
    if row["by_steps"]:
        return FIRST_ROUND_BY_STEPS[row["benchmark"]]
    edition = edition_of(row)
    return task.workload if edition == task.dataset else edition


def dataset_of(row: Row) -> str:
    """Return the dataset with its source, as :func:`hpcai.metrics.scores.result_scores.name_datasets` names it.

    It is official if the logged number of training samples is the rules' number, with or without the last incomplete
    batch, which one submission omits. Any other number becomes part of the name and so makes a separate dataset. So
    does another edition of the benchmark, which shares only the data.
    """
    return f"{_data_of(row)}{BY_STEPS}" if row["by_steps"] else _data_of(row)


def _data_of(row: Row) -> str:
    samples, edition = row["train_samples"], edition_of(row)
    official = _official_samples(task_of(row["benchmark"]).workload)
    if edition != task_of(row["benchmark"]).dataset or official is None:
        return f"{edition} (official)" if official else f"{edition} (published)"
    batch = row["global_batch_samples"]
    if samples == official or 0 < official - samples < batch:
        return f"{edition} (official)"
    number = "unknown number of" if math.isnan(samples) else f"{samples:,.0f}"
    return f"{edition}, {number} training samples (published)"


def _official_samples(workload: str) -> float | None:
    """Return the number of training samples required in the closed division; None without such a rule."""
    for rule in rules_of(SUITE).rules_for(workload, "closed"):
        required = rule.settings.get("data.train_samples")
        if required is not None and workload in rule.workloads and isinstance(required.equals, int):
            return float(required.equals)
    return None


def scale_of(row: Row) -> str:
    """Return ``n{nodes}x{compute units per node}``; blank for an unknown scale."""
    nodes, units = row["nodes"], row["units"]
    if not (nodes > 0 and units > 0):
        return ""
    return f"n{int(nodes)}x{int(units // nodes)}"


def staging_on_clock(run: LoggedRun, rule_set: str) -> bool | None:
    """Return whether staging is part of the run's time; None if neither log nor rules decide.

    Up to rules 2.0, staging is on the clock. From 3.0 on it may precede run_start. A log without staging keys does not
    show whether data were staged before: they may start on any durable storage, including node-local storage.
    """
    if run.staging is not None:
        return not run.staging_before_run
    return True if rule_set < STAGING_MAY_PRECEDE_FROM else None


def name_timing(on_clock: set[bool | None]) -> str:
    """Describe what the clock of a result's runs includes; blank if they differ or it is unknown."""
    known = on_clock.pop() if len(on_clock) == 1 else None
    return "" if known is None else TIMINGS[known]
