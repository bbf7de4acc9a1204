"""The HPL step model compared with real runs: those of this machine, and Table 2 of Hu and Lu 2021."""

from collections.abc import Hashable
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hpcai.catalogue.figures import figure
from hpcai.plots import theme

MODELS = ("all parts", "three rates", "GEMM only", "credited / GEMM rate")
MODEL_MARKERS = dict(zip(MODELS, "osD^", strict=True))
SHAPE = ["order", "block", "process_rows", "process_columns"]
BAND = "#e8eef6"
ROW = 0.32
"""Height of one run [inch]."""
PUBLISHED_BAND = 0.05
"""Maximum relative error that the paper claims for its model."""
NO_RUN = "HPL was not run on this machine, or none of its runs could be read: the table hpl_validation says why"
NO_PREDICTION = "no run has both a measured and a predicted time: the table hpl_validation says why"
NO_TABLE = "Table 2 of the source was not evaluated: the table hpl_published is empty"


@figure(
    "hpl_validation",
    stage="predict",
    category="Predictions",
    title="HPL on this machine, predicted and measured",
    tables=("hpl_validation", "hpl_published"),
    section="hpl-validation",
    before="hpl_validation",
)
def plot_hpl_validation(hpl_validation: pd.DataFrame, hpl_published: pd.DataFrame) -> Figure:
    """Draw the errors of predicted times for own runs, and of predicted rates for the source's Table 2.

    Parameters
    ----------
    hpl_validation
        ``order``, ``block``, ``process_rows``, ``process_columns``, ``measured_time_s``, ``n``, ``spread_ratio``,
        ``accepted``, ``model``, ``error_ratio`` and ``goal_ratio``; of several starts of a test the accepted one is
        drawn, else the last.
    hpl_published
        ``row``, ``assumption_set``, ``variant``, ``fitted``, ``error_to_estimate_ratio`` and ``error_to_real_ratio``.
    """
    with theme.house_style():
        runs = choose_runs(hpl_validation)
        height = 1.3 + ROW * max(runs[SHAPE].drop_duplicates().shape[0], 3)
        figure = Figure(figsize=(theme.WIDTH + 3.4, height + 3.6), layout="constrained")
        upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=[height, 3.6]).flat
        top = upper.subplots(1, 1)
        top.set_title("own runs: predicted / measured time", loc="left")
        entries = _draw_runs(top, runs, hpl_validation)
        if entries:
            upper.legend(list(entries.values()), list(entries), loc="outside right upper", alignment="left")
        pair = lower.subplots(1, 2, sharey=True)
        key = _draw_published(list(pair), hpl_published)
        if key:
            lower.legend(list(key.values()), list(key), loc="outside right upper", alignment="left", fontsize=7.5)
        return figure


def choose_runs(validation: pd.DataFrame) -> pd.DataFrame:
    """Return one row with an error per test: its accepted start, else its last."""
    known = validation.dropna(subset=["error_ratio"])
    ordered = known.assign(rank=known["accepted"].astype(int)).sort_values("rank", kind="stable")
    return ordered.drop_duplicates([*SHAPE, "model"], keep="last").sort_values(SHAPE[::-1], kind="stable")


def _draw_runs(axes: Axes, runs: pd.DataFrame, validation: pd.DataFrame) -> dict[str, Artist]:
    if runs.empty:
        theme.say_why_empty(axes, NO_RUN if validation["measured_time_s"].isna().all() else NO_PREDICTION)
        return {}
    palette = theme.colours(list(MODELS))
    goal = 100 * float(runs["goal_ratio"].iloc[0])
    axes.axvspan(-goal, goal, color=BAND, zorder=0)
    axes.axvline(0, color=theme.TARGET_COLOUR, linewidth=1)
    labels = []
    for place, (_, part) in enumerate(runs.groupby(SHAPE[::-1], sort=True)):
        labels.append(_label_run(part.iloc[0].to_dict()))
        for row in part.to_dict("records"):
            colour = palette[row["model"]]
            face = colour if row["accepted"] else "white"
            axes.plot(
                [100 * row["error_ratio"]],
                [place],
                MODEL_MARKERS[row["model"]],
                color=colour,
                markerfacecolor=face,
                gid="run",
            )
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_xlabel("error of the modelled time [%]; below 0: predicted too fast")
    entries: dict[str, Artist] = {name: theme.key_line(palette[name], MODEL_MARKERS[name], "") for name in MODELS}
    entries[f"goal, within {goal:g} %"] = Patch(facecolor=BAND)
    if not runs["accepted"].all():
        hollow = theme.key_line(theme.IDEAL_COLOUR, "o", "")
        hollow.set_markerfacecolor("white")
        entries["run not accepted"] = hollow
    return entries


def _label_run(row: dict[Hashable, Any]) -> str:
    grid = f"{row['process_rows']} × {row['process_columns']}"
    words = f",\nmedian of {row['n']}, spread {100 * row['spread_ratio']:.1f} %" if row["n"] > 1 else ""
    words += "" if row["accepted"] else ", not accepted"
    return f"N {row['order']}, NB {row['block']}, {grid}: {row['measured_time_s']:.3g} s measured{words}"


def _draw_published(pair: list[Axes], published: pd.DataFrame) -> dict[str, Artist]:
    """Draw each assumption set's errors relative to the source's estimate and to its measured rate."""
    columns = {
        "error_to_estimate_ratio": "Table 2: modelled / published estimate",
        "error_to_real_ratio": "Table 2: modelled / published run",
    }
    names = sorted(published["assumption_set"].dropna().astype(str).unique())
    if not names:
        for axes, title in zip(pair, columns.values(), strict=True):
            axes.set_title(title, loc="left")
            theme.say_why_empty(axes, NO_TABLE)
        return {}
    palette = theme.colours(names)
    entries: dict[str, Artist] = {}
    for axes, (column, title) in zip(pair, columns.items(), strict=True):
        axes.set_title(title, loc="left")
        axes.axhspan(-100 * PUBLISHED_BAND, 100 * PUBLISHED_BAND, color=BAND, zorder=0)
        axes.axhline(0, color=theme.TARGET_COLOUR, linewidth=1)
        for number, name in enumerate(names):
            part = published[published["assumption_set"].astype(str) == name].dropna(subset=[column]).sort_values("row")
            if part.empty:
                continue
            fitted = bool(part["fitted"].iloc[0])
            key = theme.key_line(palette[name], theme.MARKERS[number % len(theme.MARKERS)], ":" if fitted else "-")
            key.set_markerfacecolor("white" if fitted else palette[name])
            axes.plot(part["row"], 100 * part[column], **_look(key))
            entries[f"{name}: {part['variant'].iloc[0]}{', fitted' if fitted else ''}"] = key
        axes.set_xticks(sorted(published["row"].astype(int).unique()))
        axes.set_xlabel("row of Table 2")
    pair[0].set_ylabel("error of the modelled rate [%]")
    entries["within 5 %"] = Patch(facecolor=BAND)
    return dict(sorted(entries.items()))


def _look(key: Artist) -> dict[str, Any]:
    names = ("color", "marker", "linestyle", "markerfacecolor", "markersize")
    return {name: key.properties()[name] for name in names}
