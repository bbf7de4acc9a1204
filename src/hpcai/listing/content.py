"""What one submission contributes to the list, and how table rows become numbers with unit, interval and source."""

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from hpcai.catalogue.tables import definitions
from hpcai.listing.entries import Entry, File, Machine, Number, Part, Prediction, Refusal, Run, Value
from hpcai.metrics.cells import number_of, text_of
from hpcai.metrics.statistics.summaries import LEVEL, is_range
from hpcai.mlperf_hpc.rounds.texts import printable

BOUNDS = {
    "train_rate_samples_per_s": ("train_rate_low_samples_per_s", "train_rate_high_samples_per_s"),
    "rate_flop_per_s": ("rate_low_flop_per_s", "rate_high_flop_per_s"),
    "vflops_flop_per_s": ("vflops_low_flop_per_s", "vflops_high_flop_per_s"),
}
"""Columns with the bounds of a score."""
SCORES = (
    "time_to_train_s", "train_rate_samples_per_s", "rate_flop_per_s", "vflops_flop_per_s", "flop_per_j",
    "vflops_flop_per_j", "quality", "time_to_quality_s", "mean_power_w", "flop_per_sample",
)  # fmt: skip
"""Columns of the table ``scores`` that are numbers of an entry."""
ZERO_COUNTS = ("vflops_flop_per_s", "vflops_flop_per_j", "quality")
"""Numbers that may be 0: a run that reached a quality of 0; a time or a rate of 0 was not measured."""
OFFICIAL = "(official)"
"""Part of the words for a dataset that is the official one."""
MOST_SIGNS = 1900
"""Signs kept of a foreign text."""


class PastResult(Part):
    """A result of a published round, from which results of later rounds are forecast."""

    entry: str
    family: str
    row: dict[str, Value]
    """Its row of the table ``mlperf_results``; None for a cell without a value."""


class Content(Part):
    """Entries and machines of one submission, what of it was refused, and predictions made and to be made from it."""

    entries: tuple[Entry, ...] = ()
    machines: tuple[Machine, ...] = ()
    refused: tuple[Refusal, ...] = ()
    predictions: tuple[Prediction, ...] = ()
    past: tuple[PastResult, ...] = ()
    submitted: datetime.date | None = None
    embargo: datetime.date | None = None


def number_from(
    row: Mapping[str, Any],
    quantity: str,
    table: str,
    method: str,
    n: int | None = None,
    runs: Iterable[Mapping[str, Any]] = (),
) -> Number | None:
    """Return a cell of a table as a number; None if it is empty.

    Parameters
    ----------
    row
        Row of the table, with its bounds if the table has them.
    quantity, table
        Column, and the table whose definition gives its unit.
    method
        How the value was obtained.
    n
        Runs behind it.
    runs
        Rows of all valid runs, those that a mean leaves out included: their smallest and largest value is no interval
        of the mean, but tells how far apart they are.
    """
    value = number_of(row, quantity)
    if not math.isfinite(value) or (value <= 0 and quantity not in ZERO_COUNTS):
        return None
    bounds = [number_of(row, name) for name in BOUNDS.get(quantity, ())]
    known = len(bounds) == 2 and all(map(math.isfinite, bounds))
    bounded = known and not (n is not None and is_range(bounds[0], n))
    single = [one for run in runs if math.isfinite(one := number_of(run, quantity))]
    # The bounds of few runs are their range, which is no interval.
    single += bounds if known and not bounded else []
    return Number(
        quantity=quantity,
        unit=definitions().find(table, quantity)[1].unit,
        value=value,
        low=bounds[0] if bounded else None,
        high=bounds[1] if bounded else None,
        interval=f"{100 * LEVEL:.0f} % interval" if bounded else "",
        least=min(single) if len(single) > 1 else None,
        most=max(single) if len(single) > 1 else None,
        n=n,
        method=shorten(method),
        source=shorten(text_of(row.get("source"))),
    )


def numbers_from(
    row: Mapping[str, Any],
    names: Iterable[str],
    table: str,
    method: str,
    n: int | None,
    runs: Sequence[Mapping[str, Any]] = (),
) -> list[Number]:
    """Return the numbers of a row that are there, in the order of the names."""
    found = (number_from(row, name, table, method, n, runs) for name in names)
    return [number for number in found if number is not None]


def run_from(row: Mapping[str, Any], *, name: str, counted: bool, time: str, complies: bool | None) -> Run:
    """Return a row of a table of runs; `time` names the column with the time by the suite's rules."""
    return Run(
        name=shorten(name),
        outcome=shorten(text_of(row.get("outcome"))),
        counted=counted,
        time_s=optional(number_of(row, time)),
        samples_per_s=optional(number_of(row, "train_rate_samples_per_s")),
        epochs=optional(number_of(row, "epochs")),
        complies=complies,
        reason=shorten(text_of(row.get("reason"))),
    )


def optional(value: float) -> float | None:
    """Return a number; None for NaN, infinity and anything that is not above 0."""
    return value if math.isfinite(value) and value > 0 else None


def whole(value: float) -> int | None:
    """Return a count; None for NaN or a fraction."""
    return int(value) if math.isfinite(value) and value == int(value) and value > 0 else None


def data_of(dataset: str) -> Literal["official", "other"]:
    """Return the kind of data that the words for a dataset name."""
    return "official" if OFFICIAL in dataset else "other"


def shorten(words: str) -> str:
    """Return a foreign text without control characters, of limited length."""
    shown = printable(words[: MOST_SIGNS + 1])
    return shown if len(shown) <= MOST_SIGNS else f"{shown[: MOST_SIGNS - 1]}…"


def plain(value: object) -> Value:
    """Return a foreign value for a setting: text, number or truth; anything else as text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else str(value)[:200]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return shorten(str(value))


def evidence_below(files: Mapping[str, File], folder: str) -> tuple[File, ...]:
    """Return the files of a folder of the submission; all of them for a blank."""
    start = f"{folder}/" if folder not in ("", ".") else ""
    return tuple(file for path, file in files.items() if path.startswith(start))
