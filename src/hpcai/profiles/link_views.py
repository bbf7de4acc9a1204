"""Link views: this machine's measured allreduces by message size, as a fitted line, and as a ceiling."""

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.core.errors import RecordError
from hpcai.core.text import say_bytes
from hpcai.metrics.profiles.link import CALL, TRANSFER, AllreduceReport, fit_link
from hpcai.profiles.ceilings_view import COLUMNS

LINK_COLUMNS = columns_of("links")


def link_rows(report: AllreduceReport, source: str) -> pd.DataFrame:
    """Return the rows of the link view: per size one for the transfer and one for the whole call."""
    rows = [
        _link_row(report, what, size, times_s)
        for what in (TRANSFER, CALL)
        for size, times_s in sorted(_times_of(report, what).items())
    ]
    return pd.DataFrame(rows, columns=list(LINK_COLUMNS)).assign(source=source)


def scope_of(report: AllreduceReport) -> str:
    """Return ``node`` for ranks on one node, ``network`` for several nodes, blank if no rank has reported."""
    if report.nodes is None:
        return ""
    return "node" if report.nodes == 1 else "network"


def bus_factor(ranks: int) -> float:
    """Return bus over algorithm bandwidth of an allreduce, 2 (n - 1) / n (nccl-tests, doc/PERFORMANCE.md)."""
    return 2 * (ranks - 1) / ranks


def _times_of(report: AllreduceReport, what: str) -> dict[int, list[float]]:
    """Return the measured times per size."""
    sizes: dict[int, list[float]] = {}
    for sample in report.samples:
        time_s = sample.duration_s if what == CALL else sample.transfer_s
        if time_s is not None:
            sizes.setdefault(sample.size_bytes, []).append(time_s)
    return sizes


def _link_row(report: AllreduceReport, what: str, size_bytes: int, times_s: Sequence[float]) -> dict[str, object]:
    if report.ranks is None:
        raise RecordError("allreduce report: found samples without a number of ranks; measure again")
    time_s = float(np.median(times_s))
    return {
        "what": what,
        "engine": report.engine,
        "scope": scope_of(report),
        "ranks": report.ranks,
        "bytes": size_bytes,
        "time_s": time_s,
        "time_min_s": min(times_s),
        "time_max_s": max(times_s),
        "n": len(times_s),
        "algorithm_bandwidth_bytes_per_s": size_bytes / time_s,
        "bus_bandwidth_bytes_per_s": bus_factor(report.ranks) * size_bytes / time_s,
    }


def link_fit_rows(report: AllreduceReport, source: str) -> pd.DataFrame:
    """Return the rows of the link fit view, for transfer and whole call: numbers, or NaN and the reason."""
    links = link_rows(report, source)
    ranks = np.nan if report.ranks is None else report.ranks
    rows = []
    for what in (TRANSFER, CALL):
        own = links[links["what"] == what]
        fit = fit_link(list(own["bytes"]), list(own["time_s"]))
        missing = report.transfers_missing if what == TRANSFER else ()
        reason = "; ".join(filter(None, [*report.not_measured, *missing, fit.reason]))
        where = {"engine": report.engine, "scope": scope_of(report), "ranks": ranks}
        row = {"what": what, **where, **asdict(fit), "reason": reason}
        rows.append({**row, "source": source})
    return pd.DataFrame(rows)


def allreduce_ceiling(report: AllreduceReport, source: str) -> pd.DataFrame:
    """Return the row for the ceilings view: the best bus bandwidth over all sizes, or why there is none.

    Uses the transfers, which bound those in training; whole calls if the transfers were not timed.
    """
    links = link_rows(report, source)
    timed = TRANSFER if (links["what"] == TRANSFER).any() else CALL
    links = links[links["what"] == timed].reset_index(drop=True)
    base: dict[str, object] = {"kind": "allreduce", "precision": "", "backend": report.engine, "unit": "B/s"}
    if links.empty:
        reason = "; ".join(report.not_measured) or "no message size was timed"
        missing = {"setting": scope_of(report), "n": 0, "ways": 0, "reason": reason}
        return pd.DataFrame([{**base, **missing}], columns=list(COLUMNS)).assign(source=source)
    best = links.loc[(links["bytes"] / links["time_min_s"]).idxmax()]
    moved = float(best["bus_bandwidth_bytes_per_s"] * best["time_s"])
    fastest, slowest = (moved / float(best[name]) for name in ("time_min_s", "time_max_s"))
    median = moved / float(best["time_s"])
    row = {
        **base,
        "setting": f"{best['scope']}, {best['ranks']} ranks, {say_bytes(int(best['bytes']))}, "
        f"bus bandwidth of the {timed}",
        "value": fastest,
        "median": median,
        "n": int(best["n"]),
        "spread_ratio": (fastest - slowest) / median,
        "ways": len(links),
        "reason": "; ".join(report.not_measured),
    }
    return pd.DataFrame([row], columns=list(COLUMNS)).assign(source=source)
