"""Rows and cells of tables as plain values."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

Row = dict[str, Any]


def records_of(frame: pd.DataFrame) -> list[Row]:
    """Return the rows of a table."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def number_of(row: Mapping[Any, Any], name: str) -> float:
    """Return a cell as a number; NaN if it is empty or missing."""
    value = row.get(name)
    return math.nan if value is None or pd.isna(value) else float(value)


def number_or_nan(value: float | None) -> float:
    """Return an optional number; NaN if it is absent."""
    return math.nan if value is None else float(value)


def divide(above: float, below: float) -> float:
    """Return a rate or a ratio; NaN if the divisor is zero or missing."""
    return above / below if below > 0 else math.nan


def text_of(value: object) -> str:
    """Return a cell as text; blank if it is empty."""
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)


def join_words(*parts: object, separator: str = ", ") -> str:
    """Join distinct parts into a list in words."""
    words = [word for part in parts for word in text_of(part).split(separator) if word]
    return separator.join(dict.fromkeys(words))
