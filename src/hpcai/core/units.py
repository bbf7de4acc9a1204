"""Convert text such as ``"25 GB/s"`` to SI numbers; defines FLOP and byte for the whole library."""

import sys
from functools import cache
from tokenize import TokenError
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from hpcai.core.messages import Message

NO_QUANTITY = Message("units.no_quantity", "no quantity that can be converted to {unit}, write for example {example!r}")

if TYPE_CHECKING:
    import pint


# Pint's own definitions, a thousand, take longer to read than a study to check.
# A FLOP is one floating-point operation: a fused multiply-add counts two (HPC AI500 V2.0, Table 10).
_DEFINITIONS = """
pico- = 1e-12 = p-
nano- = 1e-9 = n-
micro- = 1e-6 = µ- = μ- = u-
milli- = 1e-3 = m-
kilo- = 1e3 = k-
mega- = 1e6 = M-
giga- = 1e9 = G-
tera- = 1e12 = T-
peta- = 1e15 = P-
exa- = 1e18 = E-
zetta- = 1e21 = Z-
kibi- = 2**10 = Ki-
mebi- = 2**20 = Mi-
gibi- = 2**30 = Gi-
tebi- = 2**40 = Ti-
pebi- = 2**50 = Pi-
exbi- = 2**60 = Ei-
second = [time] = s = sec
minute = 60 * second = min
hour = 60 * minute = h = hr
day = 24 * hour = d
week = 7 * day
year = 365.25 * day = yr
month = year / 12
bit = [information]
byte = 8 * bit = B = octet
joule = [energy] = J
watt = joule / second = W
FLOP = [floating_point_operation] = flop
"""


@cache
def _registry() -> "pint.UnitRegistry[float]":
    import pint  # slow, and most programs read plans, which hold numbers

    registry: pint.UnitRegistry[float] = pint.UnitRegistry(_DEFINITIONS.splitlines())
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
    if "**" in str(text) or "^" in str(text):
        raise ValueError("a quantity without powers is allowed")  # 9**9**9 would be computed
    import pint

    try:
        return float(_registry()(str(text)).to(unit).magnitude)
    except (pint.errors.PintError, *_NO_QUANTITY) as error:
        message = NO_QUANTITY(unit=unit, example=_EXAMPLES[unit])
        raise ValueError(message) from error


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
