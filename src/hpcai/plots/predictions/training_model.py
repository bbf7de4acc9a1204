"""Modelled training steps over the hardware of a cluster (Barrachina et al. 2023, Fig. 4): step and communication."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator

from hpcai.catalogue.figures import figure
from hpcai.plots import theme
from hpcai.plots.rounds import marks as mlperf_marks

Palette = Mapping[str, theme.Colour]
NETWORKS = {"vgg11": "VGG11", "vgg16": "VGG16", "resnet50": "ResNet-50", "densenet121": "DenseNet-121"}
DATA = {"cifar10": "CIFAR-10", "imagenet": "ImageNet"}
COST_MODELS = ("full", "im2col", "gemm")
"""Cost models, most complete first: the first one present is drawn as lines, all of them form the band."""
SWEPT = {
    "peak": ("peak rate of a node [TFLOP/s]", 1e12),
    "memory": ("memory bandwidth of a node [GB/s]", 1e9),
    "link": ("link rate [Gbit/s]", 1e9),
    "nodes": ("nodes, one process each", 1.0),
}
"""Axis label of each swept quantity, and the factor of its unit to the table's unit."""
NO_MODEL = "no training step was modelled: the table training_sweeps has no rows"
WIDTH, HEIGHT = 12.4, 2.8
BAND = 0.15
MOST_DECADES = 1.6
"""Over more decades only powers of ten are labelled, because other labels would touch."""
HALF = 0.5
"""Communication share of a step that a ring marks."""


@figure(
    "training_hardware",
    stage="published",
    category="Predictions",
    title="Step time against hardware",
    tables=("training_sweeps",),
    section="training-model",
    before="training_networks",
)
def plot_training_hardware(training_sweeps: pd.DataFrame) -> Figure:
    """Draw the modelled training step time over peak rate, memory bandwidth, link rate and nodes.

    Parameters
    ----------
    training_sweeps
        Table ``training_sweeps``: one column of panels per swept quantity, one row per data set, one colour per
        network. Lines show the most complete cost model, bands span all cost models.
    """
    with theme.house_style():
        known = known_steps(training_sweeps, list(SWEPT))
        if known.empty:
            return theme.sentence_figure("Training steps against hardware", NO_MODEL)
        data = ordered(known["data"], DATA)
        palette = colour_networks(training_sweeps)
        figure = Figure(figsize=(WIDTH, HEIGHT * len(data) + 0.9), layout="constrained")
        grid = figure.subplots(len(data), len(SWEPT), squeeze=False, sharey="row")
        for line, name in zip(grid, data, strict=True):
            for axes, (swept, (words, factor)) in zip(line, SWEPT.items(), strict=True):
                part = known[(known["data"] == name) & (known["swept"] == swept)]
                axes.set_xlabel(words)
                _draw_panel(axes, part.assign(place=part["value"] / factor), palette)
            line[0].set_title(DATA.get(name, name), loc="left")
            line[0].set_ylabel("time of a step [ms]")
        add_key(figure, known, palette, half=True)
        return figure


def known_steps(sweeps: pd.DataFrame, swept: Sequence[str]) -> pd.DataFrame:
    """Return the rows of selected sweeps that have a time, with the time in milliseconds added."""
    if sweeps.empty:
        return sweeps
    known = sweeps[sweeps["swept"].isin(swept)].dropna(subset=["step_s", "value"])
    return known.assign(step_ms=1e3 * known["step_s"], communication_ms=1e3 * known["communication_s"])


def ordered(names: "pd.Series[str]", order: Mapping[str, str]) -> list[str]:
    """Return the distinct names: those listed in an order first, in that order."""
    present = set(names)
    return [*(name for name in order if name in present), *sorted(present - set(order))]


def colour_networks(sweeps: pd.DataFrame) -> dict[str, theme.Colour]:
    """Return a colour per network, equal in all figures of one table."""
    return theme.colours(ordered(sweeps["network"], NETWORKS))


def split_networks(part: pd.DataFrame, palette: Palette) -> list[tuple[theme.Colour, pd.DataFrame, pd.DataFrame]]:
    """Yield each network's colour, the rows of its most complete cost model by position, and its rows of all models."""
    found = []
    for network, colour in palette.items():
        own = part[part["network"] == network]
        if len(own):
            found.append((colour, own[own["cost_model"] == fullest(own)].sort_values("place"), own))
    return found


def fullest(rows: pd.DataFrame) -> str:
    """Return the most complete cost model."""
    present = set(rows["cost_model"])
    return next((name for name in COST_MODELS if name in present), min(present))


def draw_band(axes: Axes, rows: pd.DataFrame, column: str, colour: theme.Colour) -> None:
    """Fill the area between the cost models."""
    ends = rows.groupby("place", sort=True)[column].agg(["min", "max"])
    places, low, high = (values.to_numpy(dtype=float) for values in (ends.index, ends["min"], ends["max"]))
    axes.fill_between(places, low, high, color=colour, alpha=BAND, linewidth=0)


def mark_baseline(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw a vertical line at the baseline hardware or batch of the other sweeps."""
    for place in rows.loc[rows["at_baseline"].astype(bool), "place"].unique():
        axes.axvline(place, color=theme.IDEAL_COLOUR, linestyle=":", linewidth=1.2, gid="baseline")


def add_key(figure: Figure, known: pd.DataFrame, palette: Palette, *, half: bool) -> None:
    """Put the legend above the panels: networks, line styles, baseline."""
    shown = set(known["network"])
    entries: dict[str, Artist] = {
        NETWORKS.get(name, name): theme.key_line(colour) for name, colour in palette.items() if name in shown
    }
    plain = theme.TARGET_COLOUR
    models = [name for name in reversed(COST_MODELS) if name in set(known["cost_model"])]
    entries[f"whole step, cost model {fullest(known)}"] = theme.key_line(plain)
    entries["communication part"] = theme.key_line(plain, style="--")
    if len(models) > 1:
        entries[f"between cost models {', '.join(models)}"] = Patch(color=plain, alpha=BAND)
    if half:
        ring = theme.key_line(plain, "o", "")
        ring.set_markerfacecolor("white")
        entries["communication is half of the step"] = ring
    if known["at_baseline"].astype(bool).any():
        entries["baseline"] = theme.key_line(theme.IDEAL_COLOUR, style=":")
    figure.legend(list(entries.values()), list(entries), loc="outside upper left", ncols=5)


def _draw_panel(axes: Axes, part: pd.DataFrame, palette: Palette) -> None:
    if part.empty:
        theme.say_why_empty(axes, "not swept")
        return
    axes.set_xscale("log")
    axes.set_yscale("log")
    mark_baseline(axes, part)
    for colour, chosen, own in split_networks(part, palette):
        draw_band(axes, own, "step_ms", colour)
        axes.plot(chosen["place"], chosen["step_ms"], color=colour, gid="step")
        sent = chosen[chosen["communication_ms"] > 0]
        axes.plot(sent["place"], sent["communication_ms"], "--", color=colour, linewidth=1.1, gid="communication")
        for place, height in _half_points(chosen):
            axes.plot(place, height, "o", color=colour, markerfacecolor="white", markersize=4.5, gid="half")
    low, high = float(part["place"].min()), float(part["place"].max())
    axes.set_xlim(low, high)
    mlperf_marks.label_axis(axes.xaxis, (low, high))
    if np.log10(high / low) > MOST_DECADES:
        axes.xaxis.set_major_locator(LogLocator(base=10))
    mlperf_marks.label_axis(axes.yaxis, axes.get_ylim())


def _half_points(rows: pd.DataFrame) -> list[tuple[float, float]]:
    """Return where communication reaches half of the step, between two modelled points of a line."""
    places, steps = (np.log(rows[name].to_numpy(dtype=float)) for name in ("place", "step_ms"))
    above = rows["communication_share_ratio"].to_numpy(dtype=float) - HALF
    found = []
    for left in np.flatnonzero(above[:-1] * above[1:] < 0):
        weight = above[left] / (above[left] - above[left + 1])
        point = [np.exp(values[left] + weight * (values[left + 1] - values[left])) for values in (places, steps)]
        found.append((float(point[0]), float(point[1])))
    return found
