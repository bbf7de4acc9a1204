"""Input of a training run: three definitions of bandwidth, epochs read, and the cost of an epoch's input.

The three definitions answer different questions and differ by factors (`shared/reference/profilers.md`, section 7):

- sum: each worker's bytes over its own read time, added; the total rate if all workers read all the time;
- parallel: all bytes over the largest read time of a worker; as if all workers had started together;
- delivered: all bytes over the time from the first read to the last; the arrival rate, including pauses for compute.

A worker's read time is here the time in which at least one of its reads ran: those of parallel threads count once.
"""

import math
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from hpcai.core.messages import Message

SIZE_UNKNOWN = Message("io.size_unknown", "the size of the dataset is not known: no epochs and no time per epoch")
UNKNOWN_READERS = Message("io.unknown_readers", "it is not known whether {processes} processes read data")
READ_ELSEWHERE = Message("io.read_elsewhere", "another {bytes} bytes of the data were read through {module}")
OVERLAPPING = Message(
    "io.overlapping",
    "a worker's reads took longer than from its first to its last: they overlapped, and only the sum of their times is "
    "known: no bandwidth by read times",
)
STAMP_STEP_S = 1e-6
"""Rounding of the times since 1970 between which a worker read."""
PageCache = Literal["cold", "warm", "unknown"]
ADDABLE = ("reads", "opens", "read_time_s", "read_wall_s", "metadata_s")
WORKER_COLUMNS = [
    "log", "job", "process_id", "rank", "executable", "module", "files", "read_bytes", "reads", "opens",
    "read_time_s", "read_wall_s", "metadata_s", "bandwidth_bytes_per_s", "first_read_s", "last_read_s",
]  # fmt: skip

_NAN = float("nan")


@dataclass(frozen=True)
class IoSetting:
    """Facts about a run besides its Darshan logs.

    Attributes
    ----------
    page_cache
        Whether the files were in memory before the run.
    dataset_bytes
        Size of the data that one epoch reads (byte); NaN if unknown.
    epoch_s
        Time of one epoch, measured without a profiler (s); NaN if unknown.
    files
        Different files of the data over all workers; NaN if unknown.
    coverage_ratio, reasons
        From the reading behind the processes.
    """

    page_cache: PageCache = "unknown"
    dataset_bytes: float = _NAN
    epoch_s: float = _NAN
    files: float = _NAN
    coverage_ratio: float = 1.0
    reasons: tuple[str, ...] = ()


def data_module(processes: pd.DataFrame) -> str:
    """Return the module through which the data were read: POSIX, or STDIO if that carried more bytes of them.

    MPI-IO is never returned: POSIX includes its bytes.
    """
    read = processes.groupby("module")["read_bytes"].sum()
    return "STDIO" if read.get("STDIO", 0.0) > read.get("POSIX", 0.0) else "POSIX"


def io_workers(processes: pd.DataFrame, module: str) -> pd.DataFrame:
    """Return one row per worker: bytes, calls and times of one module, and its own bandwidth (byte/s).

    Parameters
    ----------
    processes
        One row per log, module and rank, as Darshan's logs are read; ``read_wall_s`` where a trace tells it.
    module
        POSIX, STDIO or MPI-IO; they are never added up.
    """
    is_worker = processes["is_worker"].fillna(value=False).astype(bool)
    workers = processes[is_worker & (processes["module"] == module)].copy()
    workers["read_wall_s"] = _wall_s(workers)
    workers["bandwidth_bytes_per_s"] = _divide(workers["read_bytes"], workers["read_wall_s"])
    shared = (workers["rank"] < 0).fillna(value=False) & (workers["processes"] > 1)
    workers.loc[shared, "bandwidth_bytes_per_s"] = _NAN
    return workers[WORKER_COLUMNS].reset_index(drop=True)


def _wall_s(workers: pd.DataFrame) -> "pd.Series[float]":
    """Return the time in which each worker read: that of its trace, otherwise the sum over its reads.

    NaN where the sum cannot be that time, because it is longer than from the first read to the last.
    """
    added = workers["read_time_s"].astype(float)
    overlap = added > workers["last_read_s"] - workers["first_read_s"] + STAMP_STEP_S
    known = added.mask(overlap)
    return workers["read_wall_s"].astype(float).fillna(known) if "read_wall_s" in workers else known


def _divide(amount: "pd.Series[float]", time_s: "pd.Series[float]") -> "pd.Series[float]":
    """Return rates; NaN for reads without measurable time."""
    return amount / time_s.where(time_s > 0)


def io_summary(processes: pd.DataFrame, setting: IoSetting, module: str | None = None) -> dict[str, float | str]:
    """Return the row of a run in the view ``io``.

    Parameters
    ----------
    processes
        One row per log, module and rank of this run.
    setting
        Other facts about the run.
    module
        The module to report; by default the one that read the data.

    Returns
    -------
    dict
        module, workers, files, read_bytes, reads, opens, read_time_s (sum over all reads), read_wall_s (the time in
        which a worker read, summed over workers), metadata_s, the three bandwidths, dataset_epochs (bytes read over the
        size of the dataset), io_epoch_s (dataset over parallel bandwidth), io_epoch_mean_s (mean read time of a worker
        per epoch), io_epoch_delivered_s (dataset over delivered bandwidth: an upper bound that includes compute),
        epoch_s, io_share_ratio (io_epoch_s over epoch_s), page_cache, coverage_ratio, and reasons as one string.
        Values that cannot be computed are NaN.
    """
    chosen = module or data_module(processes)
    workers = io_workers(processes, chosen)
    reasons = [*setting.reasons, *_doubts(processes, workers, chosen, setting)]
    read_bytes = _total(workers["read_bytes"])
    bandwidths = _bandwidths(workers)
    epochs = _ratio(read_bytes, setting.dataset_bytes)
    io_epoch_s = _ratio(setting.dataset_bytes, bandwidths["bandwidth_parallel_bytes_per_s"])
    delivered = bandwidths["bandwidth_delivered_bytes_per_s"]
    mean_time_s = _total(workers["read_wall_s"]) / len(workers) if len(workers) else _NAN
    return {
        "module": chosen,
        "workers": len(workers),
        "files": setting.files,
        "read_bytes": read_bytes,
        **{name: _total(workers[name]) for name in ADDABLE},
        **bandwidths,
        "dataset_epochs": epochs,
        "page_cache": setting.page_cache,
        "io_epoch_s": io_epoch_s,
        "io_epoch_mean_s": _ratio(mean_time_s, epochs),
        "io_epoch_delivered_s": _ratio(setting.dataset_bytes, delivered),
        "epoch_s": setting.epoch_s,
        "io_share_ratio": _ratio(io_epoch_s, setting.epoch_s),
        "coverage_ratio": setting.coverage_ratio,
        "reasons": "; ".join(reasons),
    }


def _bandwidths(workers: pd.DataFrame) -> dict[str, float]:
    """Return the bandwidths by the three definitions (byte/s)."""
    read_bytes = _total(workers["read_bytes"])
    own = workers["bandwidth_bytes_per_s"]
    window_s = workers["last_read_s"].max(skipna=False) - workers["first_read_s"].min(skipna=False)
    longest_s = workers["read_wall_s"].max(skipna=False) if own.notna().all() else _NAN
    return {
        "bandwidth_sum_bytes_per_s": _total(own),
        "bandwidth_parallel_bytes_per_s": _ratio(read_bytes, longest_s),
        "bandwidth_delivered_bytes_per_s": _ratio(read_bytes, window_s),
    }


def _total(values: "pd.Series[float]") -> float:
    """Return a sum; NaN if a part is missing, or if there are no parts."""
    return float(values.astype(float).sum(skipna=False)) if len(values) else _NAN


def _ratio(amount: float, by: float) -> float:
    return float(amount / by) if by > 0 else _NAN


def _doubts(processes: pd.DataFrame, workers: pd.DataFrame, module: str, setting: IoSetting) -> list[str]:
    """Return why numbers of the row are missing, or must not be taken at face value."""
    doubts = []
    if workers.empty:
        doubts.append(f"no process read data through {module}")
    if (workers["read_wall_s"] == 0).any():
        doubts.append("a worker's reads took no measurable time (page cache): no bandwidth by read times")
    shared = (workers["rank"] < 0).fillna(value=False)
    if shared.any() and workers["bandwidth_bytes_per_s"].isna().any():
        doubts.append("for files shared by ranks only the sum of the times is known: no bandwidth by read times")
    elif workers["read_time_s"].isna().any():
        doubts.append("a worker's read time is not available: no bandwidth by read times")
    elif workers["read_wall_s"].isna().any():
        doubts.append(OVERLAPPING())
    unknown = processes.loc[processes["module"] == module, "is_worker"].isna().sum()
    if unknown:
        doubts.append(UNKNOWN_READERS(processes=unknown))
    other = processes[processes["module"].isin({"POSIX", "STDIO"} - {module})]
    other_bytes = other["read_bytes"].sum()
    if module != "MPI-IO" and other_bytes > 0:
        doubts.append(READ_ELSEWHERE(bytes=round(other_bytes), module=other["module"].iloc[0]))
    if setting.page_cache == "warm":
        doubts.append("warm page cache: the bandwidths are those of memory, not of storage")
    if math.isnan(setting.dataset_bytes):
        doubts.append(SIZE_UNKNOWN())
    return doubts
