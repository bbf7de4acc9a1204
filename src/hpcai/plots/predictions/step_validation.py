"""Blocks and allreduces, predicted beside measured, as the source of the training model validates it."""

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hpcai.catalogue.figures import figure
from hpcai.catalogue.points import engine_words
from hpcai.core.text import say_ratio
from hpcai.plots import theme
from hpcai.plots.profiles import panels as profiles

TITLE = "Blocks and allreduces, predicted and measured"
NOTHING = "no block was estimated, and no allreduce was measured over enough sizes"
NO_BLOCK = "no block was both estimated and timed"
NO_ALLREDUCE = "no allreduce was predicted from its other sizes"
MARKERS = "os^vDP*X"
WIDTH, HEIGHT = 10.6, 5.0


@figure(
    "step_validation",
    stage="predict",
    category="Predictions",
    title="Blocks and allreduces, predicted and measured",
    tables=("block_times", "block_kinds", "allreduce_errors"),
    section="step-blocks",
    before="block_kinds",
)
def plot_step_validation(
    block_times: pd.DataFrame, block_kinds: pd.DataFrame, allreduce_errors: pd.DataFrame
) -> Figure:
    """Draw the estimated over the measured time of each block, and predicted and measured allreduces over their size.

    Parameters
    ----------
    block_times
        ``kind``, ``estimated_s`` by a regressor that never saw the network, and ``time_s``.
    block_kinds
        ``left_out``, ``kind`` and the errors of the kind, for the legend.
    allreduce_errors
        ``bytes``, ``predicted_s`` and ``measured_s`` by ``engine``, ``scope`` and ``ranks``.
    """
    with theme.house_style():
        blocks = _known(block_times, "estimated_s", "time_s")
        calls = _known(allreduce_errors, "predicted_s", "measured_s")
        if blocks.empty and calls.empty:
            return theme.sentence_figure(TITLE, NOTHING)
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        left, right = figure.subplots(1, 2)
        entries = {**_draw_blocks(left, blocks, block_kinds), **_draw_calls(right, calls)}
        figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=2)
        return figure


def _known(table: pd.DataFrame, *columns: str) -> pd.DataFrame:
    if table.empty:
        return table
    values = table[list(columns)].astype(float)
    known: pd.DataFrame = table[(np.isfinite(values) & (values > 0)).all(axis=1)]
    return known


def _draw_blocks(axes: Axes, blocks: pd.DataFrame, kinds: pd.DataFrame) -> dict[str, Artist]:
    axes.set_title("blocks of networks that the regressor never saw", loc="left")
    if blocks.empty:
        theme.say_empty(axes, NO_BLOCK)
        return {}
    names = sorted(set(blocks["kind"]))
    palette = theme.colours(names)
    entries: dict[str, Artist] = {}
    for name, marker in zip(names, MARKERS, strict=False):
        own = blocks[blocks["kind"] == name]
        axes.plot(own["time_s"], own["estimated_s"], marker, color=palette[name], markersize=4, alpha=0.6, gid=name)
        entries[f"{name}: {_errors(kinds, name)}"] = theme.key_line(palette[name], marker, "")
    both = blocks[["estimated_s", "time_s"]].to_numpy(float)
    ends = [float(both.min()), float(both.max())]
    axes.plot(ends, ends, color=theme.IDEAL_COLOUR, linewidth=0.9)
    for side in "xy":
        profiles.time_axis(axes, side, *ends)
    axes.set(xlabel="measured", ylabel="estimated")
    return entries


def _errors(kinds: pd.DataFrame, kind: str) -> str:
    own = kinds[(kinds["kind"] == kind) & (kinds["left_out"] == "networks")] if len(kinds) else kinds
    if own.empty:
        return "not judged"
    row: dict[Any, Any] = own.iloc[0].to_dict()
    return f"error {_say(row['median_ape_ratio'])}, weighted {_say(row['weighted_error_ratio'])}"


def _say(value: float) -> str:
    return "not known" if math.isnan(value) else say_ratio(value)


def _draw_calls(axes: Axes, calls: pd.DataFrame) -> dict[str, Artist]:
    axes.set_title("allreduce: each size from the others", loc="left")
    if calls.empty:
        theme.say_empty(axes, NO_ALLREDUCE)
        return {}
    groups = list(calls.sort_values("bytes").groupby(["engine", "scope", "ranks"]))
    palette = theme.colours([str(key) for key, _ in groups])
    entries: dict[str, Artist] = {}
    for (key, own), marker in zip(groups, MARKERS, strict=False):
        engine, scope, ranks = map(str, key if isinstance(key, tuple) else (key,))
        colour = palette[str(key)]
        axes.plot(own["bytes"], own["measured_s"], marker, color=colour, markersize=4, gid="measured")
        axes.plot(own["bytes"], own["predicted_s"], "--", color=colour, linewidth=1.0, gid="predicted")
        words = ", ".join([theme.count_word(int(ranks), "rank"), scope, *engine_words({"engine": engine})])
        weighted = float(own["weighted_error_ratio"].abs().mean())
        error = float(own["relative_error_ratio"].abs().mean())
        entries[f"allreduce, {words} (dashed: ring): error {_say(error)}, weighted {_say(weighted)}"] = theme.key_line(
            colour, marker, "--"
        )
    profiles.byte_axis(axes, calls["bytes"].min(), calls["bytes"].max())
    times = calls[["predicted_s", "measured_s"]].to_numpy(float)
    profiles.time_axis(axes, "y", float(times.min()), float(times.max()))
    axes.set(xlabel="message", ylabel="whole call")
    return entries
