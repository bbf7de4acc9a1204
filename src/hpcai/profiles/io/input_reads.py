"""Reads of the training input where Darshan is not: each rank's own counters, and the stages of its ``tf.data``."""

import math

import pandas as pd

from hpcai.core.errors import ParseError
from hpcai.core.messages import Message
from hpcai.metrics.profiles.io import IoSetting, io_summary, io_workers
from hpcai.metrics.profiles.spans import merge_intervals
from hpcai.parsers.tensorflow_profile import read_input_stages
from hpcai.profiles.profile import Profile
from hpcai.records.files import read_part
from hpcai.records.input_window import COUNTERS, TOOL, InputWindow, trace_name

READING_STAGE = "TFRecord"
"""How the stages begin that wait for the file system; all others parse, shuffle or batch."""
MODULE = "read calls"
ALL_READS = Message(
    "input_reads.all_reads",
    "the kernel counts all read calls of a rank from its first step to its last, of the data and of anything else",
)
WHOLE_STAGING = Message(
    "input_reads.whole_staging",
    "timed as a whole, unpacking and writing included: a lower bound of the bandwidth of reading",
)
FEWER_RANKS = Message(
    "input_reads.fewer_ranks", "{path}: found the counters of {found} ranks, expected {ranks}; profile the run again"
)
NO_COUNTERS = Message("input_reads.no_counters", "{path}: the kernel does not count the reads of a process here")


def training_reads(profile: Profile, setting: IoSetting) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the row of the training input in the view ``io``, and its ranks in ``io_workers``.

    Bytes and calls are those of the ranks' read calls during the profiled steps (proc(5)); read times are those of the
    stages of ``tf.data`` that read files, in the same steps. Its threads read in parallel.

    Raises
    ------
    ParseError
        If a rank's counters or trace are damaged or not there.
    """
    rows = [_worker(profile, window) for window in _windows(profile)]
    whole = IoSetting(page_cache=setting.page_cache, dataset_bytes=setting.dataset_bytes, reasons=(ALL_READS(),))
    table = pd.DataFrame(rows)
    return pd.DataFrame([io_summary(table, whole, MODULE)]), io_workers(table, MODULE)


def input_stages(profile: Profile) -> pd.DataFrame:
    """Return the view ``input_stages``: calls and time of each stage of the input pipeline, over all ranks."""
    traces = [read_input_stages(profile.file(trace_name(window.rank))).table for window in _windows(profile)]
    grouped = pd.concat(traces).groupby("stage", sort=False)["duration_s"]
    table = pd.DataFrame({"calls": grouped.size(), "total_s": grouped.sum(), "median_s": grouped.median()})
    table = table.sort_values("total_s", ascending=False).reset_index()
    return table.assign(reads_files=table["stage"].str.startswith(READING_STAGE))


def _windows(profile: Profile) -> list[InputWindow]:
    """Return the counters of all ranks, by rank."""
    windows = [read_part(InputWindow, path) for path in profile.files(".json") if path.match(COUNTERS)]
    if len(windows) != profile.plan.point.ranks:
        raise ParseError(FEWER_RANKS(path=profile.folder, found=len(windows), ranks=profile.plan.point.ranks))
    return sorted(windows, key=lambda one: one.rank)


def _worker(profile: Profile, window: InputWindow) -> dict[str, object]:
    """Return what a rank read, in the columns of Darshan's processes."""
    read_bytes = window.counted("read_bytes")
    if math.isnan(read_bytes):
        raise ParseError(NO_COUNTERS(path=profile.folder))
    stages = read_input_stages(profile.file(trace_name(window.rank))).table
    reading = stages[stages["stage"].str.startswith(READING_STAGE)]
    starts_s, ends_s = reading["start_s"], reading["start_s"] + reading["duration_s"]
    first_s, last_s = merge_intervals(starts_s.to_numpy(float), ends_s.to_numpy(float))
    return {
        **_process(window.rank, window.process_id),
        "read_bytes": read_bytes,
        "reads": window.counted("reads"),
        "read_time_s": float(reading["duration_s"].sum()) if len(reading) else math.nan,
        "read_wall_s": float((last_s - first_s).sum()) if len(reading) else math.nan,
        "first_read_s": float(starts_s.min()) if len(reading) else math.nan,
        "last_read_s": float(ends_s.max()) if len(reading) else math.nan,
    }


def staging_reads(profile: Profile, setting: IoSetting) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the same of the staging, as each rank timed its part of it (as Fugaku did for MLPerf HPC v0.7)."""
    rows = [
        {
            **_process(report.placement.rank, -1),
            "read_bytes": float(report.staging_read_bytes),
            "reads": math.nan,
            "read_time_s": report.staging_s,
            "read_wall_s": report.staging_s,
            "first_read_s": math.nan,
            "last_read_s": math.nan,
        }
        for report in profile.record.ranks
        if report.staging_read_bytes
    ]
    whole = IoSetting(setting.page_cache, setting.dataset_bytes, reasons=(WHOLE_STAGING(),))
    table = pd.DataFrame(rows, columns=[*_process(0, 0), *_NUMBERS])
    return pd.DataFrame([io_summary(table, whole, MODULE)]), io_workers(table, MODULE)


_NUMBERS = ("read_bytes", "reads", "read_time_s", "read_wall_s", "first_read_s", "last_read_s")


def _process(rank: int, process_id: int) -> dict[str, object]:
    """Return who read; what Darshan knows besides is not known here."""
    return {
        "log": TOOL, "job": "", "process_id": process_id, "rank": rank, "processes": 1, "executable": "python",
        "module": MODULE, "files": math.nan, "opens": math.nan, "metadata_s": math.nan, "is_worker": True,
    }  # fmt: skip
