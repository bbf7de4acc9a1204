"""Text of the rooflines: labels of lines and points, and tooltips."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from hpcai.core.text import say_bytes, say_rate, say_share
from hpcai.metrics.cells import text_of
from hpcai.metrics.roofline.columns import DRAWN, MEMORY, NETWORK

LABEL_PIXELS = 14
"""Minimum distance between two names [pixel]."""
MOST_REASONS = 3
NOTHING = "no measured or declared result can be placed here"


def describe_lines(cut: pd.DataFrame, scope: str) -> pd.DataFrame:
    """Return lines with ``scope``, ``dense`` (a computation rate), ``dash`` and their text."""
    several = len(set(cut["machine"])) > 1
    ones = [say_rate(value, unit) for value, unit in zip(cut["value"], cut["unit"], strict=True)]
    names = [
        f"{name}, {machine}" if several else name for name, machine in zip(cut["name"], cut["machine"], strict=True)
    ]
    word = "node" if scope == NETWORK else "rank"
    return cut.assign(
        scope=scope,
        dense=cut["unit"] == "FLOP/s",
        one=[f"{one} for one {word}" for one in ones],
        text=[f"{one} {name}" for name, one in zip(names, ones, strict=True)],
        of=[f"{ranks:.0f} ranks" for ranks in cut["ranks"]],
        ridge=[_intensity(value) for value in cut["ridge_flop_per_byte"]],
    )


def describe_points(placed: pd.DataFrame) -> pd.DataFrame:
    """Return points with the axes' ``intensity``, ``rate`` and ``roof``, and all their numbers as text."""
    return pd.DataFrame([_describe_point(row) for row in placed.to_dict("records")])


def _describe_point(row: dict[Any, Any]) -> dict[str, object]:
    word = "node" if row["scope"] == NETWORK else "rank"
    link = f"{say_rate(row['link_bytes_per_s'])} for one {word}: {row['link_name']} ({row['link_method']})"
    message = "" if pd.isna(row["message_bytes"]) else f"{say_bytes(row['message_bytes'])} ({row['message_method']})"
    traffic = f"{say_bytes(row['traffic_bytes'])} per step and {word}"
    if row["scope"] == MEMORY:
        message = f"{traffic} ({row['message_method']})"
    else:
        message += f", sends {traffic}"
    kept = ("benchmark", "variant", "method", "precision", "bound")
    return {
        **{name: str(row[name]) for name in kept},
        "origin": str(row["origin"]),
        "machine": str(row["machine"]),
        "scale": f"{row['scale']}, {int(row['ranks'])} ranks",
        "ranks": int(row["ranks"]),
        "result": f"{row['benchmark']}, {row['variant']}",
        "intensity": float(row["intensity_flop_per_byte"]),
        "rate": float(row["one_rate_flop_per_s"]),
        "roof": float(row["one_roof_flop_per_s"]),
        "intensity_text": _intensity(row["intensity_flop_per_byte"]),
        "work": f"{say_rate(row['flop_per_step'], 'FLOP')} per step",
        "traffic": message,
        "rate_text": say_rate(row["rate_flop_per_s"], "FLOP/s"),
        "one": f"{say_rate(row['one_rate_flop_per_s'], 'FLOP/s')} for one {word}",
        "roof_text": say_rate(row["roof_flop_per_s"], "FLOP/s"),
        "share": f"{say_share(row['roof_ratio'])} of the roof",
        "computation": f"{say_rate(row['compute_roof_flop_per_s'], 'FLOP/s')}: {row['compute_roof_name']}",
        "link": link,
        "ridge": _intensity(row["ridge_flop_per_byte"]),
        "note": text_of(row["note"]),
        "source": text_of(row["source"]),
    }


def describe_moves(moves: pd.DataFrame) -> pd.DataFrame:
    """Return arrows with both ends on the axes and their text."""
    rows = []
    for row in moves.to_dict("records"):
        kept = ("benchmark", "variant", "kind", "change", "note", "source")
        ends = [(row[f"intensity_{to}flop_per_byte"], row[f"one_rate_{to}flop_per_s"]) for to in ("", "to_")]
        words = [f"{_intensity(intensity)}, {say_rate(rate, 'FLOP/s')}" for intensity, rate in ends]
        rows.append(
            {name: text_of(row[name]) for name in kept}
            | {"intensity": ends[0][0], "rate": ends[0][1], "intensity_to": ends[1][0], "rate_to": ends[1][1]}
            | {
                "result": f"{row['benchmark']}, {row['variant']}, {row['scale']}",
                "main": bool(row["main"]),
                "from": words[0],
                "to": words[1],
                "gain": f"{row['gain_ratio']:.3g} times",
            }
        )
    return pd.DataFrame(rows)


def say_nothing(points: pd.DataFrame) -> list[str]:
    """Return why nothing is drawn: the table's reasons, most frequent first."""
    reasons = points.loc[points["status"] != DRAWN, "reason"].dropna().value_counts(sort=True)
    return [str(reason) for reason in reasons.index[:MOST_REASONS]] or [NOTHING]


def spread_labels(ends: pd.DataFrame, rates: tuple[float, float], height: float) -> pd.DataFrame:
    """Return two rows per name, the end of its line (``side`` 0) and its position (1), in pixels from below."""
    log_low, log_high = (math.log10(end) for end in rates)
    ordered = ends.assign(at=[height * (math.log10(rate) - log_low) / (log_high - log_low) for rate in ends["rate"]])
    ordered = ordered.sort_values("at", kind="stable")
    moved = ordered.assign(place=_spread(list(ordered["at"]), height), side=0.09)
    return pd.concat([ordered.assign(place=ordered["at"], side=0.0), moved])


def _spread(places: Sequence[float], height: float) -> list[float]:
    """Spread ascending positions to LABEL_PIXELS apart, as little as needed, within the height."""
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + LABEL_PIXELS) if moved else place)
    limit = height
    for number in range(len(moved) - 1, -1, -1):
        moved[number] = min(moved[number], limit)
        limit = moved[number] - LABEL_PIXELS
    return moved


def _intensity(value: float) -> str:
    if pd.isna(value):
        return ""
    return f"{float(f'{value:.3g}'):,g} FLOP/byte" if value < 1e6 else f"{value / 1e6:,.3g} million FLOP/byte"
