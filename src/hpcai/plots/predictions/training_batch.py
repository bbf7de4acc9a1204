"""Modelled training steps over the batch per node (Barrachina et al. 2023, Fig. 5): step, epoch, communication."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hpcai.catalogue.figures import figure
from hpcai.plots import theme
from hpcai.plots.predictions.training_model import (
    DATA,
    HEIGHT,
    NO_MODEL,
    Palette,
    add_key,
    colour_networks,
    draw_band,
    known_steps,
    mark_baseline,
    ordered,
    split_networks,
)
from hpcai.plots.rounds import marks as mlperf_marks

COLUMNS = {
    "step_ms": "time of a step [ms]",
    "epoch_s": "time of an epoch [s]",
    "communication_percent": "communication share [%]",
}
WIDTH = 10.6
SWEPT = "batch"


@figure(
    "training_batch",
    stage="published",
    category="Predictions",
    title="Step time against batch size",
    tables=("training_sweeps",),
    section="training-model",
    before="prediction_findings",
)
def plot_training_batch(training_sweeps: pd.DataFrame) -> Figure:
    """Draw modelled step time, epoch time and communication share over the batch per node.

    Parameters
    ----------
    training_sweeps
        Table ``training_sweeps``: one row of panels per data set, one colour per network. Lines show the most complete
        cost model, bands span all cost models.
    """
    with theme.house_style():
        known = known_steps(training_sweeps, [SWEPT])
        if known.empty:
            return theme.sentence_figure("Training steps against batch size", NO_MODEL)
        known = known.assign(place=known["value"], communication_percent=100 * known["communication_share_ratio"])
        data = ordered(known["data"], DATA)
        palette = colour_networks(training_sweeps)
        figure = Figure(figsize=(WIDTH, HEIGHT * len(data) + 0.9), layout="constrained")
        grid = figure.subplots(len(data), len(COLUMNS), squeeze=False)
        for line, name in zip(grid, data, strict=True):
            part = known[known["data"] == name]
            for axes, (column, words) in zip(line, COLUMNS.items(), strict=True):
                _draw_panel(axes, part, column, palette)
                axes.set_xlabel("batch of a node [samples]")
                axes.set_ylabel(words)
            line[0].set_title(DATA.get(name, name), loc="left")
        add_key(figure, known, palette, half=False)
        return figure


def _draw_panel(axes: Axes, part: pd.DataFrame, column: str, palette: Palette) -> None:
    shown = part.dropna(subset=[column])
    if shown.empty:
        theme.say_why_empty(axes, "not modelled")
        return
    axes.set_xscale("log", base=2)
    mark_baseline(axes, shown)
    for colour, chosen, own in split_networks(shown, palette):
        draw_band(axes, own, column, colour)
        axes.plot(chosen["place"], chosen[column], color=colour, gid=column)
        if column == "step_ms":
            axes.plot(chosen["place"], chosen["communication_ms"], "--", color=colour, linewidth=1.1)
    places = sorted(shown["place"].unique())
    axes.set_xlim(places[0], places[-1])
    powers = [value for value in (2.0**power for power in range(21)) if places[0] <= value <= places[-1]]
    axes.set_xticks(powers, [f"{value:.0f}" for value in powers])
    axes.minorticks_off()
    if column == "communication_percent":
        axes.set_ylim(0, 100)
        return
    axes.set_yscale("log")
    mlperf_marks.label_axis(axes.yaxis, axes.get_ylim())
