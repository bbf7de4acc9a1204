"""Elements of a roofline plot: roofs as lines, ridges, points and moves, per participant.

Results with different numbers of ranks have different roofs. Divided by the participants (a rank or, over a network, a
node) they share the same roofs, as far as these scale.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from hpcai.metrics.roofline.columns import CEILING, DRAWN, ROOF

MARGIN_RATIO = 2.0
"""Margin of the axes beyond the outermost points and roofs."""
SLOPE_RATIO = 5.0
"""Visible part of the links' slope before the first ridge."""
LINE_COLUMNS = (
    "machine", "kind", "name", "precision", "method", "status", "ranks", "value", "unit", "ridge_flop_per_byte",
    "source",
)  # fmt: skip
_RATE = "FLOP/s"
"""Unit of ceilings of computation; links and memories have bytes."""
_MOVED = ("rate_flop_per_s", "rate_to_flop_per_s")


@dataclass(frozen=True)
class Domain:
    """Ends of both axes: intensity [FLOP/byte] and rate of one participant [FLOP/s]."""

    intensities: tuple[float, float]
    rates: tuple[float, float]


def points_of_one(points: pd.DataFrame) -> pd.DataFrame:
    """Return the drawn points with ``one_rate_flop_per_s`` and ``one_roof_flop_per_s``, per participant."""
    drawn = points[points["status"] == DRAWN]
    return drawn.assign(
        one_rate_flop_per_s=(drawn["rate_flop_per_s"] / drawn["participants"]).astype(float),
        one_roof_flop_per_s=(drawn["roof_flop_per_s"] / drawn["participants"]).astype(float),
    )


def moves_of_one(moves: pd.DataFrame) -> pd.DataFrame:
    """Return moves with ``one_rate_flop_per_s`` and ``one_rate_to_flop_per_s``, and whether each is a ``main`` one.

    The main moves belong to the largest number of ranks of each benchmark and kind; of several mixed precisions, the
    one with the largest gain is the main one.
    """
    made = {f"one_{name}": (moves[name] / moves["participants"]).astype(float) for name in _MOVED}
    group = ["origin", "benchmark", "scope", "kind"]
    largest = moves["ranks"] == moves.groupby(group, dropna=False)["ranks"].transform("max")
    topic = moves["change"].astype(str).str.rsplit(n=1).str[0]
    keys = [*group, "variant", "engine", "ranks", topic]
    best = moves["gain_ratio"] == moves.groupby(keys, dropna=False)["gain_ratio"].transform("max")
    return moves.assign(**made, main=largest & best)


def roof_lines(ceilings: pd.DataFrame) -> pd.DataFrame:
    """Return the ceilings of one scope as lines, per participant.

    Parameters
    ----------
    ceilings
        ``CEILING_COLUMNS`` of one scope.

    Returns
    -------
    pandas.DataFrame
        ``LINE_COLUMNS``: per machine, name, precision and method, the highest ceiling of one participant over all
        numbers of ranks, with those ranks. ``ridge_flop_per_byte`` is where a computation ceiling meets the fastest
        link that is a roof; empty for links, and without a link.
    """
    used = ceilings[ceilings["status"].isin((ROOF, CEILING)) & (ceilings["value"] > 0)]
    dense = used["unit"] == _RATE
    used = used.assign(value=(used["value"] / used["participants"].where(dense, 1)).astype(float))
    keys = ["machine", "name", "precision", "method"]
    best = used.sort_values("value", kind="stable").drop_duplicates(keys, keep="last")
    slopes = used[~dense & (used["status"] == ROOF)].groupby("machine")["value"].max()
    ridges = best["value"] / best["machine"].map(slopes).astype(float)
    best = best.assign(ridge_flop_per_byte=ridges.where(best["unit"] == _RATE))
    return best.sort_values(["machine", "value"], ascending=[True, False], kind="stable")[list(LINE_COLUMNS)]


def frame_of(lines: pd.DataFrame, points: pd.DataFrame, moves: pd.DataFrame | None = None) -> Domain:
    """Return axes that include lines, points (:func:`points_of_one`) and moves (:func:`moves_of_one`) of a scope."""
    moved = points.iloc[:0] if moves is None else moves
    dense = lines[lines["unit"] == _RATE]
    ridges = lines["ridge_flop_per_byte"].dropna()
    intensities = [*points["intensity_flop_per_byte"], *ridges, *(ridges / SLOPE_RATIO)]
    rates = [*points["one_rate_flop_per_s"], *points["one_roof_flop_per_s"], *dense["value"]]
    if len(moved):
        intensities += [*moved["intensity_to_flop_per_byte"]]
        rates += [*moved["one_rate_to_flop_per_s"]]
    if not points.size and len(rates):
        rates.append(min(rates) / 100)  # space below the roofs to show their slope
    return Domain(_widen(intensities), _widen(rates))


def cut_lines(lines: pd.DataFrame, domain: Domain) -> pd.DataFrame:
    """Return both ends of every line within the axes: ``line`` (number), ``intensity``, ``rate``, and its columns.

    Links end where they meet the highest computation ceiling, computation ceilings begin at their ridge.
    """
    low, high = domain.intensities
    dense = lines["unit"] == _RATE
    top = lines[dense].groupby("machine")["value"].max().to_dict()
    rows = []
    for number, row in enumerate(lines.to_dict("records")):
        value = float(row["value"])
        if row["unit"] == _RATE:
            ridge = float(row["ridge_flop_per_byte"])
            ends = [(low if math.isnan(ridge) else max(low, ridge), value), (high, value)]
        else:
            last = min(high, float(top.get(row["machine"], domain.rates[1])) / value)
            first = max(low, domain.rates[0] / value)
            ends = [(first, first * value), (last, last * value)] if first < last else []
        rows += [{**row, "line": number, "intensity": x, "rate": y} for x, y in ends]
    return pd.DataFrame(rows, columns=[*lines.columns, "line", "intensity", "rate"])


def _widen(values: Iterable[float]) -> tuple[float, float]:
    known = [float(value) for value in values if value > 0 and math.isfinite(value)]
    if not known:
        return 1.0, 100.0
    return min(known) / MARGIN_RATIO, max(known) * MARGIN_RATIO
