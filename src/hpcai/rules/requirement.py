"""Requirement of a rule on one setting: a value, one of several, or a range."""

import math
from collections.abc import Iterable

from pydantic import Field, model_validator

from hpcai.config.base import Settings
from hpcai.core.messages import Message

Scalar = bool | int | float | str
ONE_KEY = Message("requirement.one_key", "one of the keys free, equals, one_of, each is allowed, or limits of a range")


class Requirement(Settings):
    """Values of one setting that a rule allows; ``free: true`` allows all."""

    free: bool = False
    equals: Scalar | tuple[Scalar, ...] | None = None
    one_of: tuple[Scalar, ...] = ()
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    each: "Requirement | None" = Field(default=None, description="Required of every element of a list.")

    @model_validator(mode="after")
    def _requires_one_thing(self) -> "Requirement":
        limits = (self.at_least, self.at_most, self.above, self.below)
        ways = (
            self.free,
            self.equals is not None,
            bool(self.one_of),
            any(limit is not None for limit in limits),
            self.each is not None,
        )
        if sum(ways) != 1:
            raise ValueError(ONE_KEY())
        return self

    def allows(self, value: object) -> bool:
        """Return whether a setting may have this value."""
        if self.each is not None:
            return isinstance(value, tuple | list) and all(self.each.allows(element) for element in value)
        if self.equals is not None:
            return _same(value, self.equals)
        if self.one_of:
            return any(_same(value, choice) for choice in self.one_of)
        return self.free or (isinstance(value, int | float) and self._in_range(value))

    def _in_range(self, value: float) -> bool:
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.at_most is None or value <= self.at_most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    @property
    def words(self) -> str:
        """The allowed values, in words."""
        if self.each is not None:
            return f"each {self.each.words}"
        if self.equals is not None:
            return say(self.equals)
        if self.one_of:
            return " or ".join(say(choice) for choice in self.one_of)
        limits = {"at least": self.at_least, "above": self.above, "at most": self.at_most, "below": self.below}
        given = [f"{word} {say(limit)}" for word, limit in limits.items() if limit is not None]
        return " and ".join(given) if given else "free"


def say(value: object) -> str:
    """Return a value in readable form: grouped thousands, no quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{int(value):,}" if value.is_integer() and abs(value) < 1e15 else f"{value:.10g}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(say(element) for element in value)}]"
    return str(value)


def _same(value: object, expected: object) -> bool:
    if isinstance(value, bool) or isinstance(expected, bool):
        return value is expected
    if isinstance(value, int | float) and isinstance(expected, int | float):
        try:
            return math.isclose(value, expected, rel_tol=1e-9)
        except OverflowError:  # a log may contain integers of any length
            return False
    if isinstance(expected, tuple | list):
        return isinstance(value, tuple | list) and _same_elements(value, expected)
    return value == expected


def _same_elements(values: Iterable[object], expected: Iterable[object]) -> bool:
    values, expected = list(values), list(expected)
    return len(values) == len(expected) and all(map(_same, values, expected))
