"""Frames from the records that the guarded process read."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pandas as pd

from hpcai.parsers.darshan.guard import Answer

COUNTS = ("opens", "reads", "read_bytes", "written_bytes")
TIMES = ("read_time_s", "write_time_s", "metadata_s", "slowest_rank_s")
STAMPS = ("first_read_s", "last_read_s")
HASHED = re.compile(r"/{0,2}\d+")
"""File name after darshan-convert --obfuscate."""
LOG_NAME = re.compile(r"_id\d+-(?P<process>\d+)_\d+-\d+-\d+-")
"""Log file names since Darshan 3.3: user, program, job, process, date and a random number (darshan-core.c)."""


def process_facts(answers: Sequence[Answer]) -> pd.DataFrame:
    """Return one row per log: job_id, process_id, parent_process_id, executable, command, processes, start_s, end_s."""
    rows = [_process_row(answer) for answer in answers]
    frame = pd.DataFrame(rows)
    return frame.astype({"process_id": "Int64", "parent_process_id": "Int64"})


def _process_row(answer: Answer) -> dict[str, Any]:
    job = answer["job"]
    parent = job["metadata"].get("fork_parent", "")
    name = LOG_NAME.search(Path(answer["path"]).name)
    return {
        "log": answer["path"],
        "job_id": job["jobid"],
        "process_id": int(name["process"]) if name else pd.NA,
        "parent_process_id": int(parent) if parent.isdecimal() else pd.NA,
        "executable": answer["command"].split(" ")[0],
        "command": answer["command"],
        "processes": job["nprocs"],
        "start_s": start_s(answer),
        "end_s": job["end_time_sec"] + job["end_time_nsec"] / 1e9,
    }


def start_s(answer: Answer) -> float:
    """Return the start of the process (s since 1970); whole seconds before format 3.41."""
    return float(answer["job"]["start_time_sec"] + answer["job"]["start_time_nsec"] / 1e9)


def file_table(answers: Sequence[Answer], data_root: str | None) -> pd.DataFrame:
    """Return one row per log, module, rank and file; times since 1970; is_data: below the dataset folder."""
    columns = ["log", "module", "is_partial", "rank", "file", *COUNTS, *TIMES, *STAMPS]
    frames = []
    for answer in answers:
        for module, table in answer["tables"].items():
            frame = pd.DataFrame({name: table[name] for name in columns if name in table})
            frame.insert(0, "is_partial", answer["modules"][module]["is_partial"])
            frame.insert(0, "module", module)
            frame.insert(0, "log", answer["path"])
            for stamp in STAMPS:
                frame[stamp] = frame[stamp].astype(float) + start_s(answer)
            frames.append(frame)
    numbers = dict.fromkeys((*COUNTS, *TIMES, *STAMPS), float)
    full = [frame.astype(numbers) for frame in frames if len(frame)]
    files = pd.concat(full, ignore_index=True) if full else pd.DataFrame(columns=columns).astype(numbers)
    files["is_data"] = pd.Series([is_below(name, data_root) for name in files["file"]], files.index, bool)
    return files


def is_below(name: str | None, data_root: str | None) -> bool:
    """Return whether a file lies below a folder or matches a pattern; True for every file if there is no folder."""
    if data_root is None:
        return True
    if "*" in data_root:
        return name is not None and fnmatchcase(name, data_root)
    root = data_root.rstrip("/")
    return name is not None and (name == root or name.startswith(f"{root}/"))


def are_hashed(names: "pd.Series[str]") -> bool:
    """Return whether file names were replaced by numbers, which makes a dataset unrecognisable."""
    files = names.dropna()
    files = files[~files.str.startswith("<")]
    return len(files) > 0 and bool(files.str.fullmatch(HASHED).mean() > 0.5)


def segment_table(answers: Sequence[Answer], data_root: str | None) -> pd.DataFrame:
    """Return one row per traced operation on the data."""
    frames = []
    for answer in answers:
        process = _process_row(answer)["process_id"]
        for module, table in answer["tables"].items():
            frame = pd.DataFrame(table)
            frame.insert(0, "module", module)
            frame.insert(0, "process_id", process)
            frame.insert(0, "log", answer["path"])
            frame[["start_s", "end_s"]] = frame[["start_s", "end_s"]].astype(float) + start_s(answer)
            frames.append(frame)
    types: dict[str, Any] = {"process_id": "Int64", "thread": "UInt64", "offset_bytes": float, "bytes": float}
    segments = pd.concat([frame.astype(types) for frame in frames], ignore_index=True)
    is_data = [is_below(name, data_root) for name in segments["file"]]
    order = ["log", "process_id", "module", "rank", "hostname", "file", "operation"]
    values = ["offset_bytes", "bytes", "start_s", "end_s", "thread"]
    return segments.loc[is_data, order + values].reset_index(drop=True)
