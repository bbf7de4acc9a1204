"""Training steps of one device under its measured roofs."""

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hpcai.catalogue.figures import figure
from hpcai.core.text import say_rate
from hpcai.plots import theme

MARKERS = "osD^v"
NO_TRAFFIC = "no training step with a modelled memory traffic"
DECADE = 10.0


@figure(
    "gpu_roofline",
    stage="gpu",
    category="Roofline",
    title="Training steps under the measured roofs of the device",
    tables=("gpu_steps", "gpu_ceilings"),
    section="gpu",
    before="gpu_steps",
)
def plot_device_roofline(steps: pd.DataFrame, ceilings: pd.DataFrame) -> Figure:
    """Draw the roofs of matrix products and of memory, and one mark per benchmark and precision.

    Parameters
    ----------
    steps, ceilings
        Tables ``gpu_steps`` and ``gpu_ceilings``.
    """
    with theme.house_style():
        placed = steps.dropna(subset=["intensity_flop_per_byte", "rate_flop_per_s"])
        if placed.empty:
            reasons = dict.fromkeys(str(reason) for reason in steps["reason"] if reason)
            return theme.empty_figure("Roofline", "; ".join(reasons) or NO_TRAFFIC)
        drawing, ((axes,),) = theme.new_figure(1, 1, height=4.2)
        palette = theme.colours(sorted(set(ceilings["precision"]) - {""} | set(placed["precision"])))
        axes.set(xscale="log", yscale="log", xlabel="intensity [FLOP/B], modelled", ylabel="rate, measured")
        intensities = placed["intensity_flop_per_byte"]
        span = np.array([intensities.min() / DECADE, intensities.max() * DECADE])
        _draw_roofs(axes, ceilings, span, palette)
        entries = _draw_steps(axes, placed, palette)
        axes.yaxis.set_major_formatter(lambda value, _: say_rate(value, "FLOP/s"))
        device = theme.plain_text(str(placed["device"].iloc[0]))
        axes.set_title(f"{device} ({placed['device_kind'].iloc[0]})", loc="left")
        theme.add_legend(drawing, entries)
        return drawing


def _draw_roofs(
    axes: Axes, ceilings: pd.DataFrame, span: NDArray[np.float64], palette: dict[str, theme.Colour]
) -> None:
    known = ceilings.dropna(subset=["value"])
    for row in known[known["kind"] == "gemm"].to_dict("records"):
        if row["precision"] in palette:
            axes.axhline(row["value"], color=palette[row["precision"]], linewidth=1)
    memory = known[known["kind"] == "memory"]["value"]
    if len(memory):
        axes.plot(span, span * memory.max(), color=theme.TARGET_COLOUR, linewidth=1)


def _draw_steps(axes: Axes, placed: pd.DataFrame, palette: dict[str, theme.Colour]) -> dict[str, Artist]:
    entries: dict[str, Artist] = {}
    markers = dict(zip(dict.fromkeys(placed["benchmark"]), MARKERS, strict=False))
    for row in placed.to_dict("records"):
        colour, marker = palette[row["precision"]], markers[row["benchmark"]]
        axes.plot(row["intensity_flop_per_byte"], row["rate_flop_per_s"], marker, color=colour)
        entries[f"{theme.plain_text(row['benchmark'])}, {row['precision']}"] = theme.key_line(colour, marker, "")
    return {
        **entries,
        **{f"GEMM, {name}": theme.key_line(colour) for name, colour in palette.items()},
        "memory bandwidth": theme.key_line(theme.TARGET_COLOUR),
    }
