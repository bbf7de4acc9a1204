"""A list with the values that it ranks, and how its record moved: computed once for all pages that show them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from hpcai.listing.entries import Edition, Entry, Ranking
from hpcai.listing.numbers import Format, choose_format


class Found(NamedTuple):
    """The value that a list ranks, its bounds, and the smallest and largest of its runs [unit of the list]."""

    value: float
    low: float | None
    high: float | None
    least: float | None
    most: float | None

    def say(self, form: Format) -> str:
        """Return the value without its unit."""
        return form.say(self.value)

    def say_interval(self, form: Format) -> str:
        """Return the interval; without one how far apart its runs are."""
        return form.say_interval(self.low, self.high, self.least, self.most)


@dataclass(frozen=True)
class Record:
    """A result that was better than all before it in its list."""

    entry: Entry
    found: Found

    @property
    def value(self) -> float:
        """The value alone."""
        return self.found.value


@dataclass(frozen=True)
class Listed:
    """A list of an edition."""

    edition: Edition
    ranking: Ranking

    @cached_property
    def entries(self) -> Sequence[Entry]:
        """Results in the order of their places."""
        by_id = self.edition.by_id
        return [by_id[place.entry] for place in self.ranking.places]

    @cached_property
    def found(self) -> Sequence[Found | None]:
        """What is ranked, of each result; None without a value."""
        return [value_of(self.ranking, entry) for entry in self.entries]

    @cached_property
    def form(self) -> Format:
        """Unit in which all values are shown."""
        return choose_format(self.ranking.quantity, self.ranking.unit, [one.value for one in self.found if one])

    @cached_property
    def leader(self) -> Record | None:
        """The first result with a place; None without one."""
        for place, entry, found in zip(self.ranking.places, self.entries, self.found, strict=True):
            if place.place is not None:
                return Record(entry, found) if found else None
        return None

    @cached_property
    def records(self) -> Sequence[Record]:
        """How the best value moved: by year, then round; results without place or year are left out."""
        best: dict[tuple[int, str], Record] = {}
        for place, entry, found in zip(self.ranking.places, self.entries, self.found, strict=True):
            if place.place is None or entry.year is None or found is None:
                continue
            record = Record(entry, found)
            known = best.get((entry.year, entry.round))
            if known is None or self.is_better(record, known):
                best[entry.year, entry.round] = record
        records: list[Record] = []
        for _, record in sorted(best.items()):
            if not records or self.is_better(record, records[-1]):
                records.append(record)
        return records

    def is_better(self, one: Record, other: Record) -> bool:
        """Tell whether one value is better than another."""
        return one.value < other.value if self.ranking.better == "lower" else one.value > other.value

    def ratio(self, before: Record, now: Record) -> float:
        """Return how many times better a value is than another."""
        return now.value / before.value if self.ranking.better == "higher" else before.value / now.value


def list_all(edition: Edition) -> Sequence[Listed]:
    """Return the lists of an edition, in its order."""
    return [Listed(edition, ranking) for ranking in edition.rankings]


def value_of(ranking: Ranking, entry: Entry) -> Found | None:
    """Return the value that a list ranks; None without one."""
    per_unit = ranking.kind == "throughput_per_unit"
    number = entry.number("train_rate_samples_per_s" if per_unit else ranking.quantity)
    share = entry.units if per_unit else 1
    if number is None or not share:
        return None
    bounds = (number.low, number.high, number.least, number.most)
    return Found(number.value / share, *(None if bound is None else bound / share for bound in bounds))
