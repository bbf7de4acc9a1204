"""Numbers in text: few digits, the right prefix, the exact value kept, and words where there is no number."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcai.core.text import (
    choose_scale,
    say_beside,
    say_between,
    say_bytes,
    say_change,
    say_count,
    say_duration,
    say_error,
    say_exactly,
    say_fixed,
    say_interval,
    say_measured_rate,
    say_measured_time,
    say_name,
    say_number,
    say_percent,
    say_rate,
    say_ratio,
    say_share,
    say_short,
    say_time,
    say_value,
    say_whole,
)  # fmt: skip


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


@pytest.mark.parametrize(
    ("value", "target", "shown"),
    [
        (0.76296, 0.763, "0.76296"),
        (0.76304, 0.763, "0.76304"),
        (0.763, 0.763, "0.763"),
        (0.7625, 0.7625, "0.7625"),
        (0.75, 0.763, "0.750"),
        (0.76246, 0.7623, "0.7625"),
        (0.76296, math.nan, "0.763"),
        (1234.4, 1234.0, "1234.4"),
        (-0.5004, -0.5, "−0.5004"),
        (math.nan, 0.763, "nan"),
    ],
)
def test_a_number_is_never_rounded_onto_or_across_the_one_beside_it(value: float, target: float, shown: str) -> None:
    assert say_beside(value, target) == shown


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_a_target_that_was_missed_does_not_look_met(value: float, target: float) -> None:
    shown = float(say_beside(value, target).replace(",", "").replace("−", "-"))
    if abs(value - target) > 1e-11 * target:
        assert (shown > target, shown < target) == (value > target, value < target)


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


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (say_bytes(40960), "40 KiB"),
        (say_bytes(3), "3 B"),
        (say_bytes(2.0**24), "16 MiB"),
        (say_rate(999.9e6), "1 GB/s"),
        (say_rate(123.4e6), "123 MB/s"),
        (say_rate(0), "0 B/s"),
        (say_rate(1.5e12, "FLOP/s"), "1.5 TFLOP/s"),
        (say_time(4.2e-6), "4.2 µs"),
        (say_time(125.3), "125 s"),
        (say_share(0.004), "0.4 %"),
        (say_share(0.286), "29 %"),
        (say_share(0.0), "0 %"),
    ],
)
def test_quantities_in_words(words: str, expected: str) -> None:
    assert words == expected


def test_durations() -> None:
    words = [say_duration(seconds) for seconds in (0, 59.6, 61, 3600, 7384, 90000, None)]
    assert words == ["0 s", "1 min", "1 min 1 s", "1 h", "2 h 3 min", "1 d 1 h", "not known"]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (-238.5, "samples/s", "−238.5 samples/s"),
        (-2.5e9, "FLOP/s", "−2.5 GFLOP/s"),
        (-2048, "bytes", "−2 KiB"),
        (0.0, "s", "0 s"),
        (1.5, "", "1.5"),
    ],
)
def test_values_below_zero_have_a_minus_sign(value: float, unit: str, text: str) -> None:
    assert say_value(value, unit) == text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (say_short(0.12345), "0.123"),
        (say_short(99.94), "99.9"),
        (say_short(1234567.0), "1,234,567"),
        (say_percent(0.286), "29"),
        (say_whole(1234567), "1,234,567"),
        (say_whole(None), "unknown"),
        (say_count(1, "run"), "1 run"),
        (say_count(0, "run"), "0 runs"),
        (say_count(12_345, "run"), "12,345 runs"),
        (say_change(1.2), "+20.0 %"),
        (say_change(0.9), "−10.0 %"),
        (say_change(2.5), "×2.5"),
        (say_fixed(0.286, 100, 1, "%"), "28.6 %"),
        (say_between(1.25, 1.0, 1.5, 2, "s"), "1.25 s (1.00 to 1.50)"),
        (say_between(1.25, None, None), "1.2 (no interval)"),
        (say_measured_rate(2e9), "2 GB/s"),
        (say_measured_time(0.00437), "4.37 ms"),
        (say_ratio(0.12345), "12.3 %"),
        (say_error(-0.05), "-5.0 %"),
    ],
)
def test_numbers_in_words(words: str, expected: str) -> None:
    assert words == expected


def test_what_is_no_number_is_never_written_as_one() -> None:
    assert {say_short(None), say_short(math.nan), say_percent(None), say_value(math.inf, "s")} == {"–"}
    unmeasured = {say_fixed(None), say_between("", 1, 2), say_measured_rate(None), say_measured_time(None)}
    assert unmeasured == {"not measured"}
    assert {say_ratio(None), say_ratio(math.nan), say_error(None)} == {"not known"}
    assert say_change(math.nan) == "unknown"


@pytest.mark.parametrize(
    ("name", "words"),
    [("top1_accuracy", "top-1 accuracy"), ("mean_absolute_error", "mean absolute error"), ("desktop1", "desktop1")],
)
def test_names_as_words(name: str, words: str) -> None:
    assert say_name(name) == words
