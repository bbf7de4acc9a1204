"""What results count their machine by: accelerators, or what stands for them on a machine that has none."""

from collections.abc import Iterable
from typing import get_args

from hpcai.core.text import say_whole
from hpcai.listing.entries import Entry, Unit

UNITS: tuple[Unit, ...] = get_args(Unit)
ACCELERATOR = UNITS[0]
PLURALS = {"process": "processes"}
"""Of other words the plural ends with s."""
OR = " or "


def join_units(units: Iterable[str]) -> str:
    """Return the different units of some results, such as "accelerator or processor"; of none "accelerator"."""
    found = set(units)
    return OR.join(unit for unit in UNITS if unit in found) or ACCELERATOR


def say_unit(entries: Iterable[Entry]) -> str:
    """Return what results are counted by; those without a count do not matter."""
    return join_units(entry.unit for entry in entries if entry.units is not None)


def say_units(unit: str) -> str:
    """Return the plural of one unit, or of several that are joined."""
    return OR.join(PLURALS.get(word, f"{word}s") for word in unit.split(OR))


def name_device(unit: str) -> str:
    """Return what a result computed on, as is named beside its count: an accelerator, a processor, or either."""
    if unit == ACCELERATOR:
        return unit
    return "accelerator or processor" if ACCELERATOR in unit.split(OR) else "processor"


def say_used(entry: Entry) -> str:
    """Return how much of its machine a result used, such as "2 nodes"; blank if it is not known."""
    if entry.units is None:
        return ""
    return f"{say_whole(entry.units)} {entry.unit if entry.units == 1 else say_units(entry.unit)}"


def say_used_of(entry: Entry) -> str:
    """Return the count of a result, to be followed by the model: "8 ×" of what is counted, else "2 nodes of"."""
    if entry.unit in (ACCELERATOR, "processor"):
        return f"{say_whole(entry.units)} ×"
    return f"{say_used(entry)} of"
