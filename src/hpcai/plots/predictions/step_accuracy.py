"""Predicted against measured training steps, with the errors of each stage of a step."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hpcai.catalogue.figures import figure
from hpcai.plots import theme
from hpcai.plots.rounds import marks as mlperf_marks

STEP, NONE = "step", "none"
"""Stage name of a whole step; overhead name of a prediction without a fitted coefficient."""
STAGES = ("forward", "input gradient", "weight gradient", "update", "communication", "input", STEP)
COST_MODELS = ("regressors", "full", "gemm", "im2col")
ORIGINS = {"reference network": "o", "own run": "s"}
BANDS = (0.30, 0.15)
"""Goals for the relative error of a step: without and with one fitted overhead coefficient."""
SHADES = ("#eeeeee", "#d9d9d9")
REACH = 1.5
"""Largest relative error of a stage drawn to scale; larger ones become arrows at the edge."""
NO_STEP = "no step was both predicted and measured"
TITLES = {True: "as predicted", False: "with one overhead coefficient, fitted on other steps"}
WIDTH = 10.6


@figure(
    "step_accuracy",
    stage="predict",
    category="Predictions",
    title="Predicted and measured steps",
    tables=("step_accuracy",),
    section="kernel-regressors",
    before="step_stages",
)
def plot_step_accuracy(step_accuracy: pd.DataFrame) -> Figure:
    """Draw predicted against measured step times, without and with overhead, and the stages' relative errors.

    Parameters
    ----------
    step_accuracy
        Table ``step_accuracy``: reference networks and own runs, one row per case, cost model, overhead and stage.
    """
    with theme.house_style():
        known = step_accuracy.dropna(subset=["estimated_s", "measured_s"]) if len(step_accuracy) else step_accuracy
        if known.empty:
            return theme.sentence_figure("Predicted and measured steps", NO_STEP)
        palette = theme.colours([*COST_MODELS, *sorted(set(known["cost_model"]) - set(COST_MODELS))])
        stages = [name for name in STAGES if (known["stage"] == name).any()]
        figure = Figure(figsize=(WIDTH, 4.6 + 0.9 + 0.42 * len(stages)), layout="constrained")
        heights = (4.2, 0.7 + 0.42 * len(stages))
        above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=heights)[:, 0]
        steps = known[known["stage"] == STEP]
        for axes, raw in zip(above.subplots(1, 2), TITLES, strict=True):
            part = steps[(steps["overhead"] == NONE) == raw]
            axes.set_title(TITLES[raw], loc="left")
            _draw_steps(axes, part, _limits(steps), palette)
        for axes, raw in zip(below.subplots(1, 2, sharex=True, sharey=True), TITLES, strict=True):
            axes.set_xlim(_reach(known))
            axes.set_xlabel("(predicted − measured) / measured [%]")
            _draw_stages(axes, known[(known["overhead"] == NONE) == raw], stages, palette)
        _add_key(figure, known, palette)
        return figure


def _limits(steps: pd.DataFrame) -> tuple[float, float]:
    values = [*steps["measured_s"], *steps["estimated_s"]]
    return mlperf_marks.log_limits([1e3 * float(value) for value in values])


def _draw_steps(axes: Axes, part: pd.DataFrame, limits: tuple[float, float], palette: dict[str, theme.Colour]) -> None:
    axes.set_xlabel("measured step [ms]")
    axes.set_ylabel("predicted step [ms]")
    if part.empty:
        theme.say_why_empty(axes, "no such prediction")
        return
    axes.set_xscale("log")
    axes.set_yscale("log")
    ends = np.asarray(limits)
    for band, shade in zip(BANDS, SHADES, strict=True):
        axes.fill_between(ends, ends * (1 - band), ends * (1 + band), color=shade, linewidth=0, zorder=0)
    axes.plot(ends, ends, color=theme.IDEAL_COLOUR, linewidth=0.9)
    for (origin, model), own in part.groupby(["origin", "cost_model"], sort=True):
        axes.plot(
            1e3 * own["measured_s"], 1e3 * own["estimated_s"], ORIGINS.get(str(origin), "D"),
            color=palette[str(model)], markersize=5, markeredgecolor="white", markeredgewidth=0.5, gid="step",
        )  # fmt: skip
    axes.set_xlim(limits)
    axes.set_ylim(limits)
    axes.set_aspect("equal")
    for axis in (axes.xaxis, axes.yaxis):
        mlperf_marks.label_axis(axis, limits)


def _reach(known: pd.DataFrame) -> tuple[float, float]:
    """Return the range of the errors [%]; a prediction cannot be more than 100 % too short."""
    errors = 100 * known["relative_error_ratio"]
    low, high = float(errors.min()), float(errors.max())
    widest = 100 * 1.3 * BANDS[0]
    return min(-widest, max(1.1 * low, -105.0)), max(widest, min(1.1 * high, 100 * REACH))


def _draw_stages(axes: Axes, part: pd.DataFrame, stages: Sequence[str], palette: dict[str, theme.Colour]) -> None:
    axes.set_yticks(range(len(stages)), stages)
    axes.set_ylim(len(stages) - 0.5, -0.5)
    if part.empty:
        axes.text(0.5, 0.5, "no such prediction", transform=axes.transAxes, ha="center", va="center")
        return
    for band, shade in zip(BANDS, SHADES, strict=True):
        axes.axvspan(-100 * band, 100 * band, color=shade, linewidth=0, zorder=0)
    axes.axvline(0.0, color=theme.IDEAL_COLOUR, linewidth=0.9)
    models = [name for name in palette if (part["cost_model"] == name).any()]
    for place, model in enumerate(models):
        shift = 0.6 * ((place + 0.5) / len(models) - 0.5)
        for (origin, stage), own in part[part["cost_model"] == model].groupby(["origin", "stage"], sort=True):
            if stage in stages:
                look = (ORIGINS.get(str(origin), "D"), palette[model])
                _draw_errors(axes, own["relative_error_ratio"], stages.index(str(stage)) + shift, look)
    axes.grid(visible=False, axis="y")


def _draw_errors(axes: Axes, ratios: "pd.Series[float]", height: float, look: tuple[str, theme.Colour]) -> None:
    marker, colour = look
    errors = 100 * ratios
    low, high = axes.get_xlim()
    inside = errors[(errors >= low) & (errors <= high)]
    axes.plot(inside, np.full(len(inside), height), marker, color=colour, markersize=4.5, markeredgecolor="white",
              markeredgewidth=0.5, gid="error")  # fmt: skip
    for edge, arrow, beyond in ((0.012, "<", errors < low), (0.988, ">", errors > high)):
        if beyond.any():
            axes.plot([edge], [height], arrow, color=colour, markersize=4, transform=axes.get_yaxis_transform(),
                      gid="error-beyond")  # fmt: skip


def _add_key(figure: Figure, known: pd.DataFrame, palette: dict[str, theme.Colour]) -> None:
    plain = theme.TARGET_COLOUR
    entries: dict[str, Artist] = {
        name: theme.key_line(colour) for name, colour in palette.items() if (known["cost_model"] == name).any()
    }
    for origin, marker in ORIGINS.items():
        if (known["origin"] == origin).any():
            entries[origin] = theme.key_line(plain, marker, "")
    for band, shade in zip(BANDS, SHADES, strict=True):
        entries[f"within ± {100 * band:.0f} %"] = Patch(color=shade)
    if (known["relative_error_ratio"].abs() > REACH).any():
        entries["farther off"] = theme.key_line(plain, ">", "")
    figure.legend(list(entries.values()), list(entries), loc="outside upper left", ncols=5)
