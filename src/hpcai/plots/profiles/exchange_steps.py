"""The seven steps of an allreduce beside those that HPC AI500 V2.0 prints (Table 12)."""

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hpcai.catalogue.figures import figure
from hpcai.core.text import say_time
from hpcai.metrics.profiles.exchange_steps import STEPS
from hpcai.plots import theme
from hpcai.plots.profiles import panels as profiles

NAMES = [step.name for step in STEPS]
HATCHES = ("///", "xxx", "+++", "...", "|||", "", "---")
COLLECTIVE = "ALLREDUCE"
NO_EXCHANGE = "no profiled run exchanged data between ranks"
LEGEND = 2.4
"""Width of the legend, in inches."""


@figure(
    "exchange_published",
    stage="scores",
    category="Communication",
    title="Seven steps of an allreduce beside the published",
    tables=("exchange_steps", "declared_breakdowns", "captures"),
    section="communication",
    before="exchange_steps",
)
def plot_exchange_steps(
    exchange_steps: pd.DataFrame, declared_breakdowns: pd.DataFrame, captures: pd.DataFrame
) -> Figure:
    """Draw the shares of the seven steps in their sum, and their mean times, published ones first.

    Parameters
    ----------
    exchange_steps
        ``collective``, ``step``, ``mean_s`` and ``share_ratio`` of our profiled runs.
    declared_breakdowns
        Published ones; those whose parts are the seven steps are drawn.
    captures
        Why what was not captured was not.
    """
    with theme.house_style():
        known = exchange_steps.dropna(subset=["share_ratio"]) if len(exchange_steps) else exchange_steps
        known = known[known["collective"] == COLLECTIVE] if len(known) else known
        runs = [*_published(declared_breakdowns), *(profiles.split_runs(known) if len(known) else [])]
        if not runs:
            why = profiles.say_why_not(captures, "timeline", NO_EXCHANGE)
            return theme.empty_figure("Seven steps of an allreduce", why)
        height = profiles.row_height(runs) * len(runs)
        size = (profiles.label_width(runs) + 7.6 + LEGEND, 2 * height + 2.2)
        figure = Figure(figsize=(size[0], max(size[1], 4.2)), layout="constrained")
        top, below = figure.subplots(2, 1, gridspec_kw={"height_ratios": (height + 0.9, height + 0.9)})
        palette = theme.colours(NAMES)
        looks = {name: (palette[name], hatch) for name, hatch in zip(NAMES, HATCHES, strict=True)}
        for place, run in enumerate(runs):
            shares = dict(zip(run.part["step"], run.part["share_ratio"], strict=True))
            profiles.draw_shares(top, place, shares, looks)
        profiles.label_rows(top, runs)
        top.set_title("shares of the seven steps", loc="left")
        top.set_xlabel("share of the sum of their means [%]")
        top.set_xlim(0, 100)
        below.set_title("mean time of a step", loc="left")
        profiles.draw_values(below, runs, NAMES, "step", _say_mean)
        theme.add_legend(
            figure,
            {name: Patch(facecolor=colour, hatch=hatch, edgecolor="white") for name, (colour, hatch) in looks.items()},
        )
        return figure


def _published(breakdowns: pd.DataFrame) -> list[profiles.ProfiledRun]:
    """Return the published breakdowns whose parts are the seven steps."""
    runs = []
    for title, part in breakdowns.groupby("breakdown", sort=False) if len(breakdowns) else ():
        if set(part["part"]) <= set(NAMES):
            named = part.rename(columns={"part": "step", "time_s": "mean_s"})
            where = f"{part['origin'].iloc[0]}, {part['where'].iloc[0]}"
            run = profiles.ProfiledRun(str(title).rpartition(", ")[2], where, str(title), named)
            runs.append(replace(run, part=named.dropna(subset=["share_ratio"])))
    return runs


def _say_mean(row: Mapping[Hashable, Any]) -> str:
    return say_time(float(row["mean_s"]))
