"""Predicted beside measured steps of scales that were held out."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from hpcai.catalogue.figures import figure
from hpcai.plots import theme
from hpcai.plots.rounds.marks import label_axis

GOAL_RATIO = 0.10


@figure(
    "scale_cases",
    stage="predict",
    category="Prediction",
    title="Scales predicted without their own measurement",
    tables=("scale_cases",),
    section="scale-cases",
    before="scale_cases",
)
def plot_scale_cases(scale_cases: pd.DataFrame) -> Figure:
    """Draw predicted over measured steps with their intervals, by what was held out; the goal is grey."""
    known = scale_cases[scale_cases["predicted_step_s"].notna()]
    with theme.house_style():
        drawing = Figure(figsize=(7, 4.5), layout="constrained")
        axes = drawing.subplots()
        colours = theme.colours(sorted(known["question"].unique()))
        entries = {}
        for question, own in known.groupby("question", sort=True):
            measured, predicted = (1e3 * own[name].to_numpy(float) for name in ("measured_step_s", "predicted_step_s"))
            bounds = [1e3 * own[name].to_numpy(float) for name in ("predicted_step_low_s", "predicted_step_high_s")]
            reach = np.abs(np.nan_to_num(np.array(bounds) - predicted))
            colour = colours[str(question)]
            axes.errorbar(measured, predicted, yerr=reach, fmt="o", color=colour, markersize=4, elinewidth=1, alpha=0.7)
            entries[str(question)] = theme.key_line(colour, "o", "")
        if len(known):
            ends = 1e3 * np.array([known["measured_step_s"].min(), known["measured_step_s"].max()])
            axes.plot(ends, ends, color="0.5", linewidth=1)
            axes.fill_between(ends, ends * (1 - GOAL_RATIO), ends * (1 + GOAL_RATIO), color="0.85", zorder=0)
            axes.set(xscale="log", yscale="log")
            for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
                label_axis(axis, limits)
        axes.set(xlabel="measured step [ms]", ylabel="predicted step [ms]")
        theme.add_legend(drawing, entries)
        return drawing
