"""Errors of all predictors on what they were not told, from the results of a study, beside their goals.

Nothing is measured here: `make run` and `make predict` do that. Replays are judged on the run that they were rebuilt
from. Rounds are those of the study (key `rounds`).
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
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
from hpcai.predict.steps.accuracy import MEDIAN_GOAL_RATIO, WORST_GOAL_RATIO

KIND_GOALS = {"median_": "goal_ratio", "p90_": "p90_goal_ratio"}
"""Columns of goals, by the begin of those of errors, in table `block_kinds`."""
HEADS = "cases  median    goal  largest    goal"


def main() -> None:
    """Print a row for each predictor; the results folder may be named."""
    results = Path(*sys.argv[1:2] or ["results"])
    print(f"{'predictor':56}{HEADS}")
    goals = Goals(MEDIAN_GOAL_RATIO, WORST_GOAL_RATIO)
    _print("steps from their blocks", goals, lambda: _errors(results, "block_steps"))
    for question, what in QUESTIONS.items():
        goals = Goals(worst_ratio=SCALE_GOAL_RATIO)
        _print(f"scales: {what}", goals, lambda kind=question: _errors(results, "scale_cases", "question", kind))
    _print("replays of timelines", Goals(worst_ratio=REPLAY_GOAL_RATIO), lambda: pd.Series(judge_replays(results)))
    _print("HPL", Goals(worst_ratio=HPL_GOAL_RATIO), lambda: _errors(results, "hpl_validation", "model", "all parts"))
    _print("rounds to come, factor less 1", Goals(median_ratio=MOST_FACTOR - 1), lambda: _factors(results))
    _print_kinds(results)


@dataclass(frozen=True)
class Goals:
    """Goals for the absolute relative error: median and largest; NaN: there is none."""

    median_ratio: float = math.nan
    worst_ratio: float = math.nan


def _errors(results: Path, table: str, column: str = "", value: str = "") -> pd.Series:
    rows = read_parquet(results / f"tables/{table}.parquet")
    rows = rows[rows[column] == value] if column else rows
    return rows["error_ratio" if "error_ratio" in rows else "relative_error_ratio"].abs().dropna()


def _factors(results: Path) -> pd.Series:
    ratios = read_parquet(results / "tables/mlperf_forecasts.parquet")["run_error_ratio"].astype(float).dropna()
    return np.exp(np.abs(np.log(ratios))) - 1


def _print(what: str, goals: Goals, find: Callable[[], pd.Series]) -> None:
    try:
        errors = find()
    except (HpcaiError, OSError) as error:
        print(f"{what:56}not measured: {error}")
        return
    if errors.empty:
        print(f"{what:56}    0")
        return
    _print_row(what, len(errors), (errors.median(), goals.median_ratio), (errors.max(), goals.worst_ratio))


def _print_kinds(results: Path) -> None:
    """Print the regressor of blocks, kind by kind: errors on networks, or random blocks, that it never saw."""
    try:
        kinds = read_parquet(results / "tables/block_kinds.parquet")
    except (HpcaiError, OSError) as error:
        print(f"{'blocks never timed':56}not measured: {error}")
        return
    print(f"{'blocks never timed, by kind':56}cases  median    goal     90 %    goal")
    for row in kinds.to_dict("records"):
        middle, most = ((row[f"{name}ape_ratio"], row[goal]) for name, goal in KIND_GOALS.items())
        _print_row(f"{row['left_out']}: {row['kind']}", int(row["n"]), middle, most)


def _print_row(what: str, cases: int, *errors: tuple[float, float]) -> None:
    """Print two errors, each beside its goal."""
    (median, median_goal), (most, most_goal) = errors
    print(f"{what:56}{cases:5} {median:7.1%} {_goal(median_goal):>7} {most:8.1%} {_goal(most_goal):>7}", flush=True)


def _goal(ratio: float) -> str:
    return "" if math.isnan(ratio) else f"{ratio:.0%}"


if __name__ == "__main__":
    main()
