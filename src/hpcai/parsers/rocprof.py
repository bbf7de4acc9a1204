"""Kernels and copies of AMD accelerators from ``rocprofv3``: its kernel and memory copy traces, as CSV or JSON.

Formats: ROCprofiler-SDK's documentation (rocm.docs.amd.com/projects/rocprofiler-sdk, "Using rocprofv3"), ROCm 6.2 to 7.
Times are in nanoseconds. The columns vary with the version; only those that all have are read. Neither form of CSV has
an end mark: a trace that was cut at a line end looks like a shorter one.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hpcai.core.errors import ParseError
from hpcai.core.messages import Message, at
from hpcai.parsers.findings import Findings, read_whole_lines, to_count
from hpcai.parsers.json_text import read_json
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading, nothing_read
from hpcai.parsers.text import split_csv

NO_TIMES = Message("rocprof.no_times", "found {start!r} to {end!r}, expected a start and a later end in nanoseconds")
OTHER_SHAPE = Message("rocprof.other_shape", "found {found} as {part}, expected {expected}; {advice}")

TOOL = "a trace of rocprofv3"
ADVICE = "run `rocprofv3 --kernel-trace --memory-copy-trace --output-format csv -- PROGRAM`"
COLUMNS = ("name", "kind", "device", "stream", "start_s", "duration_s", "bytes")
"""As for nvprof's trace; ``bytes`` is known from JSON alone."""
START, END, KIND = "Start_Timestamp", "End_Timestamp", "Kind"
COPY = re.compile(r"__amd_rocclr_copy\w*|__amd_rocclr_(?:read|write)Buffer\w*|(?:MEMORY_COPY_)?\w+_TO_\w+")
FILL = re.compile(r"__amd_rocclr_(?:fill|initHeap)\w*")
"""Kernels with which the runtime copies, fills, and sets up the device's heap; none is work of the program."""
ROOT = "rocprofiler-sdk-tool"
SHAPES: Mapping[type, str] = {dict: "an object", list: "a list"}
Row = Mapping[str, str]


def read_rocprof(path: Path) -> Reading:
    """Return one row per launch of a kernel, or copy.

    Columns: ``name``, ``kind`` ("kernel", "memcpy" or "memset"), ``device``, ``stream`` (its queue), ``start_s`` (on
    the clock of the trace), ``duration_s``, ``bytes`` (of copies, from JSON).

    Raises
    ------
    ParseError
        If there is no row of either trace, or JSON has another shape.
    """
    findings = Findings(path, TOOL)
    lines, torn = read_whole_lines(path, TOOL)
    is_json = (lines or [torn])[0].lstrip().startswith("{")
    rows = _of_json(path, "\n".join([*lines, torn])) if is_json else _of_csv(findings, lines)
    for number, row in rows:
        _add(findings, number, row)
    if torn and not is_json:
        findings.leave_out(len(lines) + 1, "the last line was truncated")
    reading = findings.reading(COLUMNS, ADVICE)
    table = reading.table.astype({"bytes": float, "device": "string"})
    return Reading(table, TOOL, path, reading.complete_records, reading.seen_records, reading.reasons, reading.facts)


def _of_csv(findings: Findings, lines: list[str]) -> Iterator[tuple[int, Row]]:
    header: list[str] = []
    for number, line in enumerate(lines, 1):
        cells = split_csv(line)
        if KIND in cells and START in cells and END in cells:
            header = cells
        elif header and line.strip():
            if len(cells) == len(header):
                yield number, dict(zip(header, cells, strict=True))
            else:
                findings.leave_out(number, f"{len(cells)} cells under {len(header)} headings")


def _of_json(path: Path, text: str) -> Iterator[tuple[int, Row]]:
    """Yield the records of JSON under the names of CSV."""
    try:
        found = read_json(text)[ROOT]
    except (ValueError, KeyError) as error:
        raise nothing_read(path, TOOL, f"JSON without a whole {ROOT} ({error})"[:160], ADVICE) from error
    rows = (
        row
        for number, part in enumerate(found if isinstance(found, list) else [found])
        for row in _rows_of(path, f"{ROOT}[{number}]", _checked(path, f"{ROOT}[{number}]", part, dict))
    )
    yield from enumerate(rows, 1)


def _rows_of(path: Path, place: str, part: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the records of one process."""
    names = {str(one.get("kernel_id")): _symbol(one) for one in _entries(part.get("kernel_symbols"))}
    agents = {_handle(one.get("id")): f"Agent {one.get('node_id')}" for one in _entries(part.get("agents"))}
    records = _checked(path, f"{place}.buffer_records", part.get("buffer_records", {}), dict)
    for kind in ("kernel_dispatch", "memory_copy"):
        entries = f"{place}.buffer_records.{kind}"
        for number, one in enumerate(_checked(path, entries, records.get(kind, []), list)):
            record = _checked(path, f"{entries}[{number}]", one, dict)
            yield _copy(record, agents) if kind == "memory_copy" else _dispatch(record, names, agents)


def _checked(path: Path, part: str, found: object, shape: type) -> Any:  # noqa: ANN401  JSON
    """Return a part of the JSON if it is an object or list, as expected."""
    if isinstance(found, shape):
        return found
    said = SHAPES.get(type(found), repr(found)[:40])
    raise ParseError(at(str(path), OTHER_SHAPE(found=said, part=part, expected=SHAPES[shape], advice=ADVICE)))


def _entries(found: object) -> list[Mapping[str, Any]]:
    """Return the entries of a list, or of an object whose keys are their numbers."""
    if isinstance(found, dict):
        return [{"kernel_id": key, **one} for key, one in found.items() if isinstance(one, dict)]
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _symbol(symbol: Mapping[str, Any]) -> str:
    return str(symbol.get("formatted_kernel_name") or symbol.get("kernel_name") or "")


def _handle(found: object) -> str:
    return str(found.get("handle", "")) if isinstance(found, dict) else str(found)


def _dispatch(one: Mapping[str, Any], names: Mapping[str, str], agents: Mapping[str, str]) -> Row:
    said = one.get("dispatch_info")
    facts = said if isinstance(said, dict) else {}
    agent = _handle(facts.get("agent_id"))
    return {
        KIND: "KERNEL_DISPATCH",
        "Kernel_Name": names.get(str(facts.get("kernel_id")), ""),
        "Agent_Id": agents.get(agent, agent),
        "Queue_Id": _handle(facts.get("queue_id")),
        START: str(one.get("start_timestamp", "")),
        END: str(one.get("end_timestamp", "")),
    }


def _copy(one: Mapping[str, Any], agents: Mapping[str, str]) -> Row:
    agent = _handle(one.get("dst_agent_id"))
    return {
        KIND: "MEMORY_COPY",
        "Direction": f"MEMORY_COPY to {agents.get(agent, agent)}",
        "Destination_Agent_Id": agents.get(agent, agent),
        START: str(one.get("start_timestamp", "")),
        END: str(one.get("end_timestamp", "")),
        "bytes": str(one.get("bytes", "")),
    }


def _add(findings: Findings, number: int, row: Row) -> None:
    start_ns, end_ns = to_count(row[START]), to_count(row[END])
    is_copy = row[KIND] == "MEMORY_COPY"
    name = row.get("Direction" if is_copy else "Kernel_Name", "")
    if start_ns is None or end_ns is None or end_ns < start_ns:
        findings.leave_out(number, NO_TIMES(start=row[START][:24], end=row[END][:24]))
    elif not name or row[KIND] not in {"MEMORY_COPY", "KERNEL_DISPATCH"}:
        findings.leave_out(number, "no kernel or copy with a name")
    else:
        size_bytes = to_count(row.get("bytes", ""))
        findings.records.append(
            {
                "line": number,
                "name": name,
                "kind": _kind(name, is_copy=is_copy),
                "device": row.get("Destination_Agent_Id" if is_copy else "Agent_Id", ""),
                "stream": row.get("Queue_Id", ""),
                "start_s": start_ns * 1e-9,
                "duration_s": (end_ns - start_ns) * 1e-9,
                "bytes": float("nan") if size_bytes is None else float(size_bytes),
            }
        )


def _kind(name: str, *, is_copy: bool) -> str:
    if is_copy or COPY.fullmatch(name.removesuffix(".kd")):
        return "memcpy"
    return "memset" if FILL.fullmatch(name.removesuffix(".kd")) else "kernel"


READER = Reader("rocprofv3", "kernel and copy traces of `rocprofv3`", read_rocprof, looks=(TOOL,))
