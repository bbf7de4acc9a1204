"""The ranking: one panel per list, own results in colour, declared ones grey, invalid ones hatched."""

import textwrap
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator

from hpcai.catalogue.figures import figure
from hpcai.core.text import say_rate, say_time
from hpcai.metrics.scores.best_results import DECLARED, NOT_VALID, VALID
from hpcai.metrics.scores.ranking import NOT_RANKED
from hpcai.metrics.scores.validity import split_reasons
from hpcai.plots import theme
from hpcai.plots.profiles import panels as profiles

OWN_COLOUR, DECLARED_COLOUR = "#0173b2", "#949494"
LOOKS: dict[str, dict[str, Any]] = {
    VALID: {"facecolor": OWN_COLOUR, "edgecolor": OWN_COLOUR},
    DECLARED: {"facecolor": DECLARED_COLOUR, "edgecolor": DECLARED_COLOUR},
    NOT_VALID: {"facecolor": "white", "edgecolor": OWN_COLOUR, "hatch": "////"},
}
WORDS = {
    VALID: "own result,\nvalid by the records",
    DECLARED: "declared by others,\nnot verified here",
    NOT_VALID: "own, not a valid result:\nwithout a place",
}
ROW, FRAME = 0.24, 1.0
"""Heights of one result, and of title and axis of a list [inch]."""
LINE, LEGEND_GAP = 0.15, 0.09
"""Heights of a legend line and of the gap between two entries [inch]."""
MOST = 30
"""Maximum number of drawn results per list; the table has all of them."""
LOGARITHMIC = 30.0
"""Ratio of largest to smallest score above which small bars would vanish."""
TITLE, LEGEND_CHARACTERS, LONGEST_NAME, LONGEST_ORIGIN = 56, 34, 54, 24
REASONS, TICKS = 4, 4
NOTHING = "No result has a score that a list ranks."


@figure(
    "ranking",
    stage="scores",
    category="Scores",
    title="Ranked results",
    tables=("ranking",),
    section="ranking",
    before="ranking",
)
def plot_ranking(ranking: pd.DataFrame) -> Figure:
    """Draw every list of the ranking, the first at the top.

    Parameters
    ----------
    ranking
        The table of :func:`hpcai.metrics.scores.ranking.rank_results`. Results in no list are not drawn.
    """
    with theme.house_style():
        listed = ranking[ranking["group"] != NOT_RANKED]
        if listed.empty:
            return theme.sentence_figure("Ranking", NOTHING)
        lists = [(str(name), part) for name, part in listed.groupby("list", sort=False)]
        rows = [min(len(part), MOST) for _, part in lists]
        entries = _legend(listed)
        legend_height = sum(LEGEND_GAP + LINE * (1 + words.count("\n")) for words in entries)
        figure = Figure(
            figsize=(theme.WIDTH + 3.2, max(len(lists) * FRAME + ROW * sum(rows), legend_height)), layout="constrained"
        )
        grid = figure.subplots(len(lists), 1, squeeze=False, gridspec_kw={"height_ratios": rows})
        for axes, (name, part) in zip(grid[:, 0], lists, strict=True):
            _draw_list(axes, name, part)
        theme.add_legend(figure, entries)
        return figure


def _draw_list(axes: Axes, name: str, part: pd.DataFrame) -> None:
    rows = part.head(MOST)
    left_out = f" (the first {MOST} of {len(part)})" if len(part) > MOST else ""
    axes.set_title("\n".join(textwrap.wrap(name + left_out, TITLE)), loc="left")
    scores = rows["score"].to_numpy(dtype=float)
    known = scores[scores > 0]
    logarithmic = len(known) > 0 and float(known.max() / known.min()) > LOGARITHMIC
    unit = str(rows["score_unit"].iloc[0])
    for height, row in enumerate(rows.to_dict("records")):
        _draw_row(axes, height, row, logarithmic=logarithmic)
    axes.set_yticks(range(len(rows)), _names(rows), fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"{rows['measure'].iloc[0]} [{unit}]{', logarithmic' if logarithmic else ''}")
    # With few trials, intervals are many times the score and are clipped.
    if logarithmic:
        axes.set_xscale("log")
        axes.set_xlim(known.min() / 2, known.max() * 2)
        axes.xaxis.set_major_locator(LogLocator(numticks=TICKS))
        axes.minorticks_off()
    else:
        axes.set_xlim(0, scores.max() * 1.1 or 1.0)
        axes.locator_params(axis="x", nbins=TICKS)
    axes.xaxis.set_major_formatter(lambda value, _: _say(value, unit) if value else "0")


def _draw_row(axes: Axes, height: int, row: dict[Any, Any], *, logarithmic: bool) -> None:
    score, look = float(row["score"]), LOOKS[str(row["valid"])]
    said = _say(score, str(row["score_unit"]))
    beside = axes.get_yaxis_transform()
    axes.annotate(said, (1.0, height), (4, 0), beside, textcoords="offset points", va="center", fontsize=8)
    if score == 0:
        # A logarithmic axis has no place for this bar; only its number is shown.
        return
    if logarithmic:
        axes.scatter([score], [height], s=34, linewidths=1.0, zorder=3, **look)
    else:
        axes.barh(height, score, height=0.62, linewidth=1.0, **look)
    low, high = float(row["score_low"]), float(row["score_high"])
    if np.isfinite(low) and np.isfinite(high):
        smallest = score * 1e-3 if logarithmic else 0.0
        ends = [max(low, smallest), high]
        axes.plot(ends, [height, height], "-", color=theme.TARGET_COLOUR, linewidth=1.0, zorder=4)


def _names(rows: pd.DataFrame) -> list[str]:
    """Return each row's label: place, machine and result; also the study where these are equal."""
    names = [_name(row) for row in rows.to_dict("records")]
    studies = [
        f" ({profiles.cut_text(str(origin), LONGEST_ORIGIN)})" if names.count(name) > 1 else ""
        for name, origin in zip(names, rows["origin"], strict=True)
    ]
    places = ["" if pd.isna(place) else f"{int(place)}. " for place in rows["place"]]
    stars = [" *" if note else "" for note in rows["note"]]
    return [
        f"{place}{profiles.cut_text(name, LONGEST_NAME - len(study))}{study}{star}"
        for place, name, study, star in zip(places, names, studies, stars, strict=True)
    ]


def _name(row: dict[Any, Any]) -> str:
    machine, result = str(row["machine"]), str(row["result"])
    return result if machine in result else f"{machine}: {result}"


def _say(value: float, unit: str) -> str:
    return say_time(value) if unit == "s" else say_rate(value, unit)


def _legend(listed: pd.DataFrame) -> dict[str, Artist]:
    """Return the legend: marks, the reasons of invalid results, and the star."""
    entries: dict[str, Artist] = {
        WORDS[valid]: Patch(**look) for valid, look in LOOKS.items() if valid in set(listed["valid"])
    }
    if listed["score_low"].notna().any():
        entries["interval of the score,\nas far as it fits"] = theme.key_line(theme.TARGET_COLOUR)
    if (listed["note"] != "").any():
        entries["* recomputed with the work per\nsample and exponent n of the list"] = Patch(visible=False)
    reasons = split_reasons(listed.loc[listed["valid"] == NOT_VALID, "reason"])
    for reason in reasons[:REASONS]:
        text = profiles.cut_text(reason, 4 * LEGEND_CHARACTERS)
        entries["\n".join(textwrap.wrap(text, LEGEND_CHARACTERS))] = Patch(visible=False)
    if len(reasons) > REASONS:
        entries[f"and {len(reasons) - REASONS} more:\ntable ranking, column reason"] = Patch(visible=False)
    return entries
