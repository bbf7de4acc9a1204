"""Human-readable numbers with units, for the terminal, captions, the page and figures."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Steps = Sequence[tuple[float, str]]
BYTES = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
RATES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
PREFIXED = ("FLOP/s", "FLOP", "FLOP/sample", "B/s", "FLOP/J", "J", "W", "B")
"""Units with decimal prefixes, as in ratings of processors, links and disks."""
MOST_DIGITS = 12
"""Significant digits of a number that is said as exactly as it was measured."""
NOT_MEASURED, NOT_DEFINED, NOT_KNOWN, DASH = "not measured", "not defined", "not known", "–"


def say_name(name: str) -> str:
    """Return a name in code as words: ``top1_accuracy`` is "top-1 accuracy"."""
    return re.sub(r"\btop(?=\d)", "top-", name.replace("_", " "))


def say_bytes(value: float) -> str:
    """Return a number of bytes with a binary prefix, because message sizes are powers of two."""
    return _say(value, BYTES)


def say_rate(value: float, unit: str = "B/s") -> str:
    """Return a rate with a decimal prefix, as in ratings of links, disks and processors."""
    return _say(value, [(factor, prefix + unit) for factor, prefix in RATES])


def say_time(value: float) -> str:
    """Return a time [s] in s, ms, µs or ns."""
    return _say(value, TIMES)


def say_share(value: float) -> str:
    """Return a ratio as a percentage; one that is not zero never reads as ``0 %``."""
    if 0 < value < 0.0095:
        return f"{100 * value:.1g} %"
    return f"{100 * value:.0f} %"


def say_duration(seconds: float | None) -> str:
    """Return a duration [s] in days, hours, minutes and seconds: the two largest; "not known" for None."""
    if seconds is None:
        return NOT_KNOWN
    whole = round(seconds)
    parts = ((whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s"))
    first = next((number for number, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count or unit == parts[first][1])


def say_count(number: int, word: str) -> str:
    """Return a count with its noun, in the plural unless it is one."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def say_whole(value: float | None) -> str:
    """Return a whole number with thousands in groups."""
    return "unknown" if value is None else f"{value:,.0f}"


def say_short(value: float | None) -> str:
    """Return a number with three significant digits; a dash if unknown."""
    if value is None or not math.isfinite(value):
        return DASH
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def say_percent(value: float | None) -> str:
    """Return a ratio in percent, without the sign; a dash if unknown."""
    return DASH if value is None or not math.isfinite(value) else f"{100 * value:.0f}"


def say_value(value: float, unit: str) -> str:
    """Return a value with its unit; a dash if it was not measured."""
    if not math.isfinite(value):
        return DASH
    sign, size = "−" if value < 0 else "", abs(value)
    if unit.startswith("FLOP"):
        return f"{sign}{say_rate(size, unit)}"
    return f"{sign}{say_bytes(size) if unit == 'bytes' else f'{size:.4g} {unit}'.rstrip()}"


def say_change(ratio: float) -> str:
    """Return a ratio as a signed percentage, beyond a doubling as a factor."""
    if not math.isfinite(ratio):
        return "unknown"
    return f"×{ratio:.3g}" if ratio >= 2 else f"{100 * (ratio - 1):+.1f} %".replace("-", "−")


def say_fixed(value: object, factor: float = 1.0, digits: int = 1, unit: str = "") -> str:
    """Return a number times a factor, with fixed decimals and its unit."""
    if not isinstance(value, int | float):
        return NOT_MEASURED
    return f"{factor * value:.{digits}f}" + (f" {unit}" if unit else "")


def say_between(value: object, low: object, high: object, digits: int = 1, unit: str = "") -> str:
    """Return a number with its unit, and its interval in brackets."""
    found = say_fixed(value, 1, digits, unit)
    if not isinstance(value, int | float):
        return found
    known = isinstance(low, int | float)
    return f"{found} ({f'{say_fixed(low, 1, digits)} to {say_fixed(high, 1, digits)}' if known else 'no interval'})"


def say_measured_rate(value: object, unit: str = "B/s") -> str:
    """Return a rate with a decimal prefix, or a note that it was not measured."""
    return say_rate(value, unit) if isinstance(value, int | float) else NOT_MEASURED


def say_measured_time(value: object) -> str:
    """Return a time [s] in s, ms, µs or ns, or a note that it was not measured."""
    return say_time(value) if isinstance(value, int | float) else NOT_MEASURED


def say_ratio(value: object) -> str:
    """Return a ratio as a percentage with three significant digits."""
    return f"{100 * value:.3g} %" if isinstance(value, int | float) and not math.isnan(value) else NOT_KNOWN


def say_error(value: object) -> str:
    """Return a relative error as a percentage with its sign."""
    return f"{100 * value:+.1f} %" if isinstance(value, int | float) else NOT_KNOWN


@dataclass(frozen=True)
class Scale:
    """Display scale of a value: divided by ``factor``, followed by ``unit``."""

    factor: float
    unit: str


def choose_scale(value: float, unit: str) -> Scale:
    """Return the scale that gives a value one to three digits before the point.

    Parameters
    ----------
    value
        The number [unit].
    unit
        A unit of ``reports/definitions.yaml``; "share" is a ratio shown as a percentage.
    """
    if unit == "share":
        return Scale(0.01, "%")
    if unit == "bytes":
        return _scale(value, BYTES)
    if unit == "s":
        return _scale(value, TIMES)
    if unit in PREFIXED:
        found = _scale(value, RATES)
        return Scale(found.factor, found.unit + unit)
    return Scale(1.0, "" if unit == "ratio" else unit)


def say_number(value: float) -> str:
    """Return a number with at least three significant digits, grouped thousands, and a real minus sign."""
    size = abs(value)
    if size >= 99.95 or (float(value).is_integer() and size < 1e15):
        text = f"{value:,.0f}"
    elif size >= 1e-3:
        text = f"{value:#.3g}"
    else:
        text = f"{value:.2e}"
    return text.replace("-", "−")


def say_beside(value: float, other: float, say: Callable[[float], str] | None = None) -> str:
    """Return a number with digits enough to show on which side of another one it is.

    A quality that misses its target by little must not look as if it had reached it.

    Parameters
    ----------
    value, other
        The number, and the one that stands beside it; NaN for none.
    say
        How numbers are said where the digits suffice; default: :func:`say_number`.
    """
    text = (say or say_number)(value)
    for digits in range(4, MOST_DIGITS + 1):
        shown = float(text.replace(",", "").replace("−", "-"))
        if (shown > other, shown < other) == (value > other, value < other):
            break
        text = f"{value:#.{digits}g}".replace("-", "−")
    return text


def say_exactly(value: float, unit: str) -> str:
    """Return a number with all measured digits, in the unit of its column."""
    stored = "" if unit in {"ratio", "share", ""} else f" {unit}"
    return f"{value:.{MOST_DIGITS}g}{stored}"


def say_interval(low: float, high: float, scale: Scale) -> str:
    """Return the bounds of an interval in the scale of their value."""
    return f"[{say_number(low / scale.factor)}, {say_number(high / scale.factor)}]"


def choose_step(value: float, steps: Steps) -> tuple[float, str]:
    """Return the largest step that leaves a digit before the point, or else the smallest."""
    # 999.7 would be shown as 1000, so it belongs to the next step.
    return next((step for step in steps if abs(value) >= 0.9995 * step[0]), steps[-1])


def _scale(value: float, steps: Steps) -> Scale:
    """Return the step of a value; zero needs no prefix."""
    plain = next(step for step in steps if step[0] == 1.0)
    return Scale(*(plain if value == 0 else choose_step(value, steps)))


def _say(value: float, steps: Steps) -> str:
    factor, unit = choose_step(value, steps)
    return f"{_digits(value / factor)} {unit}"


def _digits(value: float) -> str:
    """Return three significant digits, without an exponent."""
    if abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.3g}"
