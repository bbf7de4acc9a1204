"""Forecasts of each published round from the rounds before it, beside the results that came."""

import math
from collections.abc import Iterable, Sequence

import pandas as pd

from hpcai.core.messages import Message
from hpcai.listing.content import PastResult
from hpcai.listing.entries import Number, Prediction
from hpcai.metrics.cells import Row, number_of, records_of
from hpcai.mlperf_hpc.analysis.backtest import forecast_table
from hpcai.mlperf_hpc.analysis.publication import PUBLISHED

METHOD = Message(
    "forecasts.method",
    "modelled by `hpcai mlperf predict`: epochs of the batch times epoch time of the scale, from earlier rounds alone",
)
LATER = "published: mean of the runs that count, from published logs; without the factor of scaling.json"
TIME = "time_to_train_s"
KEY = ("origin", "submission", "benchmark")


def forecast_results(past: Sequence[PastResult]) -> tuple[Prediction, ...]:
    """Return the forecast of each result that is new in its round, from the rounds before; none where it is refused.

    Parameters
    ----------
    past
        Results of all rounds; of two sources of one round, the first that has a result counts.

    References
    ----------
    `hpcai.mlperf_hpc.analysis.backtest.forecast_table`, which a study shows as table ``mlperf_forecasts``.
    """
    known: dict[tuple[object, ...], PastResult] = {}
    for one in past:
        known.setdefault(tuple(one.row[name] for name in KEY), one)
    results = pd.DataFrame([one.row for one in known.values()])
    systems = results[["origin", "submission"]].assign(family=[one.family for one in known.values()])
    rows = records_of(forecast_table(results, systems))
    listed = {key: one.entry for key, one in known.items()}
    entries = [listed[(row["round"], row["submission"], row["benchmark"])] for row in rows]
    return tuple(
        _prediction(row, entry, _rounds_before(str(row["round"]), known.values()))
        for row, entry in zip(rows, entries, strict=True)
        if entry and math.isfinite(number_of(row, "run_predicted_s"))
    )


def _rounds_before(name: str, past: Iterable[PastResult]) -> str:
    origins = {str(one.row["origin"]) for one in past} & set(PUBLISHED)
    return ", ".join(sorted(one for one in origins if PUBLISHED[one] < PUBLISHED[name]))


def _prediction(row: Row, entry: str, made_from: str) -> Prediction:
    shared = {"quantity": TIME, "unit": "s"}
    return Prediction(
        entry=entry,
        number=Number(
            **shared,
            value=number_of(row, "run_predicted_s"),
            low=number_of(row, "run_low_s"),
            high=number_of(row, "run_high_s"),
            interval=f"{number_of(row, 'level_ratio'):.0%} interval of the forecast",
            method=METHOD(),
            source="table mlperf_forecasts",
        ),
        measured=Number(**shared, value=number_of(row, "run_s"), method=LATER, source=str(row["submission"])),
        made_from=made_from,
    )
