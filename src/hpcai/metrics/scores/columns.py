"""Columns of the score tables, shared by the modules that compute, show, rank and compare scores.

An empty cell was neither measured nor declared. `origin` is the owner of a row's result: the name of a study, or of a
file of published results (`config/published/`); `result` is its name there. `source` names the raw file.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from hpcai.catalogue.points import POINT
from hpcai.catalogue.tables import columns_of, kind_of

TRIAL_COLUMNS = columns_of("run_scores")
"""One row per timed run, including failed ones (table `run_scores`).

`dropped` is "highest" or "lowest" for the two trials that the score excludes, "outside" for trials that are not in the
window of the rules, and blank for all others.
`time_to_quality_s` includes `evaluation_s`, the time spent on evaluating the quality.
"""
SCORE_COLUMNS = columns_of("scores")
"""One row per result: a benchmark and variant at a scale of a machine (tables `scores`, `machine_scores`).

`method` is measured or declared. All numbers of a row, including bounds, use the same `n_scored` of `n` trials that
completed training. `statistic` names how they are combined: their mean if the suite's procedure dropped the extremes,
otherwise their median; blank for results declared by others. The columns `*_variation_ratio` cover all `n`.
`dataset` is the name of the dataset with its source, such as "imagenet (official)" or
"images_tiny (generated)": results on different ones are never ranked together. `timing`, one of `TIMINGS`, is what
the clock of `time_to_train_s` includes; blank if unknown. `division` is the division of MLPerf HPC for the
submission, closed or open; blank for other suites and if undeclared. `runs_sha256` is the digest of the starts and
durations of imported runs, which identifies runs that are published again; blank for all others.
"""
MACHINE_COLUMNS = columns_of("machine_scores")
"""One row per machine, benchmark, dataset, target, division and timing: its best result, and why it was chosen
(table `machine_scores`)."""

TIMINGS = {True: "staging on the clock", False: "staging before the clock"}
"""Words for the setting ``time_staging``, the only difference between the rule sets of MLPerf HPC for one workload and
target (benchmarks.md 8.2, 8.3). So rule sets do not get separate lists; HPC AI500 always stages before."""
REPEATED = "the same runs as"
"""Start of the remark on a result that was published before."""
OF_THE_RUN = (
    "run_id", "suite", "workload", *POINT, "nodes", "ranks", "repetition", "outcome", "precision",
    "compression", "quality_metric", "quality_target", "dropped", "record_path",
)  # fmt: skip
"""Columns of `run_scores` copied from the row of the run."""


def score_frame(rows: Iterable[Mapping[Any, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """Return rows as a table of scores, always with the same columns and types.

    Parameters
    ----------
    rows
        Values by column; missing values are empty: blank for text, NaN for numbers.
    columns
        `TRIAL_COLUMNS`, `SCORE_COLUMNS` or `MACHINE_COLUMNS`, optionally followed by numeric columns.
    """
    frame = pd.DataFrame.from_records(list(rows), columns=list(columns))
    for name in columns:
        kind = kind_of("scores", name)
        if kind == "text":
            # An object column with only blanks would become a column of nulls in Parquet.
            frame[name] = frame[name].astype("object").where(frame[name].notna(), "").map(str)
            continue
        frame[name] = pd.to_numeric(frame[name]).astype("float64")
        if kind == "count" and frame[name].notna().all():
            frame[name] = frame[name].astype("int64")
    return frame
