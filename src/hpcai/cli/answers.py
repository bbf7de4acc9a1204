"""Answers of the predictors as JSON, which has no NaN."""

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd


def plain_records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table with None in place of NaN."""
    return [
        {str(name): None if pd.isna(value) else value for name, value in row.items()}
        for row in table.to_dict("records")
    ]


def say_json(answer: Mapping[str, Any]) -> str:
    """Return an answer as JSON text.

    Raises
    ------
    ValueError
        If a value is NaN or infinite.
    """
    return json.dumps(answer, indent=2, allow_nan=False)
