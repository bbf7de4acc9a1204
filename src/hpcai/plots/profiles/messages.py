"""Bandwidth against message size: the runs' messages, and the machine's own allreduce."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hpcai.catalogue.figures import figure
from hpcai.catalogue.points import engine_words
from hpcai.core.text import say_rate, say_time
from hpcai.metrics.profiles.link import CALL, TRANSFER, say_misfit
from hpcai.plots import theme
from hpcai.plots.profiles import communication
from hpcai.plots.profiles import panels as profiles

DISTINCT = 100
"""Number of distinguishable marks per decade: closer batches are drawn once."""
KEY = ["what", "engine", "scope", "ranks"]
"""Columns that identify an allreduce measurement."""
LEGEND = 1.8
"""Width of a legend with the fits next to two panels [inch]."""
NO_LINKS = "the allreduce was not measured: it needs two ranks"


@figure(
    "messages",
    stage="views",
    category="Communication",
    title="Bandwidth against message size",
    tables=("messages", "links", "link_fits", "captures"),
    section="communication",
    before="link_fits",
)
def plot_messages(
    messages: pd.DataFrame, links: pd.DataFrame, link_fits: pd.DataFrame, captures: pd.DataFrame
) -> Figure:
    """Draw the bandwidth of every batch of the runs against its size, together with the machine's allreduce.

    Parameters
    ----------
    messages
        One row per fused batch: ``bytes`` and ``algorithm_bandwidth_bytes_per_s``.
    links, link_fits
        The measured allreduce by size, and the fitted latency-bandwidth line; the rows of transfers are drawn.
    captures
        Reasons for missing captures.
    """
    with theme.house_style():
        known = _positive(messages, "bytes", "algorithm_bandwidth_bytes_per_s")
        if known.empty:
            return theme.empty_figure("Messages", profiles.say_why_not(captures, "timeline", communication.NO_MESSAGES))
        # Batch times exclude the waiting that is part of a whole call.
        curves = _positive(_transfers(links), "bytes", "algorithm_bandwidth_bytes_per_s")
        link_fits = _transfers(link_fits)
        parts = theme.panels(known)
        figure, grid = theme.panel_grid(len(parts), height=3.3)
        if len(parts) > 1:
            figure.set_figwidth(LEGEND + figure.get_figwidth())
        palette, styles = theme.colours(theme.scale_order(known)), _link_styles(curves, link_fits)
        markers = dict(zip(palette, theme.MARKERS * len(palette), strict=False))
        together = pd.concat([known, curves], ignore_index=True) if len(curves) else known
        for axes, (name, part) in zip(grid, parts, strict=True):
            theme.set_title(axes, name)
            for scale, own in _thin(part).groupby("scale"):
                rates = own["algorithm_bandwidth_bytes_per_s"]
                colour, marker = palette[str(scale)], markers[str(scale)]
                axes.plot(own["bytes"], rates, marker, color=colour, markersize=3.5, alpha=0.6, gid="batches")
            _draw_links(axes, curves, link_fits, styles)
            profiles.byte_axis(axes, together["bytes"].min(), together["bytes"].max())
            rates = together["algorithm_bandwidth_bytes_per_s"]
            profiles.rate_axis(axes, "y", rates.min(), rates.max())
            axes.set_ylabel("algorithm bandwidth")
        words = theme.scale_words(known)
        entries: dict[str, Artist] = {
            f"batches,\n{words[scale]}": theme.key_line(palette[scale], markers[scale], "") for scale in palette
        }
        theme.add_legend(figure, {**entries, **_link_legend(curves, link_fits, styles)})
        return figure


@figure(
    "links",
    stage="views",
    category="Communication",
    title="Allreduce of the machine",
    tables=("links", "link_fits"),
    section="communication",
    before="link_fits",
)
def plot_links(links: pd.DataFrame, link_fits: pd.DataFrame) -> Figure:
    """Draw time and bus bandwidth of the measured allreduce against message size.

    Whole calls and the transfers within them each have a line.

    Parameters
    ----------
    links
        ``what``, ``bytes``, ``time_s`` (median), ``time_min_s``, ``time_max_s``, ``bus_bandwidth_bytes_per_s``.
    link_fits
        The fitted line: time = ``latency_s`` + bytes / ``bandwidth_bytes_per_s``; if missing, a ``reason``.
    """
    with theme.house_style():
        known = _positive(links, "bytes", "time_s")
        if known.empty:
            return theme.empty_figure("Allreduce", _say_why_not(link_fits))
        figure, ((left, right),) = theme.new_figure(1, 2, height=3.4)
        styles = _link_styles(known, link_fits)
        for key, own in _each_link(known):
            colour, marker = styles[key]
            low, high = (own["time_s"] - own["time_min_s"], own["time_max_s"] - own["time_s"])
            bars = np.nan_to_num(np.array([low.clip(lower=0), high.clip(lower=0)], dtype=float))
            left.errorbar(own["bytes"], own["time_s"], yerr=bars, color=colour, marker=marker, markersize=4, capsize=2)
            right.plot(own["bytes"], own["bus_bandwidth_bytes_per_s"], color=colour, marker=marker, markersize=4)
        _draw_fitted_times(left, known, link_fits, styles)
        for axes, title in ((left, "time"), (right, "bus bandwidth")):
            profiles.byte_axis(axes, known["bytes"].min(), known["bytes"].max())
            axes.set_title(f"allreduce: {title}", loc="left")
            axes.set_ylabel(title)
        low_s, high_s = known[["time_min_s", "time_s"]].min().min(), known[["time_max_s", "time_s"]].max().max()
        profiles.time_axis(left, "y", low_s, high_s)
        rates = _positive(known, "bus_bandwidth_bytes_per_s")["bus_bandwidth_bytes_per_s"]
        if rates.empty:
            theme.say_empty(right, "one rank moves nothing")
        else:
            profiles.rate_axis(right, "y", rates.min(), rates.max())
        theme.add_legend(figure, _link_legend(known, link_fits, styles))
        return figure


def _transfers(table: pd.DataFrame) -> pd.DataFrame:
    own: pd.DataFrame = table if table.empty else table[table["what"] == TRANSFER]
    return own


def _say_why_not(fits: pd.DataFrame) -> str:
    return profiles.say_reasons(fits.rename(columns={"reason": "reasons"}), NO_LINKS)


def _positive(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Return the rows that can be drawn on a logarithmic axis."""
    if frame.empty:
        return frame
    values = frame[list(columns)].astype(float)
    keep = (np.isfinite(values) & (values > 0)).all(axis=1)
    kept: pd.DataFrame = frame.loc[keep].sort_values("bytes")
    return kept


def _thin(messages: pd.DataFrame) -> pd.DataFrame:
    """Drop marks that would coincide: a run has thousands of batches of few sizes."""
    places = np.round(DISTINCT * np.log10(messages[["bytes", "algorithm_bandwidth_bytes_per_s"]]))
    distinct: pd.DataFrame = messages.loc[~places.assign(scale=messages["scale"]).duplicated()]
    return distinct


LinkKey = tuple[str, str, str, int]
"""Columns: what was timed, engine, scope and ranks."""
LinkStyles = dict[LinkKey, tuple[theme.Colour, str]]
LINK_WORDS = {TRANSFER: "allreduce, transfer", CALL: "allreduce, whole call"}


def _each_link(links: pd.DataFrame) -> list[tuple[LinkKey, pd.DataFrame]]:
    """Split the measured allreduce by what was timed, engine, scope and ranks."""
    if links.empty:
        return []
    return [((str(key[0]), str(key[1]), str(key[2]), int(str(key[3]))), own) for key, own in links.groupby(KEY)]


def _link_styles(links: pd.DataFrame, fits: pd.DataFrame) -> LinkStyles:
    """Return the look of each measured allreduce: greys and markers that differ from those of the runs."""
    frames = [frame[KEY] for frame in (links, fits) if len(frame)]
    if not frames:
        return {}
    keys = pd.concat(frames).drop_duplicates().sort_values(KEY).itertuples(index=False, name=None)
    looks = [("#222222", "1"), ("#8c4a00", "2"), ("#777777", "3"), ("#00507a", "4")]
    return {key: looks[number % len(looks)] for number, key in enumerate(keys)}


def _draw_links(axes: Axes, links: pd.DataFrame, fits: pd.DataFrame, styles: LinkStyles) -> None:
    for key, own in _each_link(links):
        colour, marker = styles[key]
        axes.plot(
            own["bytes"], own["algorithm_bandwidth_bytes_per_s"], color=colour, marker=marker, linewidth=1.0, gid="link"
        )
        sizes = np.geomspace(own["bytes"].min(), own["bytes"].max(), 60)
        for fit in _fits_of(fits, key):
            rates = sizes / (fit["latency_s"] + sizes / fit["bandwidth_bytes_per_s"])
            axes.plot(sizes, rates, color=colour, linestyle="--", linewidth=1.0, gid="fit")


def _draw_fitted_times(axes: Axes, links: pd.DataFrame, fits: pd.DataFrame, styles: LinkStyles) -> None:
    for key, own in _each_link(links):
        sizes = np.geomspace(own["bytes"].min(), own["bytes"].max(), 60)
        for fit in _fits_of(fits, key):
            times = fit["latency_s"] + sizes / fit["bandwidth_bytes_per_s"]
            axes.plot(sizes, times, color=styles[key][0], linestyle="--", linewidth=1.0, gid="fit")


def _fits_of(fits: pd.DataFrame, key: LinkKey) -> list[dict[Any, Any]]:
    if fits.empty:
        return []
    own = fits[(fits[KEY] == list(key)).all(axis=1)]
    return own.dropna(subset=["latency_s", "bandwidth_bytes_per_s"]).to_dict("records")


def _link_legend(links: pd.DataFrame, fits: pd.DataFrame, styles: LinkStyles) -> dict[str, Artist]:
    entries: dict[str, Artist] = {}
    for key, _ in _each_link(links):
        what, engine, scope, ranks = key
        place = ", ".join([scope, *engine_words({"engine": engine})])
        words = f"{LINK_WORDS.get(what, what)},\n{theme.count_word(ranks, 'rank')}, {place}"
        for fit in _fits_of(fits, key):
            words += f"; fitted:\n{say_time(fit['latency_s'])} + size /\n({say_rate(fit['bandwidth_bytes_per_s'])})"
            if fit["misfit_ratio"] > 0:
                words += f",\n{say_misfit(fit['misfit_ratio'])}"
        entries[words] = theme.key_line(*styles[key])
    if any(_fits_of(fits, key) for key, _ in _each_link(links)):
        entries["dashed: fitted line"] = theme.key_line("#444444", style="--")
    return entries
