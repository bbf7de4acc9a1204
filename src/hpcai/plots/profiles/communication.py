"""Phases of communication time, and their share of a step."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hpcai.catalogue.figures import figure
from hpcai.core.text import say_share, say_time
from hpcai.metrics.profiles.communication import ALLTOALL, HALO, LIBRARIES
from hpcai.plots import theme
from hpcai.plots.profiles import panels as profiles

PHASES = ("negotiation", "waiting", "queue", "fusion buffer copies", "transfer", "rest of the operation")
PHASE_HATCHES = {"negotiation": "///", "waiting": "xxx", "queue": "...", "fusion buffer copies": "|||"}
PHASE_WORDS = (
    ("negotiat", "negotiation"),
    ("wait", "waiting"),
    ("queue", "queue"),
    ("fusion", "fusion buffer copies"),
    ("transfer", "transfer"),
)
"""Maps a substring of the phase name to the group in which it is drawn."""
HALO_COLOUR = "#cc79a7"
"""Colour of a phase that occurs only if ranks share samples."""
TRANSFER_COLOUR, OTHER_COLOUR = "#56b4e9", "#e8e2d0"
"""Transfers have one colour on both sides, hatched by their overlap; the others of a step are several phases."""
NARROW = 0.06
"""A smaller share is too narrow for its number."""
STEP_LOOKS = {
    "transfer, while the\nprocessor waits": (TRANSFER_COLOUR, ""),
    "transfer, behind\ncomputation": (TRANSFER_COLOUR, "///"),
    "transfer, overlap\nnot measured": (TRANSFER_COLOUR, "..."),
    "negotiation, copies\nand the rest": (OTHER_COLOUR, ""),
}
"""Parts of a step's communication in stacking order: colour and hatch."""
NO_MESSAGES = "no profiled run exchanged data between ranks"


@figure(
    "phases",
    stage="views",
    category="Communication",
    title="Phases of the exchange",
    tables=("phases", "communication", "captures"),
    section="communication",
    before="phases",
)
def plot_phases(phases: pd.DataFrame, communication: pd.DataFrame, captures: pd.DataFrame) -> Figure:
    """Draw the share of each communication phase, and the share of communication in a step.

    Parameters
    ----------
    phases
        ``phase`` and ``share_ratio`` (relative to negotiation plus operations).
    communication
        ``communication_share_ratio``, ``overlap_ratio``, ``exchange_per_step_s`` and ``step_time_s``.
    captures
        Reasons for missing captures.
    """
    with theme.house_style():
        known = phases.dropna(subset=["share_ratio"]) if len(phases) else phases
        if known.empty:
            why = profiles.say_why_not(captures, "timeline", NO_MESSAGES)
            return theme.empty_figure("Phases of communication", why)
        runs = profiles.split_runs(known)
        figure, ((left, right),) = theme.new_figure(1, 2, height=1.0 + profiles.row_height(runs) * len(runs))
        figure.set_size_inches(profiles.WIDE + profiles.label_width(runs), max(figure.get_figheight(), 3.6))
        palette = {**theme.colours(list(PHASES)), "transfer": TRANSFER_COLOUR}
        if known["phase"].astype(str).map(group_phase).eq(HALO).any():
            palette[HALO] = HALO_COLOUR
        for place, run in enumerate(runs):
            _draw_phases(left, place, run.part, palette)
            own = communication[communication["run_id"].astype(str) == run.run_id] if len(communication) else None
            _draw_step_share(right, place, None if own is None or own.empty else own.iloc[0].to_dict())
        profiles.label_rows(left, runs)
        profiles.label_rows(right, runs, named=False)
        left.set_title("phases of communication", loc="left")
        right.set_title("communication in a step", loc="left")
        left.set_xlabel("share of communication [%]")
        right.set_xlabel("share of the step [%]")
        left.set_xlim(0, 100)
        right.set_xlim(0, max(100.0, right.get_xlim()[1]))
        theme.add_legend(figure, _phase_legend(palette))
        return figure


def group_phase(name: str) -> str | None:
    """Return the group in which a phase is drawn; None for a whole operation, which contains the others."""
    words = name.lower().replace("_", " ")
    for part, group in PHASE_WORDS:
        if part in words:
            return group
    if name.startswith(LIBRARIES):
        return HALO if name.endswith(ALLTOALL) else "transfer"
    return None


def _draw_phases(axes: Axes, place: int, phases: pd.DataFrame, palette: dict[str, theme.Colour]) -> None:
    groups = phases["phase"].astype(str).map(group_phase)
    shares = phases.groupby(groups)["share_ratio"].sum().to_dict()
    # Time to which Horovod assigns no phase: library start-up and its own book-keeping.
    shares[PHASES[-1]] = max(0.0, 1.0 - sum(shares.values()))
    left = 0.0
    for group in (*PHASES[:-1], *((HALO,) if HALO in shares else ()), PHASES[-1]):
        width = 100 * float(shares.get(group, 0.0))
        axes.barh(
            place,
            width,
            left=left,
            height=0.62,
            color=palette[group],
            hatch=PHASE_HATCHES.get(group),
            edgecolor="white",
        )
        if width >= 100 * NARROW:
            axes.text(left + width / 2, place, f"{width:.0f}", ha="center", va="center", fontsize=8, bbox=profiles.BOX)
        left += width


def _draw_step_share(axes: Axes, place: int, row: dict[Any, Any] | None) -> None:
    share = np.nan if row is None else float(row["communication_share_ratio"])
    if row is None or np.isnan(share):
        axes.text(1, place, "not measured", va="center", color="#666666", fontsize=8)
        return
    left = 0.0
    for part, (colour, hatch) in zip(_split_share(row), STEP_LOOKS.values(), strict=True):
        axes.barh(place, 100 * part, left=left, height=0.62, color=colour, hatch=hatch, edgecolor="white")
        left += 100 * part
    words = say_share(share)
    if np.isfinite(row["exchange_per_step_s"]) and np.isfinite(row["step_time_s"]):
        words += f"\n{say_time(float(row['exchange_per_step_s']))} of {say_time(float(row['step_time_s']))}"
    # The label goes next to the bar, or onto it if there is no room.
    inside = left > 60
    axes.text(
        left - 2 if inside else left + 2,
        place,
        words,
        ha="right" if inside else "left",
        va="center",
        fontsize=8,
        linespacing=1.1,
        bbox=profiles.BOX,
    )


def _split_share(row: dict[Any, Any]) -> tuple[float, float, float, float]:
    """Return the parts of communication's share of the step, in the order of `STEP_LOOKS`.

    Only transfers are compared with computation; the remainder is negotiation and copies.
    """
    share, overlap = float(row["communication_share_ratio"]), float(row["overlap_ratio"])
    exchange_s = float(row["exchange_per_step_s"]) * float(row["steps"])
    transfer = share * min(1.0, float(row["transfer_s"]) / exchange_s) if exchange_s > 0 else np.nan
    if np.isnan(transfer):
        return 0.0, 0.0, 0.0, share
    if np.isnan(overlap):
        return 0.0, 0.0, transfer, share - transfer
    return transfer * (1 - overlap), transfer * overlap, 0.0, share - transfer


def _phase_legend(palette: dict[str, theme.Colour]) -> dict[str, Artist]:
    entries: dict[str, Artist] = {
        word.replace(" copies", "\ncopies").replace(" of the", "\nof the"): Patch(
            facecolor=colour, hatch=PHASE_HATCHES.get(word), edgecolor="white"
        )
        for word, colour in palette.items()
    }
    steps = {
        words: Patch(facecolor=colour, hatch=hatch, edgecolor="white") for words, (colour, hatch) in STEP_LOOKS.items()
    }
    return {**entries, **steps}
