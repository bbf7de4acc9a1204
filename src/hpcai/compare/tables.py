"""Comparison tables of a study: against the last of its earlier results, and the history of all of them."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from hpcai.compare.changes import CHANGE_COLUMNS
from hpcai.compare.comparison import compare_folders
from hpcai.compare.history import HISTORY_COLUMNS, history_of
from hpcai.compare.scores import COMPARISON_COLUMNS


def comparison_tables(earlier: Sequence[str | Path], folder: str | Path) -> dict[str, pd.DataFrame]:
    """Return the tables `comparison`, `changes` and `history` of one result.

    Parameters
    ----------
    earlier
        Results folders of earlier studies; the last one is the base of the comparison, all of them form the history.
    folder
        The results folder of the study.

    Returns
    -------
    dict
        The tables by name; empty without an earlier result.

    Raises
    ------
    RecordError
        If a folder contains no readable result.
    """
    if not earlier:
        columns = {"comparison": COMPARISON_COLUMNS, "changes": CHANGE_COLUMNS, "history": HISTORY_COLUMNS}
        return {name: pd.DataFrame(columns=list(names)) for name, names in columns.items()}
    comparison = compare_folders(earlier[-1], folder)
    return {
        "comparison": comparison.scores,
        "changes": comparison.changes,
        "history": history_of([*earlier, folder]),
    }
