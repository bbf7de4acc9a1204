"""What-if figure: times predicted for other scales, precisions, compressions and links, next to measured ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from hpcai.catalogue.figures import figure
from hpcai.plots import theme
from hpcai.plots.rounds import marks as mlperf_marks

QUESTIONS = {"scale": "other scales", "link": "other links", "precision": "other precisions",
             "compression": "other compressions"}  # fmt: skip
"""Title of each question, keyed by the column that distinguishes its answers."""
SHAPES = "DsP^vX"
"""Hollow shapes for the answers to one question; measured points are filled circles."""
REACH = 4.0
"""Intervals are drawn up to this multiple of the values; the table has their full length."""
SHIFT = 0.18
"""Horizontal offset between answers, as a fraction of a factor of two in ranks."""
WIDTH, HEIGHT = 3.3, 2.35
NO_PREDICTION = "nothing was predicted: the study requests no prediction, or has no completed run to start from"


@dataclass(frozen=True)
class Quantity:
    """Quantity on the vertical axis: label, columns of the predictions, columns of the table of scales."""

    words: str
    predicted: tuple[str, str, str]
    measured: tuple[str, str, str]


TIME = Quantity(
    "time to train [s]",
    ("time_to_train_s", "time_to_train_low_s", "time_to_train_high_s"),
    ("time_to_train_score_s", "time_to_train_low_s", "time_to_train_high_s"),
)
STEP = Quantity(
    "time of a step [s]",
    ("step_s", "step_low_s", "step_high_s"),
    ("step_time_median_s", "step_time_median_s", "step_time_median_s"),
)
Look = tuple[theme.Colour, str, float]
"""Colour, shape, and horizontal offset factor of a mark."""


@figure(
    "what_if",
    stage="predict",
    category="Predictions",
    title="What if: measured and predicted times",
    tables=("predictions", "scales"),
    section="predictions",
    before="predictions",
)
def plot_what_if(predictions: pd.DataFrame, scales: pd.DataFrame) -> Figure:
    """Draw predicted times as hollow marks with intervals and measured ones as filled circles, over the ranks.

    Parameters
    ----------
    predictions
        Table ``predictions``: one row of panels per benchmark and variant, one column per question. The time is the
        time to train where it was both predicted and measured, otherwise the step time.
    scales
        Table of scales, with the measured times.
    """
    with theme.house_style():
        known = predictions.dropna(subset=["step_s"]) if len(predictions) else predictions
        if known.empty:
            return theme.sentence_figure("What if", NO_PREDICTION)
        asked = [name for name in QUESTIONS if (known["question"] == name).any()]
        looks = {name: _looks(known, name, asked) for name in asked}
        parts = theme.panels(predictions[predictions["benchmark"].isin(known["benchmark"])])
        size = (max(WIDTH * len(asked), theme.WIDTH), HEIGHT * len(parts) + 0.3 + 0.2 * max(map(len, looks.values())))
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(len(parts), len(asked), squeeze=False, sharey="row")
        for line, (title, part) in zip(grid, parts, strict=True):
            _draw_line(list(line), title, part, scales, looks)
        for axes in grid[-1]:
            axes.set_xlabel("ranks")
        _add_key(figure, looks)
        return figure


def _looks(known: pd.DataFrame, question: str, asked: Sequence[str]) -> dict[str, Look]:
    """Return the look of each answer to a question; colours differ between questions as far as they suffice."""
    answers = _answers(known, question)
    counts = {name: len(_answers(known, name)) for name in asked}
    palette = list(theme.colours([str(number) for number in range(10)]).values())
    start = sum(counts[name] for name in asked[: asked.index(question)])
    # Predictions are drawn to the right of their ranks, away from measured points.
    return {
        answer: (
            palette[(start + place) % len(palette)],
            SHAPES[place % len(SHAPES)],
            float(2 ** (SHIFT * (place + 1))),
        )
        for place, answer in enumerate(answers)
    }


def _answers(known: pd.DataFrame, question: str) -> list[str]:
    # Ranks are the axis, so other scales already differ in position.
    if question == "scale":
        return ["predicted"]
    return sorted({str(value) for value in known.loc[known["question"] == question, question]})


def _draw_line(
    line: list[Axes], title: str, part: pd.DataFrame, scales: pd.DataFrame, looks: Mapping[str, dict[str, Look]]
) -> None:
    """Draw one benchmark and variant: all its questions share the vertical axis."""
    keys = part.iloc[0]
    own = scales
    if len(scales):
        own = scales[(scales["benchmark"] == keys["benchmark"]) & (scales["variant"] == keys["variant"])]
    quantity = _choose(part, own)
    measured = own.dropna(subset=[quantity.measured[0]]) if len(own) else own
    limits = _limits(part, measured, quantity)
    there = part.dropna(subset=[quantity.predicted[0]])
    ranks = sorted({int(value) for value in [*there["ranks"], *(measured["ranks"] if len(measured) else ())]})
    for axes, (question, answers) in zip(line, looks.items(), strict=True):
        axes.set_yscale("log")
        axes.set_ylim(limits)
        mlperf_marks.label_axis(axes.yaxis, limits)
        axes.set_xscale("log", base=2)
        axes.set_xlim(ranks[0] / 1.5, ranks[-1] * 1.5)
        axes.set_xticks(_thin(ranks), [str(count) for count in _thin(ranks)])
        axes.minorticks_off()
        axes.set_title(
            f"{title}:\n{QUESTIONS[question]}" if axes is line[0] else f"\n{QUESTIONS[question]}", loc="left"
        )
        asked = part[part["question"] == question]
        rows = asked.dropna(subset=[quantity.predicted[0]])
        _say_lost(axes, asked, rows)
        for answer, look in answers.items():
            chosen = rows if question == "scale" else rows[rows[question].astype(str) == answer]
            _draw_predicted(axes, chosen, quantity, look)
        if len(measured):
            _draw_measured(axes, measured, quantity)
    line[0].set_ylabel(quantity.words)


def _say_lost(axes: Axes, asked: pd.DataFrame, shown: pd.DataFrame) -> None:
    """Write how many predictions have no mark: those of step times only, and impossible ones."""
    lost = int(asked["step_s"].isna().sum())
    steps = len(asked) - len(shown) - lost
    words = [f"{steps} of a step only"] if steps else []
    words += [f"{lost} not possible"] if lost else []
    if asked.empty:
        words = ["not asked"]
    axes.set_title(", ".join(words), loc="right", fontsize=7.5, fontweight="normal")


def _choose(part: pd.DataFrame, own: pd.DataFrame) -> Quantity:
    """Choose the time to train if it was predicted and measured: a step time does not cover the epochs needed."""
    there = len(own) and own[TIME.measured[0]].notna().any()
    return TIME if there and part[TIME.predicted[0]].notna().any() else STEP


def _limits(part: pd.DataFrame, measured: pd.DataFrame, quantity: Quantity) -> tuple[float, float]:
    values = [*part[quantity.predicted[0]], *(measured[quantity.measured[0]] if len(measured) else ())]
    known = np.asarray([value for value in values if np.isfinite(value) and value > 0], dtype=float)
    ends = [known.min(), known.max()]
    pairs = [(part, quantity.predicted)] + ([(measured, quantity.measured)] if len(measured) else [])
    bounds = np.concatenate([frame[name].to_numpy(dtype=float) for frame, names in pairs for name in names[1:]])
    inside = np.clip(bounds[np.isfinite(bounds)], ends[0] / REACH, ends[1] * REACH)
    return mlperf_marks.log_limits([*ends, *inside])


def _thin(ranks: Sequence[int]) -> list[int]:
    """Return the ranks whose labels fit: at least a factor of 1.5 apart."""
    kept: list[int] = []
    for count in ranks:
        if not kept or count >= 1.5 * kept[-1]:
            kept.append(count)
    return kept


def _draw_predicted(axes: Axes, rows: pd.DataFrame, quantity: Quantity, look: Look) -> None:
    colour, shape, factor = look
    places = rows["ranks"].to_numpy(dtype=float) * factor
    _draw_bars(axes, places, rows, quantity.predicted, colour)
    axes.plot(places, rows[quantity.predicted[0]], shape, color=colour, markerfacecolor="white", markersize=5,
              gid="predicted")  # fmt: skip


def _draw_measured(axes: Axes, measured: pd.DataFrame, quantity: Quantity) -> None:
    places = measured["ranks"].to_numpy(dtype=float)
    _draw_bars(axes, places, measured, quantity.measured, theme.TARGET_COLOUR)
    axes.plot(places, measured[quantity.measured[0]], "o", color=theme.TARGET_COLOUR, markersize=5, gid="measured")


def _draw_bars(
    axes: Axes, places: NDArray[Any], rows: pd.DataFrame, names: tuple[str, str, str], colour: theme.Colour
) -> None:
    """Draw the known intervals as bars."""
    floor, _ = axes.get_ylim()
    lows, highs = (rows[name].to_numpy(dtype=float) for name in names[1:])
    there = np.isfinite(lows) & np.isfinite(highs) & (lows < highs)
    # A logarithmic axis has no place for a bound below zero: the bar ends at the frame.
    axes.vlines(places[there], np.maximum(lows[there], floor), highs[there], color=colour, linewidth=1.1)


def _add_key(figure: Figure, looks: Mapping[str, dict[str, Look]]) -> None:
    plain = theme.TARGET_COLOUR
    entries: dict[str, Artist] = {"measured": theme.key_line(plain, "o", "")}
    for question, answers in looks.items():
        for answer, (colour, shape, _) in answers.items():
            words = "predicted, other scale" if question == "scale" else f"predicted, {question} {answer}"
            entries[words] = _hollow(colour, shape)
    entries["interval"] = theme.key_line(plain, "|", "")
    figure.legend(list(entries.values()), list(entries), loc="outside upper left", ncols=min(3, len(looks)))


def _hollow(colour: theme.Colour, shape: str) -> Line2D:
    key = theme.key_line(colour, shape, "")
    key.set_markerfacecolor("white")
    return key
