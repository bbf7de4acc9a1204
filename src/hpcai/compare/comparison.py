"""The comparison of two results: changes in the setup and in the scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from hpcai.compare.changes import find_changes
from hpcai.compare.measures import BY_NAME, choose_measures
from hpcai.compare.points import match_points
from hpcai.compare.scores import compare_scores
from hpcai.compare.study import Study, read_study


@dataclass(frozen=True)
class Side:
    """The result on one side of a comparison."""

    folder: str
    name: str
    first_start_utc: str
    commits: str
    runs: int


@dataclass(frozen=True)
class Comparison:
    """Two results to compare.

    Attributes
    ----------
    base, new
        The two results.
    changes
        Differences other than scores (:data:`hpcai.compare.changes.CHANGE_COLUMNS`).
    scores
        Differences in the scores (:data:`hpcai.compare.scores.COMPARISON_COLUMNS`).
    points
        The points compared, and their failures (:data:`hpcai.compare.points.POINT_COLUMNS`).
    same_runs
        Whether both sides contain the same runs: ids, attempts, start times, outcomes, scores.
    same_starts
        Whether both sides contain runs with the same ids, attempts and start times, whatever their values.
    """

    base: Side
    new: Side
    changes: pd.DataFrame
    scores: pd.DataFrame
    points: pd.DataFrame
    same_runs: bool
    same_starts: bool


def compare_folders(base: str | Path, new: str | Path, measures: Sequence[str] = tuple(BY_NAME)) -> Comparison:
    """Return what changed between two results folders.

    Parameters
    ----------
    base, new
        Results folders, see :func:`hpcai.compare.study.read_study`.
    measures
        Names of the scores to compare; defaults to all.

    Raises
    ------
    RecordError
        If a folder contains no readable result.
    ConfigError
        If a measure is unknown.
    """
    chosen = choose_measures(measures)
    return compare_studies(read_study(base), read_study(new), [measure.column for measure in chosen])


def compare_studies(base: Study, new: Study, measures: Sequence[str] = tuple(BY_NAME)) -> Comparison:
    """Return what changed between two results, see :func:`compare_folders`."""
    points = match_points(base, new)
    same_starts = len(base.runs) > 0 and _attempts(base) == _attempts(new)
    return Comparison(
        base=_side(base),
        new=_side(new),
        changes=find_changes(base, new),
        scores=compare_scores(base, new, points, choose_measures(measures)),
        points=points,
        same_runs=same_starts and _same_values(base.runs, new.runs),
        same_starts=same_starts,
    )


def _side(study: Study) -> Side:
    return Side(str(study.folder), study.name, study.first_start, study.commits, len(study.runs))


def _attempts(study: Study) -> set[tuple[str, str, str]]:
    columns = (study.runs[name].astype(str) for name in ("run_id", "attempt", "started_utc"))
    return set(zip(*columns, strict=True))


def _same_values(base: pd.DataFrame, new: pd.DataFrame) -> bool:
    """Return whether runs with equal ids have equal outcomes and scores."""
    both = [name for name in ("best_quality", *BY_NAME) if name in base and name in new]
    sides = (runs.sort_values(["run_id", "attempt"]).reset_index(drop=True) for runs in (base, new))
    before, after = (runs[both].astype(float).assign(outcome=runs["outcome"].astype(str)) for runs in sides)
    return before.equals(after)
