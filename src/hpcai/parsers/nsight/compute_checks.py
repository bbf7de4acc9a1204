"""Consistency checks on the rows of one launch: damage in an Nsight Compute file shows as a contradiction."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from hpcai.parsers.findings import in_order

IDENTITY = ["name", "block_size", "grid_size", "device", "compute_capability", "context", "stream", "host", "started"]
WIDEST_TIME_RATIO = 1.25
"""Tolerance; duration and cycles / frequency differ by 1 % in intact files, so more is damage."""
TIMES = ("gpu__time_duration.sum", "Duration")
CYCLES = (("sm__cycles_elapsed.avg", "sm__cycles_elapsed.avg.per_second"), ("Elapsed Cycles", "SM Frequency"))
ROUNDING_RATIO = 1e-2
MOST_NAMES = 3

Verdict = tuple["pd.Series[str]", list[str]]
"""Reason for omitting each row ("" to keep it), and notes on kept rows."""


class Doubt(NamedTuple):
    """One omitted line and the reason."""

    line: int
    why: str


def _mark(cells: pd.DataFrame, bad: "pd.Series[bool]", why: str) -> "pd.Series[str]":
    return pd.Series("", index=cells.index).mask(bad.astype(bool), why)


def _launch_keys(cells: pd.DataFrame) -> "pd.Series[str]":
    """Return one text per launch; in a summary, where launches are not numbered, one per kernel."""
    launch = cells["launch"].astype("string").fillna(cells["name"] + cells["block_size"] + cells["grid_size"])
    return cells["process"] + "/" + launch


def check_numbers(cells: pd.DataFrame) -> Verdict:
    """Check minimum ≤ mean ≤ maximum and a whole number of launches."""
    slack = ROUNDING_RATIO + 1e-6 * cells["mean"].abs()
    outside = (cells["mean"] < cells["minimum"] - slack) | (cells["mean"] > cells["maximum"] + slack)
    count = cells["launches"]
    return _mark(cells, outside | ~((count >= 1) & (count % 1 == 0)), "minimum, mean and maximum contradict"), []


def check_order(cells: pd.DataFrame) -> Verdict:
    """Check that the launch numbers of each process follow the file order."""
    numbered = cells["launch"].notna()
    good = numbered if numbered.any() else ~numbered
    for _, rows in cells[numbered].groupby("process")["launch"]:
        good = good.mask(good.index.isin(rows.index[~np.array(in_order(rows.astype(float).tolist()))]), False)
    return _mark(cells, ~good, "the number of the launch is out of order"), []


def check_identity(cells: pd.DataFrame) -> Verdict:
    """Find launches whose rows name different kernels, grids, devices or streams."""
    keys = _launch_keys(cells)
    different = cells[IDENTITY].fillna("").groupby(keys).nunique().max(axis="columns") > 1
    return _mark(cells, keys.map(different), "the rows of this launch contradict one another"), []


def check_repeats(cells: pd.DataFrame) -> Verdict:
    """Find metrics that a launch has twice in one unit with different values."""
    keys = [_launch_keys(cells), cells["metric"], cells["unit"]]
    different = cells.groupby(keys)["mean"].transform("nunique") > 1
    return _mark(cells, different, "a launch has this metric twice with different values"), []


def check_times(cells: pd.DataFrame) -> Verdict:
    """Compare a launch's duration with cycles / frequency, where all three are known."""
    keys = _launch_keys(cells)
    means = cells.assign(key=keys).pivot_table(index="key", columns="metric", values="mean", aggfunc="first")
    bad = pd.Series(False, index=means.index)
    for time in TIMES:
        for cycles, frequency in CYCLES:
            if {time, cycles, frequency} <= set(means.columns):
                ratio = means[time] * means[frequency] / means[cycles]
                bad |= (ratio > WIDEST_TIME_RATIO) | (ratio < 1 / WIDEST_TIME_RATIO)
    return _mark(cells, keys.map(bad), "the duration of this launch contradicts its cycles and frequency"), []


def check_completeness(cells: pd.DataFrame) -> Verdict:
    """Find launches that lack metrics of most others; if the last one does, it was truncated and is omitted."""
    keys = _launch_keys(cells)
    if cells.empty:
        return keys, []
    launch_codes, launches = pd.factorize(keys)
    metric_codes, metrics = pd.factorize(cells["metric"])
    has = np.zeros((len(launches), len(metrics)), dtype=bool)
    has[launch_codes, metric_codes] = True
    lacks = ~has & (has.mean(axis=0) > 0.5)
    last = keys[cells["line"].idxmax()]
    notes = []
    for launch, missing in zip(launches, lacks, strict=True):
        process, _, number = str(launch).partition("/")
        if missing.any() and launch != last:
            names = ", ".join(metrics[missing][:MOST_NAMES])
            notes.append(f"launch {number} of process {process} lacks metrics such as {names}")
    is_cut = cells["launch"].notna().all() and last in set(launches[lacks.any(axis=1)])
    why = "the last launch lacks metrics of the others: the file is cut"
    return _mark(cells, keys == last if is_cut else keys.isna(), why), notes


CHECKS: tuple[Callable[[pd.DataFrame], Verdict], ...] = (
    check_numbers,
    check_order,
    check_identity,
    check_repeats,
    check_times,
    check_completeness,
)
"""Run in this order; each check sees only the rows that earlier checks kept."""
