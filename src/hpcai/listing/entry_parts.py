"""What entries from own runs and from declarations share: rules, remarks, facts of a machine, the day."""

import datetime
import math
from collections.abc import Iterator, Mapping
from typing import Any

from hpcai.core.errors import ParseError
from hpcai.core.messages import Message, at
from hpcai.listing.content import plain, shorten
from hpcai.listing.entries import Reason, Value
from hpcai.metrics.cells import Row
from hpcai.metrics.scores.validity import split_reasons

FUTURE = Message("entry_parts.future", "found the date {date}, after today, {today}")
NOT_VALID = Message("entry_parts.not_valid", "{reason}")


def refuse_future(text: str, today: datetime.date, place: str) -> None:
    """Raise ParseError if a day is after today, or no day at all."""
    try:
        day = datetime.date.fromisoformat(text)
    except ValueError:
        day = datetime.date.max
    if day > today + datetime.timedelta(days=1):
        raise ParseError(at(place, FUTURE(date=text, today=today)))


def rules_shared(timing: str, exponent: float, flop_per_sample: float) -> str:
    """Return what results of one list share besides benchmark, data, target and division."""
    words = [timing]
    if math.isfinite(exponent):
        words += [f"VFLOPS with n = {exponent:g}"]
    if math.isfinite(flop_per_sample):
        words += [f"{flop_per_sample:.6g} FLOP a sample"]
    return ", ".join(word for word in words if word)


def remarks_of(row: Row) -> list[Reason]:
    """Return the remarks of a row of scores, which do not affect its verdict."""
    return [remark(words) for words in split_reasons([row["reason"]])]


def remark(words: str) -> Reason:
    """Return a remark, which does not affect a verdict."""
    return Reason(code="own.remark", text=shorten(words), severity="warning")


def failure(words: str) -> Reason:
    """Return why a result is not valid."""
    return Reason(code=NOT_VALID.code, text=shorten(words))


def facts_below(declared: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Value]]:
    """Yield all single values of a declaration, each with the keys above it; lists are left out."""
    for name, value in sorted(declared.items()):
        words = f"{above} {name}".strip()
        if isinstance(value, Mapping):
            yield from facts_below(value, words)
        elif isinstance(value, str | int | float) and value != "":
            yield shorten(words), plain(value)
