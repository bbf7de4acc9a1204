"""Compare measured rates with the ceilings that should bound them."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from hpcai.catalogue.points import POINT, engine_words, label_of
from hpcai.config.machine import Machine
from hpcai.core.text import say_bytes
from hpcai.metrics.cells import records_of
from hpcai.metrics.profiles.link import of_engine, rate_at
from hpcai.metrics.roofline.samples_above import (
    EXCHANGE_TOLERANCE_RATIO,
    NODE_LOCAL,
    SHARED,
    TOLERANCE_RATIO,
    declared_peaks,
    fastest_read,
    find_inconsistencies,
    place_of_reads,
    refuse_above_peak,
    staged_runs,
)
from hpcai.profiles.views import join_views

DENSE = ("gemm", "convolution")
"""Kinds of ceilings that bound a training rate: the better of the two counts."""
COLUMNS = ("what", "roof", "value", "unit", "source")
Row = dict[str, object]


def inconsistencies_view(views: Mapping[str, pd.DataFrame], scales: pd.DataFrame, machine: Machine) -> pd.DataFrame:
    """Return every rate of the study above its roof, and every ceiling above a declared peak.

    Training rates are bounded by the best dense rate of their precision on as many cores as a rank has, times the
    ranks. A run's batches are bounded by the fastest allreduce transfer of their mean size between as many ranks, and
    cold reads by the fastest cold read measured on the same storage. Rates without a measured roof are not compared.

    Parameters
    ----------
    views
        At least work, communication, io, links and ceilings.
    scales
        Table of scales, with each variant's precision.
    machine
        Cores per rank, and the declared properties of devices.
    """
    ceilings, refused = refuse_above_peak(views["ceilings"], declared_peaks(machine))
    dense = _dense_roofs(ceilings, scales, machine)
    found = [
        _find(_training(views["work"], scales), dense),
        _find(_reads(views["io"]), _read_roofs(ceilings)),
        _find(_exchanges(views["communication"]), _exchange_roofs(views), EXCHANGE_TOLERANCE_RATIO),
    ]
    above = join_views("inconsistencies", found).sort_values("ratio", ascending=False, kind="stable")
    return join_views("inconsistencies", [refused, above])


def _find(samples: Iterator[Row], roofs: Iterator[Row], tolerance_ratio: float = TOLERANCE_RATIO) -> pd.DataFrame:
    tables = [pd.DataFrame(list(rows), columns=list(COLUMNS)) for rows in (samples, roofs)]
    return find_inconsistencies(tables[0], tables[1], tolerance_ratio)


def _training(work: pd.DataFrame, scales: pd.DataFrame) -> Iterator[Row]:
    precision = scales.set_index(POINT)["precision"].to_dict()
    for row in records_of(work[work["method"] == "formula"]):
        key = tuple(row[name] for name in POINT)
        yield {
            "what": f"training rate of {_say_point(row)}",
            "roof": _dense(precision.get(key, "fp32"), int(row["ranks"])),
            "value": row["rate_flop_per_s"],
            "unit": "FLOP/s",
            "source": row["source"],
        }


def _say_point(row: Mapping[str, Any]) -> str:
    return label_of(row).replace("/", ", ")


def _dense(precision: str, ranks: int) -> str:
    return f"dense, {precision}, {ranks} ranks"


def _dense_roofs(ceilings: pd.DataFrame, scales: pd.DataFrame, machine: Machine) -> Iterator[Row]:
    own = ceilings[ceilings["kind"].isin(DENSE) & (ceilings["threads"] == machine.cores_per_rank)]
    best = own.dropna(subset=["value"]).sort_values("value").drop_duplicates("precision", keep="last")
    for row in records_of(best):
        for ranks in sorted({int(count) for count in scales["ranks"]}):
            value = row["value"] * ranks
            yield {
                "what": "",
                "roof": _dense(row["precision"], ranks),
                "value": value,
                "unit": "FLOP/s",
                "source": row["source"],
            }


def _exchanges(communication: pd.DataFrame) -> Iterator[Row]:
    for row in records_of(communication):
        yield {
            "what": f"allreduce of {_say_point(row)}",
            "roof": _exchange(row),
            "value": row["algorithm_bandwidth_bytes_per_s"],
            "unit": "B/s",
            "source": row["source"],
        }


def _exchange(row: Mapping[str, Any]) -> str:
    size = row["batch_bytes_mean"]
    words = "unknown size" if pd.isna(size) else say_bytes(size)
    where = ", ".join([str(row["scale"]), *engine_words(row)])
    return f"transfer of {words} between {row['ranks']} ranks ({where})"


def _exchange_roofs(views: Mapping[str, pd.DataFrame]) -> Iterator[Row]:
    """Yield the link rate at the size of each run's batches; nothing if no transfer was measured."""
    links = views["links"]
    if links.empty or "what" not in links:
        return
    for row in records_of(views["communication"]):
        size, ranks = float(row["batch_bytes_mean"]), int(row["ranks"])
        scope = "network" if row["nodes"] > 1 else "node"
        own = of_engine(
            links[(links["what"] == "transfer") & (links["ranks"] == ranks) & (links["scope"] == scope)], row["engine"]
        )
        value = math.nan if own.empty or math.isnan(size) else rate_at(own, "transfer", ranks, size)
        if not math.isnan(value):
            yield {"what": "", "roof": _exchange(row), "value": value, "unit": "B/s", "source": own["source"].iloc[0]}


def _reads(io: pd.DataFrame) -> Iterator[Row]:
    staged = staged_runs(io)
    for row in records_of(io[io["page_cache"] == "cold"]):
        yield {
            "what": f"reading ({row['data']}) of {_say_point(row)}",
            "roof": _read(place_of_reads(row["data"], staged=row["run_id"] in staged)),
            "value": row["bandwidth_parallel_bytes_per_s"],
            "unit": "B/s",
            "source": row["source"],
        }


def _read(place: str) -> str:
    return f"storage_read, {place}"


def _read_roofs(ceilings: pd.DataFrame) -> Iterator[Row]:
    reads = ceilings[ceilings["kind"] == "storage_read"].dropna(subset=["value"])
    for place in (SHARED, NODE_LOCAL):
        value = fastest_read(reads, place)
        for source in reads.loc[(reads["place"] == place) & (reads["value"] == value), "source"].head(1):
            yield {"what": "", "roof": _read(place), "value": value, "unit": "B/s", "source": source}
