"""Moves of a point in the communication roofline by gradient compression and mixed precision."""

import math
from collections.abc import Iterator
from itertools import combinations

import pandas as pd

from hpcai.catalogue.points import POINT
from hpcai.catalogue.tables import common_columns
from hpcai.core.messages import Message
from hpcai.metrics.cells import Row, join_words, number_of, records_of, text_of
from hpcai.metrics.roofline.ceilings import WORDS
from hpcai.metrics.roofline.columns import DRAWN, MEMORY, MOVE_COLUMNS, ROOF
from hpcai.metrics.roofline.model import attainable_rate
from hpcai.metrics.scaling.scales import POINT_SETTINGS

HALVED = 2.0
"""Half-precision gradients have half as many bytes: the intensity doubles (HPC AI500 V2.0, section 7)."""
MIXED = ("bf16", "fp16")
SAME_SHARE = "modelled at a constant share of the roof; the real gain may be larger or smaller"
KEPT = common_columns("roofline_points", "roofline_moves", "note", "source")
SAME = ("method", "origin", "machine", "workload", *(name for name in POINT if name != "variant"), "scope")
CHANGES = {"compression": "none", "precision": "fp32"}
"""Settings shown as arrows, each with the simpler side, where the arrow starts."""
ALONE = Message("moves.alone", "two results that differ only in {setting}")
NOT_STATED = Message(
    "moves.not_stated",
    "two results that differ in {setting}; other settings are not stated and may differ, too",
)
Key = tuple[str, ...]
Pair = tuple[Row, Row, str]
"""Simpler result, the other one, and the setting in which they differ."""


def roofline_moves(points: pd.DataFrame, ceilings: pd.DataFrame, scales: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the arrows between points of the communication rooflines.

    Parameters
    ----------
    points
        ``POINT_COLUMNS``; only drawn ones move.
    ceilings
        ``CEILING_COLUMNS``: roofs of the other precisions.
    scales
        Table of scales with all settings of a variant, so that an arrow shows one change only. Without it (published
        results) the note states that other settings are unknown.

    Returns
    -------
    pandas.DataFrame
        ``MOVE_COLUMNS``. Modelled arrows keep a point's share of its roof. Compression halves the traffic and doubles
        the intensity; mixed precision has the computation roof of its precision (of the same method: declared or
        measured), which may be lower, at the same traffic. The real gain may be larger or smaller. The other arrows, of
        the kind of their results (measured or declared), lead from a result to the only one that differs from it in
        compression or in precision and in no other known setting. Unknown settings count as equal.
    """
    drawn = points[(points["status"] == DRAWN) & (points["scope"] != MEMORY)]
    rows = [move for point in records_of(drawn) for move in (*_compress(point), *_mix(point, ceilings))]
    others = {} if scales is None else _other_settings(scales)
    for _, group in drawn.groupby(list(SAME), dropna=False, sort=False):
        rows += [_found(pair, others) for pair in _only(list(_pairs(records_of(group), others)))]
    return pd.DataFrame(rows, columns=list(MOVE_COLUMNS))


def _compress(point: Row) -> Iterator[Row]:
    if point["compression"] != "none":
        return
    traffic, parts = number_of(point, "traffic_bytes"), number_of(point, "part_bytes")
    kept = parts / traffic if parts > 0 and traffic > 0 else 0.0  # what shared samples need is not compressed
    intensity = float(point["intensity_flop_per_byte"]) / ((1 - kept) / HALVED + kept)
    links = float(point["participants"])
    roof = attainable_rate(float(point["compute_roof_flop_per_s"]), intensity, float(point["link_bytes_per_s"]), links)
    move = _modelled(point, "compression fp16", intensity, roof)
    assert 1 - 1e-9 <= move["gain_ratio"] <= HALVED + 1e-9, move  # a roof rises at most as fast as the intensity
    yield move


def _mix(point: Row, ceilings: pd.DataFrame) -> Iterator[Row]:
    if point["precision"] != "fp32":
        return
    roofs = ceilings[(ceilings["status"] == ROOF) & ceilings["kind"].isin(list(WORDS))]
    for name in ("machine", "scope", "nodes", "ranks"):
        roofs = roofs[roofs[name] == point[name]]
    known = {row["precision"]: row for row in records_of(roofs)}
    for precision in MIXED:
        here, there = known.get("fp32"), known.get(precision)
        if here is None or there is None or here["method"] != there["method"]:
            continue
        roof = min(float(there["value"]), float(point["communication_roof_flop_per_s"]))
        move = _modelled(point, f"mixed precision {precision}", float(point["intensity_flop_per_byte"]), roof)
        yield {**move, "source": join_words(point["source"], there["source"])}


def _modelled(point: Row, change: str, intensity: float, roof: float) -> Row:
    gain = roof / float(point["roof_flop_per_s"])
    return {
        **{name: point[name] for name in KEPT},
        "kind": "modelled",
        "change": change,
        "variant_to": "",
        "intensity_to_flop_per_byte": intensity,
        "rate_to_flop_per_s": gain * float(point["rate_flop_per_s"]),
        "gain_ratio": gain,
        "note": SAME_SHARE,
        "source": point["source"],
    }


def _pairs(points: list[Row], others: dict[Key, tuple[str, ...]]) -> Iterator[Pair]:
    """Yield points that differ only in compression or precision, the simpler one first, with that setting."""
    for first, second in combinations(points, 2):
        changed = [name for name in CHANGES if text_of(first[name]) != text_of(second[name])]
        work = [number_of(point, "flop_per_step") for point in (first, second)]
        if len(changed) != 1 or not math.isclose(*work, rel_tol=1e-9):
            continue
        if others.get(_key(first)) != others.get(_key(second)):
            continue
        plain = CHANGES[changed[0]]
        for before, after in ((first, second), (second, first)):
            if text_of(before[changed[0]]) == plain and text_of(after[changed[0]]):
                yield before, after, changed[0]


def _only(pairs: list[Pair]) -> Iterator[Pair]:
    """Yield the pairs of results without another partner for the same setting, which would be ambiguous."""
    for before, after, setting in pairs:
        rivals = [
            pair
            for pair in pairs
            if pair[2] == setting
            and (pair[0] is before or pair[1] is after)
            and text_of(pair[1][setting]) == text_of(after[setting])
        ]
        if len(rivals) == 1:
            yield before, after, setting


def _found(pair: Pair, others: dict[Key, tuple[str, ...]]) -> Row:
    """Return the arrow between two results."""
    before, after, setting = pair
    words = "compression" if setting == "compression" else "mixed precision"
    note = (ALONE if _key(before) in others else NOT_STATED)(setting=setting)
    return {
        **{name: before[name] for name in KEPT},
        "kind": before["method"],
        "change": f"{words} {after[setting]}",
        "variant_to": after["variant"],
        "intensity_to_flop_per_byte": after["intensity_flop_per_byte"],
        "rate_to_flop_per_s": after["rate_flop_per_s"],
        "gain_ratio": float(after["rate_flop_per_s"]) / float(before["rate_flop_per_s"]),
        "note": f"{before['method']}: {note}",
        "source": join_words(before["source"], after["source"]),
    }


def _key(point: Row) -> Key:
    return tuple(text_of(point[name]) for name in POINT)


def _other_settings(scales: pd.DataFrame) -> dict[Key, tuple[str, ...]]:
    """Return all settings of a result except precision and compression, by benchmark, variant and scale."""
    names = [name for name in POINT_SETTINGS if name in scales and name not in ("precision", "compression")]
    return {_key(row): tuple(str(row[name]) for name in names) for row in records_of(scales)}
