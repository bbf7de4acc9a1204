"""Timeline of one step, with lanes for computation, negotiation, copies and transfer."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from hpcai.catalogue.figures import figure
from hpcai.core.text import say_time
from hpcai.plots import theme
from hpcai.plots.profiles import panels as profiles

LANES = ("computation", "negotiation", "waiting", "queue", "fusion buffer", "transfer")
"""Lanes from top to bottom, in the order in which a gradient passes through them; others follow."""
DRAWABLE = 500
"""Number of distinguishable parts of a step in print; closer spans merge into one block."""
PALEST = 0.35
"""Opacity of a block that is hardly ever busy; an always busy block has 1."""
NO_SPANS = "no timeline of a profiled run contains a complete step"

Blocks = list[tuple[float, float]]


@figure(
    "lanes",
    stage="views",
    category="Communication",
    title="One training step, lane by lane",
    tables=("lanes", "captures"),
    section="communication",
    before="communication",
)
def plot_lanes(lanes: pd.DataFrame, captures: pd.DataFrame) -> Figure:
    """Draw one typical step of every profiled run as lanes, over the time since its start [ms].

    Parameters
    ----------
    lanes
        Spans of one step: ``lane``, ``start_s`` (0 = start of the step), ``duration_s``.
    captures
        Reasons for missing captures.
    """
    with theme.house_style():
        known = lanes.dropna(subset=["start_s", "duration_s"]) if len(lanes) else lanes
        if known.empty:
            return theme.empty_figure("One step", profiles.say_why_not(captures, "timeline", NO_SPANS))
        runs = profiles.split_runs(known)
        order = order_lanes(known["lane"])
        figure, grid = theme.new_figure(len(runs), 1, height=0.85 + 0.24 * len(order))
        palette = theme.colours([*LANES, *(lane for lane in order if lane not in LANES)])
        for (axes,), run in zip(grid, runs, strict=True):
            axes.set_title(f"{run.name}, {run.scale}".replace("\n", " "), loc="left")
            _draw_step(axes, run.part, order, palette)
        grid[-1][0].set_xlabel("time since the start of the step [ms]; beside each lane: its busy time")
        return figure


def order_lanes(lanes: pd.Series) -> list[str]:
    """Return the names of all lanes from top to bottom."""
    present = set(lanes.astype(str))
    return [lane for lane in LANES if lane in present] + sorted(present - set(LANES))


def _draw_step(axes: Axes, spans: pd.DataFrame, order: list[str], palette: dict[str, theme.Colour]) -> None:
    end = 1e3 * float((spans["start_s"] + spans["duration_s"]).max())
    labels = []
    for place, lane in enumerate(order):
        own = spans[spans["lane"] == lane]
        starts = 1e3 * own["start_s"].to_numpy(dtype=float)
        blocks = merge_spans(starts, starts + 1e3 * own["duration_s"].to_numpy(dtype=float), 0.0)
        busy = sum(length for _, length in blocks)
        labels.append(f"{lane}: {say_time(busy / 1e3)}" if blocks else f"{lane}: none")
        _draw_blocks(axes, place, blocks, (end, palette[lane]))
    axes.set_yticks(range(len(order)), labels)
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_xlim(min(0.0, 1e3 * float(spans["start_s"].min())), end * 1.01 or 1.0)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7))
    axes.grid(visible=False, axis="y")


def _draw_blocks(axes: Axes, place: int, blocks: Blocks, look: tuple[float, theme.Colour]) -> None:
    """Draw spans that are too close together as one block, paler the less of it is busy."""
    end, colour = look
    if not blocks:
        return
    starts = np.array([start for start, _ in blocks])
    lengths = np.array([length for _, length in blocks])
    drawn = merge_spans(starts, starts + lengths, end / DRAWABLE)
    firsts = np.searchsorted(starts, [start for start, _ in drawn])
    busy = np.add.reduceat(lengths, firsts) / [length or 1.0 for _, length in drawn]
    # A block narrower than a line would vanish.
    shown = [(start, max(length, end / DRAWABLE / 2)) for start, length in drawn]
    faces = [to_rgba(colour, PALEST + (1 - PALEST) * min(1.0, share)) for share in busy]
    axes.broken_barh(shown, (place - 0.4, 0.8), facecolors=faces, linewidth=0)


def merge_spans(starts: NDArray[np.float64], ends: NDArray[np.float64], gap: float) -> Blocks:
    """Merge spans into blocks (start, length): those that overlap or are at most ``gap`` apart."""
    if not len(starts):
        return []
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    opens = np.r_[True, starts[1:] > reach[:-1] + gap]
    closes = np.r_[opens[1:], True]
    return list(zip(starts[opens].tolist(), (reach[closes] - starts[opens]).tolist(), strict=True))
