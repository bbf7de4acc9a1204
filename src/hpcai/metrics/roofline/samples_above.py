"""Samples above the roof that should bound them: one of the two must be wrong, so both are reported."""

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.config.machine import Machine
from hpcai.core.messages import Message
from hpcai.core.text import say_rate

TOLERANCE_RATIO = 0.02
"""Tolerance above a roof: clocks and neighbours change repeated measurements by as much."""
OTHER_UNIT = Message("samples_above.other_unit", "{what}: found {found}, expected {expected}, the unit of its roof")
EXCHANGE_TOLERANCE_RATIO = 0.1
"""Tolerance of the mean over a run's batches above the fastest repetition of the allreduce: its roof is interpolated
between measured sizes, and the rate of mixed sizes differs from that of their mean size."""
PADDED_RATIO = 0.15
"""Tolerance of a convolution above the best matrix product: its work counts padded zeros, which libraries may skip, at
most an eighth for the large shapes that are timed."""
STAGING = "staging"
"""Role of data that is read once, before the first epoch."""
SHARED, NODE_LOCAL = "shared", "node-local"
"""Storage locations, named as in their ceilings."""
ABOVE_ROOF = Message(
    "samples_above.above_roof",
    "{what}: {sample} ({source}) is {ratio:.3g} times its roof, {roof} ({roof_source}); more than {tolerance:g} % "
    "above cannot be noise: the roof was measured too low (a busy machine, a slow library), or the sample's work is "
    "overcounted",
)
SLOW_GEMM = Message(
    "samples_above.slow_gemm",
    "the best GEMM in {precision} with {threads:g} threads reached {product}, convolutions on the same cores "
    "{convolution} ({source}): a convolution is lowered to matrix products, so the GEMM measurement was disturbed or "
    "its library is slow; the convolution rate is used as the ceiling instead",
)
INCONSISTENCIES = columns_of("inconsistencies")


def find_inconsistencies(
    samples: pd.DataFrame, roofs: pd.DataFrame, tolerance_ratio: float = TOLERANCE_RATIO
) -> pd.DataFrame:
    """Return the samples above their roof.

    Parameters
    ----------
    samples
        ``what`` (words), ``roof`` (name of the limiting roof), ``value``, ``unit``, ``source`` (file).
    roofs
        ``roof`` (name), ``value``, ``unit``, ``source``; among equal names the highest counts, because a ceiling is the
        best observed value.
    tolerance_ratio
        A sample is inconsistent above (1 + tolerance) times its roof.

    Returns
    -------
    pandas.DataFrame
        ``what, sample, roof, ratio, sentence``, the worst first. Samples without a value, or without a measured roof,
        are omitted.

    Raises
    ------
    ValueError
        If a sample and its roof have different units.
    """
    known = roofs.dropna(subset=["value"])
    highest = known.sort_values("value", kind="stable").drop_duplicates("roof", keep="last")
    joined = samples.dropna(subset=["value"]).merge(highest, on="roof", suffixes=("", "_roof"))
    mixed = joined[joined["unit"] != joined["unit_roof"]]
    if len(mixed):
        first = mixed.iloc[0]
        raise ValueError(OTHER_UNIT(what=first["what"], found=first["unit"], expected=first["unit_roof"]))
    ratio = joined["value"] / joined["value_roof"]
    above = joined.assign(ratio=ratio)[ratio > 1 + tolerance_ratio].sort_values("ratio", ascending=False)
    rows = [
        (row["what"], row["value"], row["value_roof"], row["ratio"], _say_above(row, tolerance_ratio))
        for row in above.to_dict("records")
    ]
    return pd.DataFrame(rows, columns=list(INCONSISTENCIES))


def _say_above(row: Mapping[Hashable, Any], tolerance_ratio: float) -> str:
    sample, roof = (say_rate(float(str(row[name])), str(row["unit"])) for name in ("value", "value_roof"))
    sources = {"source": row["source"], "roof_source": row["source_roof"]}
    ratios = {"ratio": float(str(row["ratio"])), "tolerance": 100 * tolerance_ratio}
    return ABOVE_ROOF(what=row["what"], sample=sample, roof=f"{row['roof']} with {roof}", **sources, **ratios)


def staged_runs(io: pd.DataFrame) -> set[str]:
    """Return the ``run_id`` of all runs in the view ``io`` that read their training input from staged data."""
    if not {"data", "run_id"} <= set(io.columns):
        return set()
    return set(io.loc[io["data"] == STAGING, "run_id"])


def place_of_reads(data: str, *, staged: bool) -> str:
    """Return the storage that data of a role is read from; a run reads its staging input from shared storage."""
    return NODE_LOCAL if staged and data != STAGING else SHARED


def fastest_read(ceilings: pd.DataFrame, place: str) -> float:
    """Return the fastest cold read measured at a location [bytes/s]; NaN if there is none."""
    if ceilings.empty:
        return float("nan")
    own = ceilings[(ceilings["kind"] == "storage_read") & (ceilings["place"] == place)]
    return float(own["value"].max())


def refuse_above_peak(
    ceilings: pd.DataFrame, peaks: pd.DataFrame, tolerance_ratio: float = TOLERANCE_RATIO
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Remove measured ceilings above the declaration in the machine file, which cannot bound any sample.

    Parameters
    ----------
    ceilings
        Rows of the view of this name: ``kind, precision, threads, value, unit, source``.
    peaks
        ``kind``, ``precision`` (blank where the kind has none), ``value`` of one device, ``unit``, ``source``, and
        ``threads``: how many threads make one device; missing if the device is not made of threads.
    tolerance_ratio
        A ceiling is refused above (1 + tolerance) times its peak.

    Returns
    -------
    pandas.DataFrame
        The accepted ceilings, unchanged. Ceilings without a declared peak are accepted.
    pandas.DataFrame
        One row per refused ceiling, as from :func:`find_inconsistencies`.
    """
    if ceilings.empty:
        return ceilings, pd.DataFrame(columns=list(INCONSISTENCIES))
    keys = ["kind", "precision"]
    ordered = ceilings.reset_index(drop=True)
    blank = {"precision": ""}
    joined = ordered.fillna(blank).merge(peaks.fillna(blank), on=keys, how="left", suffixes=("", "_peak"))
    devices = (joined["threads"] / joined["threads_peak"]).fillna(1.0).clip(lower=1.0)
    roof = joined["value_peak"] * devices
    ratio = joined["value"] / roof
    above = ratio > 1 + tolerance_ratio
    rows = [
        (_name(row), row["value"], row["roof"], row["ratio"], _say_refused(row))
        for row in joined.assign(roof=roof, ratio=ratio)[above].to_dict("records")
    ]
    return ordered[~above.to_numpy()], pd.DataFrame(rows, columns=list(INCONSISTENCIES))


def _name(row: Mapping[Hashable, Any]) -> str:
    words = (row["kind"], row["precision"], row.get("backend", ""))
    return "measured ceiling of " + " ".join(str(word) for word in words if word and str(word) != "nan")


def _say_refused(row: Mapping[Hashable, Any]) -> str:
    value, peak = (say_rate(float(str(row[name])), str(row["unit"])) for name in ("value", "roof"))
    return (
        f"{_name(row)}: {value} ({row['source']}) is {float(str(row['ratio'])):.3g} times the declared peak {peak} "
        f"({row['source_peak']}) and is not used as a ceiling: the peak in the machine file is another device's or "
        "another precision's, or the measurement counts too much"
    )


def declared_peaks(machine: Machine) -> pd.DataFrame:
    """Return the peaks of a machine file as input of :func:`refuse_above_peak`; no rows if none is declared."""
    device = machine.device
    threads = float("nan") if device.kind == "gpu" else float(machine.cores_per_rank)
    rows: list[tuple[str, str, float, str, str, float]] = [
        (kind, precision, peak.rate_flop_per_s, "FLOP/s", peak.source, threads)
        for precision, peak in device.peaks.items()
        for kind in ("gemm", "convolution")
    ]
    if device.memory_link:
        link = device.memory_link
        rows.append(("memory", "", link.bandwidth_bytes_per_s, "B/s", link.source, threads))
    frame = pd.DataFrame(rows, columns=["kind", "precision", "value", "unit", "source", "threads"])
    return frame.astype({"value": float, "threads": float})  # also without a row


def find_slow_products(ceilings: pd.DataFrame, tolerance_ratio: float = PADDED_RATIO) -> pd.Series:
    """Return why the measured GEMM of a precision and number of threads is not a ceiling, by row index.

    Convolutions are lowered to matrix products, so a machine multiplies matrices at least as fast as it convolves. If
    the best GEMM of all back-ends is below the best convolution, the GEMM measurement was disturbed or its libraries
    are slow. The convolution rate is then the valid one: training counts its work the same way, and a roof below an
    attained rate is wrong.

    Parameters
    ----------
    ceilings
        As :func:`refuse_above_peak` takes them; rows without a number of threads are not compared.
    tolerance_ratio
        GEMM is refused where convolutions are above (1 + tolerance) times its rate.
    """
    known = ceilings[ceilings["value"].notna() & ceilings["threads"].notna()]
    best = known.sort_values("value", kind="stable").drop_duplicates(["kind", "precision", "threads"], keep="last")
    products, convolutions = (best[best["kind"] == kind] for kind in ("gemm", "convolution"))
    pairs = products.merge(convolutions, on=["precision", "threads"], suffixes=("", "_convolution"))
    found: dict[Hashable, str] = {}
    for pair in pairs[pairs["value_convolution"] > (1 + tolerance_ratio) * pairs["value"]].to_dict("records"):
        same = (known["precision"] == pair["precision"]) & (known["threads"] == pair["threads"])
        found |= dict.fromkeys(known.index[same & (known["kind"] == "gemm")], _say_slow(pair))
    return pd.Series(found, dtype=object)


def _say_slow(pair: Mapping[Hashable, Any]) -> str:
    product, convolution = (say_rate(float(pair[name]), "FLOP/s") for name in ("value", "value_convolution"))
    rates = {"product": product, "convolution": convolution, "source": pair["source_convolution"]}
    return SLOW_GEMM(precision=pair["precision"], threads=pair["threads"], **rates)
