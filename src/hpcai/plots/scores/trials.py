"""FLOPS and VFLOPS of every trial and every result, per benchmark."""

import itertools
import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator

from hpcai.catalogue.figures import figure
from hpcai.core.text import RATES
from hpcai.metrics.scaling.trials import name_statistics
from hpcai.metrics.statistics.summaries import INTERVAL
from hpcai.plots import theme

LOG_SPAN = 15.0
"""Ratio of values above which the axis is logarithmic."""
SPREAD = 0.8
"""Share of a scale's slot that its variants occupy."""
BAND_POINTS = {0: 18, 90: 40}
"""Room for the numbers between a panel and its title [typographic points], by their rotation [degree]."""
NUMBER = "number"
"""Mark of the numbers above the panels."""
NO_SCORE = "no run completed training, or no work was counted"
RATE = ("rate_flop_per_s", "rate_low_flop_per_s", "rate_high_flop_per_s")
VALID = ("vflops_flop_per_s", "vflops_low_flop_per_s", "vflops_high_flop_per_s")


@dataclass(frozen=True)
class _Panel:
    """Trials and scores of one benchmark, the drawn columns (value, low, high), and their unit."""

    trials: pd.DataFrame
    scores: pd.DataFrame
    columns: tuple[str, str, str]
    palette: dict[str, theme.Colour]

    @property
    def is_vflops(self) -> bool:
        return self.columns == VALID

    @property
    def values(self) -> list[float]:
        """All values with a mark, without interval bounds."""
        known = [*self.trials[self.columns[0]].dropna(), *self.scores[self.columns[0]].dropna()]
        return [float(value) for value in known]

    @property
    def is_logarithmic(self) -> bool:
        return min(self.values) > 0 and max(self.values) > LOG_SPAN * min(self.values)

    @property
    def unit(self) -> tuple[float, str]:
        """Factor and unit in which the largest value has few digits."""
        largest = max(self.values)
        factor, prefix = next((step for step in RATES if largest >= step[0]), RATES[-1])
        return factor, f"{prefix}FLOP/s"


@figure(
    "scores",
    stage="scores",
    category="Scores",
    title="FLOP/s and VFLOP/s",
    tables=("run_scores", "scores"),
    section="scores",
    before="scores",
)
def plot_scores(run_scores: pd.DataFrame, scores: pd.DataFrame) -> Figure:
    """Draw FLOPS and VFLOPS against the scale: every trial, the score, and its interval.

    Parameters
    ----------
    run_scores, scores
        The score tables of runs and of scales. The number above each score is its trial count (FLOPS) or its
        coefficient (VFLOPS).
    """
    with theme.house_style():
        if scores.empty or scores["rate_flop_per_s"].isna().all():
            return theme.empty_figure("FLOPS and VFLOPS", NO_SCORE)
        palette = theme.colours(sorted(scores["variant"].unique()))
        groups = [(str(name), own) for name, own in scores.groupby("benchmark", sort=True)]
        scales = max(own["scale"].nunique() for _, own in groups)
        slots = scales * max(1.0, len(palette) / 3)
        figure, grid = theme.new_figure(len(groups), 2, 3.3, round(slots))
        for line, (name, own) in zip(grid, groups, strict=True):
            trials = run_scores[run_scores["benchmark"] == name]
            for axes, columns in zip(line, (RATE, VALID), strict=True):
                axes.set_title(name, loc="left", pad=BAND_POINTS[0])
                _draw(axes, _Panel(trials, own, columns, palette))
        theme.add_legend(figure, _legend(palette, name_statistics(scores["statistic"])))
        _turn_numbers_that_touch(figure)
        return figure


def _draw(axes: Axes, panel: _Panel) -> None:
    name = "VFLOPS" if panel.is_vflops else "FLOPS"
    if panel.scores[panel.columns[0]].isna().all():
        axes.set_ylabel(name)
        _say_why(axes, panel.scores, f"no {name}")
        return
    axes.set_ylabel(f"{name} [{panel.unit[1]}]")
    order = theme.scale_order(panel.scores)
    measured = [variant for variant in panel.palette if (panel.scores["variant"] == variant).any()]
    for number, variant in enumerate(measured):
        shift = SPREAD * ((number + 0.5) / len(measured) - 0.5)
        own = panel.scores[panel.scores["variant"] == variant]
        for score in own.to_dict("records"):
            _draw_score(axes, panel, score, order.index(score["scale"]) + shift)
    _scale_axes(axes, panel, order)


def _draw_score(axes: Axes, panel: _Panel, score: dict[Any, Any], place: float) -> None:
    """Draw one score and its trials, and write the score's number above the panel."""
    colour, (factor, _) = panel.palette[str(score["variant"])], panel.unit
    value, low, high = (float(str(score[name])) / factor for name in panel.columns)
    if not np.isfinite(value):
        _write(axes, place, 0.02, "no score", rotation=90)
        return
    own = (panel.trials["variant"] == score["variant"]) & (panel.trials["scale"] == score["scale"])
    trials = panel.trials[own].dropna(subset=[panel.columns[0]])
    beside = place - 0.25 * SPREAD / len(panel.palette)
    for dropped, marker in ((False, "o"), (True, "x")):
        marks = trials.loc[(trials["dropped"] != "") == dropped, panel.columns[0]] / factor
        axes.plot([beside] * len(marks), marks, marker, color=colour, markersize=3.5, alpha=0.7, gid="trials")
    error = np.nan_to_num([[value - low], [high - value]])
    axes.errorbar([place], [value], yerr=error, fmt="D", color=colour, markersize=4.5, capsize=2.5, linewidth=1.1)
    if panel.is_vflops:
        flops = float(str(score["rate_flop_per_s"])) / factor
        axes.plot([place], [flops], "_", color=theme.TARGET_COLOUR, markersize=14, gid="flops")
        _write(axes, place, 1.02, f"×{_three_digits(score['quality_coefficient_ratio'])}", gid=NUMBER)
    else:
        _write(axes, place, 1.02, f"n = {score['n']:.0f}", gid=NUMBER)


def _write(axes: Axes, place: float, height: float, words: str, **more: Any) -> None:  # noqa: ANN401 - of matplotlib
    axes.text(place, height, words, transform=axes.get_xaxis_transform(), ha="center", va="bottom", fontsize=7, **more)


def _turn_numbers_that_touch(figure: Figure) -> None:
    """Turn all numbers above the panels upright if two of a panel have no gap between them.

    Only the laid out figure tells: long names in the legend make the panels narrower.
    """
    figure.draw_without_rendering()
    numbers = {axes: [text for text in axes.texts if text.get_gid() == NUMBER] for axes in figure.axes}
    if not any(_touch(texts) for texts in numbers.values()):
        return
    for axes, texts in numbers.items():
        axes.set_title(axes.get_title(loc="left"), loc="left", pad=BAND_POINTS[90])
        for text in texts:
            text.set_rotation(90)


def _touch(texts: list[Text]) -> bool:
    boxes = sorted((text.get_window_extent() for text in texts), key=lambda box: box.x0)
    gap = boxes[0].height / 2 if boxes else 0.0
    return any(left.x1 + gap > right.x0 for left, right in itertools.pairwise(boxes))


def _three_digits(value: object) -> str:
    """Format with three digits and without an exponent, even for large coefficients."""
    number = float(str(value))
    return f"{number:.0f}" if number >= 99.95 else f"{number:#.3g}"


def _scale_axes(axes: Axes, panel: _Panel, order: list[str]) -> None:
    ranks = dict(zip(panel.scores["scale"], panel.scores["ranks"], strict=True))
    labels = [f"{scale}\n{theme.count_word(int(ranks[scale]), 'rank')}" for scale in order]
    axes.set_xticks(range(len(order)), labels)
    axes.set_xlim(-0.5, len(order) - 0.5)
    axes.grid(visible=False, axis="x")
    if not panel.is_logarithmic:
        theme.from_zero(axes)
        return
    factor = panel.unit[0]
    highest = max([*panel.values, *panel.scores[panel.columns[2]].dropna()]) / factor
    lowest = min([*panel.values, *_flops_beside(panel)]) / factor
    axes.set_yscale("log", nonpositive="clip")
    axes.set_ylim(lowest / 1.6, highest * 1.6)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.minorticks_off()


def _flops_beside(panel: _Panel) -> list[float]:
    return [float(value) for value in panel.scores[RATE[0]].dropna() if value > 0] if panel.is_vflops else []


def _say_why(axes: Axes, scores: pd.DataFrame, start: str) -> None:
    """Write into a panel why it has no numbers, with the table's reasons."""
    reasons = [part for cell in scores["reason"] for part in str(cell).split("; ") if part.startswith(start)]
    words = textwrap.fill(next(iter(reasons), NO_SCORE), 44)
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center")
    axes.set_xticks([])
    axes.set_yticks([])


def _legend(palette: dict[str, theme.Colour], statistic: str) -> dict[str, Line2D]:
    variants = {variant: theme.key_line(colour, "D", "") for variant, colour in palette.items()}
    dark = theme.TARGET_COLOUR
    return {
        **variants,
        f"score: {statistic},\n{INTERVAL}": theme.key_line(dark, "D"),
        "trial, kept": theme.key_line(dark, "o", ""),
        "trial, dropped": theme.key_line(dark, "x", ""),
        "FLOPS next to VFLOPS": theme.key_line(dark, "_", ""),
        "n: completed trials": theme.key_line(dark, "", ""),
        "×: VFLOPS / FLOPS": theme.key_line(dark, "", ""),
    }
