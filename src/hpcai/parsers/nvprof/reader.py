"""What nvprof recorded: summary, GPU trace, metrics and events; CSV and text mode are told apart by their headers.

Formats: CUDA Profiler User's Guide (nvprof). No format of nvprof has an end mark. What betrays a cut file: a last line
without a line end, percentages that do not reach 100 (summary), a kernel that lacks metrics of the others (counters).
A GPU trace, or counters of whole kernels, cut at the end of a line cannot be told from a shorter file. Neither can a
character be told that was changed where nothing else in the file depends on it: names, the start and the duration of
a launch within the gaps beside it, least and greatest times, last digits, and counters within their least and greatest.
"""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from hpcai.core.errors import ParseError
from hpcai.core.messages import Message
from hpcai.parsers.identify import looks_like
from hpcai.parsers.nvprof.counters import read_counters
from hpcai.parsers.nvprof.summary import read_summaries
from hpcai.parsers.nvprof.tables import Recording, scan
from hpcai.parsers.nvprof.trace import read_traces
from hpcai.parsers.nvprof.values import Problems
from hpcai.parsers.reading import Fact, Reading, nothing_read

OTHER_TABLES = Message("reader.other_tables", "output of nvprof with {kinds}, but no row of what was expected")
TOO_NEW = Message(
    "reader.too_new", "run it again, on a GPU of compute capability below 7.5 for metrics and below 8.0 at all"
)

SUMMARY = "nvprof summary"
TRACE = "nvprof GPU trace"
COUNTERS = "nvprof metrics and events"
KINDS = {"summary": "a summary", "trace": "a GPU trace", "metric": "a table of metrics", "event": "a table of events"}


def read_nvprof_summary(path: Path) -> Reading:
    """Read the device time of each kernel and copy from nvprof's summary.

    API calls, OpenACC and NVTX rows are no device time; ``facts`` counts them. Rows of several processes in one file
    are added up by name.

    Parameters
    ----------
    path
        Output of ``nvprof [--csv] [--log-file FILE]``, of any version.

    Returns
    -------
    Reading
        A row per kernel or copy and device: ``name, kind, device, calls, total_s, mean_s, min_s, max_s``; ``device``
        is missing unless the summary was printed per GPU.

    Raises
    ------
    ParseError
        If the file holds no device time: foreign, empty, damaged throughout, or nothing was recorded.
    """
    recording, problems = scan(path, SUMMARY), Problems()
    table, facts = read_summaries(recording, problems)
    return _finish(path, SUMMARY, table, recording, problems, facts)


def read_nvprof_trace(path: Path, kilobyte_bytes: int | None = None) -> Reading:
    """Read every launch and copy from nvprof's GPU trace.

    Whether KB means 1000 byte (old versions) or 1024 follows from Size / Duration = Throughput, or else from the
    columns of memory types, which only versions with 1024 print.

    Parameters
    ----------
    path
        Output of ``nvprof --print-gpu-trace [--csv]``, of any version.
    kilobyte_bytes
        What KB means, 1000 or 1024, for files that do not settle it: their sizes are missing otherwise.

    Returns
    -------
    Reading
        A row per launch: ``name`` (without correlation id), ``kind, device, stream, start_s, duration_s, bytes``.

    Raises
    ------
    ParseError
        If the file holds no launch: foreign, empty, damaged throughout, or nothing was recorded.
    """
    recording, problems = scan(path, TRACE), Problems()
    table, facts = read_traces(recording, problems, kilobyte_bytes)
    return _finish(path, TRACE, table, recording, problems, facts)


def read_nvprof_counters(path: Path, kilobyte_bytes: int | None = None) -> Reading:
    """Read the metrics and events of each kernel.

    A counter can be an event and a metric: ``source`` tells them apart, and they are never to be added.

    Parameters
    ----------
    path
        Output of ``nvprof --metrics ... [--events ...] [--csv]``, of any version.
    kilobyte_bytes
        What KB means in throughputs, 1000 (old versions) or 1024, for files that do not settle it, such as the
        ``facts`` of a trace of the same nvprof say: their throughputs are missing otherwise.

    Returns
    -------
    Reading
        A row per kernel and counter: ``name, device, launch`` (missing: nvprof aggregates), ``launches, source``
        (metric or event), ``metric, unit`` ('' = count, 'byte', 'byte/s', 'ratio', 'level' of 0 to 10), ``minimum,
        maximum, mean, total`` (launches x mean, missing unless counts or bytes).

    Raises
    ------
    ParseError
        If the file holds no counter: foreign, empty, damaged throughout, or nothing was recorded.
    """
    recording, problems = scan(path, COUNTERS), Problems()
    table, facts = read_counters(recording, problems, kilobyte_bytes)
    return _finish(path, COUNTERS, table, recording, problems, facts)


def _finish(
    path: Path, tool: str, table: pd.DataFrame, recording: Recording, problems: Problems, facts: Mapping[str, Fact]
) -> Reading:
    if table.empty:
        raise _nothing(path, tool, recording, problems)
    if recording.cut_line:
        problems.note(f"the file ends within line {recording.cut_line}: it was cut, and more may be missing")
    for line, text in recording.trouble:
        problems.note(f"nvprof says in line {line}: {text}")
    general: dict[str, Fact] = {
        "command": recording.command,
        "processes": max(1, len(recording.processes)),
        "is_text_mode": any(found.is_text for found in recording.tables),
    }
    seen = len(table) + problems.rows
    return Reading(table, tool, path, len(table), seen, problems.sentences(), general | dict(facts))


def _nothing(path: Path, tool: str, recording: Recording, problems: Problems) -> ParseError:
    advice = TOO_NEW()
    if recording.trouble:
        return nothing_read(path, tool, f"nvprof's message {recording.trouble[0][1]!r}", advice)
    if recording.nothing:
        return nothing_read(path, tool, f"{recording.nothing[0]!r}: nvprof recorded no kernels", advice)
    if problems.rows:
        return nothing_read(path, tool, f"no whole row ({problems.sentences()[0]})", "copy the file again")
    kinds = sorted({table.kind for table in recording.tables})
    if not kinds:
        return nothing_read(path, tool, looks_like(path), "give the log of nvprof, or run it again")
    found = OTHER_TABLES(kinds=" and ".join(KINDS[kind] for kind in kinds))
    return nothing_read(path, tool, found, "choose the file of this kind, or run nvprof with the option that prints it")
