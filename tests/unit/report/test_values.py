"""Numbers of the page: few digits, the right prefix, and the exact value kept."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcai.report.values import choose_scale, is_blank, is_number, say_exactly, say_interval, say_number


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (1.234e10, "FLOP/s", "12.3 GFLOP/s"),
        (2.6496e18, "FLOP", "2.65 EFLOP"),
        (999.7e6, "B/s", "1.00 GB/s"),
        (0.0, "FLOP/s", "0 FLOP/s"),
        (0.0155, "s", "15.5 ms"),
        (1234.5, "s", "1,234 s"),
        (3 * 2**20, "bytes", "3 MiB"),
        (0.286, "share", "28.6 %"),
        (1087.4, "samples/s", "1,087 samples/s"),
        (1.002624, "ratio", "1.00 "),
        (-13.719, "s", "−13.7 s"),
        (2.0e-5, "ratio", "2.00e−05 "),
    ],
)
def test_value_is_written_with_prefix_and_unit(value: float, unit: str, shown: str) -> None:
    scale = choose_scale(value, unit)
    assert f"{say_number(value / scale.factor)} {scale.unit}" == shown


def test_interval_has_the_scale_of_its_value() -> None:
    scale = choose_scale(1.2e10, "FLOP/s")
    assert say_interval(-9e8, 2.5e10, scale) == "[−0.900, 25]"


def test_exact_value_has_the_stored_unit() -> None:
    assert say_exactly(0.123456789012, "s") == "0.123456789012 s"
    assert say_exactly(0.5, "share") == "0.5"


@given(st.floats(1e-6, 1e20), st.sampled_from(["FLOP/s", "FLOP", "B/s", "bytes", "s", "share", "ratio", "samples/s"]))
def test_shown_value_is_the_value(value: float, unit: str) -> None:
    scale = choose_scale(value, unit)
    words = say_number(value / scale.factor).replace(",", "").replace("−", "-")
    assert float(words) * scale.factor == pytest.approx(value, rel=6e-3)


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
