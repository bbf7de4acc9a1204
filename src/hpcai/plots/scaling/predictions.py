"""Predicted speed-ups in the scaling chart: hollow diamonds with their own intervals, distinct from measurements."""

import math
from collections.abc import Callable

import altair as alt
import pandas as pd

from hpcai.core.messages import Message
from hpcai.core.text import say_share, say_time
from hpcai.metrics.cells import number_of
from hpcai.metrics.scaling.fits import EXTRAPOLATED_TIMES
from hpcai.plots.scaling.words import TITLES, Kind, Row, say_interval, say_rate_of, to_records

PREDICTED = "predicted (modelled)"
"""Legend entry."""
NOT_PREDICTED = "not predicted"
_TIPS = {
    "benchmark": "benchmark", "variant": "variant", "kind_words": "method", "scale_words": "scale", "ranks": "ranks",
    "from_scale": "predicted from", "baseline": "base", "speedup_words": "speed-up",
    "efficiency_words": "parallel efficiency", "rate_words": "training throughput", "step_words": "step",
    "share_words": "communication, share of a step", "assumed": "assumed", "extrapolated": "extrapolated",
    "source": "source",
}  # fmt: skip
_TOOLTIPS = tuple(alt.Tooltip(f"{name}:N", title=title) for name, title in _TIPS.items())
NO_INTERVAL = Message("predictions.no_interval", "predicted, modelled; no interval: {why}")
INTERVAL = Message("predictions.interval", "predicted, modelled; interval from {errors}")


def choose_predictions(predictions: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Return the predictions to show with the measured points.

    Parameters
    ----------
    predictions
        Table ``predictions``; only predictions that change nothing but the scale are comparable with the points.
    points
        The measured points. Omitted are predictions for other series, and those beyond
        :data:`hpcai.metrics.scaling.fits.EXTRAPOLATED_TIMES` times the measured ranks, the end of the drawn laws,
        because they would dwarf the points. The table has them all.
    """
    if predictions.empty or points.empty:
        return pd.DataFrame()
    known = predictions[(predictions["question"] == "scale") & predictions["speedup_ratio"].notna()]
    # Speed-ups over different bases are not comparable.
    keys = ["benchmark", "variant", "baseline_ranks"]
    bounds = points.groupby(keys)["ranks"].agg(first="min", last="max").reset_index()
    merged = known.merge(bounds, on=keys, how="inner")
    shown = merged[merged["ranks"].between(merged["first"], EXTRAPOLATED_TIMES * merged["last"])]
    return shown.assign(speedup_ideal_ratio=shown["ranks"] / shown["baseline_ranks"])


def predicted_records(predictions: pd.DataFrame) -> list[dict[str, object]]:
    """Return the rows of the chart's data set."""
    rows = predictions.to_dict("records")
    words = {
        "predicted": [PREDICTED for _ in rows],
        "kind_words": [_kind(row) for row in rows],
        "speedup_words": [_interval(row, "speedup", "_ratio", "{:.3g}".format) for row in rows],
        "efficiency_words": [_interval(row, "efficiency", "_ratio", say_share) for row in rows],
        "rate_words": [_interval(row, "rate", "_samples_per_s", say_rate_of) for row in rows],
        "step_words": [_interval(row, "step", "_s", say_time) for row in rows],
        "share_words": [_share(row) for row in rows],
    }
    numbers = [f"{kind}{side}_ratio" for kind in ("speedup", "efficiency") for side in ("", "_low", "_high")]
    filled = predictions.assign(**words)
    texts = {name: filled[name].fillna("").replace("", "nothing") for name in ("assumed", "extrapolated")}
    return to_records(filled.assign(**texts), [*_TIPS, "predicted", *numbers])


def draw_predictions(name: str, kind: Kind, x: alt.X, y: alt.Y, faded: alt.When) -> list[alt.Chart]:
    """Return the two layers of a panel: intervals as dashed rules, and the predictions.

    Parameters
    ----------
    name
        Benchmark of the panel.
    kind
        Quantity on the vertical axis.
    x, y
        Axes of the measured points.
    faded
        Opacity by the selection of variants.
    """
    own = alt.Chart(alt.NamedData("predictions")).transform_filter(alt.datum.benchmark == name)
    colour = alt.Color("variant:N")
    low, high = f"{kind}_low_ratio:Q", f"{kind}_high_ratio:Q"
    rules = own.transform_filter(alt.datum[f"{kind}_low_ratio"] != None).mark_rule(  # noqa: E711 - a Vega expression
        clip=True, strokeWidth=1.1, strokeDash=[2, 2]
    ).encode(
        x, alt.Y(low).title(TITLES[kind]), alt.Y2(high), colour,
        opacity=faded.then(alt.value(0.8)).otherwise(alt.value(0.1)),
    )  # fmt: skip
    scale = alt.Scale(domain=[PREDICTED], range=["diamond"])
    shape = alt.Shape("predicted:N", title=None, scale=scale, legend=alt.Legend(orient="top", symbolFillColor="none"))
    marks = own.mark_point(filled=False, size=58, strokeWidth=1.5, clip=True).encode(
        x, y, colour, shape=shape, tooltip=list(_TOOLTIPS),
        opacity=faded.then(alt.value(1)).otherwise(alt.value(0.1)),
    )  # fmt: skip
    return [rules, marks]


def _kind(row: Row) -> str:
    count = number_of(row, "interval_n")
    if math.isnan(number_of(row, "speedup_low_ratio")) or math.isnan(count) or not count:
        whys = (row.get(name) for name in ("interval_basis", "reason"))
        why = next((text for text in whys if isinstance(text, str) and text), "")
        return NO_INTERVAL(why=why.removeprefix("no interval: ")).removesuffix(": ")
    return INTERVAL(errors=f"{count:.0f} held-out error{'' if count == 1 else 's'}")


def _interval(row: Row, name: str, unit: str, words: Callable[[float], str]) -> str:
    return say_interval(row, name, unit, words, missing=NOT_PREDICTED)


def _share(row: Row) -> str:
    share = number_of(row, "communication_share_ratio")
    return NOT_PREDICTED if math.isnan(share) else say_share(share)
