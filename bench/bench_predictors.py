"""Errors of all predictors on what they were not told, from the results of a study, beside their goals.

Nothing is measured here: `make run` and `make predict` do that. Replays are judged on the run that they were rebuilt
from. Rounds are those of the study (key `rounds`).
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from hpcai.cli.predict_replay import GOAL_RATIO as REPLAY_GOAL_RATIO
from hpcai.cli.predict_replay import judge_replays
from hpcai.core.errors import HpcaiError
from hpcai.core.table_files import read_parquet
from hpcai.mlperf_hpc.analysis.backtest import MOST_FACTOR
from hpcai.predict.hpl_validation import GOAL_RATIO as HPL_GOAL_RATIO
from hpcai.predict.scales.held_out import GOAL_RATIO as SCALE_GOAL_RATIO
from hpcai.predict.scales.held_out import QUESTIONS
from hpcai.predict.steps.accuracy import WORST_GOAL_RATIO


def main() -> None:
    """Print a row for each predictor; the results folder may be named."""
    results = Path(*sys.argv[1:2] or ["results"])
    print("predictor                                               cases  median  largest    goal")
    _print("steps from their blocks", WORST_GOAL_RATIO, lambda: _errors(results, "block_steps"))
    for question, what in QUESTIONS.items():
        _print(
            f"scales: {what}", SCALE_GOAL_RATIO, lambda kind=question: _errors(results, "scale_cases", "question", kind)
        )
    _print("replays of timelines", REPLAY_GOAL_RATIO, lambda: pd.Series(judge_replays(results)))
    _print("HPL", HPL_GOAL_RATIO, lambda: _errors(results, "hpl_validation", "model", "all parts"))
    _print("rounds to come, factor less 1", MOST_FACTOR - 1, lambda: _factors(results))


def _errors(results: Path, table: str, column: str = "", value: str = "") -> pd.Series:
    rows = read_parquet(results / f"tables/{table}.parquet")
    rows = rows[rows[column] == value] if column else rows
    return rows["error_ratio" if "error_ratio" in rows else "relative_error_ratio"].abs().dropna()


def _factors(results: Path) -> pd.Series:
    ratios = read_parquet(results / "tables/mlperf_forecasts.parquet")["run_error_ratio"].astype(float).dropna()
    return np.exp(np.abs(np.log(ratios))) - 1


def _print(what: str, goal_ratio: float, find: Callable[[], pd.Series]) -> None:
    try:
        errors = find()
    except (HpcaiError, OSError) as error:
        print(f"{what:56}not measured: {error}")
        return
    if errors.empty:
        print(f"{what:56}    0")
        return
    print(f"{what:56}{len(errors):5} {errors.median():7.1%} {errors.max():8.1%} {goal_ratio:7.0%}", flush=True)


if __name__ == "__main__":
    main()
