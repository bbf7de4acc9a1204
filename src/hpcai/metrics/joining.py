"""Tables of the same columns, one below the other."""

from collections.abc import Sequence

import pandas as pd


def join_tables(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of several tables of the same columns; an empty table gives its columns alone."""
    filled = [part for part in parts if len(part)]
    if filled:
        return pd.concat(filled, ignore_index=True)
    return parts[0] if parts else pd.DataFrame()
