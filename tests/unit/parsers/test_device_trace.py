"""Accelerator kernels in a trace of TensorFlow's or JAX's profiler."""

from pathlib import Path

import pytest

from hpcai.core.errors import ParseError
from hpcai.parsers.device_trace import read_device_trace
from hpcai.parsers.xspace import xspace_class

PS_PER_S = 10**12


def write_trace(path: Path, plane: str = "/device:GPU:0", line: str = "Stream #13(Compute)") -> Path:
    """Write a trace with a product that ran twice, one copy, and a line derived from them by the profiler."""
    space = xspace_class()()
    device = space.planes.add(name=plane)
    for key, name in enumerate(("cutlass_gemm", "MemcpyH2D", "train_step"), 1):
        entry = device.event_metadata.add(key=key)
        entry.value.name = name
    stream, derived = device.lines.add(id=1, name=line), device.lines.add(id=2, name="XLA Modules")
    for key, seconds in ((1, 2), (1, 3), (2, 1)):
        stream.events.add(metadata_id=key, duration_ps=seconds * PS_PER_S)
    derived.events.add(metadata_id=3, duration_ps=6 * PS_PER_S)
    path.write_bytes(space.SerializeToString())
    return path


def test_kernels_and_copies_of_the_streams_are_added_up(tmp_path: Path) -> None:
    table = read_device_trace(write_trace(tmp_path / "steps.xplane.pb")).table.set_index("name")
    assert table["total_s"].to_dict() == {"cutlass_gemm": 5.0, "MemcpyH2D": 1.0}
    assert table["calls"].to_dict() == {"cutlass_gemm": 2, "MemcpyH2D": 1}
    assert table["kind"].to_dict() == {"cutlass_gemm": "kernel", "MemcpyH2D": "memcpy"}


@pytest.mark.parametrize("facts", [{"plane": "/host:CPU"}, {"line": "XLA Ops"}])
def test_a_trace_without_an_accelerator_is_refused(tmp_path: Path, facts: dict[str, str]) -> None:
    with pytest.raises(ParseError):
        read_device_trace(write_trace(tmp_path / "steps.xplane.pb", **facts))


def test_a_cut_trace_is_refused(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "steps.xplane.pb")
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(ParseError):
        read_device_trace(path)
