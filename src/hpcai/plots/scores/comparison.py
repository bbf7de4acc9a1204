"""Comparison of two results: the ratio of every headline score at every configuration, with its interval."""

import math
import textwrap
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hpcai.catalogue.figures import figure
from hpcai.core.messages import Message
from hpcai.metrics.scores.trial_scores import why_no_vflops
from hpcai.plots import theme

NO_EARLIER = Message("comparison.no_earlier", "No earlier result was given to compare this one with.")
NO_RATIOS = Message("comparison.no_ratios", "no point has the same headline score in both results")
NOT_COMPARED = Message("comparison.not_compared", "not compared: {why}")
VFLOPS_UNDEFINED = Message("comparison.vflops_undefined", "VFLOPS is not defined for this workload")
SHOWN = {
    "time_to_train_s": "time to train",
    "vflops_flop_per_s": "VFLOPS",
    "train_rate_samples_per_s": "training throughput",
}
"""The drawn scores and their labels; the table has all scores."""
COLOURS = {"worse": "#d55e00", "better": "#0173b2"}
PLAIN = "#555555"
BAND = "#e8e8e8"
TOLERANCE = 0.05
ROW = 0.24
"""Height of one row [inch]."""
WIDEST = 4.0
"""Ratio at which an interval ends in an arrow: few runs give intervals that would hide all others."""
SMALL_LINE = 54
"""Length of a reason that fits on one line [characters]; a longer one takes two, the table has all of it."""


@figure(
    "comparison",
    stage="scores",
    category="Scores",
    title="Scores against the earlier result",
    tables=("comparison",),
    section="comparison",
    before="comparison",
)
def plot_comparison(comparison: pd.DataFrame, tolerance_ratio: float = TOLERANCE) -> Figure:
    """Draw new over base for each headline score: one panel per benchmark and score, one row per configuration.

    Parameters
    ----------
    comparison
        The table of :func:`hpcai.compare.scores.compare_scores`; rows without a ``measure`` are configurations that are
        not compared.
    tolerance_ratio
        Half width of the band of irrelevant changes, as a ratio.
    """
    with theme.house_style():
        drawn = comparison[comparison["measure"].isin(SHOWN) & comparison["ratio"].notna()]
        if comparison.empty:
            return theme.sentence_figure("Two results", NO_EARLIER())
        if drawn.empty:
            return _draw_reasons(comparison)
        measures = [name for name in SHOWN if name in set(comparison["measure"])]
        benchmarks = sorted(set(comparison["benchmark"]))
        parts = [_points(comparison[comparison["benchmark"] == name]) for name in benchmarks]
        heights = [1.3 + ROW * len(part) for part in parts]
        figure = Figure(figsize=(2.6 + 3.0 * len(measures), sum(heights) + 0.5), layout="constrained")
        grid = figure.subplots(len(parts), len(measures), squeeze=False, gridspec_kw={"height_ratios": heights})
        reach = _reach(drawn, tolerance_ratio)
        for line, benchmark, part in zip(grid, benchmarks, parts, strict=True):
            own = comparison[comparison["benchmark"] == benchmark]
            for axes, measure in zip(line, measures, strict=True):
                axes.set_title(f"{benchmark}\n{SHOWN[measure]}", loc="left")
                _draw_panel(axes, own, part, measure, (reach, tolerance_ratio))
            for axes in line[1:]:
                axes.set_yticklabels([])
        _add_key(figure, tolerance_ratio)
        return figure


def _points(rows: pd.DataFrame) -> pd.DataFrame:
    keys = ["variant", "ranks", "scale"]
    return rows[keys].drop_duplicates().sort_values(keys, kind="stable", ignore_index=True)


def _reach(drawn: pd.DataFrame, tolerance_ratio: float) -> float:
    """Return the largest ratio of all axes: all values fit, and intervals unless they are too wide."""
    logs = [abs(math.log(ratio)) for ratio in drawn["ratio"] if ratio > 0]
    bounds = [
        abs(math.log(bound)) for name in ("low_ratio", "high_ratio") for bound in drawn[name].dropna() if bound > 0
    ]
    widest = min(max(bounds, default=0.0), math.log(WIDEST))
    return math.exp(1.12 * max([*logs, widest, 2 * math.log1p(tolerance_ratio)]))


def _draw_reasons(comparison: pd.DataFrame) -> Figure:
    """Return a figure that states why no score is drawn."""
    rows = comparison[comparison["measure"].isin([*SHOWN, ""])]
    reasons = dict.fromkeys(f"{row['benchmark']}: {_why_no_ratio(row)}" for row in rows.to_dict("records"))
    figure, grid = theme.new_figure(1, 1, height=1.7 + 0.18 * len(reasons))
    axes = grid[0][0]
    axes.set_axis_off()
    axes.set_title("Two results", loc="left")
    words = "\n".join([NO_RATIOS(), *reasons])
    axes.text(0.0, 0.95, words, transform=axes.transAxes, va="top", wrap=True)
    return figure


def _draw_panel(
    axes: Axes, rows: pd.DataFrame, points: pd.DataFrame, measure: str, limits: tuple[float, float]
) -> None:
    own = rows[rows["measure"] == measure]
    if own.empty and (rows["measure"] != "").any():
        theme.say_why_empty(axes, why_undefined(rows, measure) or "neither result has this score")
        return
    reach, tolerance = limits
    axes.set_xscale("log")
    axes.set_ylim(len(points) - 0.4, -0.6)
    axes.set_yticks(range(len(points)), [f"{row.variant}, {row.scale}" for row in points.itertuples()])
    axes.grid(visible=False, axis="y")
    for place, point in enumerate(points.to_dict("records")):
        found = rows[(rows["variant"] == point["variant"]) & (rows["scale"] == point["scale"])]
        row = _row_of(found, measure)
        if row["ratio"] > 0:
            _draw_ratio(axes, place, row, reach)
        else:
            words = textwrap.wrap(_why_no_ratio(row), SMALL_LINE, max_lines=2, placeholder=" …")
            axes.text(1.0, place, "\n".join(words), fontsize=7.0, color=PLAIN, bbox=_PAPER, **_CENTRED)
    if (own["ratio"] > 0).any():
        axes.axvspan(1 / (1 + tolerance), 1 + tolerance, color=BAND, zorder=0)
        axes.axvline(1.0, color=theme.TARGET_COLOUR, linewidth=0.9)
        _label_ratios(axes, reach)
        _name_sides(axes, next((better for better in own["better"] if better), ""))
    else:
        axes.set_xticks([])
        axes.minorticks_off()
    axes.set_xlim(1 / reach, reach)


_PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
"""Background of text, so that the line of no change does not cross it out."""
_CENTRED: dict[str, Any] = {"va": "center", "ha": "center", "linespacing": 1.0}
SIDES = {"lower": ("← better", "worse →"), "higher": ("← worse", "better →")}
"""Labels for the two sides of 1, depending on which way is better."""


def why_undefined(rows: pd.DataFrame, measure: str) -> str:
    """State that a score is not defined for the workload of these rows; blank if it is, or if that is unknown."""
    kinds = rows[["suite", "workload"]].dropna().drop_duplicates().to_dict("records")
    undefined = [bool(why_no_vflops(kind["suite"], kind["workload"], "")) for kind in kinds]
    known = measure == "vflops_flop_per_s" and undefined and all(undefined)
    return VFLOPS_UNDEFINED() if known else ""


def _row_of(found: pd.DataFrame, measure: str) -> dict[Any, Any]:
    """Return the row of one score at one configuration, or the reason why it is not compared."""
    chosen = found[found["measure"].isin([measure, ""])]
    missing = {"status": "compared", "ratio": math.nan, "note": "", "finding": "not measured"}
    return chosen.iloc[0].to_dict() if len(chosen) else missing


def _why_no_ratio(row: dict[Any, Any]) -> str:
    note = row["note"] if isinstance(row["note"], str) else ""
    if row["status"] != "compared":
        words = {"only_base": "only in the base", "only_new": "only in the new result"}
        return NOT_COMPARED(why=words.get(row["status"], note or "another problem"))
    return note or "not measured"


def _draw_ratio(axes: Axes, place: int, row: dict[Any, Any], reach: float) -> None:
    colour = COLOURS.get(row["finding"], PLAIN)
    interval = not math.isnan(row["low_ratio"])
    if interval:
        low, high = max(row["low_ratio"], 1 / reach), min(row["high_ratio"], reach)
        axes.plot([low, high], [place, place], color=colour, linewidth=1.3, zorder=2)
        # Just inside the frame: the interval continues.
        ends = [(row["low_ratio"] < 1 / reach, reach**-0.98, "<"), (row["high_ratio"] > reach, reach**0.98, ">")]
        for beyond, where, marker in ends:
            if beyond:
                axes.plot([where], [place], marker, color=colour, markersize=4.5, zorder=2)
    filled = colour if interval else "white"
    axes.plot([row["ratio"]], [place], "o", color=colour, markerfacecolor=filled, markersize=5, zorder=3, gid="ratio")


def _label_ratios(axes: Axes, reach: float) -> None:
    steps = next(steps for limit, steps in _STEPS if reach <= limit)
    ticks = sorted(value for step in steps for value in {step, 1 / step} if step <= reach)
    axes.set_xticks(ticks, [f"{value:.3g}" for value in ticks])
    axes.minorticks_off()


def _name_sides(axes: Axes, better: str) -> None:
    """Write below the axis which way is better, one label on each side of the central 1."""
    axes.set_xlabel("new / base [ratio]")
    for words, shift, side in zip(SIDES.get(better, ()), (-8, 8), ("right", "left"), strict=False):
        axes.annotate(words, (0.5, 0.0), (shift, -42), xycoords="axes fraction", textcoords="offset points", ha=side)


_STEPS = (
    (1.04, (1.0, 1.01, 1.02)),
    (1.1, (1.0, 1.02, 1.05)),
    (1.2, (1.0, 1.1)),
    (1.3, (1.0, 1.1, 1.2)),
    (1.6, (1.0, 1.25)),
    (2.6, (1.0, 1.5, 2.0)),
    (6.0, (1.0, 2.0, 4.0)),
    (40.0, (1.0, 4.0, 16.0)),
    (math.inf, (1.0, 10.0, 100.0, 1000.0)),
)
"""Largest ratio of an axis, and the ratios to label, together with their inverses."""


def _add_key(figure: Figure, tolerance_ratio: float) -> None:
    hollow = theme.key_line(PLAIN, "o", "")
    hollow.set_markerfacecolor("white")
    entries: dict[str, Artist] = {
        "significantly worse": theme.key_line(COLOURS["worse"], "o"),
        "significantly better": theme.key_line(COLOURS["better"], "o"),
        "not significant": theme.key_line(PLAIN, "o"),
        "no interval: one run,\nor runs without spread": hollow,
        "interval goes on": theme.key_line(PLAIN, ">", ""),
        f"within {100 * tolerance_ratio:.0f} %": Patch(facecolor=BAND),
    }
    figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=3)
