"""Forecasts of rounds: intervals of the time to solution, and the published times where there are any."""

import pandas as pd
from matplotlib.figure import Figure

from hpcai.plots import theme
from hpcai.plots.rounds import marks

ROW, FRAME = 0.22, 1.1
"""Height of one line, and what the axis and title need [inches]."""
NOTHING = "nothing could be predicted"


def plot_forecasts(intervals: pd.DataFrame, title: str) -> Figure:
    """Draw the interval and median of each forecast, one line each.

    Parameters
    ----------
    intervals
        Columns ``label``, ``low_s``, ``middle_s``, ``high_s``, and ``run_s``: the published time, or NaN.
    title
        What was asked.
    """
    with theme.house_style():
        if intervals.empty:
            return marks.empty_figure(title, NOTHING)
        figure, grid = theme.new_figure(1, 1, height=FRAME + ROW * len(intervals))
        axes, places = grid[0][0], range(len(intervals))
        predicted, published = theme.colours(["predicted", "published"]).values()
        axes.hlines(places, intervals["low_s"], intervals["high_s"], color=predicted, linewidth=3, alpha=0.4)
        axes.plot(intervals["middle_s"], places, "|", color=predicted, markersize=9)
        entries = {"predicted: median and interval of 90 %": theme.key_line(predicted, "|")}
        if intervals["run_s"].notna().any():
            axes.plot(intervals["run_s"], places, "o", color=published, markersize=4)
            entries["published"] = theme.key_line(published, "o", "")
        axes.set_yticks(places, [theme.plain_text(str(label)) for label in intervals["label"]])
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.set_xlabel("time to solution [s]")
        axes.set_title(title, loc="left")
        theme.add_legend(figure, entries)
        return figure
