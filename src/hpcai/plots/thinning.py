"""Which of many variants a figure draws."""

import pandas as pd

from hpcai.core.limits import MOST_KEYS


def most_of(frame: pd.DataFrame, name: str, order: str) -> tuple[pd.DataFrame, int]:
    """Return the rows of at most ``MOST_KEYS`` names, evenly from all benchmarks, and how many names are left out.

    Parameters
    ----------
    frame
        A table with the column ``benchmark``.
    name
        Column of the names, such as ``variant``.
    order
        Column whose lowest values choose the names.
    """
    ranked = frame.groupby(["benchmark", name], sort=False, dropna=False)[order].min().sort_values(kind="stable")
    places = ranked.groupby(level="benchmark", sort=False, dropna=False).cumcount()
    kept = places.sort_values(kind="stable").index[:MOST_KEYS]
    if len(kept) == len(ranked):
        return frame, 0
    pairs = pd.MultiIndex.from_frame(frame[["benchmark", name]])
    return frame[pairs.isin(kept)], len(ranked) - len(kept)


def only_drawn(frame: pd.DataFrame, drawn: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a table whose benchmark and variant another one has."""
    own, others = (pd.MultiIndex.from_frame(one.reindex(columns=["benchmark", "variant"])) for one in (frame, drawn))
    return frame[own.isin(others)]
