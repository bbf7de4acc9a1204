"""The view of ceilings: one table from the reports of all measurements."""

import math
from collections.abc import Iterable, Sequence

import pandas as pd

from hpcai.characterise.sampling import CeilingReport, NotMeasured, Summary, best_of
from hpcai.characterise.views import VIEWS

COLUMNS = VIEWS["ceilings"]
KEYS = ("kind", "precision", "backend", "place", "threads")
"""What has a row of its own; of several settings the fastest is in it."""


def ceiling_rows(report: CeilingReport, source: str) -> pd.DataFrame:
    """Return the rows of the view of ceilings: the best of each kind, precision, back-end, place and threads.

    ``value`` is the fastest repetition of the fastest way, ``median`` that way's, both in ``unit``; ``ways`` counts
    those that it was chosen from. What has no sample at all is a row without a value, with the reason.
    """
    measured = best_of(report.summaries, KEYS)
    uncovered = [one for one in report.not_measured if not any(_is_of(best, one) for best in measured)]
    rows = [*map(_measured_row, measured), *_missing_rows(uncovered)]
    return pd.DataFrame(rows, columns=list(COLUMNS)).assign(source=source)


def _measured_row(best: Summary) -> dict[str, object]:
    return {
        **best.model_dump(include=set(COLUMNS)),
        "value": best.best,
        "spread_ratio": math.nan if best.spread_ratio is None else best.spread_ratio,
        "reason": "",
    }


def _missing_rows(missing: Iterable[NotMeasured]) -> list[dict[str, object]]:
    """Return one row for all settings that were not measured for one reason."""
    groups: dict[tuple[object, ...], list[NotMeasured]] = {}
    for one in missing:
        groups.setdefault(tuple(getattr(one, name) for name in (*KEYS, "reason")), []).append(one)
    return [_missing_row(group) for group in groups.values()]


def _missing_row(group: Sequence[NotMeasured]) -> dict[str, object]:
    first, settings = group[0], len({one.setting for one in group})
    return {
        **first.model_dump(include=set(COLUMNS)),
        "setting": first.setting if settings == 1 else f"{settings} settings",
        "threads": math.nan if first.threads is None else first.threads,
        "value": math.nan,
        "median": math.nan,
        "unit": "FLOP/s" if first.kind in {"gemm", "convolution"} else "B/s",
        "n": 0,
        "spread_ratio": math.nan,
        "ways": 0,
    }


def _is_of(best: Summary, missing: NotMeasured) -> bool:
    """Whether a ceiling covers what one of its ways did not measure; blank fields of the latter mean any."""
    said = {name: getattr(missing, name) for name in ("precision", "backend", "place", "threads")}
    return best.kind == missing.kind and all(getattr(best, name) == value for name, value in said.items() if value)
