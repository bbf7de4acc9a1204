"""Columns of the tables of scores: the contract between those who make scores and those who show, rank or compare them.

An empty cell was not measured and not declared. `origin` says whose result a row is: the name of a study, or of a file
of published results (`config/published/`); `result` is its name there. `source` names the raw file.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from hpcai.catalogue.points import POINT
from hpcai.catalogue.tables import columns_of, kind_of

TRIAL_COLUMNS = columns_of("run_scores")
"""One row for each timed run, failed ones included (table `run_scores`).

`dropped` is "highest" or "lowest" for the two trials that the score leaves out, and blank for all others. Of
`time_to_quality_s` the clock ran for `evaluation_s` while the quality was evaluated.
"""
SCORE_COLUMNS = columns_of("scores")
"""One row for each result: a benchmark and variant at a scale of a machine (tables `scores`, `machine_scores`).

`method` is measured or declared. All numbers of a row, its bounds included, rest on the same `n_scored` of `n` trials
that completed training, and `statistic` says what is made of them: their mean where the extremes were dropped by the
suite's procedure, otherwise their median; blank where others declare them. The columns `*_variation_ratio`
are over all `n`; `dataset` is the name of the dataset with its source, such as "imagenet (official)" or
"images_tiny (generated)": results on different ones are never ranked together. `timing` says what the clock of
`time_to_train_s` counts, one of `TIMINGS`, blank where it is not known. `division` is the one of MLPerf HPC that a
result is submitted to, closed or open, blank for other suites and where nobody declares it. `runs_sha256` is that of
the starts and durations of imported runs, by which those that are published again are known; blank for all others.
"""
MACHINE_COLUMNS = columns_of("machine_scores")
"""One row for each machine, benchmark, dataset, target, division and timing: its best result, and why it was chosen
(table `machine_scores`)."""

TIMINGS = {True: "staging on the clock", False: "staging before the clock"}
"""Words for the setting ``time_staging``. It is all that the rule sets of MLPerf HPC differ in for one workload
and target (benchmarks.md 8.2, 8.3), so that a rule set makes no list of its own; HPC AI500 always stages before."""
REPEATED = "the same runs as"
"""Begin of the remark on a result that was published before."""
OF_THE_RUN = (
    "run_id", "suite", "workload", *POINT, "nodes", "ranks", "repetition", "outcome", "precision",
    "compression", "quality_metric", "quality_target", "dropped", "record_path",
)  # fmt: skip
"""What a row of `run_scores` takes over from the row of its run."""


def score_frame(rows: Iterable[Mapping[Any, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """Return rows as a table of scores, with the same columns and types whatever the rows lack.

    Parameters
    ----------
    rows
        Values by column; what a row lacks is empty: blank for texts, NaN for numbers.
    columns
        `TRIAL_COLUMNS`, `SCORE_COLUMNS` or `MACHINE_COLUMNS`, also with columns of numbers behind them.
    """
    frame = pd.DataFrame.from_records(list(rows), columns=list(columns))
    for name in columns:
        kind = kind_of("scores", name)
        if kind == "text":
            # An object column of blanks alone would become a column of nulls in Parquet.
            frame[name] = frame[name].astype("object").where(frame[name].notna(), "").map(str)
            continue
        frame[name] = pd.to_numeric(frame[name]).astype("float64")
        if kind == "count" and frame[name].notna().all():
            frame[name] = frame[name].astype("int64")
    return frame
