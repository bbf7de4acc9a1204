"""Learning curves and step times per epoch, one line per run."""

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from hpcai.catalogue.figures import figure
from hpcai.plots import theme

NO_EPOCH = "no run completed an epoch"


@figure(
    "quality",
    stage="analyse",
    category="Summary",
    title="Quality after each epoch",
    tables=("epochs", "runs"),
    section="scores",
    before="run_scores",
)
def plot_quality(epochs: pd.DataFrame, runs: pd.DataFrame) -> Figure:
    """Draw the quality after each epoch with the target; one line per run, whose end marks its outcome.

    Parameters
    ----------
    epochs, runs
        The tables of epochs and of runs.
    """
    return _plot_curves(epochs, runs, "quality", "Quality against epoch", target=True)


@figure(
    "loss",
    stage="analyse",
    category="Summary",
    title="Training loss after each epoch",
    tables=("epochs", "runs"),
    section="scores",
    before="run_scores",
)
def plot_loss(epochs: pd.DataFrame, runs: pd.DataFrame) -> Figure:
    """Draw the training loss of each epoch; one line per run, whose end marks its outcome.

    Parameters
    ----------
    epochs, runs
        The tables of epochs and of runs.
    """
    return _plot_curves(epochs, runs, "train_loss", "Training loss against epoch", target=False)


def _plot_curves(epochs: pd.DataFrame, runs: pd.DataFrame, column: str, title: str, *, target: bool) -> Figure:
    with theme.house_style():
        if runs.empty or not np.isfinite(epochs[column]).any():
            return theme.empty_figure(title, NO_EPOCH if epochs.empty else f"no epoch has a finite {column}")
        parts = theme.panels(runs)
        figure, grid = theme.panel_grid(len(parts), height=3.4)
        palette = theme.colours(theme.scale_order(runs))
        for axes, (name, part) in zip(grid, parts, strict=True):
            theme.set_title(axes, name)
            _draw_runs(axes, epochs, part, column, palette)
            axes.set_ylabel(_curve_label(part, column))
            if target and axes.lines:
                axes.axhline(part["quality_target"].iloc[0], color=theme.TARGET_COLOUR, linestyle="--", linewidth=1.0)
        theme.add_legend(figure, _curve_legend(runs, palette, target=target))
        return figure


def _draw_runs(
    axes: Axes, epochs: pd.DataFrame, runs: pd.DataFrame, column: str, palette: dict[str, theme.Colour]
) -> None:
    """Draw the finite values of each run; runs without any are listed below the axis."""
    missing = []
    for run in runs.itertuples():
        points = epochs[(epochs["run_id"] == run.run_id) & np.isfinite(epochs[column])]
        if points.empty:
            missing.append(f"{run.scale} r{run.repetition} {theme.OUTCOME_WORDS[str(run.outcome)]}")
            continue
        style: theme.LineStyle = "-" if run.outcome == "converged" else ":"
        colour = palette[str(run.scale)]
        axes.plot(points["epoch"], points[column], color=colour, linestyle=style, gid=f"run-{run.run_id}")
        marker = theme.OUTCOME_MARKERS[str(run.outcome)]
        axes.plot(
            points["epoch"].iloc[-1:], points[column].iloc[-1:], color=colour, marker=marker, markersize=6, linestyle=""
        )
    if axes.lines:
        theme.epoch_axis(axes)
    else:
        theme.say_empty(axes, "no run has a finite value")
    axes.set_xlabel("epoch" + (f"\nwithout any value: {_wrap(missing)}" if missing else ""))


def _wrap(names: list[str], most: int = 4) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    lines = [", ".join(names[start : start + 2]) for start in range(0, min(len(names), most), 2)]
    return ",\n".join(lines) + more


def _curve_label(runs: pd.DataFrame, column: str) -> str:
    if column == "train_loss":
        return "training loss [no unit]"
    return theme.quality_label(runs)


def _curve_legend(runs: pd.DataFrame, palette: dict[str, theme.Colour], *, target: bool) -> dict[str, Line2D]:
    words = theme.scale_words(runs)
    entries = {words[scale]: theme.key_line(colour) for scale, colour in palette.items()}
    for outcome, marker in theme.OUTCOME_MARKERS.items():
        count = int((runs["outcome"] == outcome).sum())
        if count:
            style: theme.LineStyle = "-" if outcome == "converged" else ":"
            entries[f"{theme.OUTCOME_WORDS[outcome]} (n = {count})"] = theme.key_line("#444444", marker, style)
    if target:
        entries["target"] = theme.key_line(theme.TARGET_COLOUR, style="--")
    return entries


@figure(
    "step_times",
    stage="analyse",
    category="Throughput",
    title="Step times",
    tables=("epochs",),
    section="time",
    before="advice",
)
def plot_step_times(epochs: pd.DataFrame) -> Figure:
    """Draw the distribution of the epochs' step times at each scale: medians and 95th percentiles.

    Parameters
    ----------
    epochs
        The table of epochs.
    """
    title = "Step times"
    columns = {"step_time_median_s": "median of an epoch", "step_time_p95_s": "95th percentile of an epoch"}
    with theme.house_style():
        long = epochs.melt(
            id_vars=["benchmark", "variant", "scale", "nodes", "ranks", "run_id", "epoch"],
            value_vars=list(columns),
            var_name="statistic",
            value_name="step_time_s",
        ).dropna(subset=["step_time_s"])
        if long.empty:
            return theme.empty_figure(title, "no epoch has step times" if len(epochs) else NO_EPOCH)
        parts = theme.panels(long.replace({"statistic": columns}))
        figure, grid = theme.panel_grid(len(parts), slots=theme.most_scales(parts))
        palette = theme.colours(list(columns.values()))
        for axes, (name, part) in zip(grid, parts, strict=True):
            theme.set_title(axes, name)
            _draw_boxes(axes, part, palette)
        theme.add_legend(figure, {name: Patch(facecolor=colour) for name, colour in palette.items()})
        return figure


def _draw_boxes(axes: Axes, part: pd.DataFrame, palette: dict[str, theme.Colour]) -> None:
    order = theme.scale_order(part)
    sns.boxplot(
        part,
        x="scale",
        y="step_time_s",
        hue="statistic",
        order=order,
        hue_order=list(palette),
        palette=palette,
        whis=(0, 100),  # codespell:ignore whis
        width=0.5,
        linewidth=0.9,
        legend=False,
        ax=axes,
    )
    counts = part.groupby("scale").agg(ranks=("ranks", "first"), runs=("run_id", "nunique"))
    epochs = part[["scale", "run_id", "epoch"]].drop_duplicates().groupby("scale").size()
    ticks = [
        f"{scale}\n{theme.count_word(int(counts['ranks'][scale]), 'rank')}\n"
        f"{theme.count_word(epochs[scale], 'epoch')}\n{theme.count_word(counts['runs'][scale], 'run')}"
        for scale in order
    ]
    axes.set_xticks(range(len(order)), ticks)
    axes.set_xlabel("")
    axes.set_ylabel("step time [s]")
    theme.from_zero(axes)
    axes.grid(visible=False, axis="x")
