"""Weak scaling in MLPerf HPC: models trained per minute, and the total time, over the size of the system."""

import re

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hpcai.catalogue.figures import figure
from hpcai.plots import theme
from hpcai.plots.rounds import marks as mlperf_marks

COLUMNS = {
    "models_per_min": ("models per minute [1/min]", 1.0),
    "time_to_train_all_s": ("time to train all [min]", 1 / 60),
}
PANEL = (3.3, 2.4)
"""Approximate size of a panel's frame [inch]."""
NONE = "no imported round or study has results of weak scaling"
NO_TIME = "no weak-scaling result has both models per minute and the scale T: the table mlperf_weak says why"
MISFIT = "not possible|does not hold"
"""Pattern of reasons which state that the scales S and T are inconsistent."""
SIGN = "†"
"""Mark of such a result in the list."""
CORRECTED = "‡"
"""Mark of a result whose logged nodes and accelerators give another S than the one shown."""
MISFITS = f"{SIGN} in the list: S and T are inconsistent"
OTHER_SCALES = f"{CORRECTED} in the list: S differs from the logged nodes"


@figure(
    "mlperf_weak",
    stage="rounds",
    category="MLPerf HPC rounds",
    title="Weak scaling: models per minute",
    tables=("mlperf_weak",),
    section="rounds",
    before="mlperf_weak",
)
def plot_mlperf_weak(weak: pd.DataFrame) -> Figure:
    """Draw models per minute and time to train all of every weak-scaling result against the system scale.

    Parameters
    ----------
    weak
        Table ``mlperf_weak``.
    """
    with theme.house_style():
        drawn = mlperf_marks.first_published(weak[(weak["models_per_min"] > 0) & (weak["whole_scale"] > 0)])
        if drawn.empty:
            return theme.sentence_figure("Weak scaling", NONE if weak.empty else NO_TIME)
        ordered = drawn.sort_values(["benchmark", "origin", "whole_scale", "submission"], kind="stable")
        # Scales in nodes and in accelerators have no common axis.
        axis = ["benchmark", "scale_unit"]
        numbered = ordered.assign(tag=ordered.groupby(axis).cumcount() + 1, remark=[*map(_say_scale, _rows(ordered))])
        parts = [
            (theme.plain_text(f"{name}, T in {unit}s"), part)
            for (name, unit), part in numbered.groupby(axis, sort=True)
        ]
        palette = mlperf_marks.colour_origins(drawn)
        heights = [*([PANEL[1] + 0.4] * len(COLUMNS)), 0.2 + 0.135 * max(len(part) for _, part in parts)]
        figure = Figure(figsize=(0.9 + (PANEL[0] + 0.8) * len(parts), sum(heights) + 0.7), layout="constrained")
        grid = figure.subplots(len(heights), len(parts), squeeze=False, gridspec_kw={"height_ratios": heights})
        for column, (name, part) in enumerate(parts):
            grid[0][column].set_title(name, loc="left")
            for line, key in enumerate(COLUMNS):
                _draw_panel(grid[line][column], part, key, palette)
            grid[len(COLUMNS) - 1][column].set_xlabel(f"{part['scale_unit'].iloc[0]}s of the whole system, T")
            mlperf_marks.write_key(grid[-1][column], part)
        entries = mlperf_marks.key_entries(drawn.assign(unit=""), palette)
        if numbered["remark"].str.contains(SIGN).any():
            entries[MISFITS] = theme.key_line(theme.IDEAL_COLOUR, style="")
        if numbered["remark"].str.contains(CORRECTED).any():
            entries[OTHER_SCALES] = theme.key_line(theme.IDEAL_COLOUR, style="")
        figure.legend(list(entries.values()), list(entries), loc="outside upper left", ncols=min(4, len(entries)))
        return figure


def _draw_panel(axes: Axes, part: pd.DataFrame, key: str, palette: dict[str, theme.Colour]) -> None:
    words, factor = COLUMNS[key]
    values = factor * part[key]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(mlperf_marks.log_limits(part["whole_scale"]))
    axes.set_ylim(mlperf_marks.log_limits(values, 0.12))
    for row, value in zip(part.assign(unit="accelerator").to_dict("records"), values, strict=True):
        axes.plot([row["whole_scale"]], [value], gid="result", **mlperf_marks.point_style(row, palette))
    if len(part) <= mlperf_marks.MOST_TAGS:
        mlperf_marks.draw_tags(axes, list(zip(part["whole_scale"], values, strict=True)), list(part["tag"]), PANEL)
    mlperf_marks.label_axis(axes.xaxis, axes.get_xlim())
    mlperf_marks.label_axis(axes.yaxis, axes.get_ylim())
    axes.set_ylabel(words)


def _rows(weak: pd.DataFrame) -> list[mlperf_marks.Row]:
    return [*weak.to_dict("records")]


def _say_scale(row: mlperf_marks.Row) -> str:
    """Return the instance scale, the number of counted instances, and the round, with marks."""
    own, logged = row["instance_scale"], row["logged_instance_scale"]
    corrected = own > 0 and logged > 0 and own != logged
    sign = (SIGN if re.search(MISFIT, str(row["reason"])) else "") + (CORRECTED if corrected else "")
    shown = f"{own:g}" if own > 0 else "unknown"
    return theme.plain_text(f"{sign} (S = {shown}, M′ = {row['counted_instances']:g}, {row['origin']})")
