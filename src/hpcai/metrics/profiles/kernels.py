"""Kernel times by category: where a step spends its device time (HPC AI500 V2.0, Figure 10)."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.metrics.profiles.counters import RATIO_NAMES, counters_per_kernel
from hpcai.metrics.profiles.kernel_rules import CATEGORIES, MEMCPY, RULE_SET, category_of

__all__ = ["CATEGORIES", "RULE_SET", "categorise", "kernel_breakdown", "top_kernels"]

DEVICE_KINDS = ("kernel", "memcpy", "memset")


def categorise(names: Iterable[str]) -> "pd.Series[str]":
    """Return the category of each kernel or operation name; "other" where no rule matches.

    The index is that of ``names`` if it is a Series.
    """
    series = names if isinstance(names, pd.Series) else pd.Series(list(names), dtype="object")
    known = {name: category_of(str(name)) for name in series.unique()}
    return series.map(known).astype("object").rename("category")


def kernel_breakdown(kernels: pd.DataFrame, counters: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return calls, time and hardware use by category, in the order of `CATEGORIES`.

    Copies form their own category regardless of their names; host calls (kind "api") are excluded.

    Parameters
    ----------
    kernels
        One row per kernel name and device: ``name``, ``kind``, ``calls``, ``total_s`` [s].
    counters
        Counters of the same kernels, of nvprof or Nsight Compute; they may come from another, shorter run: bytes are
        scaled from its launches to the calls in ``kernels``.

    Returns
    -------
    pandas.DataFrame
        ``category``, ``calls``, ``total_s`` [s] and ``share_ratio`` of the time of all rows (sums up to 1),
        each of `hpcai.metrics.profiles.counters.RATIO_NAMES` (mean weighted by time), ``dram_bytes`` and
        ``dram_rate_bytes_per_s`` of the kernels that were counted (NaN: none was), ``counted_ratio`` (the part of the
        category's time that these kernels have), ``untimed_calls`` (calls without a time, which are in no total),
        ``rule_set``.
    """
    rows = _device_rows(kernels)
    rows["untimed_calls"] = rows["calls"].where(rows["total_s"].isna(), 0)
    rows = _with_counters(rows, counters)
    grouped = rows.groupby("category")
    table = grouped[["calls", "untimed_calls"]].sum()
    timed = [f"{name}_time_s" for name in RATIO_NAMES]
    sums = ["total_s", "dram_bytes", "dram_time_s", *RATIO_NAMES, *timed]
    table[sums] = grouped[sums].sum(min_count=1)
    table["share_ratio"] = table["total_s"] / table["total_s"].sum()
    for name in RATIO_NAMES:
        table[name] /= table[f"{name}_time_s"]
    table["dram_rate_bytes_per_s"] = _quotient(table["dram_bytes"], table["dram_time_s"])
    counted_s = table[["dram_time_s", "instructions_per_cycle_time_s"]].max(axis="columns").fillna(0.0)
    table["counted_ratio"] = _quotient(counted_s, table["total_s"])
    table["rule_set"] = RULE_SET
    present = [category for category in CATEGORIES if category in table.index]
    found = table.loc[present].reset_index()
    return found[[name for name in columns_of("kernels") if name in found]]


def top_kernels(kernels: pd.DataFrame, count: int = 10) -> pd.DataFrame:
    """Return name, category, calls, total_s, mean_s and share_ratio of the kernels that took most time."""
    rows = _device_rows(kernels)
    table = rows.groupby(["name", "category"], sort=False, as_index=False).agg(
        calls=("calls", "sum"), total_s=("total_s", _sum_of_known)
    )
    table["mean_s"] = table["total_s"] / table["calls"]
    table["share_ratio"] = table["total_s"] / table["total_s"].sum()
    return table.nlargest(count, "total_s").reset_index(drop=True)


def _device_rows(kernels: pd.DataFrame) -> pd.DataFrame:
    rows = kernels[kernels["kind"].isin(DEVICE_KINDS)] if "kind" in kernels else kernels
    rows = rows.assign(category=categorise(rows["name"]))
    if "kind" in rows:
        rows["category"] = rows["category"].mask(rows["kind"].isin(["memcpy", "memset"]), MEMCPY)
    return rows


def _with_counters(rows: pd.DataFrame, counters: pd.DataFrame | None) -> pd.DataFrame:
    """Add bytes and ratios of the kernels that were counted, in the calls and the time of the timed run."""
    counted = counters_per_kernel(counters) if counters is not None else pd.DataFrame(index=pd.Index([], name="name"))
    counted = counted.reindex(columns=["launches", "dram_bytes", *RATIO_NAMES])
    rows = rows.join(counted, on="name")
    rows["dram_bytes"] = rows["dram_bytes"] / rows["launches"] * rows["calls"]
    rows["dram_time_s"] = rows["total_s"].where(rows["dram_bytes"].notna())
    for name in RATIO_NAMES:
        rows[f"{name}_time_s"] = rows["total_s"].where(rows[name].notna())
        rows[name] *= rows[f"{name}_time_s"]
    return rows


def _sum_of_known(times: "pd.Series[float]") -> float:
    return float(times.sum(min_count=1))


def _quotient(above: "pd.Series[float]", below: "pd.Series[float]") -> "pd.Series[float]":
    return above / below.replace(0.0, np.nan)
