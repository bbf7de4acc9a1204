"""Accelerator kernels in the trace of TensorFlow's or JAX's profiler (an XSpace protocol buffer)."""

import re
from pathlib import Path
from typing import Any

import pandas as pd

from hpcai.parsers.reading import Reading, nothing_read
from hpcai.parsers.tensorflow_profile import PS, read_space

TOOL = "device trace"
DEVICE = re.compile(r"^/device:(?:GPU|TPU):\d+")
STREAM = re.compile(r"^Stream #")
"""Lines of stream activity; lines that the profiler derives from them (steps, modules) repeat it."""
COPY = re.compile(r"^\[?(?:CUDA )?mem(?:cpy|set)", re.IGNORECASE)


def read_device_trace(path: Path) -> Reading:
    """Return one row per kernel and device: ``name``, ``kind``, ``device``, ``calls``, ``total_s`` [s].

    Raises
    ------
    ParseError
        If the file is not such a trace, is truncated, or contains no accelerator.
    """
    space = read_space(path)
    rows = [row for plane in space.planes if DEVICE.match(plane.name) for row in _rows(plane)]
    if not rows:
        raise nothing_read(path, TOOL, "a trace without a kernel of an accelerator", "trace steps on one")
    events = pd.DataFrame(rows, columns=["name", "kind", "device", "duration_s"])
    grouped = events.groupby(["name", "kind", "device"], as_index=False)
    table = grouped.agg(calls=("duration_s", "size"), total_s=("duration_s", "sum"))
    return Reading(table, TOOL, path, len(events), len(events), (), {})


def _rows(plane: Any) -> list[tuple[str, str, str, float]]:  # noqa: ANN401  a protocol buffer has no static type
    names = {entry.key: entry.value.name for entry in plane.event_metadata}
    return [
        (name, "memcpy" if COPY.match(name) else "kernel", plane.name, event.duration_ps * PS)
        for line in plane.lines
        if STREAM.match(line.name)
        for event in line.events
        if (name := names.get(event.metadata_id, ""))
    ]
