"""Guess what an unknown file is, for error messages; the first matching pattern wins."""

import re
from pathlib import Path

HEAD_BYTES = 1 << 16

BINARY: tuple[tuple[bytes, str], ...] = (
    (b"\x7fELF", "a program (ELF)"),
    (b"\x1f\x8b", "a gzip file"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard file"),
    (b"BZh", "a bzip2 file"),
    (b"\xfd7zXZ", "an xz file"),
    (b"PK\x03\x04", "a zip file"),
    (b"SQLite format 3", "an SQLite database (nvprof -o or nsys export): write it out as CSV"),
    (b"\x89HDF", "an HDF5 file"),
    (b"PAR1", "a Parquet file"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a PNG image"),
    (b"NVR\x00", "an Nsight Compute report (.ncu-rep): write it out with `ncu --import FILE --csv`"),
)
"""Magic bytes of binary formats."""

TEXT: tuple[tuple[str, str], ...] = (
    (r'\A\s*+\[?\s*+\{[^{}]*"ph"\s*:', "a Chrome trace (Horovod timeline)"),
    (r'"?Device"?,"?Kernel"?,"?Invocations"?,"?Metric Name"?', "an nvprof table of metrics"),
    (r'"?Device"?,"?Kernel"?,"?Invocations"?,"?Event Name"?', "an nvprof table of events"),
    (r'^"?Type"?,"?Time\(%\)"?|^"?Time\(%\)"?,"?Time"?,"?Calls"?|Time\(%\)\s+Time\s+Calls', "an nvprof summary"),
    (r'^"?Start"?,"?Duration"?,"?Grid X"?', "an nvprof GPU trace"),
    (r"^==(\d+|======)== (NVPROF|Profiling result)", "output of nvprof"),
    (r'^\ufeff?"(ID|Process ID)",', "a table of Nsight Compute"),
    (r"^==PROF==", "output of Nsight Compute"),
    (r"Time \(%\).*Total Time \(ns\)", "a table of nsys stats"),
    (r"^#\s+darshan log version", "output of darshan-parser"),
    (r"# nccl-tests|# nThread \d+|^#\s+size\s+count\s+type", "output of nccl-tests"),
    (r"^# OSU MPI", "output of OSU Micro-Benchmarks"),
    (r"HPL-MxP|HPL-AI|HPLMXP", "output of HPL-MxP"),
    (r"HPLinpack|^T/V\s+N\s+NB", "output of HPL"),
    (r"power\.draw", "a query of nvidia-smi"),
    (
        r'^(timestamp,)?gpu,.*(socket_power|power_usage|energy_consumption)|"(\w*socket_power|total_energy_consumption)"\s*:',
        "output of amd-smi",
    ),
    (r'^"?Kind"?,.*"?Start_Timestamp"?,"?End_Timestamp"?|"rocprofiler-sdk-tool"\s*:', "a trace of rocprofv3"),
    (r'"PowerConsumedWatts"\s*:|#EnvironmentMetrics\.', "a Redfish resource with power"),
    (r"^#\s*Entity", "output of dcgmi dmon"),
    (r"ConsumedEnergy", "a table of sacct"),
    (r"^TABLE,|^Region,|^STRUCT,Info", "output of LIKWID"),
    (
        r"^# started on |^[^,;\n]*+[,;](msec)?[,;](task|cpu)-clock[,;]|"
        r"^ *Performance counter stats for |^# +time +counts +unit +events",
        "output of perf stat",
    ),
    (r"^timestamp,.*_watts", "a log of node power"),
    (r"^monotonic_s,", "samples of this project's power meters"),
    (r'\A"?(?i:timestamps?|time|date[_ ]?time)(_m?s|_us|_ns)?"?\s*([\[(]\w+[\])])?\s*[,;\t]', "a table by time"),
    (r"\AHloModule ", "HLO text of XLA"),
    (r":::MLLOG", "an MLPerf log"),
    (r"\A\s*<(!DOCTYPE html|html)", "an HTML page"),
    (r"\A\s*<\?xml", "an XML document"),
    (r"\A\s*[\[{]", "a JSON document"),
)
"""Patterns of text formats, matched line by line in the first 64 KiB; avoid backtracking over runs of blanks."""


def looks_like(path: Path) -> str:
    """Return what a file looks like, as the end of "found ..."."""
    if path.exists() and not path.is_file():  # a FIFO would block, a device may never end
        return "a folder" if path.is_dir() else "no regular file"
    try:
        with path.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
    except FileNotFoundError:
        return "no such file"
    except OSError as error:
        return f"a file that cannot be read ({error.strerror})"
    return describe(head)


def describe(head: bytes) -> str:
    """Return what the first bytes of a file look like, as the end of "found ..."."""
    if not head:
        return "an empty file"
    for start, words in BINARY:
        if head.startswith(start):
            return words
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "text in UTF-16"
    if b"\0" in head:
        return "binary data of an unknown kind"
    text = head.decode("utf-8", errors="replace")
    for pattern, words in TEXT:
        if re.search(pattern, text, re.MULTILINE):
            return words
    return f"unknown text that begins with {text.strip()[:60]!r}" if text.strip() else "a file of blanks"


def is_text(path: Path) -> bool:
    """Return whether the start of a file has no control characters except those of text and terminals."""
    with path.open("rb") as stream:
        return not re.search(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]", stream.read(HEAD_BYTES))
