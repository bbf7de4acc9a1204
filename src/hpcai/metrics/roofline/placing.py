"""Place points under the rooflines: traffic, intensity, roof, ridge, and the reason for points without a place."""

import math

import pandas as pd

from hpcai.core.messages import Message
from hpcai.core.text import say_rate
from hpcai.metrics.cells import Row, number_of, records_of, text_of
from hpcai.metrics.roofline.columns import DRAWN, INTRA_NODE, MEMORY, NETWORK, NOT_PLACED, POINT_COLUMNS, REFUSED
from hpcai.metrics.roofline.model import attainable_rate, communication_intensity, ridge_point, ring_traffic
from hpcai.metrics.roofline.samples_above import TOLERANCE_RATIO

NEEDED = {
    "rate_flop_per_s": "no rate: no run completed training, or its work is not known",
    "flop_per_step": "the work of a step is not known",
}
FAR_BELOW_RATIO = 0.1
"""Below this share of its roof, a point does not show which roof would limit it."""
NO_COMPUTE_ROOF = Message(
    "placing.no_compute_roof",
    "not placed: no peak of {precision} is declared, and neither GEMM nor convolution was measured",
)
NO_LINK_ROOF = Message(
    "placing.no_link_roof",
    "not placed: the bandwidth of its {link} is neither measured nor declared",
)
OVERHEAD = "overhead: far below both roofs"
ALONE = "one participant exchanges nothing"
NO_COUNTERS = "not measured: no hardware counters, and no memory traffic was modelled from the compiled step"


def place_points(inputs: pd.DataFrame) -> pd.DataFrame:
    """Return points with their traffic, intensity, roofs, ridge and status.

    Parameters
    ----------
    inputs
        From ``POINT_COLUMNS`` at least ``scope``, ``participants``, ``rate_flop_per_s`` and ``flop_per_step`` (of all
        participants), ``message_bytes`` (in the scope memory: ``intensity_flop_per_byte``),
        ``compute_roof_flop_per_s`` and ``link_bytes_per_s``. A row with a ``reason`` is not placed.

    Returns
    -------
    pandas.DataFrame
        ``POINT_COLUMNS``. A point above its roof by more than ``TOLERANCE_RATIO`` is refused with an explanation.
    """
    rows = [_place(row) for row in records_of(inputs.reindex(columns=list(POINT_COLUMNS)))]
    return pd.DataFrame(rows, columns=list(POINT_COLUMNS))


def _place(row: Row) -> Row:
    reason = text_of(row["reason"]) or _why_not(row)
    row = {**row, "note": text_of(row["note"]), **_traffic(row)}
    reason = reason or _missing_roof(row)
    if reason:
        return {**row, "status": NOT_PLACED, "reason": reason, "bound": ""}
    participants, link = float(row["participants"]), float(row["link_bytes_per_s"])
    compute, intensity = float(row["compute_roof_flop_per_s"]), float(row["intensity_flop_per_byte"])
    slope = participants * link * intensity
    roof = attainable_rate(compute, intensity, link, participants)
    placed = {
        **row,
        "communication_roof_flop_per_s": slope,
        "roof_flop_per_s": roof,
        "ridge_flop_per_byte": ridge_point(compute, participants * link),
        "roof_ratio": float(row["rate_flop_per_s"]) / roof,
    }
    lower = "computation" if slope >= compute else ("memory" if row["scope"] == MEMORY else "communication")
    placed["bound"] = lower if placed["roof_ratio"] >= FAR_BELOW_RATIO else OVERHEAD
    above = placed["roof_ratio"] > 1 + TOLERANCE_RATIO
    return {**placed, "status": REFUSED if above else DRAWN, "reason": _say_above(placed) if above else ""}


def _why_not(row: Row) -> str:
    if row["scope"] != MEMORY and not number_of(row, "participants") > 1:
        return f"not placed: {ALONE}"
    for name, words in NEEDED.items():
        if not number_of(row, name) > 0:
            return f"not placed: {words}"
    return ""


def _traffic(row: Row) -> Row:
    """Return traffic and intensity of one participant, as far as known."""
    work, participants = number_of(row, "flop_per_step"), number_of(row, "participants")
    if row["scope"] == MEMORY:
        intensity = number_of(row, "intensity_flop_per_byte")
        known = intensity > 0 and work > 0
        return {"traffic_bytes": work / participants / intensity if known else math.nan}
    message = number_of(row, "message_bytes")
    if not (message > 0 and participants > 1):
        return {"traffic_bytes": math.nan, "intensity_flop_per_byte": math.nan}
    parts = number_of(row, "part_bytes")
    traffic = ring_traffic(message, participants) + (0.0 if math.isnan(parts) else parts)
    intensity = communication_intensity(work / participants, traffic) if work > 0 else math.nan
    return {"traffic_bytes": traffic, "intensity_flop_per_byte": intensity}


def _missing_roof(row: Row) -> str:
    if not number_of(row, "intensity_flop_per_byte") > 0:
        return NO_COUNTERS if row["scope"] == MEMORY else "not placed: the bytes of a step are not known"
    if not number_of(row, "compute_roof_flop_per_s") > 0:
        what = text_of(row["precision"]) or "this precision"
        why = text_of(row["compute_roof_name"])
        none = NO_COMPUTE_ROOF(precision=what)
        return f"{none}; {why}" if why else none
    if not number_of(row, "link_bytes_per_s") > 0:
        return NO_LINK_ROOF(link=_link_word(row))
    return ""


def _link_word(row: Row) -> str:
    return {INTRA_NODE: "link within the node", NETWORK: "network", MEMORY: "memory"}.get(str(row["scope"]), "link")


def _say_above(row: Row) -> str:
    rate, roof = (say_rate(float(row[name]), "FLOP/s") for name in ("rate_flop_per_s", "roof_flop_per_s"))
    under = row["compute_roof_name"] if row["bound"] == "computation" else row["link_name"]
    wrong = f"that roof ({text_of(under) or 'unnamed'}, {text_of(row['link_method']) or 'no method'}) is too low"
    if row["bound"] == "computation":
        wrong = f"that roof ({text_of(under) or 'unnamed'}) belongs to another device or was measured too low"
    if row["scope"] == MEMORY and row["message_method"] == "modelled":
        wrong += ", or caches served traffic that the model counts as memory's"
    return (
        f"refused: {rate} is {row['roof_ratio']:.3g} times its roof, {roof}: {wrong}, or the counted work is too high"
    )
