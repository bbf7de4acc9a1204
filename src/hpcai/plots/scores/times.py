"""Time to train, and the breakdown of the wall time."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from hpcai.catalogue.figures import figure
from hpcai.metrics.scaling.trials import name_statistics
from hpcai.metrics.statistics.summaries import INTERVAL
from hpcai.plots import theme

SHARES = {
    "launch_ratio": "launch",
    "import_ratio": "import",
    "init_ratio": "initialisation",
    "staging_ratio": "staging",
    "cache_ratio": "caching",
    "training_ratio": "training",
    "evaluation_ratio": "evaluation",
    "rest_ratio": "rest",
}
HATCHES = {"staging": "///", "caching": "\\\\\\", "evaluation": "...", "rest": "xxx"}
MAY_LACK = ("launch_ratio", "cache_ratio")
"""Without a colour where no run has it: few runs have caches, and launches from another node are not timed."""
NARROW = 0.06
"""A smaller share is too narrow for its number."""


@figure(
    "time_to_train",
    stage="analyse",
    category="Summary",
    title="Time to train",
    tables=("runs", "scales"),
    section="scores",
    before="scales",
)
def plot_time_to_train(runs: pd.DataFrame, scales: pd.DataFrame) -> Figure:
    """Draw the time to train of every run at each scale, with the scale's score and its interval.

    Parameters
    ----------
    runs, scales
        The tables of runs and of scales.
    """
    title = "Time to train"
    with theme.house_style():
        if runs.empty or runs["time_to_train_s"].isna().all():
            reason = "no run has been recorded" if runs.empty else f"none of {len(runs)} runs converged"
            return theme.empty_figure(title, reason)
        parts = theme.panels(runs)
        figure, grid = theme.panel_grid(len(parts), slots=theme.most_scales(parts))
        palette = theme.colours(theme.scale_order(runs))
        for axes, (name, part) in zip(grid, parts, strict=True):
            theme.set_title(axes, name)
            keys = (part["benchmark"].iloc[0], part["variant"].iloc[0])
            own = scales[(scales["benchmark"] == keys[0]) & (scales["variant"] == keys[1])]
            _draw_times(axes, part, own, palette)
        theme.add_legend(figure, _time_legend(runs, scales))
        return figure


def _draw_times(axes: Axes, runs: pd.DataFrame, scales: pd.DataFrame, palette: dict[str, theme.Colour]) -> None:
    order = theme.scale_order(runs)
    failed = runs["time_to_train_s"].isna()
    for place, scale in enumerate(order):
        here = runs["scale"] == scale
        times = runs.loc[here & ~failed, "time_to_train_s"]
        axes.plot(place + _spread(len(times)) - 0.08, times, "o", color=palette[scale], markersize=5, gid="runs")
        lost = int((here & failed).sum())
        # A run without a time has no height: its marker is on the axis, below the time scale.
        axes.plot(
            place + _spread(lost) - 0.08,
            np.full(lost, 0.03),
            "x",
            color="#444444",
            markersize=6,
            transform=axes.get_xaxis_transform(),
            gid="runs-without-time",
        )
    _draw_scores(axes, scales, order)
    axes.set_xticks(range(len(order)), [_tick(scales[scales["scale"] == scale].iloc[0]) for scale in order])
    axes.set_xlim(-0.6, len(order) - 0.4)
    theme.from_zero(axes)
    if failed.all():
        axes.set_yticks([])
    axes.set_ylabel("time to train [s]")
    axes.grid(visible=False, axis="x")


def _tick(scale: "pd.Series[Any]") -> str:
    """Return scale, ranks, and the number of converged runs."""
    return f"{scale['scale']}\n{theme.count_word(int(scale['ranks']), 'rank')}\n{scale['n_ok']}/{scale['n']} ok"


def _draw_scores(axes: Axes, scales: pd.DataFrame, order: list[str]) -> None:
    means = scales.dropna(subset=["time_to_train_score_s"])
    for row in means.itertuples():
        place, value = order.index(str(row.scale)) + 0.14, float(str(row.time_to_train_score_s))
        low, high = float(str(row.time_to_train_low_s)), float(str(row.time_to_train_high_s))
        bounds = None if np.isnan(low) else [[value - low], [high - value]]
        axes.errorbar([place], [value], yerr=bounds, fmt="D", color="#222222", markersize=5, capsize=4, linewidth=1.2)


def _spread(count: int) -> NDArray[np.float64]:
    """Return horizontal offsets, so that equal times do not hide each other."""
    return np.linspace(-0.12, 0.12, count) if count > 1 else np.zeros(count)


def _time_legend(runs: pd.DataFrame, scales: pd.DataFrame) -> dict[str, Line2D]:
    statistic = name_statistics(scales["time_to_train_score_method"]) or "no result by the rules"
    entries = {
        "one converged run": theme.key_line("#444444", "o", ""),
        f"{statistic},\n{INTERVAL}": theme.key_line("#222222", "D", "-"),
    }
    if runs["time_to_train_s"].isna().any():
        entries["run without a time\n(did not converge)"] = theme.key_line("#444444", "x", "")
    return entries


@figure(
    "time_shares",
    stage="analyse",
    category="Throughput",
    title="Shares of the wall time",
    tables=("scales",),
    section="time",
    before="efficiency",
)
def plot_time_shares(scales: pd.DataFrame) -> Figure:
    """Draw the breakdown of the runs' wall time at each scale, as shares that add up to 100 %.

    Parameters
    ----------
    scales
        The table of scales.
    """
    with theme.house_style():
        if scales.empty or (scales["share_n"] == 0).all():
            return theme.empty_figure("Shares of the wall time", "no run completed training")
        parts = theme.panels(scales)
        bars = max(len(part) for _, part in parts)
        figure, grid = theme.new_figure(len(parts), 1, height=max(1.0 + 0.42 * bars, 2.0 if len(parts) == 1 else 0))
        palette = theme.colours([w for name, w in SHARES.items() if name not in MAY_LACK or scales[name].gt(0).any()])
        for line, (name, part) in zip(grid, parts, strict=True):
            theme.set_title(line[0], name)
            _draw_shares(line[0], part, palette)
            line[0].set_ylim(bars - 0.5, -0.5)
        grid[-1][0].set_xlabel("share of the wall time [%]")
        entries = {
            word: Patch(facecolor=colour, hatch=HATCHES.get(word), edgecolor="white")
            for word, colour in palette.items()
        }
        theme.add_legend(figure, entries)
        return figure


def _draw_shares(axes: Axes, scales: pd.DataFrame, palette: dict[str, theme.Colour]) -> None:
    labels = []
    for place, (_, row) in enumerate(scales.iterrows()):
        untimed = ", launch in rest" if row["share_n"] and np.isnan(row["launch_ratio"]) else ""
        labels.append(
            f"{row['scale']}, {theme.count_word(int(row['ranks']), 'rank')}\n"
            f"n = {row['share_n']} of {row['n']}{untimed}"
        )
        if row["share_n"] == 0:
            axes.text(50, place, "nothing was measured: no run completed training", ha="center", va="center")
        left = 0.0
        for column, word in SHARES.items():
            share = 0.0 if np.isnan(row[column]) else float(row[column])
            if word not in palette:
                continue
            axes.barh(
                place,
                100 * share,
                left=left,
                height=0.62,
                color=palette[word],
                hatch=HATCHES.get(word),
                edgecolor="white",
            )
            if share >= NARROW:
                box = {"facecolor": "white", "edgecolor": "none", "pad": 1.2, "alpha": 0.85}
                axes.text(
                    left + 50 * share, place, f"{100 * share:.0f}", ha="center", va="center", fontsize=8, bbox=box
                )
            left += 100 * share
    axes.set_yticks(range(len(labels)), labels)
    axes.set_xlim(0, 100)
    axes.grid(visible=False, axis="y")
