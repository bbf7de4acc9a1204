"""Darshan logs of a training job: which processes read how much data, when and for how long.

Without MPI every process writes its own log (Darshan's runtime documentation, non-MPI mode): ranks, forked or spawned
data workers, and helpers such as ``uname``. Read times are sums over the calls of a process; overlapping reads by
parallel threads are counted in full. Only the traced operations (`read_darshan_segments`) tell which overlap.

Darshan does not see memory-mapped files, io_uring, GPUDirect storage, and files beyond its record limit. Their bytes
are missing without notice unless a reason reports them.
"""

from collections.abc import Sequence
from pathlib import Path

from hpcai.core.errors import ParseError
from hpcai.parsers.darshan.guard import Answer, read_guarded
from hpcai.parsers.darshan.processes import name_jobs, sum_processes
from hpcai.parsers.darshan.reasons import find_reasons, trace_reasons, usable_answers
from hpcai.parsers.darshan.tables import file_table, process_facts, segment_table
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading

TOOL = "Darshan"
MODULES = ("POSIX", "STDIO", "MPI-IO")


def read_darshan_logs(paths: Sequence[Path], data_root: str | None) -> Reading:
    """Return one row per log, module and rank (-1: files shared by several ranks) with the data that was read.

    Never add modules up: MPI-IO calls POSIX, so the same bytes appear in both.

    Parameters
    ----------
    paths
        The logs; all of one job, or of several.
    data_root
        Folder of the dataset as the program names it (links are not followed), or a pattern with ``*``, for example
        to exclude an index that rank 0 reads. Only these files count. None: all files, so every process that read a
        file is a worker.

    Returns
    -------
    Reading
        Columns: log, job (logs with the same text belong together), job_id, process_id, parent_process_id, executable,
        command, processes (ranks of the job), rank, module, role (worker, parent, other), is_worker (read bytes of the
        data), is_partial, start_s and end_s (since 1970), files, unread_files (opened, nothing read or written; folders
        too), read_bytes, written_bytes, reads, opens, read_time_s, write_time_s, metadata_s, slowest_rank_s,
        first_read_s and last_read_s (since 1970), all_read_bytes (whole module). A log without any of the modules has
        one row whose module is missing. Records are logs. Facts: jobs, workers, data_files (different ones, read).

    Raises
    ------
    ParseError
        If no log can be read.
    """
    answers, reasons = _read(paths, "records")
    files = file_table(answers, data_root)
    processes = name_jobs(sum_processes(process_facts(answers), files, data_root))
    reasons += find_reasons(answers, files, processes, data_root)
    workers = processes.loc[processes["is_worker"].fillna(value=False), "log"].nunique()
    facts = {
        "data_root": data_root,
        "logs": len(answers),
        "jobs": int(processes["job"].nunique()),
        "workers": int(workers),
        "data_files": int(files.loc[files["is_data"] & (files["read_bytes"] > 0), "file"].nunique()),
        "library": ", ".join(sorted({answer["job"]["metadata"].get("lib_ver", "unknown") for answer in answers})),
    }
    complete = sum(_is_complete(answer) for answer in answers)
    return Reading(processes, TOOL, Path(paths[0]), complete, len(paths), tuple(reasons), facts)


def read_darshan_files(paths: Sequence[Path], data_root: str | None) -> Reading:
    """Return one row per log, module, rank and file of the data: the records that `read_darshan_logs` adds up.

    Raises
    ------
    ParseError
        If no log can be read.
    """
    answers, reasons = _read(paths, "records")
    files = file_table(answers, data_root)
    table = files[files["is_data"]].drop(columns="is_data").reset_index(drop=True)
    complete = sum(_is_complete(answer) for answer in answers)
    return Reading(table, TOOL, Path(paths[0]), complete, len(paths), tuple(reasons), {"data_root": data_root})


def read_darshan_segments(paths: Sequence[Path], data_root: str | None) -> Reading:
    """Return one row per read or write of the data that extended tracing (DXT) kept.

    Returns
    -------
    Reading
        Columns: log, process_id, module, rank, hostname, file, operation, offset_bytes, bytes, start_s and end_s
        (since 1970), thread (newer libraries only).

    Raises
    ------
    ParseError
        If no log can be read, or none was traced.
    """
    answers, reasons = _read(paths, "segments")
    reasons += trace_reasons(answers)
    if not any(answer["tables"] for answer in answers):
        what = "; ".join(reasons) or "no log has the modules DXT_POSIX or DXT_MPIIO"
        raise ParseError(f"{paths[0]}: no operations were traced ({what}); set MOD_ENABLE DXT_POSIX in Darshan's file")
    table = segment_table(answers, data_root)
    complete = sum(bool(answer["tables"]) and not answer["damaged"] for answer in answers)
    return Reading(table, TOOL, Path(paths[0]), complete, len(paths), tuple(reasons), {"data_root": data_root})


def _read(paths: Sequence[Path], table: str) -> tuple[list[Answer], list[str]]:
    """Return the answers of the logs that can be read, and why others cannot."""
    if not paths:
        raise ParseError("no Darshan log was given; set DARSHAN_LOGPATH to a folder with <year>/<month>/<day> in it")
    answers, reasons = usable_answers(read_guarded([Path(path) for path in paths], table), MODULES)
    if not answers:
        raise ParseError("; ".join(reasons[:3]) + (f"; and {len(reasons) - 3} more" if len(reasons) > 3 else ""))
    return answers, reasons


def _is_complete(answer: Answer) -> bool:
    needed = [name for name in MODULES if name in answer["modules"]]
    return not any(name in answer["damaged"] or answer["modules"][name]["is_partial"] for name in needed)


READERS = (
    Reader(
        "darshan",
        "counts in logs of Darshan",
        lambda path: read_darshan_logs([path], None),
        read_job=read_darshan_logs,
        ending=".darshan",
        slow=True,
    ),
    # Every log is one of counts, with or without a trace: the trace has to be asked for.
    Reader(
        "darshan-dxt",
        "traced operations in logs of Darshan",
        lambda path: read_darshan_segments([path], None),
        read_job=read_darshan_segments,
        ending=".darshan",
        slow=True,
        asked_for=True,
    ),
)
