"""Numbers in an unknown locale's format, and units with prefixes, as printed by Nsight's tools."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

ABSENT = frozenset({"", "n/a", "(!) n/a", "nan", "-nan", "(!) nan", "inf", "-inf", "[n/a]"})
"""Cells, in lower case, that mean "no value"."""
TOLERATED_RATIO = 0.05
"""Share of numbers that may disagree with the file's separators, as damage does."""
GROUP_DIGITS = 3
_CANDIDATE = re.compile(r"[-+]?\d[\d.,' ]*(?:[eE][-+]?\d+)?", re.ASCII)
_SPACES = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u2019": "'"})


@dataclass(frozen=True)
class NumberStyle:
    """Separators of one locale.

    Attributes
    ----------
    group, decimal
        Thousands separator and decimal separator.
    doubtful
        Texts of the file that this style and another read as different numbers; they are not read.
    """

    group: str
    decimal: str
    doubtful: frozenset[str] = frozenset()

    def read(self, text: str) -> float:
        """Return the number; NaN where the tool reports no value.

        Raises
        ------
        ValueError
            If the text is not a number in this style, or is doubtful.
        """
        plain = _plain(text)
        if plain.lower() in ABSENT:
            return math.nan
        if plain in self.doubtful or not self.accepts(plain):
            raise ValueError(text)
        return self.value(plain)

    def accepts(self, plain: str) -> bool:
        """Return whether a text is a number in this style."""
        return bool(_pattern(self.group, self.decimal).fullmatch(plain))

    def value(self, plain: str) -> float:
        """Return the number of an accepted text."""
        return float(plain.replace(self.group, "").replace(self.decimal, "."))

    def decimals(self, plain: str) -> int:
        """Return how many digits follow the decimal separator."""
        return len(re.split("[eE]", plain.partition(self.decimal)[2])[0])


STYLES = (
    NumberStyle(",", "."),
    NumberStyle(".", ","),
    NumberStyle(" ", ","),
    NumberStyle("'", "."),
    NumberStyle(" ", "."),
)
"""English, German, French, Swiss and SI separators; the first is the C locale's."""


@cache
def _pattern(group: str, decimal: str) -> re.Pattern[str]:
    whole = rf"(?:\d+|[1-9]\d{{0,2}}(?:{re.escape(group)}\d{{3}})+)"
    return re.compile(rf"[-+]?{whole}(?:{re.escape(decimal)}\d+)?(?:[eE][-+]?\d+)?", re.ASCII)


def _plain(text: str) -> str:
    return text.translate(_SPACES).strip()


def decide_style(texts: Iterable[str]) -> NumberStyle:
    """Return the one style in which a file's numbers are written.

    All numbers of the file decide together. A number is doubtful if the chosen style and another possible one read it
    differently, or if its separators contradict the other numbers: grouped where they are not, or three decimals
    where they have two.

    Raises
    ------
    ValueError
        If no style fits because the separators contradict one another.
    """
    numbers = {plain for plain in map(_plain, texts) if _CANDIDATE.fullmatch(plain)}
    numbers = {plain for plain in numbers if any(style.accepts(plain) for style in STYLES)}
    accepted = {style: {plain for plain in numbers if style.accepts(plain)} for style in STYLES}
    best = max(STYLES, key=lambda style: len(accepted[style]))
    missed = len(numbers) - len(accepted[best])
    if missed > max(1, TOLERATED_RATIO * len(numbers)):
        unread = sorted(numbers - accepted[best])[:2]
        read = sorted((text for text in accepted[best] if re.search(r"\D", text)), key=len)[-1:]
        raise ValueError(f"separators that contradict one another: {', '.join([*read, *unread])}")
    others = [style for style in STYLES if len(accepted[style]) == len(accepted[best])]
    doubtful = {plain for plain in accepted[best] if _differs(plain, best, others)}
    doubtful |= _odd_decimals(best, accepted[best]) | _odd_groups(best, accepted[best])
    return NumberStyle(best.group, best.decimal, frozenset(doubtful))


def _differs(plain: str, best: NumberStyle, others: list[NumberStyle]) -> bool:
    return any(style.accepts(plain) and style.value(plain) != best.value(plain) for style in others)


def _odd_decimals(best: NumberStyle, numbers: set[str]) -> set[str]:
    """Return numbers with three decimals that could be a group, where no other number has three."""
    open_texts = {plain for plain in numbers if _differs(plain, best, list(STYLES))}
    lengths = {best.decimals(plain) for plain in numbers - open_texts} - {0}
    if len(lengths) != 1 or GROUP_DIGITS in lengths:
        return set()
    return {plain for plain in open_texts if best.decimals(plain) == GROUP_DIGITS}


def _odd_groups(best: NumberStyle, numbers: set[str]) -> set[str]:
    """Return the grouped numbers if most are not grouped, or the reverse; both if they are equally many."""
    grouped = {plain for plain in numbers if best.group in plain}
    ungrouped = {plain for plain in numbers if re.match(r"[-+]?\d{4}", plain)}
    if len(grouped) == len(ungrouped):
        return grouped | ungrouped
    return min(grouped, ungrouped, key=len)


@dataclass(frozen=True)
class Unit:
    """A unit in SI: its name ("" is a count, "ratio" has no dimension) and its factor."""

    name: str
    factor: float


_PREFIXES = {"": 1.0, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
# Each base has only the prefixes that occur with it, so that damage turning "ms" into "Ms" is rejected.
_BASES = {
    "second": ("s", "nuµm"),
    "s": ("s", "nuµm"),
    "byte": ("byte", "KMGT"),
    "hz": ("Hz", "KkMG"),
    "Hz": ("Hz", "KkMG"),
}
COUNTS = frozenset(
    [
        *("cycle", "inst", "sector", "warp", "block", "thread", "cluster", "SM", "TPC", "GPC", "branches", "branch"),
        *(
            "pass",
            "request",
            "register",
            "wavefront",
            "instance",
            "access",
            "bank",
            "node",
            "slice",
            "op",
            "ops",
            "transaction",
        ),
    ]
)
"""Nouns that Nsight Compute prints in place of a unit: numbers of things."""


def to_si_unit(text: str) -> Unit:
    """Return the SI unit of a unit printed by Nsight; K, M and G are powers of ten (profilers.md, section 2).

    Raises
    ------
    ValueError
        If the unit is unknown.
    """
    unit = text.strip()
    if unit == "%":
        return Unit("ratio", 0.01)
    numerator, slash, denominator = unit.partition("/")
    above = _simple_unit(numerator)
    if not slash:
        return above
    if denominator in COUNTS | {"scheduler"}:
        return Unit(f"{above.name or numerator}/{denominator}", above.factor)
    below = _simple_unit(denominator)
    if below.name != "s" or not numerator:
        raise ValueError(text)
    name = "Hz" if numerator == "cycle" else f"{above.name or '1'}/s"
    return Unit(name, above.factor / below.factor)


def _simple_unit(text: str) -> Unit:
    if not text or text in COUNTS:
        return Unit("", 1.0)
    for base, (name, prefixes) in _BASES.items():
        prefix = text.removesuffix(base)
        if text.endswith(base) and prefix in ("", *prefixes):
            return Unit(name, _PREFIXES[prefix])
    raise ValueError(text)
