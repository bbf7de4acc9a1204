"""Large batches: the learning rate that was used in each epoch, and the quality against the global batch."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hpcai.catalogue.figures import figure
from hpcai.core.limits import MOST_LINES_NAMED
from hpcai.metrics.scaling.scales import POINT_SETTINGS
from hpcai.metrics.scaling.trials import COMPLETE
from hpcai.plots import theme

NO_EPOCH = "no run completed an epoch"
NO_RUN = "no run has been recorded"
ONE_BATCH = "No benchmark has two global batches on the same ranks and with equal settings."
CURVE = ["benchmark", "global_batch_samples", "variant"]
"""What tells the schedules of a workload apart."""
MOST_INSIDE = 4
"""Schedules that a panel's legend has room for; the legend of more stands beside the panel."""
LEGEND_LINE, LEGEND_FRAME = 0.065, 0.03
"""Shares of a panel's height that a line of its legend and the legend's edges take, above all schedules."""


@figure(
    "learning_rate",
    stage="analyse",
    category="Summary",
    title="Learning rate of each epoch",
    tables=("epochs", "runs"),
    section="scores",
    before="run_scores",
)
def plot_learning_rate(epochs: pd.DataFrame, runs: pd.DataFrame) -> Figure:
    """Draw the learning rate of the last step of each epoch, one line for each benchmark, variant and global batch.

    Parameters
    ----------
    epochs, runs
        The tables of epochs and of runs.
    """
    with theme.house_style():
        used = epochs.merge(runs[["run_id", "workload", "global_batch_samples"]], on="run_id")
        used = used[np.isfinite(used["learning_rate"])]
        if used.empty:
            return theme.empty_figure("Learning rate of each epoch", NO_EPOCH)
        parts = [(str(name), part) for name, part in used.groupby("workload", sort=True)]
        drawing, grid = theme.panel_grid(len(parts), height=3.4)
        for axes, (name, part) in zip(grid, parts, strict=True):
            theme.set_title(axes, name)
            _draw_rates(axes, part)
        return drawing


def _draw_rates(axes: Axes, epochs: pd.DataFrame) -> None:
    """Draw each schedule once: runs of one point have the same, and its longest run shows most of it."""
    lines: dict[str, pd.DataFrame] = {}
    left_out = 0
    for (benchmark, batch, variant), part in epochs.groupby(CURVE, sort=True):
        if len(lines) == MOST_LINES_NAMED:
            left_out += 1
            continue
        longest = part.groupby("run_id")["epoch"].max().idxmax()
        lines[f"{benchmark}, {variant}, batch {batch:g}"] = part[part["run_id"] == longest].sort_values("epoch")
    palette = theme.colours(list(lines))
    for number, (words, line) in enumerate(lines.items()):
        # Equal schedules lie on each other: thinner lines on thicker ones show both.
        width = 1.0 + 2.0 * (len(lines) - number - 1) / len(lines)
        axes.plot(line["epoch"], line["learning_rate"], color=palette[words], linewidth=width, label=words)
    if left_out:
        axes.plot([], [], color="none", label=f"{left_out:,} more in the table")
    theme.epoch_axis(axes)
    axes.set_xlabel("epoch")
    axes.set_ylabel("learning rate of the last step [no unit]")
    theme.from_zero(axes)
    if len(lines) > MOST_INSIDE:
        axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    else:
        axes.set_ylim(0, axes.get_ylim()[1] / (1 - LEGEND_FRAME - LEGEND_LINE * len(lines)))
        axes.legend(fontsize=7, loc="upper right")


@figure(
    "quality_batch",
    stage="analyse",
    category="Summary",
    title="Quality against the global batch",
    tables=("runs",),
    section="scores",
    before="run_scores",
)
def plot_quality_against_batch(runs: pd.DataFrame) -> Figure:
    """Draw the quality at the end of each run against its global batch, and a line through the means.

    Parameters
    ----------
    runs
        The table of runs.
    """
    with theme.house_style():
        series = list(_series(runs))
        if not series:
            title = "Quality against the global batch"
            return theme.empty_figure(title, NO_RUN) if runs.empty else theme.sentence_figure(title, ONE_BATCH)
        palette = theme.colours([words for _, words, _ in series])
        workloads = list(dict.fromkeys(workload for workload, _, _ in series))
        drawing, grid = theme.panel_grid(len(workloads), height=3.4)
        for axes, workload in zip(grid, workloads, strict=True):
            theme.set_title(axes, workload)
            for place, words, part in series:
                if place == workload:
                    _draw_qualities(axes, part, palette[words])
            _finish_qualities(axes, pd.concat([part for place, _, part in series if place == workload]))
        entries = {words: theme.key_line(colour, "o") for words, colour in palette.items()}
        entries["target"] = theme.key_line(theme.TARGET_COLOUR, style="--")
        if not all(_is_complete(part).all() for _, _, part in series):
            entries["did not complete training"] = theme.key_line("#444444", "x", "")
        theme.add_legend(drawing, entries)
        return drawing


def _series(runs: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield workload, name and runs of what differs in the global batch alone."""
    alike = ["workload", "benchmark", "nodes", "ranks", *POINT_SETTINGS]
    parts = (part for _, part in runs.groupby(alike, dropna=False, sort=True))
    groups = [part for part in parts if len(part["global_batch_samples"].drop_duplicates()) > 1]
    names = [f"{part['benchmark'].iloc[0]}, {part['scale'].iloc[0]}" for part in groups]
    for name, part in zip(names, groups, strict=True):
        words = name if names.count(name) == 1 else f"{name}, {part['variant'].iloc[0]}"
        yield str(part["workload"].iloc[0]), words, part


def _is_complete(runs: pd.DataFrame) -> "pd.Series[bool]":
    return runs["outcome"].isin(COMPLETE) & runs["last_quality"].map(math.isfinite)


def _draw_qualities(axes: Axes, runs: pd.DataFrame, colour: theme.Colour) -> None:
    complete = runs[_is_complete(runs)]
    means = complete.groupby("global_batch_samples")["last_quality"].mean()
    axes.plot(complete["global_batch_samples"], complete["last_quality"], "o", color=colour, markersize=4, alpha=0.6)
    axes.plot(means.index, means, color=colour)
    lost = runs.drop(complete.index)
    # A run without a quality has no height: its marker is on the axis.
    axes.plot(
        lost["global_batch_samples"],
        np.full(len(lost), 0.03),
        "x",
        color=colour,
        markersize=6,
        transform=axes.get_xaxis_transform(),
        gid="runs-without-quality",
    )


def _finish_qualities(axes: Axes, runs: pd.DataFrame) -> None:
    batches = sorted(set(runs["global_batch_samples"]))
    axes.set_xscale("log", base=2)
    axes.set_xticks(batches, [f"{batch:g}" for batch in batches])
    axes.minorticks_off()
    axes.set_xlabel("global batch [samples]")
    axes.set_ylabel(theme.quality_label(runs))
    for target in sorted(set(runs["quality_target"])):
        axes.axhline(target, color=theme.TARGET_COLOUR, linestyle="--", linewidth=1.0)
