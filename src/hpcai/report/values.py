"""Numbers as the page writes them: few digits with a prefix, and the exact value beside them."""

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np
import pandas as pd

from hpcai.metrics.words import BYTES, RATES, TIMES, Steps, choose_step

PREFIXED = ("FLOP/s", "FLOP", "FLOP/sample", "B/s", "FLOP/J", "J", "W", "B")
"""Units that are written with a decimal prefix, as processors, links and disks are rated."""
NOT_MEASURED, NOT_DEFINED = "not measured", "not defined"


@dataclass(frozen=True)
class Scale:
    """How a value is written: divided by ``factor``, with ``unit`` behind it."""

    factor: float
    unit: str


def choose_scale(value: float, unit: str) -> Scale:
    """Return the scale in which a value has one to three digits before its point.

    Parameters
    ----------
    value
        The number [unit].
    unit
        A unit of the catalogue of tables; "share" is a ratio that is written as a percentage.
    """
    if unit == "share":
        return Scale(0.01, "%")
    if unit == "bytes":
        return _step(value, BYTES)
    if unit == "s":
        return _step(value, TIMES)
    if unit in PREFIXED:
        found = _step(value, RATES)
        return Scale(found.factor, found.unit + unit)
    return Scale(1.0, "" if unit == "ratio" else unit)


def say_number(value: float) -> str:
    """Return a number with three significant digits or more, thousands in groups, and a real minus sign."""
    size = abs(value)
    if size >= 99.95 or (float(value).is_integer() and size < 1e15):
        text = f"{value:,.0f}"
    elif size >= 1e-3:
        text = f"{value:#.3g}"
    else:
        text = f"{value:.2e}"
    return text.replace("-", "−")


def say_exactly(value: float, unit: str) -> str:
    """Return a number with all digits that were measured, in the unit that its column is stored in."""
    stored = "" if unit in {"ratio", "share", ""} else f" {unit}"
    return f"{value:.12g}{stored}"


def say_interval(low: float, high: float, scale: Scale) -> str:
    """Return the bounds of an interval in the scale of their value."""
    return f"[{say_number(low / scale.factor)}, {say_number(high / scale.factor)}]"


def is_truth(value: object) -> bool:
    """Tell whether a cell holds yes or no."""
    return isinstance(value, bool | np.bool_)


def is_number(value: object) -> bool:
    """Tell whether a cell holds a finite number, not a truth value."""
    return isinstance(value, Real) and not is_truth(value) and math.isfinite(value)


def is_blank(value: object) -> bool:
    """Tell whether a cell holds nothing: no text, or no number."""
    if isinstance(value, str):
        return not value
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, Real) and math.isnan(value))


def _step(value: float, steps: Steps) -> Scale:
    """Return the step of a value; zero needs no prefix."""
    plain = next(step for step in steps if step[0] == 1.0)
    return Scale(*(plain if value == 0 else choose_step(value, steps)))
