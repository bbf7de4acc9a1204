"""Run-to-run variation of MLPerf HPC results: epochs and epoch throughput per run, with principal axes."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hpcai.catalogue.figures import figure
from hpcai.plots import theme
from hpcai.plots.rounds import marks as mlperf_marks

KEYS = ["origin", "submission", "benchmark"]
PANEL = (6.3, 3.0)
"""Approximate size of a panel's frame [inch]."""
PER_MINUTE = 60
ANGLES = np.linspace(0, 2 * np.pi, 73)


@figure(
    "mlperf_principal",
    stage="rounds",
    category="MLPerf HPC rounds",
    title="Epochs and epoch throughput of each run (Fig. 3 of the MLPerf HPC paper)",
    tables=("mlperf_runs", "mlperf_principal", "mlperf_results"),
    section="round-scaling",
    before="mlperf_principal",
)
def plot_mlperf_principal(runs: pd.DataFrame, principal: pd.DataFrame, results: pd.DataFrame) -> Figure:
    """Draw the counted runs of every strong-scaling result with the ellipse of one standard deviation.

    Parameters
    ----------
    runs, principal, results
        Tables ``mlperf_runs``, ``mlperf_principal`` and ``mlperf_results``.
    """
    with theme.house_style():
        numbered = mlperf_marks.strong_results(results)
        numbered = numbered[[*KEYS, "edition", "quality_target", "label", "division", "unit", "tag"]]
        kept = runs[runs["scaling"].eq("strong") & runs["kept_by_status"].fillna(value=False).astype(bool)]
        kept = kept[(kept["epochs"] > 0) & (kept["epoch_rate_per_s"] > 0)].drop(columns="quality_target")
        timed = numbered.merge(kept[KEYS].drop_duplicates(), on=KEYS)
        kept = kept.merge(mlperf_marks.thin_results(timed)[[*KEYS, "edition", "quality_target", "left_out"]], on=KEYS)
        if kept.empty or numbered.empty:
            return theme.sentence_figure("Epochs and epoch throughput of each run", mlperf_marks.why_none(results))
        ellipses = principal.drop(columns=["label", "division"]).merge(numbered, on=KEYS)
        palette = mlperf_marks.colour_origins(numbered)
        parts = mlperf_marks.parts_of(kept)
        figure = Figure(figsize=(10.4, (PANEL[1] + 0.8) * len(parts) + 0.7), layout="constrained")
        grid = figure.subplots(len(parts), 2, squeeze=False, gridspec_kw={"width_ratios": (PANEL[0], 2.6)})
        for (axes, key), (name, part) in zip(grid, parts, strict=True):
            axes.set_title(f"{name}, {theme.count_word(len(part), 'kept run')}", loc="left")
            own, shown = (frame.merge(part[KEYS].drop_duplicates(), on=KEYS) for frame in (ellipses, numbered))
            _draw_panel(axes, part, own, palette)
            mlperf_marks.write_key(key, shown)
        grid[-1][0].set_xlabel("epochs to solution")
        entries = mlperf_marks.key_entries(numbered, palette)
        entries["1 standard deviation along the principal axes"] = theme.key_line(theme.IDEAL_COLOUR)
        figure.legend(list(entries.values()), list(entries), loc="outside upper left", ncols=3)
        return figure


def _draw_panel(axes: Axes, runs: pd.DataFrame, ellipses: pd.DataFrame, palette: Mapping[str, theme.Colour]) -> None:
    rates = PER_MINUTE * runs["epoch_rate_per_s"]
    axes.set_xscale("log")
    axes.set_yscale("log")
    outlines = [outline(row) for row in ellipses.to_dict("records")]
    xs = np.concatenate([runs["epochs"], *(line[0] for line in outlines)])
    ys = np.concatenate([rates, *(line[1] for line in outlines)])
    axes.set_xlim(mlperf_marks.log_limits(xs))
    axes.set_ylim(mlperf_marks.log_limits(ys))
    for row, rate in zip(runs.to_dict("records"), rates, strict=True):
        style = {**mlperf_marks.point_style(row, palette), "markersize": 2.8, "alpha": 0.75, "markeredgewidth": 0.6}
        axes.plot([row["epochs"]], [rate], gid="run", **style)
    for row, (x, y) in zip(ellipses.to_dict("records"), outlines, strict=True):
        axes.plot(x, y, color=palette[row["origin"]], linewidth=0.9, gid="ellipse")
    if len(ellipses) <= mlperf_marks.MOST_TAGS:
        tops = [(x[int(np.argmax(y))], float(y.max())) for x, y in outlines]
        mlperf_marks.draw_tags(axes, tops, list(ellipses["tag"]), PANEL)
    mlperf_marks.label_axis(axes.xaxis, axes.get_xlim())
    mlperf_marks.label_axis(axes.yaxis, axes.get_ylim())
    axes.set_ylabel("epoch throughput [1/min]")


def outline(row: Mapping[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the ellipse of one standard deviation along both principal axes: epochs, and epochs per minute."""
    first, second = (0.0 if math.isnan(row[key]) else row[key] for key in ("std1_log10", "std2_log10"))
    centre = np.log10([row["centre_epochs"], PER_MINUTE * row["centre_epoch_rate_per_s"]])
    axes = np.nan_to_num([[row["axis1_epochs"], row["axis1_rate"]], [row["axis2_epochs"], row["axis2_rate"]]])
    steps = np.outer(first * np.cos(ANGLES), axes[0]) + np.outer(second * np.sin(ANGLES), axes[1])
    x, y = 10 ** (centre + steps).T
    return x, y
