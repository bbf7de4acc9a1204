"""Cells of a table: numbers, yes or no, and empty values are distinguished."""

import math

import numpy as np
import pandas as pd
import pytest

from hpcai.report.values import is_blank, is_number


@pytest.mark.parametrize("value", [None, "", math.nan, np.nan, pd.NA, pd.NaT, float("nan")])
def test_blank_cells(value: object) -> None:
    assert is_blank(value)
    assert not is_number(value)


@pytest.mark.parametrize("value", [0, 0.0, np.int64(3), np.float64(2.5)])
def test_numbers(value: object) -> None:
    assert is_number(value)
    assert not is_blank(value)


@pytest.mark.parametrize("value", [True, False, np.True_, "x", math.inf])
def test_no_numbers(value: object) -> None:
    assert not is_number(value)
    assert not is_blank(value)
