"""Concatenate tables with the same columns."""

from collections.abc import Sequence

import pandas as pd


def join_tables(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of several tables with the same columns; an empty table contributes only its columns."""
    filled = [part for part in parts if len(part)]
    if filled:
        return pd.concat(filled, ignore_index=True)
    return parts[0] if parts else pd.DataFrame()
