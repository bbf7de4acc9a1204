"""The time in which each process read, from Darshan's extended tracing (DXT): reads at the same time count once."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from hpcai.core.errors import ParseError
from hpcai.core.messages import Message
from hpcai.metrics.profiles.spans import merge_intervals
from hpcai.parsers.darshan.log import read_darshan_segments

KEYS = ["log", "rank"]
NOT_TRACED = Message(
    "read_times.not_traced",
    "the trace of {workers} workers does not have all their reads: those of different files at the same time count in "
    "full, and bandwidths by read times are lower bounds",
)


def with_wall_times(
    processes: pd.DataFrame, logs: Sequence[Path], root: str, module: str
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the processes with ``read_wall_s`` [s], and what is not known of it.

    Darshan itself adds the times of all files, even if several threads read them at the same time. The time is missing
    for a worker whose trace lacks a read.

    Parameters
    ----------
    processes
        One row per log, module and rank, as Darshan's logs are read.
    logs
        The logs.
    root
        Folder of the data.
    module
        The module that read the data.
    """
    traced = _traced_reads(logs, root, module)
    found = processes.merge(traced, on=KEYS, how="left")
    own = found["module"] == module
    whole = own & (found.pop("traced_bytes") == found["read_bytes"])
    found["read_wall_s"] = found["read_wall_s"].where(whole)
    workers = own & found["is_worker"].fillna(value=False).astype(bool)
    lacking = int((workers & ~whole).sum())
    return found, (NOT_TRACED(workers=lacking),) if lacking else ()


def _traced_reads(logs: Sequence[Path], root: str, module: str) -> pd.DataFrame:
    """Return one row per log and rank that was traced: ``traced_bytes`` and ``read_wall_s``."""
    try:
        segments = read_darshan_segments(logs, root).table
    except ParseError:  # no log was traced: what Darshan added up remains
        segments = pd.DataFrame(columns=[*KEYS, "module", "operation"])
    reads = segments[(segments["module"] == f"DXT_{module}") & (segments["operation"] == "read")]
    rows = []
    for (log, rank), own in reads.groupby(KEYS, sort=False):
        first_s, last_s = merge_intervals(own["start_s"].to_numpy(float), own["end_s"].to_numpy(float))
        rows.append((log, rank, float(own["bytes"].sum()), float((last_s - first_s).sum())))
    table = pd.DataFrame(rows, columns=[*KEYS, "traced_bytes", "read_wall_s"])
    return table.astype({"log": object, "rank": "Int64", "traced_bytes": float, "read_wall_s": float})
