"""Write comparisons, verdicts and histories as files for other programs."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from hpcai.compare.comparison import Comparison
from hpcai.compare.verdict import Regression
from hpcai.core.files import write_asked

COUNTS = ("ranks", "n_base", "n_new")
"""Counts stored as floating-point numbers, because some are missing."""


def comparison_as_dict(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as plain values; None for values not measured, and where nothing is large enough."""
    return {
        "base": asdict(comparison.base),
        "new": asdict(comparison.new),
        "same_runs": comparison.same_runs,
        "same_starts": comparison.same_starts,
        "changes": _rows(comparison.changes),
        "scores": _rows(comparison.scores),
        "points": _rows(comparison.points),
    }


def regression_as_dict(regression: Regression) -> dict[str, Any]:
    """Return a verdict as plain values, with its comparison."""
    return {
        "verdict": regression.verdict,
        "tolerance_ratio": regression.tolerance_ratio,
        "lost_points": regression.lost_points,
        "points": _rows(regression.points),
        "scores": _rows(regression.scores),
        "comparison": comparison_as_dict(regression.comparison),
    }


def history_as_dict(history: pd.DataFrame) -> dict[str, Any]:
    """Return a history as plain values."""
    return {"history": _rows(history)}


def write_frame(frame: pd.DataFrame, file: Path) -> None:
    """Write a table as CSV atomically."""
    write_asked(file, _whole(frame).to_csv(index=False, lineterminator="\n"))


def write_comparison(comparison: Comparison, file: Path) -> Path:
    """Write the scores as CSV, and the changes to a second file next to it, whose path is returned."""
    beside = file.with_name(f"{file.stem}_changes{file.suffix}")
    write_frame(comparison.scores, file)
    write_frame(comparison.changes, beside)
    return beside


def _whole(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with counts as whole numbers, even if some are missing."""
    return frame.astype({name: "Int64" for name in COUNTS if name in frame})


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows without NaN and infinity, which JSON lacks: two runs, for example, detect no change however large."""
    rows = _whole(frame).astype(object).to_dict("records")
    return [{str(name): _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:  # noqa: ANN401 - any cell of a table
    return None if pd.isna(value) or value in (math.inf, -math.inf) else value
