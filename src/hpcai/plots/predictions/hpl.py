"""HPL on nodes with GPUs, from the step model: Figs 5, 6 and 7 of Hu and Lu 2021; everything is modelled."""

from collections.abc import Callable, Mapping

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hpcai.catalogue.figures import figure
from hpcai.core.messages import Message
from hpcai.plots import theme

MAIN = "device"
"""The default variant, drawn in colour; it reproduces the source's trends."""
REFERENCE_BLOCK = 256
MUTED = "#9a9a9a"
MUTED_STYLES: dict[str, theme.LineStyle] = {"balance": "--", "pipe": ":", "cpu": "-", "calibrated": "-"}
NO_SWEEPS = "the step model was not run: the table hpl_sweeps has no row of this figure"
WORDS: dict[str, Callable[[float], str]] = {
    "block": lambda value: f"NB {value:g}",
    "gpu_multiplier": lambda value: f"{value:g} × GPU rate",
    "host_link_bytes_per_s": lambda value: f"host link {1e-9 * value:g} GB/s",
}
SCALES = {
    "block": ("block NB", 1.0),
    "gpu_multiplier": ("GPU rate, multiple of 6.6 TFLOP/s each", 1.0),
    "host_link_bytes_per_s": ("host link [GB/s]", 1e-9),
    "network_bit_per_s": ("network of a node [Gbit/s]", 1e-9),
    "rate_flop_per_s": ("modelled rate [TFLOP/s]", 1e-12),
    "efficiency_ratio": ("modelled share of GPU peak [%]", 100.0),
}
NO_LINK = Message("hpl.no_link", "no rate of the host link reaches the target efficiency")
LEFT_OUT = Message("hpl.left_out", "no host link suffices in {missing} of {cases} cases of all variants")


@figure(
    "hpl_efficiency",
    stage="published",
    category="Predictions",
    title="Efficiency against PCIe rate, block size and GPUs",
    tables=("hpl_sweeps",),
    section="hpl-model",
    before="hpl_published",
)
def plot_hpl_efficiency(hpl_sweeps: pd.DataFrame) -> Figure:
    """Draw rate over host link, and efficiency over block size and GPU multiplier (Fig. 5 of the source).

    Parameters
    ----------
    hpl_sweeps
        ``figure``, ``variant``, ``block``, ``gpu_multiplier``, ``host_link_bytes_per_s``, ``rate_flop_per_s`` and
        ``efficiency_ratio`` (relative to the GPUs' peak); only rows of figure 5 are drawn.
    """
    with theme.house_style():
        rows = _of_figure(hpl_sweeps, "5", "rate_flop_per_s")
        if rows.empty:
            return _empty("HPL efficiency, modelled", NO_SWEEPS)
        figure, grid = theme.new_figure(1, 3, height=4.4)
        plain, block = rows["gpu_multiplier"] == rows["gpu_multiplier"].min(), _reference_block(rows)
        slowest = rows["host_link_bytes_per_s"] == rows["host_link_bytes_per_s"].min()
        one_block = rows["block"] == block
        words = f"NB {block:g}"
        _draw(grid[0][0], ("host_link_bytes_per_s", "rate_flop_per_s"), "block", rows[plain], one_block)
        _draw(grid[0][1], ("block", "efficiency_ratio"), "host_link_bytes_per_s", rows[plain], slowest)
        _enlarge(grid[0][0], (0.1, 0.43, 0.86, 0.29))
        _enlarge(grid[0][1], (0.14, 0.42, 0.82, 0.24))
        _draw(grid[0][2], ("gpu_multiplier", "efficiency_ratio"), "host_link_bytes_per_s", rows[one_block], slowest)
        titles = ("a: rate against host link", "b: efficiency over block", f"c: efficiency against GPU rate, {words}")
        for axes, title in zip(grid[0], titles, strict=True):
            axes.set_title(title, loc="left")
        figure.suptitle(_say_system(rows), x=0.01, ha="left", fontsize=9)
        return figure


@figure(
    "hpl_host_link",
    stage="published",
    category="Predictions",
    title="PCIe rate required for a target efficiency",
    tables=("hpl_sweeps",),
    section="hpl-model",
    before="hpl_published",
)
def plot_hpl_host_link(hpl_sweeps: pd.DataFrame) -> Figure:
    """Draw the host link rate that reaches the target efficiency over the block size (Fig. 6 of the source).

    Parameters
    ----------
    hpl_sweeps
        ``figure``, ``variant``, ``block``, ``gpu_multiplier``, ``host_link_bytes_per_s`` (NaN if no rate suffices) and
        ``target_ratio``; only rows of figure 6 are drawn.
    """
    with theme.house_style():
        every = hpl_sweeps[hpl_sweeps["figure"].astype(str) == "6"]
        rows = _of_figure(hpl_sweeps, "6", "host_link_bytes_per_s")
        if rows.empty:
            why = NO_SWEEPS if every.empty else NO_LINK()
            return _empty("Host link for HPL, modelled", why)
        figure, grid = theme.new_figure(1, 1, height=4.6)
        axes = grid[0][0]
        plain = rows["gpu_multiplier"] == rows["gpu_multiplier"].min()
        _draw(axes, ("block", "host_link_bytes_per_s"), "gpu_multiplier", rows, plain)
        axes.set_yscale("log")
        axes.autoscale(axis="y")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_ylabel("modelled minimum host link [GB/s]")
        axes.set_title(f"host link that keeps {100 * rows['target_ratio'].iloc[0]:g} % of GPU peak", loc="left")
        missing = len(every) - len(rows)
        left_out = f"\n{LEFT_OUT(missing=missing, cases=len(every))}" if missing else ""
        figure.suptitle(_say_system(rows) + left_out, x=0.01, ha="left", fontsize=9)
        return figure


@figure(
    "hpl_network",
    stage="published",
    category="Predictions",
    title="Rate against network",
    tables=("hpl_sweeps",),
    section="hpl-model",
    before="hpl_published",
)
def plot_hpl_network(hpl_sweeps: pd.DataFrame) -> Figure:
    """Draw the rate over the network between nodes (Fig. 7 of the source).

    Parameters
    ----------
    hpl_sweeps
        ``figure``, ``variant``, ``network_bit_per_s``, ``host_link_bytes_per_s`` and ``rate_flop_per_s``; only rows of
        figure 7 are drawn.
    """
    with theme.house_style():
        rows = _of_figure(hpl_sweeps, "7", "rate_flop_per_s")
        if rows.empty:
            return _empty("HPL against network rate, modelled", NO_SWEEPS)
        figure, grid = theme.new_figure(1, 1, height=4.4)
        axes = grid[0][0]
        slowest = rows["host_link_bytes_per_s"] == rows["host_link_bytes_per_s"].min()
        _draw(axes, ("network_bit_per_s", "rate_flop_per_s"), "host_link_bytes_per_s", rows, slowest)
        axes.set_title("rate over network", loc="left")
        figure.suptitle(_say_system(rows), x=0.01, ha="left", fontsize=9)
        return figure


def _of_figure(sweeps: pd.DataFrame, figure: str, value: str) -> pd.DataFrame:
    rows = sweeps[sweeps["figure"].astype(str) == figure]
    return rows.dropna(subset=[value])


def _reference_block(rows: pd.DataFrame) -> float:
    blocks = sorted(rows["block"].astype(float).unique())
    return float(min(blocks, key=lambda value: (abs(value - REFERENCE_BLOCK), value)))


def _draw(axes: Axes, scales: tuple[str, str], by: str, rows: pd.DataFrame, muted_rows: pd.Series) -> None:
    """Draw one line per value of ``by`` for the main variant, and one muted line for each other variant."""
    x, y = scales
    main = rows[rows["variant"] == MAIN]
    palette = theme.colours([str(value) for value in sorted(main[by].unique())])
    entries: dict[str, Artist] = {}
    other = rows[(rows["variant"] != MAIN) & muted_rows.reindex(rows.index)]
    for variant, part in other.groupby("variant", sort=True):
        style = MUTED_STYLES.get(str(variant), "-")
        words = f"{variant}, {WORDS[by](part[by].iloc[0])}"
        entries[words] = _line(axes, part, scales, {"color": MUTED, "linestyle": style, "marker": "."})
    for number, (value, part) in enumerate(main.groupby(by, sort=True)):
        look = {"color": palette[str(value)], "marker": theme.MARKERS[number % len(theme.MARKERS)], "markersize": 4.5}
        entries[f"{MAIN}, {WORDS[by](float(str(value)))}"] = _line(axes, part, scales, look)
    _scale_axis(axes, x, rows)
    axes.set_ylabel(SCALES[y][0])
    axes.set_ylim(bottom=0)
    axes.legend(
        list(entries.values()), list(entries), loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=7.5
    )


def _enlarge(axes: Axes, place: tuple[float, float, float, float]) -> None:
    """Repeat the main variant's lines in an inset with its own scale: on a scale from zero they nearly coincide."""
    inset = axes.inset_axes(place)
    for line in axes.get_lines():
        if line.get_color() != MUTED:
            inset.plot(*line.get_data(), color=line.get_color(), marker=line.get_marker(), markersize=3, linewidth=1)
    inset.set_xscale("log")
    inset.set_xticks(axes.get_xticks(), [])
    inset.minorticks_off()
    inset.tick_params(labelsize=7)
    inset.set_title(f"{MAIN}, enlarged", fontsize=7, loc="left", pad=2)


def _line(axes: Axes, part: pd.DataFrame, scales: tuple[str, str], look: Mapping[str, object]) -> Artist:
    ordered = part.sort_values(scales[0])
    values = [SCALES[name][1] * ordered[name].astype(float) for name in scales]
    drawn: Artist = axes.plot(*values, **look)[0]  # type: ignore[arg-type]  # looks of lines are of several types
    return drawn


def _scale_axis(axes: Axes, name: str, rows: pd.DataFrame) -> None:
    """Use a logarithmic axis, labelled at the computed values only."""
    label, factor = SCALES[name]
    values = sorted(factor * rows[name].astype(float).unique())
    axes.set_xscale("log")
    shown = values if len(values) <= 6 else [value for value in values if f"{value:e}".startswith("1.0")]
    axes.set_xticks(shown, [f"{value:g}" for value in shown])
    axes.minorticks_off()
    axes.set_xlabel(label)


def _say_system(rows: pd.DataFrame) -> str:
    row = rows.iloc[0]
    nodes, gpus = theme.count_word(int(row["nodes"]), "node"), theme.count_word(int(row["gpus_per_node"]), "GPU")
    return f"modelled, nothing measured: {nodes} of {gpus}, N = {int(row['order']):,}; grey: other variants"


def _empty(title: str, sentence: str) -> Figure:
    figure, grid = theme.new_figure(1, 1, height=1.7)
    grid[0][0].set_title(title, loc="left")
    theme.say_why_empty(grid[0][0], sentence)
    return figure
