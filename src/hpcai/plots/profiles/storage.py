"""Sample read rates during training, and the share of an epoch that reading takes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hpcai.catalogue.figures import figure
from hpcai.core.text import say_rate, say_share, say_time
from hpcai.plots import theme
from hpcai.plots.profiles import panels as profiles

BANDWIDTHS = {
    "bandwidth_sum_bytes_per_s": ("sum of the workers'\nown rates", "#0173b2", "^"),
    "bandwidth_parallel_bytes_per_s": ("in parallel: bytes over\nthe slowest worker's time", "#de8f05", "s"),
    "bandwidth_delivered_bytes_per_s": ("delivered: bytes over\nfirst to last read", "#029e73", "o"),
}
TIMES = {
    "io_epoch_s": ("reading one epoch\n(estimated)", "#d55e00", "D"),
    "epoch_s": ("epoch of training\n(measured)", "#222222", "|"),
}
CACHES = {"cold": "page cache cold", "warm": "page cache warm", "unknown": "page cache unknown"}
CEILING_LINES: tuple[theme.LineStyle, ...] = ("--", ":", "-")
CEILING_COLOUR = "#555555"
STAGING = "staging"
"""The role of data that is read once, before the first epoch."""
NO_READS = "no profiled run was seen to read the dataset"


@figure(
    "io",
    stage="views",
    category="I/O",
    title="Reading while training",
    tables=("io", "ceilings", "captures"),
    section="io",
    before="io",
)
def plot_io(io: pd.DataFrame, ceilings: pd.DataFrame, captures: pd.DataFrame) -> Figure:
    """Draw the read bandwidth of every profiled run by three definitions, and its I/O time against its epoch time.

    Parameters
    ----------
    io
        The three ``bandwidth_*_bytes_per_s``, ``io_epoch_s``, ``epoch_s``, ``workers`` and ``page_cache``.
    ceilings
        Storage ceilings: the fastest row of kind ``storage_read`` for each ``place``.
    captures
        Reasons for missing captures.
    """
    with theme.house_style():
        values = [*BANDWIDTHS, *TIMES]
        known = io.dropna(subset=list(BANDWIDTHS), how="all") if len(io) else io
        if known.empty:
            return theme.empty_figure("Input and output", _say_why_not(io, captures))
        runs = _split_rows(known)
        roofs = _read_roofs(ceilings)
        figure, ((left, right),) = theme.new_figure(1, 2, height=1.1 + (profiles.row_height(runs) + 0.18) * len(runs))
        figure.set_size_inches(profiles.WIDE + profiles.label_width(runs), max(figure.get_figheight(), 3.6))
        labels = [_label(run) for run in runs]
        for axes, columns in ((left, BANDWIDTHS), (right, TIMES)):
            _draw_marks(axes, runs, columns)
            profiles.label_rows(axes, runs, named=False)
        left.set_yticks(range(len(runs)), labels)
        for number, (_, value) in enumerate(roofs):
            style = CEILING_LINES[number % len(CEILING_LINES)]
            left.axvline(value, color=CEILING_COLOUR, linestyle=style, linewidth=1.2, gid="ceiling")
        _scale(left, [*_finite(known, list(BANDWIDTHS)), *(value for _, value in roofs)], "rate")
        _scale(right, _finite(known, list(TIMES)), "time")
        left.set_title("read bandwidth of all workers", loc="left")
        right.set_title("time to read an epoch / epoch time", loc="left")
        theme.add_legend(figure, _legend(known[[*values, "page_cache"]], roofs))
        return figure


def _say_why_not(io: pd.DataFrame, captures: pd.DataFrame) -> str:
    """Return why nothing was read: a log without reads is more informative than a missing log."""
    return profiles.say_reasons(io, profiles.say_why_not(captures, "io", NO_READS))


def _split_rows(io: pd.DataFrame) -> list[profiles.ProfiledRun]:
    """Split the view into rows of the figure: one per data folder of a run."""
    rows = []
    for run in profiles.split_runs(io):
        for number, role in enumerate(run.part.get("data", pd.Series("", index=run.part.index))):
            scale = f"{run.scale}, {role}" if isinstance(role, str) and role else run.scale
            rows.append(replace(run, scale=scale, part=run.part.iloc[[number]]))
    return rows


def _label(run: profiles.ProfiledRun) -> str:
    row = run.part.iloc[0]
    workers = "" if pd.isna(row["workers"]) else f"{theme.count_word(int(row['workers']), 'worker')}, "
    return f"{run.label}\n{workers}{CACHES.get(str(row['page_cache']), CACHES['unknown'])}"


def _read_roofs(ceilings: pd.DataFrame) -> list[tuple[str, float]]:
    """Return place and rate of each storage's fastest measured read, fastest first."""
    if ceilings.empty:
        return []
    reads = ceilings[ceilings["kind"] == "storage_read"].dropna(subset=["value"])
    fastest = reads.sort_values("value", ascending=False).drop_duplicates("place").head(len(CEILING_LINES))
    return [(_join(row), float(row["value"])) for row in fastest.to_dict("records")]


def _join(row: dict[Any, Any]) -> str:
    return ", ".join(str(row[name]) for name in ("place", "setting") if row[name] and pd.notna(row[name]))


def _draw_marks(axes: Axes, runs: list[profiles.ProfiledRun], columns: dict[str, tuple[str, str, str]]) -> None:
    for place, run in enumerate(runs):
        row = run.part.iloc[0]
        filled = str(row["page_cache"]) == "cold"
        found = [float(row[column]) for column in columns if np.isfinite(row[column]) and row[column] > 0]
        if found:
            axes.plot([min(found), max(found)], [place, place], color="#bbbbbb", linewidth=1.0)
        else:
            axes.text(0.02, place, "not measured", transform=axes.get_yaxis_transform(), va="center", color="#666666")
        for column, (_, colour, marker) in columns.items():
            value = float(row[column])
            if np.isfinite(value) and value > 0:
                face = colour if filled or marker == "|" else "white"
                size = 13 if marker == "|" else 6
                axes.plot(
                    [value], [place], marker, color=colour, markerfacecolor=face, markersize=size, markeredgewidth=1.6,
                    gid="io",
                )  # fmt: skip
        if np.isfinite(row["io_epoch_s"]) and np.isfinite(row["epoch_s"]) and "io_epoch_s" in columns:
            ratio = float(row["io_epoch_s"]) / float(row["epoch_s"])
            words = f"{say_share(ratio)} of the epoch" if ratio < 1 else f"{ratio:.3g} epochs"
            words += ", once" if row.get("data") == STAGING else ""
            middle = float(np.sqrt(row["io_epoch_s"] * row["epoch_s"])) if min(found) > 0 else max(found)
            axes.annotate(words, (middle, place), (0, 9), textcoords="offset points", ha="center", fontsize=8)


def _finite(frame: pd.DataFrame, columns: list[str]) -> list[float]:
    values = frame[columns].to_numpy(dtype=float).ravel()
    return [float(value) for value in values if np.isfinite(value) and value > 0]


def _scale(axes: Axes, values: list[float], kind: str) -> None:
    """Use a logarithmic axis: definitions and benchmarks differ by factors."""
    if not values:
        theme.say_empty(axes, "no value is known")
        return
    say = say_rate if kind == "rate" else say_time
    profiles.log_axis(axes, "x", min(values), max(values), say)
    axes.set_xlabel("read bandwidth" if kind == "rate" else "time")


def _legend(io: pd.DataFrame, roofs: list[tuple[str, float]]) -> dict[str, Artist]:
    entries: dict[str, Artist] = {
        words: theme.key_line(colour, marker, "") for words, colour, marker in [*BANDWIDTHS.values(), *TIMES.values()]
    }
    entries["filled: page cache cold"] = theme.key_line("#444444", "o", "")
    if (io["page_cache"] != "cold").any():
        entries["hollow: warm or unknown"] = Line2D(
            [], [], color="#444444", marker="o", markerfacecolor="white", linestyle=""
        )
    for number, (setting, value) in enumerate(roofs):
        words = f"storage reaches {say_rate(value)}"
        style = CEILING_LINES[number % len(CEILING_LINES)]
        entries[f"{words}\n({_short(setting)})"] = theme.key_line(CEILING_COLOUR, style=style)
    return entries


def _short(setting: str) -> str:
    """Break a long setting into lines to keep the legend narrow."""
    words, lines = profiles.cut_text(setting).split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) > 24:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines[:3])
