"""Speed-up and parallel efficiency of the training throughput against ranks, with the fitted law: interactive."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import altair as alt
import pandas as pd

from hpcai.metrics.cells import number_of
from hpcai.metrics.words import say_rate, say_share, say_time
from hpcai.plots.interactive import MUTED

Kind = Literal["speedup", "efficiency"]
Row = Mapping[Any, Any]
TITLES: dict[Kind, str] = {"speedup": "speed-up [ratio]", "efficiency": "efficiency [ratio]"}
LAWS = {
    "amdahl": "Amdahl's law",
    "gustafson": "Gustafson's law",
    "universal": "universal scalability law",
    "karp_flatt": "serial share through two scales",
}
LINES: dict[str, Sequence[float]] = {
    "ideal": [6, 4],
    "law, within the measured ranks": [1, 0],
    "law, extrapolated": [1.5, 3.5],
}
"""What each style of line means."""
KIND_LINES = dict(zip(("interpolated", "extrapolated"), list(LINES)[1:], strict=True))
KEYS = ["benchmark", "variant", "scale"]
WIDTH, HEIGHT = 330, 132
"""Of one panel in pixels: two beside each other fit a page's width, five benchmarks its height."""
LEGEND_COLUMNS = 3
LOGARITHMIC_FROM = 4
"""Axes are logarithmic where the ranks span more than this factor."""
NO_SCALES = "Nothing to draw: no run was recorded."
ONE_SCALE = "Measured at one scale: there is no speed-up."
NO_BASE = "No run of the base scale trained to its end: there is no speed-up."


def draw_scaling(scaling: pd.DataFrame, details: pd.DataFrame, curves: pd.DataFrame) -> alt.VConcatChart:
    """Draw speed-up and efficiency of the throughput of each benchmark against ranks, its variants as colours.

    Parameters
    ----------
    scaling
        Table ``scaling`` (:func:`hpcai.metrics.scaling.compute_scaling`).
    details
        Table ``scaling_details``: what the points say when the mouse is over them.
    curves
        Table ``scaling_curves`` (:func:`hpcai.metrics.scaling_fits.trace_scaling`): the chosen law is drawn, solid
        within the measured ranks and dotted beyond, with its 95 % band.
    """
    rates = scaling[scaling["measure"] == "train_rate"] if len(scaling) else scaling
    if rates.empty:
        return alt.vconcat(_say(NO_SCALES))
    points = _with_words(rates.merge(details, on=KEYS, how="left", suffixes=("", "_detail")))
    lines = curves[curves["chosen"].astype(bool)] if len(curves) else curves
    chosen = alt.selection_point(name="variants", fields=["variant"], bind="legend")
    parts = [(str(name), part) for name, part in points.groupby("benchmark", sort=True)]
    # One view owns the selection; the others listen to it.
    owner = next((name for name, part in parts if not _why_empty(part)), "")
    rows = [
        _draw_benchmark(name, part, lines[lines["benchmark"] == name], chosen, owns=name == owner)
        for name, part in parts
    ]
    datasets = {
        "points": _records(points, [*_POINT_TIPS, *_numbers("speedup"), *_numbers("efficiency")]),
        "curves": _records(
            _curve_words(lines), [*_CURVE_TIPS, "line", "ranks", *_numbers("speedup"), *_numbers("efficiency")]
        ),
        "ideals": _records(_ideals(points, lines)),
    }
    chart: alt.VConcatChart = alt.vconcat(*rows, datasets=datasets, spacing=14)
    shared: alt.VConcatChart = chart.resolve_scale(color="shared", strokeDash="shared")
    return shared


def _numbers(kind: Kind) -> tuple[str, str, str]:
    return f"{kind}_ratio", f"{kind}_low_ratio", f"{kind}_high_ratio"


def _why_empty(points: pd.DataFrame) -> str:
    """Return why a benchmark has no panels; empty if it has."""
    if len(points["ranks"].drop_duplicates()) == 1:
        return ONE_SCALE
    return NO_BASE if points["speedup_ratio"].isna().all() else ""


def _draw_benchmark(
    name: str, points: pd.DataFrame, curves: pd.DataFrame, chosen: alt.Parameter, *, owns: bool
) -> alt.HConcatChart:
    title = alt.TitleParams(name, subtitle=_bases(points), subtitleFontSize=11, offset=4, limit=2 * WIDTH)
    if _why_empty(points):
        return alt.hconcat(_say(_why_empty(points)), title=title)
    known = points.dropna(subset=["speedup_ratio"])
    speedup, efficiency = (_draw_panel(name, known, curves, kind, chosen) for kind in TITLES)
    return alt.hconcat(speedup.add_params(chosen) if owns else speedup, efficiency, title=title, spacing=26)


def _bases(points: pd.DataFrame) -> list[str]:
    """Return the base and the regime of scaling; a line for each where the variants differ in them."""
    lines: dict[str, list[str]] = {}
    for row in points.sort_values(["baseline", "regime"], kind="stable").to_dict("records"):
        variants = lines.setdefault(f"base {row['baseline']}, {row['regime']} scaling", [])
        if row["variant"] not in variants:
            variants.append(str(row["variant"]))
    return list(lines) if len(lines) == 1 else [f"{line}: {', '.join(names)}" for line, names in lines.items()]


def _draw_panel(
    name: str, points: pd.DataFrame, curves: pd.DataFrame, kind: Kind, chosen: alt.Parameter
) -> alt.LayerChart | alt.FacetChart:
    x, y = _axes(points, curves, kind)
    faded = alt.when(chosen)
    legend = alt.Legend(
        orient="top", direction="horizontal", symbolType="circle", symbolOpacity=1, columns=LEGEND_COLUMNS
    )
    colour = alt.Color("variant:N", title="variant", legend=legend)
    own = alt.datum.benchmark == name
    low, high = f"{kind}_low_ratio:Q", f"{kind}_high_ratio:Q"
    style = alt.Scale(domain=list(LINES), range=list(LINES.values()))
    dash = alt.StrokeDash("line:N", title="line", scale=style, legend=alt.Legend(orient="top", symbolStrokeColor=MUTED))
    law = alt.Chart(alt.NamedData("curves")).transform_filter(own)
    band = law.mark_area(clip=True).encode(
        x, alt.Y(low).title(TITLES[kind]), alt.Y2(high), colour, detail="line:N",
        opacity=faded.then(alt.value(0.16)).otherwise(alt.value(0.03)),
    )  # fmt: skip
    curve = law.mark_line(clip=True, strokeWidth=1.6).encode(
        x, y, colour, strokeDash=dash, tooltip=list(_TIPS_OF_CURVES),
        opacity=faded.then(alt.value(0.9)).otherwise(alt.value(0.1)),
    )  # fmt: skip
    ideal = (
        alt.Chart(alt.NamedData("ideals")).transform_filter(own).mark_line(color=MUTED, strokeWidth=1.2, clip=True)
    ).encode(x, y, detail="baseline_ranks:N", strokeDash=dash)
    measured = alt.Chart(alt.NamedData("points")).transform_filter(own)
    bars = measured.mark_rule(clip=True, strokeWidth=1.6).encode(
        x, alt.Y(low).title(TITLES[kind]), alt.Y2(high), colour,
        opacity=faded.then(alt.value(0.9)).otherwise(alt.value(0.1)),
    )  # fmt: skip
    marks = measured.mark_point(filled=True, size=52, clip=True).encode(
        x, y, colour, tooltip=list(_TIPS_OF_POINTS),
        opacity=faded.then(alt.value(1)).otherwise(alt.value(0.1)),
    )  # fmt: skip
    return alt.layer(band, ideal, curve, bars, marks).properties(width=WIDTH, height=HEIGHT)


def _axes(points: pd.DataFrame, curves: pd.DataFrame, kind: Kind) -> tuple[alt.X, alt.Y]:
    """Return both axes of a panel; they hold all values, and intervals as far as these do not dwarf the values."""
    measured = sorted({int(ranks) for ranks in points["ranks"]})
    last = float(curves["ranks"].max()) if len(curves) else float(measured[-1])
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
    scale = _height(points, curves, kind, logarithmic=logarithmic)
    return x, alt.Y(f"{kind}_ratio:Q", title=TITLES[kind], scale=scale, axis=tall)


def _height(points: pd.DataFrame, curves: pd.DataFrame, kind: Kind, *, logarithmic: bool) -> alt.Scale:
    values = [points[f"{kind}_ratio"]]
    if len(curves):
        values.append(curves[f"{kind}_ratio"])
    values.append(pd.Series([1.0]) if kind == "efficiency" else points["speedup_ideal_ratio"])
    everything = pd.concat(values).astype(float).dropna()
    most = max(float(everything.max()), min(float(points[f"{kind}_high_ratio"].max()), 1.4 * float(everything.max())))
    if kind == "efficiency" or not logarithmic:
        return alt.Scale(domain=[0, 1.05 * most], nice=False)
    return alt.Scale(type="log", base=2, domain=[0.9 * float(everything.min()), 1.1 * most], nice=False)


_POINT_TIPS = {
    "benchmark": "benchmark", "variant": "variant", "scale": "scale", "ranks": "ranks", "regime_words": "scaling",
    "baseline": "base", "speedup_words": "speed-up", "efficiency_words": "parallel efficiency", "runs_words": "runs",
    "rate_words": "training throughput", "flop_words": "FLOP/s", "valid_words": "VFLOPS",
    "share_words": "communication, share of a step", "link_words": "bandwidth used", "step_words": "median step",
    "method_words": "method", "source_words": "raw files",
}  # fmt: skip
_CURVE_TIPS = {
    "benchmark": "benchmark", "variant": "variant", "law_words": "law", "at_words": "ranks",
    "rate_words": "throughput by the law", "speedup_words": "speed-up by the law",
    "efficiency_words": "efficiency by the law",
}  # fmt: skip
_TIPS_OF_POINTS = tuple(alt.Tooltip(f"{name}:N", title=title) for name, title in _POINT_TIPS.items())
_TIPS_OF_CURVES = tuple(alt.Tooltip(f"{name}:N", title=title) for name, title in _CURVE_TIPS.items())


def _with_words(points: pd.DataFrame) -> pd.DataFrame:
    """Add what the points say: texts, because a chart would write a number that is missing as 0."""
    rows = points.to_dict("records")
    words: dict[str, list[str]] = {
        "regime_words": [f"{row['regime']} ({row['regime_reason']})" for row in rows],
        "speedup_words": [_interval(row, "speedup", "_ratio", "{:.3g}".format) for row in rows],
        "efficiency_words": [_interval(row, "efficiency", "_ratio", say_share) for row in rows],
        "runs_words": [f"{row['n']}, of the base {row['n_baseline']}" for row in rows],
        "rate_words": [_interval(row, "train_rate", "_samples_per_s", "{:.4g} samples/s".format) for row in rows],
        "flop_words": [_interval(row, "rate", "_flop_per_s", _flop) for row in rows],
        "valid_words": [_interval(row, "valid_rate", "_flop_per_s", _flop, "score_reason") for row in rows],
        "share_words": [_one(row, "communication_share_ratio", say_share, "communication_reason") for row in rows],
        "link_words": [_link(row) for row in rows],
        "step_words": [_one(row, "step_time_median_s", say_time) for row in rows],
        "method_words": ["; ".join(filter(None, ["measured", row["method"], row["note"]])) for row in rows],
        "source_words": [_sources(row) for row in rows],
    }
    return points.assign(**words)


def _curve_words(curves: pd.DataFrame) -> pd.DataFrame:
    rows = curves.to_dict("records")
    words: dict[str, list[str]] = {
        "line": [KIND_LINES[row["kind"]] for row in rows],
        "law_words": [f"{LAWS[row['law']]}, {row['kind']} (modelled)" for row in rows],
        "at_words": [f"{row['ranks']:.3g}" for row in rows],
        "rate_words": [_interval(row, "rate", "_samples_per_s", "{:.4g} samples/s".format) for row in rows],
        "speedup_words": [_interval(row, "speedup", "_ratio", "{:.3g}".format) for row in rows],
        "efficiency_words": [_interval(row, "efficiency", "_ratio", say_share) for row in rows],
    }
    return curves.assign(**words)


def _ideals(points: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """Both ends of each ideal line: one for each base of a benchmark."""
    names = ["benchmark", "baseline_ranks", "ranks", "speedup_ideal_ratio"]
    every = pd.concat([frame[names] for frame in (points, curves) if len(frame)]).sort_values("ranks", kind="stable")
    grouped = every.groupby(names[:2], sort=True)
    ends = pd.concat([grouped.head(1), grouped.tail(1)]).sort_values(names[:3], kind="stable")
    renamed = ends.rename(columns={"speedup_ideal_ratio": "speedup_ratio"})
    return renamed.assign(efficiency_ratio=1.0, line=next(iter(LINES)))


def _interval(row: Row, name: str, unit: str, words: Callable[[float], str], reason: str = "") -> str:
    value, low, high = (number_of(row, f"{name}{side}{unit}") for side in ("", "_low", "_high"))
    if math.isnan(value):
        return _missing(row, reason)
    return f"{words(value)} ({words(low)} to {words(high)})" if low < high else f"{words(value)} (no interval)"


def _one(row: Row, name: str, words: Callable[[float], str], reason: str = "") -> str:
    value = number_of(row, name)
    return _missing(row, reason) if math.isnan(value) else words(value)


def _missing(row: Row, reason: str) -> str:
    why = row.get(reason)
    return f"not measured: {why}" if isinstance(why, str) and why else "not measured"


def _sources(row: Row) -> str:
    names = ("score_source", "communication_source", f"bandwidth_{row.get('bandwidth_used_of')}_source")
    found = (row.get(name) for name in names)
    return ", ".join(dict.fromkeys(text for text in found if isinstance(text, str) and text)) or "see the table of runs"


def _link(row: Row) -> str:
    share = number_of(row, "bandwidth_used_ratio")
    if math.isnan(share):
        return _one(row, "bandwidth_used_ratio", say_share, "bandwidth_reason")
    which = row["bandwidth_used_of"]
    used, there = (number_of(row, f"bandwidth_{name}_bytes_per_s") for name in ("used", which))
    return f"{say_rate(used)} of {say_rate(there)} ({which}): {say_share(share)}"


def _flop(value: float) -> str:
    return say_rate(value, "FLOP/s")


def _say(sentence: str) -> alt.Chart:
    """Return a panel that says in words why there is nothing to draw."""
    mark = alt.Chart(alt.InlineData(values=[{}])).mark_text(text=sentence, align="left", fontSize=12, color=MUTED)
    chart: alt.Chart = mark.encode(x=alt.value(0)).properties(width=2 * WIDTH, height=24)
    return chart


def _records(frame: pd.DataFrame, columns: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return rows for a chart: what was not measured is null, and six digits are finer than any screen."""
    rows = (frame[list(dict.fromkeys(columns))] if columns else frame).to_dict("records")
    return [{str(name): _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:  # noqa: ANN401 - cells of any kind
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
