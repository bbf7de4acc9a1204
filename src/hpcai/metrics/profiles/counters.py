"""Floating-point work, memory traffic and times from the hardware counters of nvprof and Nsight Compute.

A counter that was not measured is NaN, never 0. Names and definitions: profilers.md, sections 1, 2 and 4.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from hpcai.core.messages import Message
from hpcai.core.text import say_share
from hpcai.metrics.cells import number_of, text_of
from hpcai.metrics.profiles.launches import Launches
from hpcai.metrics.profiles.tensor_cores import tensor_flop

SECTOR_BYTES = 32
"""A transaction of nvprof and a sector of Nsight Compute."""
NOT_COUNTED = Message("counters.not_counted", "{precision} work was not counted in {lacking} of {rows} rows")
PARTLY_COUNTED = Message(
    "counters.partly_counted",
    "only {share} of what the tool of the counters wrote could be read: too little is counted",
)
PRECISIONS = {"fp16": ("h", "hp"), "fp32": ("f", "sp"), "fp64": ("d", "dp")}
"""Letter of Nsight Compute's instruction names, and suffix of nvprof's flop_count."""
_READ = ("dram__bytes_read.sum", "dram__bytes_op_read.sum", "dram_read_bytes")
_READ_SECTORS = ("dram__sectors_read.sum", "dram__sectors_op_read.sum", "dram_read_transactions")
TIME_NAMES = ("gpu__time_duration.sum", "Duration", "gpu__time_duration.avg", "gpu__time_active.avg")
IPC_NAMES = (
    *("ipc", "sm__inst_executed.avg.per_cycle_active", "Executed Ipc Active"),
    *("sm__inst_executed.avg.per_cycle_elapsed", "Executed Ipc Elapsed"),
)
"""Instructions per cycle of a multiprocessor; the counters of a sub-partition (smsp) are a quarter of it."""
RATIO_NAMES: dict[str, tuple[str, ...]] = {
    "instructions_per_cycle": IPC_NAMES,
    "dram_utilisation": ("dram_utilization",),
    "occupancy_ratio": (
        *("achieved_occupancy", "sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy"),
    ),
    "load_efficiency_ratio": ("gld_efficiency", "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct"),
    "store_efficiency_ratio": ("gst_efficiency", "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct"),
}
"""How well kernels use the device, by column: the counters of nvprof and Nsight Compute that mean the same. NVIDIA's
table of nvprof metrics and their counterparts names the pairs (Nsight Compute CLI, nvprof Metric Comparison)."""
DRAM_SHARE_NAMES = ("dram__throughput.avg.pct_of_peak_sustained_elapsed", "DRAM Throughput")
DRAM_LEVELS = 10
"""nvprof says in whole levels of 0 to 10 how busy DRAM is; Nsight Compute gives the share of the peak."""


@dataclass(frozen=True)
class FlopCount:
    """Floating-point operations [FLOP] of all launches; NaN: not counted, or not countable.

    Attributes
    ----------
    fp16
        Additions and multiplications in half precision: a lower bound, because packed instructions count once.
    fp32, fp64
        The same in single and double precision.
    tensor
        Work of the tensor cores, in any precision.
    constant_moves
        Constant moves that the FP16 counters include although they are not work (A100); excluded from ``fp16``.
    notes
        Bounds, missing parts and exclusions.
    """

    fp16: float
    fp32: float
    fp64: float
    tensor: float
    constant_moves: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> float:
        """Sum of all parts [FLOP]; NaN if any is NaN."""
        return self.fp16 + self.fp32 + self.fp64 + self.tensor

    @property
    def counted(self) -> float:
        """Sum of the counted parts [FLOP], a lower bound of the total; NaN if there are none."""
        known = [value for value in (self.fp16, self.fp32, self.fp64, self.tensor) if not math.isnan(value)]
        return sum(known) if known else math.nan


@dataclass(frozen=True)
class MemoryTraffic:
    """Bytes moved by all launches [byte]; NaN where a level, or a direction, was not counted."""

    dram_read_bytes: float
    dram_write_bytes: float
    dram_bytes: float
    l2_bytes: float
    l1_bytes: float


@dataclass(frozen=True)
class CountedWork:
    """Work, traffic and time of launches, as totals; ratios are ratios of totals."""

    work_flop: float
    dram_bytes: float
    time_s: float

    @property
    def intensity_flop_per_byte(self) -> float:
        """Arithmetic intensity [FLOP/byte]; NaN if a total is missing or there was no traffic."""
        return self.work_flop / self.dram_bytes if self.dram_bytes > 0 else math.nan

    @property
    def rate_flop_per_s(self) -> float:
        """Achieved rate [FLOP/s]; Nsight Compute locks the clocks, so it may be below that of a free run."""
        return self.work_flop / self.time_s if self.time_s > 0 else math.nan

    @property
    def dram_rate_bytes_per_s(self) -> float:
        """Achieved memory bandwidth [byte/s]."""
        return self.dram_bytes / self.time_s if self.time_s > 0 else math.nan


def _sum_of_all(values: "pd.Series[float]") -> float:
    """Return the sum; NaN if a value is missing, so that no total is too small."""
    return float(values.sum(skipna=False))


def counted_flop(counters: pd.DataFrame, architecture: str) -> FlopCount:
    """Return the floating-point work of all launches by precision.

    FLOP = add + mul + 2 fma (profilers.md, section 4). nvprof's flop_count is that sum; its parts are used only without
    it. Conversions, comparisons and special functions are not counted.

    Parameters
    ----------
    counters
        Counters of nvprof or Nsight Compute, long.
    architecture
        One of `tensor_cores.ARCHITECTURES`, see `tensor_cores.architecture_of`.

    Raises
    ------
    ValueError
        If the architecture is not known.
    """
    table, notes = _flop_by_row(counters, architecture)
    sums = {column: _sum_of_all(table[column]) for column in (*PRECISIONS, "tensor", "constant_moves")}
    for precision in PRECISIONS:
        lacking = int(table[precision].isna().sum())
        if lacking:
            notes.append(NOT_COUNTED(precision=precision, lacking=lacking, rows=len(table)))
    if sums["fp16"] > 0:
        notes.append("fp16 is a lower bound: packed instructions count once")
    return FlopCount(**sums, notes=tuple(notes))


def _flop_by_row(counters: pd.DataFrame, architecture: str) -> tuple[pd.DataFrame, list[str]]:
    launches = Launches(counters)
    tensor = tensor_flop(launches, architecture)
    notes = [*tensor.notes]
    table = pd.DataFrame({precision: _plain_flop(launches, *names, notes) for precision, names in PRECISIONS.items()})
    table["fp16"] -= tensor.moves
    return table.assign(tensor=tensor.flop, constant_moves=tensor.moves), notes


def _plain_flop(launches: Launches, letter: str, suffix: str, notes: list[str]) -> "pd.Series[float]":
    """Return additions + multiplications + 2 fused of one precision per row."""
    whole = launches.totals(f"flop_count_{suffix}")
    add, mul, fma = (launches.totals(f"flop_count_{suffix}_{kind}") for kind in ("add", "mul", "fma"))
    parts = add + mul + 2 * fma
    # Each is printed as a rounded mean over the launches, so it may be off by half an operation per launch.
    differs = (whole - parts).abs() > 2.5 * launches.counts
    if differs.any():
        notes.append(f"flop_count_{suffix} is inconsistent with its parts in {int(differs.sum())} rows: not counted")
    single, fused = launches.instructions(letter)
    return whole.combine_first(parts).mask(differs).combine_first(single + 2 * fused)


def memory_traffic(counters: pd.DataFrame) -> MemoryTraffic:
    """Return the bytes that all launches moved between the levels of memory.

    DRAM traffic is dram__bytes, or reads + writes; if only one direction was counted, the sum is NaN.
    """
    launches = Launches(counters)
    table = _dram(launches).assign(
        l2_bytes=launches.totals("lts__t_bytes.sum"), l1_bytes=launches.totals("l1tex__t_bytes.sum")
    )
    return MemoryTraffic(**{str(column): _sum_of_all(table[column]) for column in table})


def _dram(launches: Launches) -> pd.DataFrame:
    """Return the traffic of each row; the names for writes mirror those for reads."""
    table = pd.DataFrame(index=launches.names.index)
    for direction in ("read", "write"):
        names, sectors = ([name.replace("read", direction) for name in group] for group in (_READ, _READ_SECTORS))
        by_sector = SECTOR_BYTES * launches.totals(*sectors)
        table[f"dram_{direction}_bytes"] = launches.totals(*names).combine_first(by_sector)
    both = table["dram_read_bytes"] + table["dram_write_bytes"]
    sectors_bytes = SECTOR_BYTES * launches.totals("dram__sectors.sum")
    table["dram_bytes"] = launches.totals("dram__bytes.sum").combine_first(both).combine_first(sectors_bytes)
    return table


def counted_work(counters: pd.DataFrame, architecture: str) -> CountedWork:
    """Return work, DRAM traffic and time of all launches, from which intensity and rate follow."""
    launches = Launches(counters)
    time_s = _sum_of_all(_times(launches))
    return CountedWork(counted_flop(counters, architecture).total, memory_traffic(counters).dram_bytes, time_s)


def _times(launches: Launches) -> "pd.Series[float]":
    """Return the time of each row [s]; cycles over rate only for single launches, where it is exact."""
    times = launches.values("total", TIME_NAMES, units=["s"])
    cycles = launches.values("mean", ["sm__cycles_elapsed.avg", "Elapsed Cycles"])
    rate = launches.values("mean", ["sm__cycles_elapsed.avg.per_second", "SM Frequency"], units=["Hz"])
    return times.combine_first((cycles / rate).where((launches.counts == 1) & (rate > 0)))


def counting_doubts(row: Mapping[str, object]) -> list[str]:
    """Return what a row of the view ``counters`` does not contain.

    Parameters
    ----------
    row
        The row, with ``coverage_ratio`` and ``reasons``.
    """
    coverage = number_of(row, "coverage_ratio")
    partly = [PARTLY_COUNTED(share=say_share(coverage))] if coverage < 1 else []
    return [*partly, *filter(None, [text_of(row.get("reasons"))])]


def counters_per_kernel(counters: pd.DataFrame) -> pd.DataFrame:
    """Return the input of the breakdown by category, by kernel name.

    Returns
    -------
    pandas.DataFrame
        Index ``name``; ``launches``, ``dram_bytes`` [byte] of all of them, and each of `RATIO_NAMES` (means over the
        launches, weighted by their times if those are known, otherwise by their number; NaN where one was not counted).
    """
    launches = Launches(counters)
    times = _times(launches)
    weights = times if times.notna().all() else launches.counts.astype(float)
    columns = {"launches": launches.counts, "dram_bytes": _dram(launches)["dram_bytes"], "weight": weights}
    ratios = {name: _ratio(launches, name) for name in RATIO_NAMES}
    table = pd.DataFrame({**columns, **{name: ratio * weights for name, ratio in ratios.items()}})
    sums = table.groupby(launches.names.rename("name"), sort=False).agg(_sum_of_all)
    for name in RATIO_NAMES:
        sums[name] /= sums["weight"]
    return sums.drop(columns="weight")


def _ratio(launches: Launches, column: str) -> "pd.Series[float]":
    """Return one of `RATIO_NAMES` of each row."""
    values = launches.values("mean", RATIO_NAMES[column])
    if column != "dram_utilisation":
        return values
    return values.combine_first(DRAM_LEVELS * launches.values("mean", DRAM_SHARE_NAMES, units=["ratio"]))
