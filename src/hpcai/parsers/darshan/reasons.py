"""Reasons why Darshan's numbers for a job are incomplete or doubtful."""

from collections.abc import Sequence

import pandas as pd

from hpcai.core.messages import Message, at
from hpcai.parsers.darshan.guard import Answer
from hpcai.parsers.darshan.tables import are_hashed

NONE_BELOW = Message(
    "reasons.none_below", "no log has a file below {folder}: specify the folder by the path that the program uses"
)
RECORDS_LOST = Message(
    "reasons.records_lost", "{module} is incomplete: it kept {records} records, later files are missing; {remedy}"
)
UNREAD = Message(
    "reasons.unread",
    "{unread} of {opened} files were opened, but none of their bytes was read: they were probably mapped into memory "
    "(numpy mmap_mode, LMDB, Arrow), or read with io_uring, which Darshan does not see",
)
NEGATIVE = Message(
    "reasons.negative",
    "{column} of {records} {module} records is negative (not monitored, or a wrong time): not available",
)

DEFAULT_LIMIT = 1024
"""Records per module and process unless MAX_RECORDS says otherwise (darshan-runtime documentation)."""
ENLARGE = "raise MAX_RECORDS and MODMEM, or exclude paths with NAME_EXCLUDE"


def usable_answers(answers: Sequence[Answer], modules: Sequence[str]) -> tuple[list[Answer], list[str]]:
    """Return the usable logs, each once, and the reasons why others are excluded."""
    usable: list[Answer] = []
    reasons: list[str] = []
    seen: dict[str, str] = {}
    for answer in answers:
        if "error" in answer:
            reasons.append(answer["error"])
            continue
        if answer["digest"] in seen:
            reasons.append(f"{answer['path']}: the same log as {seen[answer['digest']]}: counted once")
            continue
        seen[answer["digest"]] = answer["path"]
        damaged = answer["damaged"]
        reasons += [f"{answer['path']}: damaged: {why}" for why in damaged.values()]
        if not answer["tables"] and any(name in damaged for name in modules):
            continue
        usable.append(answer)
    return usable, reasons


def find_reasons(
    answers: Sequence[Answer], files: pd.DataFrame, processes: pd.DataFrame, data_root: str | None
) -> list[str]:
    """Return one sentence for each reason why the numbers are incomplete or doubtful."""
    reasons = [reason for answer in answers for reason in _limit_reasons(answer)]
    reasons += [reason for answer in answers for reason in _value_reasons(answer)]
    hashed = 0 if data_root is None else int(files.groupby("log")["file"].apply(are_hashed).sum())
    if hashed:
        reasons.append(
            f"names of files are hashed (in {hashed} of {len(answers)} logs): the files below {data_root} are unknown"
        )
    elif data_root is not None and not files["is_data"].any():
        reasons.append(NONE_BELOW(folder=data_root))
    else:
        reasons += _unseen_reasons(files, data_root)
    workers = processes[processes["is_worker"].fillna(value=False)]
    jobs = len(set(workers["job"]))
    if jobs > 1:
        reasons.append(f"the logs with data belong to {jobs} jobs: read each by itself, or set DARSHAN_JOBID")
    shared = processes[(processes["rank"] == -1) & (processes["processes"] > 1)]
    if len(shared):
        reasons.append("files shared by all ranks have one record: its times are sums over the ranks")
    return reasons


def _limit_reasons(answer: Answer) -> list[str]:
    reasons = []
    for name, table in answer["tables"].items():
        records = len(table["rank"])
        if answer["modules"][name]["is_partial"]:
            reasons.append(at(str(answer["path"]), RECORDS_LOST(module=name, records=records, remedy=ENLARGE)))
        elif answer["job"]["nprocs"] == 1 and records == DEFAULT_LIMIT:
            reasons.append(f"{answer['path']}: {name} has as many records as fit ({records}); {ENLARGE}")
    return reasons


def _value_reasons(answer: Answer) -> list[str]:
    reasons = []
    for name, table in answer["tables"].items():
        reasons += [
            at(str(answer["path"]), NEGATIVE(column=column, records=count, module=name))
            for column, count in table["negative"].items()
        ]
        nameless = sum(file is None for file in table["file"])
        if nameless:
            reasons.append(f"{answer['path']}: {nameless} {name} records have no name; raise NAMEMEM")
    return reasons


def _unseen_reasons(files: pd.DataFrame, data_root: str | None) -> list[str]:
    """Return a reason if many data files were opened, but Darshan saw no read or write of them."""
    if data_root is None:
        return []  # programs open many files only to test whether they exist
    data = files[files["is_data"]]
    sums = data.groupby("file")[["opens", "read_bytes", "written_bytes"]].sum()
    opened = sums[sums["opens"] > 0]
    unread = int(((opened["read_bytes"] == 0) & (opened["written_bytes"] == 0)).sum())
    if unread < 2 or 2 * unread < len(opened):
        return []
    return [UNREAD(unread=unread, opened=len(opened))]


def trace_reasons(answers: Sequence[Answer]) -> list[str]:
    """Return the reasons why a trace lacks operations."""
    reasons = []
    for answer in answers:
        traced = [name for name in answer["modules"] if name.startswith("DXT_")]
        if not traced:
            reasons.append(f"{answer['path']}: was not traced (no DXT module)")
        reasons += [
            f"{answer['path']}: {name} is incomplete: its memory was full; raise MODMEM"
            for name in traced
            if answer["modules"][name]["is_partial"]
        ]
    return reasons
