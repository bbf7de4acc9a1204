"""Throughput and staging against the scale."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hpcai.catalogue.figures import figure
from hpcai.metrics.roofline.samples_above import SHARED
from hpcai.metrics.scaling.trials import COMPLETE, name_statistics
from hpcai.metrics.statistics.summaries import INTERVAL
from hpcai.plots import theme

NO_END = "no run completed training"


@figure(
    "throughput",
    stage="analyse",
    category="Throughput",
    title="Throughput",
    tables=("runs", "scales"),
    section="scaling",
    before="variant_effects",
)
def plot_throughput(runs: pd.DataFrame, scales: pd.DataFrame) -> Figure:
    """Draw training and evaluation throughput against ranks: every run, each scale with its interval, the ideal.

    Parameters
    ----------
    runs, scales
        The tables of runs and of scales.
    """
    with theme.house_style():
        if scales.empty or (scales["rate_n"] == 0).all():
            return theme.empty_figure("Throughput", NO_END)
        parts = theme.panels(scales)
        figure, grid = theme.new_figure(len(parts), 2)
        for line, (name, part) in zip(grid, parts, strict=True):
            own = runs[(runs["benchmark"] == part["benchmark"].iloc[0]) & (runs["variant"] == part["variant"].iloc[0])]
            for axes, kind in zip(line, ("train", "evaluation"), strict=True):
                theme.set_title(axes, name, "training" if kind == "train" else "evaluation")
                _draw_rate(axes, own, part, kind)
        theme.add_legend(
            figure,
            {
                "one run": theme.key_line("#0173b2", "o", ""),
                f"{name_statistics(scales['statistic'])},\n" + INTERVAL.replace(", ", ",\n"): theme.key_line(
                    "#222222", "D"
                ),
                "ideal: base scale\ntimes ranks": theme.key_line(theme.IDEAL_COLOUR, style="--"),
            },
        )
        return figure


def _draw_rate(axes: Axes, runs: pd.DataFrame, scales: pd.DataFrame, kind: str) -> None:
    unit = "samples_per_s"
    measured = runs[runs["outcome"].isin(COMPLETE)].dropna(subset=[f"{kind}_rate_{unit}"])
    axes.set_ylabel("throughput [samples/s]")
    if measured.empty:
        theme.say_empty(axes, NO_END)
        return
    theme.rank_axis(axes, sorted({int(ranks) for ranks in scales["ranks"]}))
    columns = (f"{kind}_rate_{unit}", f"{kind}_rate_low_{unit}", f"{kind}_rate_high_{unit}")
    # Left of the mean, which would hide them.
    places = measured["ranks"] * 0.96
    axes.plot(places, measured[f"{kind}_rate_{unit}"], "o", color="#0173b2", markersize=4, alpha=0.8, gid="runs")
    _draw_means(axes, scales, columns)
    if kind == "train":
        axes.plot(scales["ranks"], scales[f"train_rate_ideal_{unit}"], "--", color=theme.IDEAL_COLOUR, linewidth=1.0)
    theme.from_zero(axes)


def _draw_means(axes: Axes, frame: pd.DataFrame, columns: tuple[str, str, str]) -> None:
    """Draw means against ranks, with error bars for intervals; the columns are value, low and high."""
    value, low, high = columns
    known = frame.dropna(subset=[value]).sort_values("ranks")
    values = known[value].to_numpy(dtype=float)
    # A missing interval has zero length, so the marker hides its bar.
    below = np.nan_to_num(values - known[low].to_numpy(dtype=float))
    above = np.nan_to_num(known[high].to_numpy(dtype=float) - values)
    axes.errorbar(
        known["ranks"].to_numpy(dtype=float),
        values,
        yerr=[below, above],
        fmt="D-",
        color="#222222",
        markersize=5,
        capsize=3,
        linewidth=1.2,
    )


@figure(
    "staging",
    stage="analyse",
    category="I/O",
    title="Staging",
    tables=("runs",),
    section="io",
    before="io",
)
def plot_staging(runs: pd.DataFrame) -> Figure:
    """Draw each run's staging rate, and its staging time in epochs, at each scale.

    Parameters
    ----------
    runs
        The table of runs.
    """
    with theme.house_style():
        staged = runs[runs["outcome"].isin(COMPLETE)].dropna(subset=["staging_epoch_ratio"])
        if staged.empty:
            return theme.empty_figure("Staging", "no run that completed training staged its data")
        parts = theme.panels(staged)
        figure, grid = theme.new_figure(len(parts), 2, slots=theme.most_scales(parts))
        for line, (name, part) in zip(grid, parts, strict=True):
            _draw_staging(line, part)
            for axes in line:
                theme.set_title(axes, name)
        entries = {
            "read from shared\nstorage (packed)": theme.key_line("#0173b2", "o", ""),
            "written to scratch\n(unpacked)": theme.key_line("#de8f05", "s", ""),
            "staging time over\nmean epoch time": theme.key_line("#029e73", "D", ""),
        }
        theme.add_legend(figure, entries)
        return figure


def _draw_staging(line: list[Axes], runs: pd.DataFrame) -> None:
    order = theme.scale_order(runs)
    counts = runs.groupby("scale").agg(n=("run_id", "size"), ranks=("ranks", "first"))
    shared = runs.groupby("scale")["staging_place"].agg(lambda places: SHARED in set(places))
    ticks = [
        f"{scale}\n{theme.count_word(int(counts['ranks'][scale]), 'rank')}\nn = {counts['n'][scale]}"
        + ("\nscratch: shared" if shared[scale] else "")
        for scale in order
    ]
    places = runs["scale"].map({scale: place for place, scale in enumerate(order)})
    spread = runs.groupby("scale").cumcount() / runs.groupby("scale")["run_id"].transform("size") * 0.16
    columns = {"read": ("#0173b2", "o", -0.22), "write": ("#de8f05", "s", 0.06)}
    for name, (colour, marker, shift) in columns.items():
        rate = runs[f"staging_{name}_rate_bytes_per_s"] / 1e6
        line[0].plot(places + spread + shift, rate, marker, color=colour, markersize=5, gid="runs")
    line[0].set_ylabel("staging rate [10⁶ bytes/s]")
    line[1].plot(places + spread - 0.08, runs["staging_epoch_ratio"], "D", color="#029e73", markersize=5, gid="runs")
    line[1].set_ylabel("staging time / epoch time [ratio]")
    for axes in line:
        axes.set_xticks(range(len(order)), ticks)
        axes.set_xlim(-0.6, len(order) - 0.4)
        theme.from_zero(axes)
        axes.grid(visible=False, axis="x")
