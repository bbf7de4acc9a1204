"""Every scale and its limits: throughput, scores, efficiency, communication and the bandwidth of its link."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from hpcai.catalogue.points import POINT, SERIES
from hpcai.catalogue.tables import columns_of
from hpcai.config.machine import Machine
from hpcai.metrics.cells import text_of
from hpcai.metrics.profiles.link import TRANSFER, of_engine, rate_at
from hpcai.metrics.roofline.columns import NETWORK
from hpcai.metrics.roofline.model import count_participants, ring_traffic
from hpcai.metrics.scaling.efficiency import Regime, base_of, tell_regime
from hpcai.metrics.scaling.laws import parallel_efficiency

FROM_SCALES = {
    "global_batch_samples": "global_batch_samples",
    "n": "n",
    "rate_n": "rate_n",
    "statistic": "statistic",
    "train_rate_samples_per_s": "train_rate_samples_per_s",
    "train_rate_low_samples_per_s": "train_rate_low_samples_per_s",
    "train_rate_high_samples_per_s": "train_rate_high_samples_per_s",
    "efficiency_ratio": "train_rate_efficiency_ratio",
    "efficiency_low_ratio": "train_rate_efficiency_low_ratio",
    "efficiency_high_ratio": "train_rate_efficiency_high_ratio",
    "step_time_median_s": "step_time_median_s",
    "staging_ratio": "staging_ratio",
    "staging_epoch_ratio": "staging_epoch_ratio",
}
"""Maps columns of this table to columns of the table of scales."""
FROM_SCORES = (
    "rate_flop_per_s", "rate_low_flop_per_s", "rate_high_flop_per_s", "vflops_flop_per_s",
    "vflops_low_flop_per_s", "vflops_high_flop_per_s", "exponent",
)  # fmt: skip
DETAIL_COLUMNS = columns_of("scaling_details")
ONE_RANK = "one rank: nothing is exchanged"
NOT_PROFILED = "no timeline was recorded at this scale"

Row = Mapping[Any, Any]


def detail_scales(
    scales: pd.DataFrame,
    scores: pd.DataFrame,
    communication: pd.DataFrame,
    links: pd.DataFrame,
    link_fits: pd.DataFrame,
    machine: Machine,
) -> pd.DataFrame:
    """Return one row per scale with everything that explains its parallel efficiency.

    Parameters
    ----------
    scales, scores
        Tables of these names (:func:`hpcai.metrics.scaling.scales.summarise_scales`, ``SCORE_COLUMNS``); without scores
        the FLOP rates are empty.
    communication, links, link_fits
        Views of these names; empty if nothing was profiled.
    machine
        Machine of the runs, for its declared links.

    Returns
    -------
    pandas.DataFrame
        :data:`DETAIL_COLUMNS`. Rates, efficiency (of the throughput, against ``baseline``), step time and staging come
        from the timed runs; ``vflops_efficiency_ratio`` compares VFLOPS with those of the base.
        ``communication_share_ratio`` is the share of a step in which tensors are negotiated or exchanged, averaged over
        the profiled runs of this scale. ``bandwidth_used_bytes_per_s`` is what one participant of the rooflines (a rank
        within a node, a node over a network: :func:`hpcai.metrics.roofline.model.count_participants`) sends per second
        in these exchanges: 2 (p - 1) / p times the algorithm bandwidth. Compare it with the available
        ``bandwidth_measured_bytes_per_s``, the same for the measured allreduce of this engine at the mean message size
        (beyond the measured sizes from its fitted line: modelled), or with ``bandwidth_declared_bytes_per_s``, one
        direction of the link in the machine file. ``bandwidth_used_ratio`` is relative to the measured bandwidth if
        available (``bandwidth_used_of``). Empty values have a reason.
    """
    own = scores[scores["method"] == "measured"] if len(scores) else scores
    rows: list[dict[str, Any]] = []
    for _, group in scales.groupby(SERIES, sort=True) if len(scales) else ():
        regime, base = tell_regime(group), base_of(group).to_dict("records")[0]
        rows += [
            _identity(row, regime, base)
            | {name: row[column] for name, column in FROM_SCALES.items()}
            | _scores(row, own, base)
            | _communication(row, _of(communication, row), links, link_fits, machine)
            for row in group.sort_values(["ranks", "nodes"], kind="stable").to_dict("records")
        ]
    return pd.DataFrame(rows, columns=list(DETAIL_COLUMNS))


def _identity(row: Row, regime: Regime, base: Row) -> dict[str, Any]:
    return {
        **{name: row[name] for name in (*POINT, "nodes", "ranks")},
        "regime": regime.name,
        "regime_reason": regime.reason,
        "baseline": str(base["scale"]),
        "baseline_ranks": int(base["ranks"]),
        "samples_per_rank": row["global_batch_samples"] / row["ranks"],
    }


def _of(table: pd.DataFrame, row: Row) -> pd.DataFrame:
    """Return the rows of a table for one scale."""
    if table.empty:
        return table
    own: pd.DataFrame = table[(table[POINT] == [row[name] for name in POINT]).all(axis=1)]
    return own


def _scores(row: Row, scores: pd.DataFrame, base: Row) -> dict[str, Any]:
    own, first = _of(scores, row), _of(scores, base)
    if own.empty:
        empty = {**dict.fromkeys(FROM_SCORES, math.nan), "vflops_efficiency_ratio": math.nan}
        return {**empty, "score_reason": "no scores were computed for this scale", "score_source": ""}
    score = own.iloc[0]
    base_rate = float(first["vflops_flop_per_s"].iloc[0]) if len(first) else math.nan
    vflops = float(score["vflops_flop_per_s"])
    # A base without any quality has 0 VFLOPS, which nothing can be compared with.
    compared = parallel_efficiency(vflops, row["ranks"], base_rate, base["ranks"]) if base_rate > 0 else math.nan
    return {
        **{name: float(score[name]) for name in FROM_SCORES},
        "vflops_efficiency_ratio": compared,
        "score_reason": text_of(score["reason"]),
        "score_source": text_of(score["source"]),
    }


def _communication(
    row: Row, own: pd.DataFrame, links: pd.DataFrame, link_fits: pd.DataFrame, machine: Machine
) -> dict[str, Any]:
    shares, sizes = (own.get(name, pd.Series(dtype=float)).astype(float).dropna() for name in _SHARE_AND_SIZE)
    buses = own.get("bus_bandwidth_bytes_per_s", pd.Series(dtype=float)).astype(float).dropna()
    used = _of_participant(float(buses.mean()), row) if len(buses) else math.nan
    message = float(sizes.mean()) if len(sizes) else math.nan
    own_links, own_fits = (of_engine(view, row["engine"]) for view in (links, link_fits))
    there = {**_measured(own_links, own_fits, row, message), **_declared(machine, row)}
    return {
        "communication_share_ratio": float(shares.mean()) if len(shares) else math.nan,
        "communication_n": len(shares),
        "communication_reason": "" if len(shares) else _why_unknown(row, own),
        "communication_source": _join(own["source"]) if len(own) else "",
        "message_bytes": message,
        "bandwidth_used_bytes_per_s": used,
        **there,
        **_used(row, own, used, there),
    }


def _of_participant(bus_bytes_per_s: float, row: Row) -> float:
    """Return the bytes per second that a participant sends, from the per-rank bus bandwidth of the timeline's view."""
    nodes, ranks = int(row["nodes"]), int(row["ranks"])
    if ranks == 1:
        return math.nan
    return ring_traffic(bus_bytes_per_s / ring_traffic(1, ranks), count_participants(_scope(row), nodes, ranks))


_SHARE_AND_SIZE = ("communication_share_ratio", "batch_bytes_mean")


def _why_unknown(row: Row, own: pd.DataFrame) -> str:
    if row["ranks"] == 1:
        return ONE_RANK
    return _join(own["reasons"]) or "the timeline does not tell" if len(own) else NOT_PROFILED


def _measured(links: pd.DataFrame, link_fits: pd.DataFrame, row: Row, message_bytes: float) -> dict[str, Any]:
    """Return the bytes per second that a participant sends in the measured allreduce for these messages and ranks."""
    ranks, scope = int(row["ranks"]), _scope(row)
    found, method, source = math.nan, "", ""
    if ranks > 1 and not math.isnan(message_bytes):
        own, fits = (_transfers(view, ranks, scope) for view in (links, link_fits))
        found = rate_at(own, TRANSFER, ranks, message_bytes, scope)
        method, source = "measured", _join(own["source"]) if len(own) else ""
        if math.isnan(found) and len(fits):
            fit = fits.iloc[0]
            found = message_bytes / (fit["latency_s"] + message_bytes / fit["bandwidth_bytes_per_s"])
            method, source = "modelled: the line fitted to the measured allreduce", text_of(fit["source"])
    known = not math.isnan(found)
    return {
        "bandwidth_measured_bytes_per_s": ring_traffic(
            float(found), count_participants(scope, int(row["nodes"]), ranks)
        ),
        "bandwidth_measured_method": method if known else "",
        "bandwidth_measured_source": source if known else "",
    }


def _transfers(view: pd.DataFrame, ranks: int, scope: str) -> pd.DataFrame:
    if view.empty:
        return view
    own: pd.DataFrame = view[(view["what"] == TRANSFER) & (view["ranks"] == ranks) & (view["scope"] == scope)]
    return own


def _declared(machine: Machine, row: Row) -> dict[str, Any]:
    link = machine.links.network if _scope(row) == NETWORK else machine.links.intra_node
    known = link is not None and row["ranks"] > 1
    return {
        "bandwidth_declared_bytes_per_s": link.bandwidth_bytes_per_s if link and known else math.nan,
        "bandwidth_declared_source": link.source if link and known else "",
    }


def _used(row: Row, own: pd.DataFrame, used_bytes_per_s: float, there: Row) -> dict[str, Any]:
    """Return the share of bandwidth used, relative to the measured one if available."""
    for which in ("measured", "declared"):
        known = float(there[f"bandwidth_{which}_bytes_per_s"])
        if used_bytes_per_s / known >= 0:
            return {
                "bandwidth_used_ratio": used_bytes_per_s / known,
                "bandwidth_used_of": which,
                "bandwidth_reason": "",
            }
    if row["ranks"] == 1 or own.empty:
        reason = _why_unknown(row, own)
    elif math.isnan(used_bytes_per_s):
        reason = _join(own["reasons"]) or "the timeline has no rate of the transfers"
    else:
        reason = "; ".join(_why_no_link(row))
    return {"bandwidth_used_ratio": math.nan, "bandwidth_used_of": "", "bandwidth_reason": reason}


def _why_no_link(row: Row) -> Iterator[str]:
    scope = _scope(row)
    yield f"no allreduce of {row['ranks']} ranks was measured ({scope})"
    yield f"the machine file declares no links.{'network' if scope == 'network' else 'intra_node'}"


def _scope(row: Row) -> str:
    return NETWORK if row["nodes"] > 1 else "node"


def _join(texts: pd.Series) -> str:
    return ", ".join(dict.fromkeys(text for text in texts if isinstance(text, str) and text))
