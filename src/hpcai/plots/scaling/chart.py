"""Interactive chart: speed-up and parallel efficiency of training throughput against ranks, with the fitted law."""

from dataclasses import dataclass, replace

import altair as alt
import numpy as np
import pandas as pd

from hpcai.catalogue.figures import figure
from hpcai.catalogue.points import POINT
from hpcai.plots.interactive import MUTED
from hpcai.plots.scaling.predictions import choose_predictions, draw_predictions, predicted_records
from hpcai.plots.scaling.words import (
    CURVE_TIPS,
    LINES,
    POINT_TIPS,
    TIPS_OF_CURVES,
    TIPS_OF_POINTS,
    TITLES,
    Kind,
    curve_words,
    point_words,
    to_records,
)
from hpcai.plots.thinning import most_of, only_drawn

WIDTH, HEIGHT = 330, 132
"""Size of a panel [pixel]: two fit side by side on a page, five benchmarks below each other."""
LEGEND_COLUMNS = 3
LOGARITHMIC_FROM = 4
"""Axes are logarithmic if the ranks span more than this factor."""
NO_SCALES = "Nothing to draw: no run was recorded."
ONE_SCALE = "No variant was measured at two scales: there is no speed-up."
ALONE = "one scale, no speed-up"
NO_BASE = "No run of the base scale completed training: there is no speed-up."


@dataclass(frozen=True)
class Part:
    """Data drawn for one benchmark: measured points, points of the chosen laws, and predictions."""

    name: str
    points: pd.DataFrame
    curves: pd.DataFrame
    predicted: pd.DataFrame

    def why_empty(self) -> str:
        """Return why a benchmark has no panels; empty if it has them."""
        one_size = len(self.points["ranks"].drop_duplicates()) == 1 and self.predicted.empty
        if one_size or self.points["alone"].all():
            return ONE_SCALE
        return NO_BASE if self.points["speedup_ratio"].isna().all() else ""

    def known(self) -> "Part":
        """Return a copy without points that lack a speed-up, or are the base of nothing else."""
        return replace(self, points=self.points[~self.points["alone"]].dropna(subset=["speedup_ratio"]))

    def values(self, column: str) -> "pd.Series[float]":
        """Return one column of everything drawn."""
        frames = (self.points, self.curves, self.predicted)
        everything: pd.Series[float] = pd.concat([frame[column] for frame in frames if len(frame)]).astype(float)
        return everything.dropna()


@figure(
    "scaling",
    stage="scores",
    category="Scaling",
    title="Speed-up and efficiency",
    tables=("scaling", "scaling_details", "scaling_curves", "predictions"),
    section="scaling",
    before="scaling_details",
    interactive=True,
)
def draw_scaling(
    scaling: pd.DataFrame, details: pd.DataFrame, curves: pd.DataFrame, predictions: pd.DataFrame
) -> alt.VConcatChart:
    """Draw speed-up and efficiency of each benchmark's throughput against ranks, with one colour per variant.

    Parameters
    ----------
    scaling
        Table ``scaling`` (:func:`hpcai.metrics.scaling.efficiency.compute_scaling`).
    details
        Table ``scaling_details``: the tooltips of the points.
    curves
        Table ``scaling_curves`` (:func:`hpcai.metrics.scaling.fits.trace_scaling`): the chosen law, solid within the
        measured ranks and dotted beyond, with its 95 % band.
    predictions
        Table ``predictions``: those for other scales are hollow diamonds (:func:`choose_predictions`); empty if the
        study requests none.
    """
    rates = scaling[scaling["measure"] == "train_rate"] if len(scaling) else scaling
    if rates.empty:
        return alt.vconcat(_say(NO_SCALES))
    points = point_words(rates.merge(details, on=POINT, how="left", suffixes=("", "_detail")))
    lines = curves[curves["chosen"].astype(bool)] if len(curves) else curves
    predicted = choose_predictions(predictions, points)
    points = points.assign(alone=_alone(points, predicted))
    points, left_out = most_of(points, "variant", "alone")
    if left_out:
        lines, predicted = (only_drawn(frame, points) for frame in (lines, predicted))
    chosen = alt.selection_point(name="variants", fields=["variant"], bind="legend")
    parts = [
        Part(str(name), part, *(_own(frame, str(name)) for frame in (lines, predicted)))
        for name, part in points.groupby("benchmark", sort=True)
    ]
    # One view owns the selection; the others follow it.
    owner = next((part.name for part in parts if not part.why_empty()), "")
    rows = [_draw_benchmark(part, chosen, owns=part.name == owner) for part in parts]
    if left_out and owner:
        rows.append(alt.hconcat(_say(f"{left_out:,} more variants in the tables")))
    datasets = {
        "points": to_records(points, [*POINT_TIPS, "alone", *_numbers("speedup"), *_numbers("efficiency")]),
        "curves": to_records(
            curve_words(lines), [*CURVE_TIPS, "line", "ranks", *_numbers("speedup"), *_numbers("efficiency")]
        ),
        "ideals": to_records(_ideals(points, lines, predicted)),
    }
    if len(predicted):
        datasets["predictions"] = predicted_records(predicted)
    chart: alt.VConcatChart = alt.vconcat(*rows, datasets=datasets, spacing=14)
    shared: alt.VConcatChart = chart.resolve_scale(color="shared", strokeDash="shared")
    return shared.resolve_scale(shape="shared") if len(predicted) else shared


def _alone(points: pd.DataFrame, predicted: pd.DataFrame) -> "pd.Series[bool]":
    """Return which points are the only one of their variant: by definition 1, a speed-up of nothing."""
    of = ["benchmark", "variant"]
    extrapolated = set(zip(*(predicted[name] for name in of), strict=True)) if len(predicted) else set()
    only = points.groupby(of)["scale"].transform("nunique") == 1
    return only & np.array([pair not in extrapolated for pair in zip(*(points[name] for name in of), strict=True)])


def _numbers(kind: Kind) -> tuple[str, str, str]:
    return f"{kind}_ratio", f"{kind}_low_ratio", f"{kind}_high_ratio"


def _own(frame: pd.DataFrame, benchmark: str) -> pd.DataFrame:
    return frame[frame["benchmark"] == benchmark] if len(frame) else frame


def _draw_benchmark(part: Part, chosen: alt.Parameter, *, owns: bool) -> alt.HConcatChart:
    title = alt.TitleParams(part.name, subtitle=_bases(part.points), subtitleFontSize=11, offset=4, limit=2 * WIDTH)
    if part.why_empty():
        return alt.hconcat(_say(part.why_empty()), title=title)
    speedup, efficiency = (_draw_panel(part.known(), kind, chosen) for kind in TITLES)
    return alt.hconcat(speedup.add_params(chosen) if owns else speedup, efficiency, title=title, spacing=26)


def _bases(points: pd.DataFrame) -> list[str]:
    """Return base and regime of scaling, or that there is none; several lines if the variants differ in them."""
    lines: dict[str, list[str]] = {}
    for row in points.sort_values(["baseline", "regime"], kind="stable").to_dict("records"):
        words = ALONE if row["alone"] else f"base {row['baseline']}, {row['regime']} scaling"
        variants = lines.setdefault(words, [])
        if row["variant"] not in variants:
            variants.append(str(row["variant"]))
    return list(lines) if len(lines) == 1 else [f"{line}: {', '.join(names)}" for line, names in lines.items()]


def _draw_panel(part: Part, kind: Kind, chosen: alt.Parameter) -> alt.LayerChart | alt.FacetChart:
    x, y = _axes(part, kind)
    faded = alt.when(chosen)
    legend = alt.Legend(
        orient="top", direction="horizontal", symbolType="circle", symbolOpacity=1, columns=LEGEND_COLUMNS
    )
    colour = alt.Color("variant:N", title="variant", legend=legend)
    own = alt.datum.benchmark == part.name
    low, high = f"{kind}_low_ratio:Q", f"{kind}_high_ratio:Q"
    style = alt.Scale(domain=list(LINES), range=list(LINES.values()))
    dash = alt.StrokeDash("line:N", title="line", scale=style, legend=alt.Legend(orient="top", symbolStrokeColor=MUTED))
    law = alt.Chart(alt.NamedData("curves")).transform_filter(own)
    band = law.mark_area(clip=True).encode(
        x, alt.Y(low).title(TITLES[kind]), alt.Y2(high), colour, detail="line:N",
        opacity=faded.then(alt.value(0.16)).otherwise(alt.value(0.03)),
    )  # fmt: skip
    curve = law.mark_line(clip=True, strokeWidth=1.6).encode(
        x, y, colour, strokeDash=dash, tooltip=list(TIPS_OF_CURVES),
        opacity=faded.then(alt.value(0.9)).otherwise(alt.value(0.1)),
    )  # fmt: skip
    ideal = (
        alt.Chart(alt.NamedData("ideals")).transform_filter(own).mark_line(color=MUTED, strokeWidth=1.2, clip=True)
    ).encode(x, y, detail="baseline_ranks:N", strokeDash=dash)
    measured = alt.Chart(alt.NamedData("points")).transform_filter(own).transform_filter(~alt.datum.alone)
    bars = measured.mark_rule(clip=True, strokeWidth=1.6).encode(
        x, alt.Y(low).title(TITLES[kind]), alt.Y2(high), colour,
        opacity=faded.then(alt.value(0.9)).otherwise(alt.value(0.1)),
    )  # fmt: skip
    marks = measured.mark_point(filled=True, size=52, clip=True).encode(
        x, y, colour, tooltip=list(TIPS_OF_POINTS),
        opacity=faded.then(alt.value(1)).otherwise(alt.value(0.1)),
    )  # fmt: skip
    predicted = draw_predictions(part.name, kind, x, y, faded) if len(part.predicted) else []
    return alt.layer(band, ideal, curve, *predicted, bars, marks).properties(width=WIDTH, height=HEIGHT)


def _axes(part: Part, kind: Kind) -> tuple[alt.X, alt.Y]:
    """Return both axes of a panel; they cover all values, and intervals unless these would dwarf the values."""
    measured = sorted({int(ranks) for ranks in part.points["ranks"]})
    last = max(float(frame["ranks"].max()) for frame in (part.curves, part.predicted, part.points) if len(frame))
    logarithmic = last > LOGARITHMIC_FROM * measured[0]
    ticks = [*measured, *(measured[-1] * times for times in (2, 4, 8) if measured[-1] * times <= last * 1.001)]
    span = (
        alt.Scale(type="log", base=2, domain=[measured[0], last], padding=10, nice=False)
        if logarithmic
        else alt.Scale(domain=[measured[0], last], padding=14, nice=False, zero=False)
    )
    axis = alt.Axis(values=ticks, format="d", labelOverlap="greedy", labelSeparation=8, grid=False)
    x = alt.X("ranks:Q", title="ranks", scale=span, axis=axis)
    tall = alt.Axis(tickCount=5, format="~g", titlePadding=6)
    return x, alt.Y(
        f"{kind}_ratio:Q", title=TITLES[kind], scale=_height(part, kind, logarithmic=logarithmic), axis=tall
    )


def _height(part: Part, kind: Kind, *, logarithmic: bool) -> alt.Scale:
    ideal = pd.Series([1.0])
    if kind == "speedup":
        frames = (part.points, part.predicted)
        ideal = pd.concat([frame["speedup_ideal_ratio"] for frame in frames if len(frame)])
    everything = pd.concat([part.values(f"{kind}_ratio"), ideal]).astype(float).dropna()
    highs = [frame[f"{kind}_high_ratio"].max() for frame in (part.points, part.predicted) if len(frame)]
    bound = float(pd.Series(highs, dtype=float).max())
    most = max(float(everything.max()), min(bound, 1.4 * float(everything.max())))
    if kind == "efficiency" or not logarithmic:
        return alt.Scale(domain=[0, 1.05 * most], nice=False)
    return alt.Scale(type="log", base=2, domain=[0.9 * float(everything.min()), 1.1 * most], nice=False)


def _ideals(*frames: pd.DataFrame) -> pd.DataFrame:
    """Return both ends of each ideal line: one line per base of a benchmark."""
    names = ["benchmark", "baseline_ranks", "ranks", "speedup_ideal_ratio"]
    every = pd.concat([frame[names] for frame in frames if len(frame)]).sort_values("ranks", kind="stable")
    grouped = every.groupby(names[:2], sort=True)
    ends = pd.concat([grouped.head(1), grouped.tail(1)]).sort_values(names[:3], kind="stable")
    renamed = ends.rename(columns={"speedup_ideal_ratio": "speedup_ratio"})
    return renamed.assign(efficiency_ratio=1.0, line=next(iter(LINES)))


def _say(sentence: str) -> alt.Chart:
    """Return a panel that states why there is nothing to draw."""
    mark = alt.Chart(alt.InlineData(values=[{}])).mark_text(text=sentence, align="left", fontSize=12, color=MUTED)
    chart: alt.Chart = mark.encode(x=alt.value(0)).properties(width=2 * WIDTH, height=24)
    return chart
