"""Text to SI numbers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcai.core.units import _USUAL, NO_QUANTITY, _registry, to_si


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("25 GB/s", "byte/s", 25e9),
        ("8 bit", "byte", 1.0),
        ("100 Gbit/s", "byte/s", 12.5e9),
        ("24 GiB", "byte", 24 * 2**30),
        ("1.2 TFLOP/s", "FLOP/s", 1.2e12),
        ("312 TFLOP/s", "FLOP/s", 312e12),
        ("30 min", "s", 1800.0),
        ("1.2 kW", "W", 1200.0),
        ("2 kJ/s", "W", 2000.0),
        ("20 us", "s", 20e-6),
        ("20 µs", "s", 20e-6),
        ("3 hours", "s", 10_800.0),
        ("2 weeks", "s", 1_209_600.0),
        ("5 MB/min", "byte/s", 5e6 / 60),
        (3.5, "s", 3.5),
    ],
)
def test_to_si(text, unit, value):
    assert to_si(text, unit) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(("target", "unit"), [(target, unit) for target, own in _USUAL.items() for unit in own])
@given(st.one_of(st.integers(0, 10**12), st.decimals(0, 10**6, places=4)))
@settings(max_examples=20)
def test_usual_units_have_the_very_numbers_of_pint(target, unit, number):
    assert to_si(f"{number} {unit}", target) == float(_registry()(f"{number} {unit}").to(target).magnitude)


@pytest.mark.parametrize(
    "text", ["", "fast", "25", "3 GB", "5 FLOP", "3 m/s", "1 +", "__import__('os')", None, [], True]
)
def test_no_quantity(text):
    with pytest.raises(ValueError, match=NO_QUANTITY.pattern):
        to_si(text, "byte/s")


@given(st.floats(min_value=1e-6, max_value=1e6))
def test_scaling(value):
    assert to_si(f"{value!r} GB", "byte") == pytest.approx(value * 1e9)
