"""Ceilings of the rooflines for each number of ranks: declared peaks, measured arithmetic, links and memory."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from hpcai.catalogue.points import engine_words
from hpcai.config.machine import Link, Machine
from hpcai.metrics.cells import Row, join_words
from hpcai.metrics.profiles.link import of_engine
from hpcai.metrics.roofline.columns import (
    CEILING,
    CEILING_COLUMNS,
    CONVOLUTION,
    GEMM,
    INTRA_NODE,
    LINK,
    MEMORY,
    NETWORK,
    NOT_MEASURED,
    PEAK,
    REFUSED,
    ROOF,
)
from hpcai.metrics.roofline.links import link_rate
from hpcai.metrics.roofline.model import count_participants
from hpcai.metrics.roofline.samples_above import TOLERANCE_RATIO, declared_peaks, find_slow_products, refuse_above_peak

WORDS = {PEAK: "peak", GEMM: "GEMM", CONVOLUTION: "convolution"}


@dataclass(frozen=True)
class Place:
    """A scope and the ranks that take part in it."""

    scope: str
    nodes: int
    ranks: int

    @property
    def participants(self) -> int:
        """Nodes over a network, ranks elsewhere."""
        return count_participants(self.scope, self.nodes, self.ranks)


def judge_ceilings(
    ceilings: pd.DataFrame, peaks: pd.DataFrame, tolerance_ratio: float = TOLERANCE_RATIO
) -> pd.DataFrame:
    """Return ceilings with a column ``refused``: the reason to refuse a ceiling, blank if it is accepted.

    Refused are ceilings above their declared peak, and GEMM below the convolutions on the same cores
    (:func:`hpcai.metrics.roofline.samples_above.find_slow_products`).

    Parameters
    ----------
    ceilings, peaks
        As :func:`hpcai.metrics.roofline.samples_above.refuse_above_peak` takes them.
    tolerance_ratio
        Zero for declared ceilings: printed numbers have no noise.
    """
    judged = ceilings.reset_index(drop=True).assign(refused="")
    kept, refused = refuse_above_peak(judged, peaks, tolerance_ratio)
    judged.loc[~judged.index.isin(kept.index), "refused"] = refused["sentence"].to_numpy()
    slow = find_slow_products(kept)
    judged.loc[slow.index, "refused"] = slow
    return judged


def roofline_ceilings(
    scores: pd.DataFrame, ceilings: pd.DataFrame, links: pd.DataFrame, link_fits: pd.DataFrame, machine: Machine
) -> pd.DataFrame:
    """Return the ceilings of a machine's points, for every scope and number of ranks of its results.

    Parameters
    ----------
    scores
        Results (``SCORE_COLUMNS``); those of the machine determine the scales and precisions. The whole node and, with
        several nodes, the whole machine are always included.
    ceilings, links, link_fits
        Views of these names, measured on the machine.
    machine
        Declared peaks and links.

    Returns
    -------
    pandas.DataFrame
        ``CEILING_COLUMNS``. The roof of a precision is its declared peak or, without one, the best measured rate of
        GEMM and convolution. The roof of a link or memory is the measured bandwidth or, without a measurement, the
        declared one. A measured value above the declared one is refused with the reason.
    """
    judged = judge_ceilings(ceilings, declared_peaks(machine)) if len(ceilings) else ceilings
    own = scores[(scores["machine"] == machine.name) & (scores["method"] == "measured")]
    asked = {str(precision) for precision in own["precision"].dropna()} or {"fp32"}
    rows: list[Row] = []
    for place in _places(own, machine):
        for precision in _precisions(judged, machine, asked):
            rows += _compute_rows(judged, machine, place, precision)
        if place.scope == MEMORY:
            rows += _memory_rows(judged, machine, place)
        else:
            rows += _link_rows(links, link_fits, machine, place)
    return pd.DataFrame(rows, columns=list(CEILING_COLUMNS))


def _places(own: pd.DataFrame, machine: Machine) -> list[Place]:
    counts = {(int(nodes), int(ranks)) for nodes, ranks in zip(own["nodes"], own["ranks"], strict=True)}
    exchanging = counts | {(nodes, nodes * machine.ranks_per_node) for nodes in {1, machine.nodes}}
    places = {Place(MEMORY, nodes, ranks) for nodes, ranks in counts or {(1, 1)}}
    places |= {Place(NETWORK if nodes > 1 else INTRA_NODE, nodes, ranks) for nodes, ranks in exchanging if ranks > 1}
    return sorted(places, key=lambda place: (place.scope, place.nodes, place.ranks))


def _precisions(judged: pd.DataFrame, machine: Machine, asked: set[str]) -> list[str]:
    measured = set() if judged.empty else set(judged.loc[judged["kind"].isin((GEMM, CONVOLUTION)), "precision"])
    return [name for name in ("fp32", "tf32", "bf16", "fp16") if name in asked | measured | set(machine.device.peaks)]


def _compute_rows(judged: pd.DataFrame, machine: Machine, place: Place, precision: str) -> list[Row]:
    """Return peak, GEMM and convolution of a precision; one of them is the roof for points."""
    peak = next((peak for name, peak in machine.device.peaks.items() if name == precision), None)
    devices = machine.devices_of(place.nodes, place.ranks)
    rows = [_row(machine, place, PEAK, precision, peak.rate_flop_per_s * devices, peak.source)] if peak else []
    for kind in (GEMM, CONVOLUTION):
        rows += _dense_rows(judged, machine, place, kind, precision)
    known = [row for row in rows if row["status"] == CEILING]
    declared = [row for row in known if row["kind"] == PEAK]
    for row in sorted(declared or known, key=lambda row: -row["value"])[:1]:
        row["status"] = ROOF
    return rows


def _dense_rows(judged: pd.DataFrame, machine: Machine, place: Place, kind: str, precision: str) -> Iterator[Row]:
    """Return the measured rates of a kind in a precision, or why there is none."""
    own = _of_kind(judged, kind)
    # Kinds not measured in any precision have no row.
    own = own[(own["precision"] == precision) | ((own["precision"] == "") & own["value"].isna())] if len(own) else own
    found = False
    for best, times, about in _choose(own, machine, place):
        found = True
        yield _row(machine, place, kind, precision, best["value"] * times, best["source"]) | about
    if not found:
        yield _row(machine, place, kind, precision, math.nan, "") | _not_measured(own)


def _not_measured(own: pd.DataFrame) -> Row:
    """Return the columns of a row without a value: the reason, as far as it is known."""
    missing = own[own["value"].isna()] if len(own) else own
    why = [text for text in missing.get("reason", pd.Series(dtype=str)).dropna() if text]
    return {"method": "", "status": NOT_MEASURED, "reason": why[0] if why else NOT_MEASURED}


def _memory_rows(judged: pd.DataFrame, machine: Machine, place: Place) -> list[Row]:
    """Return the memory bandwidth of one rank."""
    own, rows = _of_kind(judged, MEMORY), []
    for best, times, about in _choose(own, machine, place):
        value = best["value"] * times / place.ranks
        rows.append(_row(machine, place, MEMORY, "", value, best["source"]) | {"name": "memory, measured"} | about)
    if not rows:
        row = _row(machine, place, MEMORY, "", math.nan, "") | {"name": "memory, measured"}
        rows.append(row | _not_measured(own))
    link = machine.device.memory_link
    return _settle(rows, _declared(machine, place, MEMORY, link, "memory, declared"))


def _link_rows(links: pd.DataFrame, link_fits: pd.DataFrame, machine: Machine, place: Place) -> list[Row]:
    """Return the measured links, one per engine at its best message size, fastest first; then the declared link."""
    link = declared_link(machine, place.scope)
    rows = []
    for engine in links["engine"].drop_duplicates().sort_values() if len(links) else ():
        own, fits = (of_engine(view, engine) for view in (links, link_fits))
        found = link_rate(own, fits, place.scope, place.nodes, place.ranks)
        if math.isnan(found.rate_bytes_per_s):
            continue
        row = _row(machine, place, LINK, "", found.rate_bytes_per_s, found.source)
        above = link is not None and found.rate_bytes_per_s > (1 + TOLERANCE_RATIO) * link.bandwidth_bytes_per_s
        reason = say_above_link(found.rate_bytes_per_s, link) if above and link else found.note
        rows.append(
            row
            | {
                "name": ", ".join([found.name, *engine_words({"engine": engine})]),
                "method": "measured",
                "status": REFUSED if above else CEILING,
                "reason": reason,
            }
        )
    rows.sort(key=lambda row: -row["value"])
    return _settle(rows, _declared(machine, place, LINK, link, "link, declared"))


def declared_link(machine: Machine, scope: str) -> Link | None:
    """Return the declared link of a scope from the machine file."""
    return machine.links.network if scope == NETWORK else machine.links.intra_node


def say_above_link(rate_bytes_per_s: float, link: Link) -> str:
    """Explain why a measured link is not used."""
    return (
        f"{rate_bytes_per_s:.4g} B/s is {rate_bytes_per_s / link.bandwidth_bytes_per_s:.3g} times the declared "
        f"{link.bandwidth_bytes_per_s:.4g} B/s ({link.source}) and is not used as a ceiling: the link in the machine "
        "file is another one, or counts another direction"
    )


def _settle(measured: list[Row], declared: list[Row]) -> list[Row]:
    """Return bandwidths with the measured one as roof, otherwise the declared one."""
    rows = [*measured, *declared]
    for row in [row for row in rows if row["status"] == CEILING][:1]:
        row["status"] = ROOF
    return rows


def _declared(machine: Machine, place: Place, kind: str, link: Link | None, name: str) -> list[Row]:
    if link is None:
        return []
    return [_row(machine, place, kind, "", link.bandwidth_bytes_per_s, link.source) | {"name": name}]


def _row(machine: Machine, place: Place, kind: str, precision: str, value: float, source: str) -> Row:
    dense = kind in WORDS
    return {
        "machine": machine.name,
        "scope": place.scope,
        "kind": kind,
        "name": f"{WORDS[kind]} {precision}" if dense else kind,
        "precision": precision,
        "nodes": place.nodes,
        "ranks": place.ranks,
        "participants": place.participants,
        "value": value,
        "unit": "FLOP/s" if dense else "B/s",
        "method": "declared",
        "status": CEILING,
        "reason": "",
        "source": source,
    }


def _of_kind(judged: pd.DataFrame, kind: str) -> pd.DataFrame:
    return judged if judged.empty else judged[judged["kind"] == kind]


def _by_status(own: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    known = own.dropna(subset=["value"]) if len(own) else own
    if len(known):
        yield CEILING, known[known["refused"] == ""]
        yield REFUSED, known[known["refused"] != ""]


def _choose(own: pd.DataFrame, machine: Machine, place: Place) -> Iterator[tuple[Row, int, Row]]:
    """Yield the best ceiling and the best refused one of some ranks, their number, and the remark of the row.

    A ceiling refused on other cores has no bearing on the accepted one.
    """
    threads = math.nan
    for status, part in _by_status(own):
        best, times, note = _for_ranks(part, machine, place)
        if best is None or (not math.isnan(threads) and best["threads"] != threads):
            continue
        threads = best["threads"]
        reason = best["refused"] or join_words(note, best.get("reason"), separator="; ")
        yield best, times, {"method": "measured", "status": status, "reason": reason}


def _for_ranks(part: pd.DataFrame, machine: Machine, place: Place) -> tuple[Row | None, int, str]:
    """Return the best row measured on as many cores as the ranks of a node use, or on those of one rank."""
    ranks_of_node = place.ranks // place.nodes
    together = part[part["threads"] == ranks_of_node * machine.cores_per_rank]
    alone = part if machine.device.kind == "gpu" else part[part["threads"] == machine.cores_per_rank]
    devices = machine.devices_of(place.nodes, place.ranks)
    rows, times = (alone, devices) if machine.device.kind == "gpu" or together.empty else (together, place.nodes)
    if rows.empty:
        return None, 1, ""
    best = {str(name): value for name, value in rows.loc[rows["value"].idxmax()].items()}
    what = "one rank" if rows is alone else "one node"
    return best, times, f"measured on {what}, times {times}" if times > 1 else ""
