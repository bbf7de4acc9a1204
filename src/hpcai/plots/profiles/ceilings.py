"""The highest measured rates of this machine: arithmetic, memory, storage and the allreduce."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hpcai.catalogue.figures import figure
from hpcai.core.text import say_rate, say_share
from hpcai.metrics.quietness import DISTURBED
from hpcai.metrics.roofline.columns import REFUSED
from hpcai.plots import theme
from hpcai.plots.profiles import panels as profiles

WORK = {"gemm": "GEMM", "convolution": "convolution"}
TRAFFIC = {
    "memory": "memory",
    "storage_read": "storage, read",
    "storage_write": "storage, write",
    "allreduce": "allreduce",
}
TRAFFIC_KEYS = ["kind", "backend", "place", "setting", "threads"]
MEDIAN_COLOUR = "#222222"
HATCHES = {"convolution": "///", "storage_write": "///", "allreduce": "..."}
BAR = 0.42
"""Height of a bar with a two-line label [inch]."""
LONGEST_SETTING = 44
LONGEST_NOTE = 52
"""Maximum length of a reason next to a label [characters]."""
NO_CEILINGS = "the ceilings of this machine were not measured"
NO_WORK = "no GEMM or convolution rate"
NO_TRAFFIC = "no memory, storage or link bandwidth"


@figure(
    "ceilings",
    stage="views",
    category="Kernels",
    title="Measured ceilings of the machine",
    tables=("ceilings",),
    section="roofline",
    before="ceilings",
)
def plot_ceilings(ceilings: pd.DataFrame) -> Figure:
    """Draw the best measured rate of each precision and back-end, and the best measured bandwidths.

    Parameters
    ----------
    ceilings
        ``kind``, ``precision``, ``backend``, ``place``, ``setting``, ``threads``, ``value`` and ``median`` (FLOP/s or
        bytes/s), ``n``, ``spread_ratio``, ``ways``, ``status`` (disturbed and refused rows are marked); a row without
        a value has a ``reason``.
    """
    with theme.house_style():
        known = ceilings.dropna(subset=["value"]) if len(ceilings) else ceilings
        if known.empty:
            why = profiles.say_reasons(ceilings.rename(columns={"reason": "reasons"}), NO_CEILINGS)
            return theme.empty_figure("Ceilings", why)
        work = _best(ceilings[ceilings["kind"].isin(WORK)], ["kind", "precision", "backend", "threads"])
        traffic = _best(_patterns(ceilings[ceilings["kind"].isin(TRAFFIC)]), TRAFFIC_KEYS)
        heights = [max(1.3, 0.8 + BAR * len(part)) for part in (work, traffic)]
        figure = Figure(figsize=(theme.WIDTH + 2.8, sum(heights)), layout="constrained")
        upper, lower = figure.subplots(2, 1, gridspec_kw={"height_ratios": heights})
        palette = theme.colours([*WORK, *TRAFFIC])
        upper.set_title("arithmetic: the fastest of all shapes", loc="left")
        lower.set_title("moving bytes", loc="left")
        _draw_bars(upper, work, palette, ("FLOP/s", NO_WORK))
        _draw_bars(lower, traffic, palette, ("B/s", NO_TRAFFIC))
        entries: dict[str, Artist] = {
            words: Patch(facecolor=palette[kind], hatch=HATCHES.get(kind), edgecolor="white")
            for kind, words in {**WORK, **TRAFFIC}.items()
            if kind in set(known["kind"])
        }
        entries["median"] = theme.key_line(MEDIAN_COLOUR, "|", "")
        if (known["status"] == REFUSED).any():
            entries["refused: no ceiling"] = Patch(facecolor="white", edgecolor=MEDIAN_COLOUR)
        theme.add_legend(figure, entries)
        return figure


def _patterns(traffic: pd.DataFrame) -> pd.DataFrame:
    """Keep the memory back-end, which distinguishes copy from add; of several read methods only the fastest counts."""
    return traffic.assign(backend=traffic["backend"].where(traffic["kind"] == "memory", ""))


def _best(ceilings: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the fastest row per kind of bar; kinds in order, the fastest bar of a kind first.

    Rows without a value come last.
    """
    order = {kind: number for number, kind in enumerate([*WORK, *TRAFFIC])}
    fastest = ceilings.sort_values("value", ascending=False, kind="stable").drop_duplicates(keys)
    return fastest.assign(order=fastest["kind"].map(order)).sort_values(["order", "value"], ascending=[True, False])


def _draw_bars(axes: Axes, rows: pd.DataFrame, palette: dict[str, theme.Colour], words: tuple[str, str]) -> None:
    unit, why = words
    if rows.empty:
        theme.say_empty(axes, why)
        return
    for place, row in enumerate(rows.to_dict("records")):
        kind, value = str(row["kind"]), float(row["value"])
        if not np.isfinite(value):
            why = "" if pd.isna(row.get("reason")) else f": {profiles.cut_text(str(row['reason']), LONGEST_NOTE)}"
            axes.annotate(f"not measured{why}", (0, place), (4, 0), textcoords="offset points", va="center", fontsize=8)
            continue
        look: dict[str, Any] = {"facecolor": palette[kind], "hatch": HATCHES.get(kind), "edgecolor": "white"}
        if row.get("status") == REFUSED:
            # It is no ceiling and must not look like the bars that are.
            look = {"facecolor": "white", "edgecolor": palette[kind]}
        axes.barh(place, value, height=0.62, **look)
        if pd.notna(row["median"]):
            axes.plot([float(row["median"])], [place], "|", color=MEDIAN_COLOUR, markersize=13, markeredgewidth=1.6)
        note = _note(row, say_rate(value, unit))
        axes.annotate(note, (value, place), (4, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [_label(row) for row in rows.to_dict("records")])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    if rows["value"].isna().all():
        axes.set_xlim(0, 1)
        axes.set_xticks([])
        return
    # Leave room on the right for the note of the longest bar.
    axes.set_xlim(0, float(rows["value"].max()) * 2.2)
    axes.xaxis.set_major_formatter(lambda value, _: say_rate(value, unit) if value else "0")
    axes.locator_params(axis="x", nbins=4)
    axes.grid(visible=False, axis="y")


def _note(row: dict[Any, Any], rate: str) -> str:
    """Return the note next to a bar: rate and sample statistics."""
    note = rate
    if pd.notna(row["n"]):
        note += f", n = {int(row['n'])}"
    if pd.notna(row["spread_ratio"]):
        note += f", spread {say_share(float(row['spread_ratio']))}"
    if row.get("status") in (DISTURBED, REFUSED):
        note += f", {row['status']}"
    return note if pd.isna(row["ways"]) or row["ways"] < 2 else f"{note}, best of {int(row['ways'])} ways"


def _label(row: dict[Any, Any]) -> str:
    kind = str(row["kind"])
    threads = "" if pd.isna(row["threads"]) else theme.count_word(int(row["threads"]), "thread")
    if kind in WORK:
        head, detail = f"{WORK[kind]}, {row['precision']}", _join(row["backend"], threads)
    else:
        setting = profiles.cut_text(_join(row["backend"], row["setting"]), LONGEST_SETTING)
        head, detail = _join(TRAFFIC[kind], row["place"]), _join(setting, threads)
    return f"{head}\n{detail}" if detail else head


def _join(*words: str | float | None) -> str:
    return ", ".join(str(word) for word in words if word and pd.notna(word))
