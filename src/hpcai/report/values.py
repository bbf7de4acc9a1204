"""Content of a table cell: yes or no, a number, or nothing."""

import math
from numbers import Real

import numpy as np
import pandas as pd


def is_truth(value: object) -> bool:
    """Return whether a cell holds yes or no."""
    return isinstance(value, bool | np.bool_)


def is_number(value: object) -> bool:
    """Return whether a cell holds a finite number, not a truth value."""
    return isinstance(value, Real) and not is_truth(value) and math.isfinite(value)


def is_blank(value: object) -> bool:
    """Return whether a cell holds nothing: no text, or no number."""
    if isinstance(value, str):
        return not value
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, Real) and math.isnan(value))
