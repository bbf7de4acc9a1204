"""Group Darshan logs by job, and sum what each process did to the data."""

import pandas as pd

from hpcai.parsers.darshan.tables import COUNTS, STAMPS, TIMES, are_hashed

CLOCK_S = 1.0
"""Start times of two logs may be this far out of order; before format 3.41 they are whole seconds."""
KEYS = ["log", "module", "rank"]
COUNTABLE = [*COUNTS, "files", "unread_files"]


def sum_processes(processes: pd.DataFrame, files: pd.DataFrame, data_root: str | None) -> pd.DataFrame:
    """Return one row per log, module and rank: the sums over its files of the data.

    A sum is missing if one of its parts is. A process without a data file has read 0 bytes of data, unless its
    records are incomplete or its file names are hashed.
    """
    table = _sum_data(files)
    whole = files.groupby(KEYS)
    table = whole["read_bytes"].sum().rename("all_read_bytes").to_frame().join(table)
    table["is_partial"] = whole["is_partial"].any()
    no_data = table["files"].isna()
    table.loc[no_data & ~table["is_partial"], COUNTABLE] = 0.0
    table.loc[~no_data, "unread_files"] = table["unread_files"].fillna(0)
    if data_root is not None:
        hashed = whole["file"].apply(are_hashed)
        table.loc[hashed[hashed].index, [*COUNTABLE, *TIMES, *STAMPS]] = float("nan")
    joined = processes.merge(table.reset_index(), on="log", how="left")
    read = joined["read_bytes"]
    joined["is_worker"] = (read > 0).astype("boolean").mask(read.isna() & joined["module"].notna())
    return joined.astype({"rank": "Int64", "is_partial": "boolean"})


def _sum_data(files: pd.DataFrame) -> pd.DataFrame:
    data = files[files["is_data"]]
    groups = data.groupby(KEYS)
    sums = groups[[*COUNTS, *TIMES]].sum()
    sums = sums.mask(groups[[*COUNTS, *TIMES]].count().lt(groups.size(), axis=0))
    sums["files"] = groups["file"].nunique()
    sums["unread_files"] = data[_is_unread(data)].groupby(KEYS)["file"].nunique()
    sums["first_read_s"], sums["last_read_s"] = groups[STAMPS[0]].min(), groups[STAMPS[1]].max()
    return sums


def _is_unread(files: pd.DataFrame) -> "pd.Series[bool]":
    return (files["opens"] > 0) & (files["read_bytes"] == 0) & (files["written_bytes"] == 0)


def name_jobs(processes: pd.DataFrame) -> pd.DataFrame:
    """Add ``role`` and ``job``, a text that all logs of a job share.

    Logs with the same job number belong together. Without DARSHAN_JOBID, Darshan uses the process number as the job
    number. Then a process and its forked children belong together: a child names its parent and starts while it runs.
    """
    logs = processes.drop_duplicates("log").set_index("log")
    is_own = (logs["process_id"] == logs["job_id"]).fillna(value=False)
    is_twice = is_own & logs[is_own].duplicated("job_id", keep=False).reindex(logs.index, fill_value=False)
    jobs = {str(log): str(log) if is_twice[log] else str(logs["job_id"][log]) for log in logs.index}
    parents = _parent_logs(logs)
    for log in jobs:
        root, seen = log, {log}
        while root in parents and parents[root] not in seen:
            root = parents[root]
            seen.add(root)
        jobs[log] = jobs[root]
    working = set(processes.loc[processes["is_worker"].fillna(value=False), "log"])
    roles = {log: "worker" if log in working else "parent" if log in set(parents.values()) else "other" for log in jobs}
    return processes.assign(job=processes["log"].map(jobs), role=processes["log"].map(roles))


def _parent_logs(logs: pd.DataFrame) -> dict[str, str]:
    """Map the log of each forked child to its parent's log, where there is one."""
    found: dict[str, str] = {}
    for log, child in logs[logs["parent_process_id"].notna()].iterrows():
        runs = (logs["start_s"] <= child["start_s"] + CLOCK_S) & (logs["end_s"] >= child["start_s"] - CLOCK_S)
        is_parent = (logs["process_id"] == child["parent_process_id"]).fillna(value=False)
        candidates = logs.index[runs & is_parent & (logs.index != log)]
        if len(candidates) == 1:
            found[str(log)] = str(candidates[0])
    return found
