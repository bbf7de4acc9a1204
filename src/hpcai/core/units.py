"""Convert text such as ``"25 GB/s"`` to SI numbers; defines FLOP and byte for the whole library."""

import re
import sys
from functools import cache
from tokenize import TokenError
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from hpcai.core.messages import Message

NO_QUANTITY = Message("units.no_quantity", "no quantity that can be converted to {unit}, write for example {example!r}")

if TYPE_CHECKING:
    import pint


@cache
def _registry() -> "pint.UnitRegistry[float]":
    import pint  # slow, and most programs read plans, which hold numbers

    registry: pint.UnitRegistry[float] = pint.UnitRegistry()
    # A FLOP is one floating-point operation: a fused multiply-add counts two (HPC AI500 V2.0, Table 10).
    registry.define("FLOP = [floating_point_operation] = flop")
    return registry


def to_si(text: str | float, unit: str) -> float:
    """Return ``text`` as a number of ``unit``.

    Parameters
    ----------
    text
        A quantity with its unit, such as ``"1.2 TFLOP/s"``, or a number that is already in ``unit``.
    unit
        The target unit, for example ``"byte/s"``. The byte has 8 bits; GB is 1e9 and GiB 2**30 bytes.

    Raises
    ------
    ValueError
        If the text is not a quantity, or has another dimension.
    """
    if isinstance(text, int) and abs(text) > sys.float_info.max:
        raise ValueError(f"a number below {sys.float_info.max:.0e} is allowed")
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        return float(text)
    if isinstance(text, str) and (usual := _usual(text, unit)) is not None:
        return usual
    if "**" in str(text) or "^" in str(text):
        raise ValueError("a quantity without powers is allowed")  # 9**9**9 would be computed
    import pint

    try:
        # pint's base unit of information is the bit, so always convert explicitly.
        return float(_registry()(str(text)).to(unit).magnitude)
    except (pint.errors.PintError, *_NO_QUANTITY) as error:
        message = NO_QUANTITY(unit=unit, example=_EXAMPLES[unit])
        raise ValueError(message) from error


def _usual(text: str, unit: str) -> float | None:
    """Return a number with one of the usual units, as pint does, whose start takes longer than that of a job."""
    found = _USUAL_TEXT.fullmatch(text)
    known = _USUAL[unit].get(found["unit"]) if found and unit in _USUAL else None
    if found is None or known is None:
        return None
    times, over = known
    return float(found["number"]) * times / over


_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_BYTES = {f"{prefix}B": (times, 1.0) for prefix, times in {**_DECIMAL, **_BINARY}.items()}
_BITS = {f"{prefix}bit": (times, 8.0) for prefix, times in _DECIMAL.items()}
_USUAL: dict[str, dict[str, tuple[float, float]]] = {
    "byte": _BYTES,
    "byte/s": {f"{unit}/s": parts for unit, parts in {**_BYTES, **_BITS}.items()},
    "FLOP/s": {f"{prefix}FLOP/s": (times, 1.0) for prefix, times in _DECIMAL.items()},
    "s": {
        "ns": (1e-9, 1.0),
        "us": (1e-6, 1.0),
        "ms": (1e-3, 1.0),
        "s": (1.0, 1.0),
        "min": (60.0, 1.0),
        "h": (3600.0, 1.0),
    },
    "W": {"W": (1.0, 1.0), "kW": (1e3, 1.0), "MW": (1e6, 1.0)},
}
"""Factor and divisor of the units that settings have, by target unit; all others are left to pint."""
_USUAL_TEXT = re.compile(r"(?P<number>\d{1,15}(?:\.\d{1,15})?) ?(?P<unit>[A-Za-z]+(?:/s)?)", re.ASCII)
_NO_QUANTITY = (
    *(AttributeError, TypeError, ValueError, AssertionError, SyntaxError),
    *(ArithmeticError, RecursionError, TokenError),
)
"""Exceptions from pint besides its own."""
_EXAMPLES = {"byte": "24 GiB", "byte/s": "25 GB/s", "FLOP/s": "1.2 TFLOP/s", "s": "30 min", "W": "250 W"}


def _quantity(unit: str) -> tuple[object, ...]:
    schema = {
        "anyOf": [{"type": "string"}, {"type": "number", "exclusiveMinimum": 0}],
        "examples": [_EXAMPLES[unit]],
        "description": f"A quantity with its unit, or a number of {unit}.",
    }
    return BeforeValidator(lambda value: to_si(value, unit)), Field(gt=0, allow_inf_nan=False), WithJsonSchema(schema)


Bytes = Annotated[float, *_quantity("byte")]
BytesPerSecond = Annotated[float, *_quantity("byte/s")]
FlopPerSecond = Annotated[float, *_quantity("FLOP/s")]
Seconds = Annotated[float, *_quantity("s")]
Watts = Annotated[float, *_quantity("W")]
