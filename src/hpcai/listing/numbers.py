"""Numbers of the list as the pages show them: name, unit of display, interval."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from hpcai.catalogue.tables import definitions
from hpcai.core.text import choose_scale, say_beside, say_name, say_number
from hpcai.listing.entries import Entry, MachineNumber, Number

NO_INTERVAL = "no interval"
LOWER_IS_BETTER = ("time_to_train_s", "time_to_train_all_s", "energy_j", "epochs", "mean_power_w")
QUALITY = "quality"
MINUTES = ("time_to_train_s", "time_to_train_all_s")
"""Shown in minutes, as MLPerf does."""
SAMPLES_OF = {"time_to_train_s": "time_s", "train_rate_samples_per_s": "samples_per_s"}
"""Which value of its runs a number of an entry combines."""


@dataclass(frozen=True)
class Format:
    """Unit of display: values are divided by ``factor``."""

    unit: str
    factor: float

    def say(self, value: float) -> str:
        """Return a value without its unit."""
        return say_number(value / self.factor)

    def say_interval(
        self, low: float | None, high: float | None, least: float | None = None, most: float | None = None
    ) -> str:
        """Return the bounds in brackets; without them the smallest and the largest run, or that there are none."""
        if low is not None and high is not None:
            return f"[{self.say(low)}, {self.say(high)}]"
        if least is not None and most is not None:
            return f"runs {self.say(least)} to {self.say(most)}"
        return NO_INTERVAL


@dataclass(frozen=True)
class Amount:
    """A number as a page shows it."""

    name: str
    words: str
    unit: str
    interval: str
    n: int | None
    method: str
    source: str


def choose_format(quantity: str, unit: str, values: Iterable[float]) -> Format:
    """Return the unit of display of one column: the same for all its values, so that they can be compared by eye."""
    if quantity in MINUTES:
        return Format("min", 60.0)
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if not largest or unit == "s":
        return Format(unit, 1.0)
    scale = choose_scale(largest, unit)
    return Format(scale.unit, scale.factor)


def say_amount(number: Number, target: float | None = None) -> Amount:
    """Return one number as its page shows it; a quality with digits enough to show if it reached its target."""
    form = choose_format(number.quantity, number.unit, [number.value])
    beside = target if target is not None and number.quantity == QUALITY else math.nan
    return Amount(
        name=number.title if isinstance(number, MachineNumber) else name_quantity(number.quantity),
        words=say_beside(number.value / form.factor, beside / form.factor),
        unit=form.unit,
        interval=form.say_interval(number.low, number.high, number.least, number.most),
        n=number.n,
        method=number.method,
        source=number.source,
    )


def repeats_of(entry: Entry, quantity: str) -> tuple[float, ...]:
    """Return the values of all valid runs behind a number; none if they are not given.

    A mean that leaves out the fastest and the slowest run counts fewer: a test of runs without their extremes would
    find differences that are not there.
    """
    name = SAMPLES_OF.get(quantity)
    if name is None:
        return ()
    ends = {run.outcome for run in entry.runs if run.counted}
    valid = [run for run in entry.runs if run.counted or (run.outcome in ends and run.complies is not False)]
    return tuple(value for run in valid if (value := getattr(run, name)) is not None)


def name_quantity(quantity: str) -> str:
    """Return the title of a quantity: the catalogue's, or its name in words."""
    definition = definitions().entries.get(quantity)
    title = definition.title if definition else ""
    return title or say_name(quantity)
