"""Forecasts for rounds: intervals of the time to solution, with published times where available."""

import pandas as pd
from matplotlib.figure import Figure

from hpcai.core.text import say_share
from hpcai.mlperf_hpc.analysis.curve_model import LEVEL_RATIO
from hpcai.plots import theme
from hpcai.plots.rounds import marks

WIDTH, ROW, FRAME = 11.0, 0.22, 1.3
"""Width of the figure, height of one line, and height of axis and title [inch]."""
NOTHING = "nothing could be predicted"


def plot_forecasts(intervals: pd.DataFrame, title: str) -> Figure:
    """Draw the interval and median of each forecast, one line each.

    Parameters
    ----------
    intervals
        Columns ``label``, ``low_s``, ``middle_s``, ``high_s``, and ``run_s``: the published time, or NaN.
    title
        Description of the forecast.
    """
    with theme.house_style():
        if intervals.empty:
            return theme.sentence_figure(title, NOTHING)
        figure = Figure(figsize=(WIDTH, FRAME + ROW * len(intervals)), layout="constrained")
        axes, places = figure.subplots(), range(len(intervals))
        predicted, published = theme.colours(["predicted", "published"]).values()
        axes.hlines(places, intervals["low_s"], intervals["high_s"], color=predicted, linewidth=3, alpha=0.4)
        axes.plot(intervals["middle_s"], places, "|", color=predicted, markersize=9)
        entries = {f"predicted: median and interval of {say_share(LEVEL_RATIO)}": theme.key_line(predicted, "|")}
        if intervals["run_s"].notna().any():
            axes.plot(intervals["run_s"], places, "o", color=published, markersize=4)
            entries["published"] = theme.key_line(published, "o", "")
        axes.set_yticks(places, [marks.shorten(str(label)) for label in intervals["label"]])
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.set_xlabel("time to solution [s]")
        axes.set_title(title, loc="left")
        theme.add_legend(figure, entries)
        return figure
