"""The view of ceilings: one table from the reports of all measurements."""

import math

import pandas as pd

from hpcai.characterise.sampling import CeilingReport, NotMeasured, Summary, best_of

COLUMNS = (
    "kind",
    "precision",
    "backend",
    "setting",
    "threads",
    "value",
    "median",
    "unit",
    "n",
    "spread_ratio",
    "ways",
    "reason",
    "source",
)
"""Columns of the view of ceilings."""


def ceiling_rows(report: CeilingReport, source: str) -> pd.DataFrame:
    """Return the rows of the view of ceilings: the best of each kind, precision, back-end, place and threads.

    What has no sample at all is a row without a value, with the reason. Rates are in ``unit``.
    """
    keys = ("kind", "precision", "backend", "place", "threads")
    measured = best_of(report.summaries, keys)
    rows = [
        {
            **best.model_dump(include=set(COLUMNS)),
            "setting": _place_and(best),
            "value": best.best,
            "spread_ratio": math.nan if best.spread_ratio is None else best.spread_ratio,
            "reason": "",
        }
        for best in measured
    ]
    for missing in report.not_measured:
        if any(_is_of(best, missing) for best in measured):
            continue
        rows.append(
            {
                **missing.model_dump(include=set(COLUMNS)),
                "setting": _place_and(missing),
                "threads": math.nan if missing.threads is None else missing.threads,
                "value": math.nan,
                "median": math.nan,
                "unit": "FLOP/s" if missing.precision else "B/s",
                "n": 0,
                "spread_ratio": math.nan,
                "ways": 0,
            }
        )
    return pd.DataFrame(rows, columns=list(COLUMNS)).assign(source=source)


def _is_of(best: Summary, missing: NotMeasured) -> bool:
    """Whether a ceiling covers what one of its ways did not measure; blank fields of the latter mean any."""
    said = {name: getattr(missing, name) for name in ("precision", "backend", "place", "threads")}
    return best.kind == missing.kind and all(getattr(best, name) == value for name, value in said.items() if value)


def _place_and(row: Summary | NotMeasured) -> str:
    return ", ".join(filter(None, [row.place, row.setting]))
