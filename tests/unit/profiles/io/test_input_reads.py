"""Reads that ranks counted themselves, where Darshan is not: bytes of the kernel, times of the pipeline's stages."""

import json
from types import SimpleNamespace

import pandas as pd
import pytest
from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace
from unit.profiles.profile_folders import make_profile
from unit.profiles.test_instrument import plan

from hpcai.core.errors import ParseError
from hpcai.profiles import io
from hpcai.profiles.instrument import Missing
from hpcai.profiles.io import views as module
from hpcai.profiles.io.input_reads import ALL_READS, MODULE, WHOLE_STAGING
from hpcai.profiles.io.views import io_views
from hpcai.profiles.kind import find_instrument
from hpcai.records.input_window import COUNTERS, TOOL, TRACES, counters_name, trace_name

MS = 10**9
"""In picoseconds."""


def trace(reads_ms: list[int], begin_ms: int = 0, threads: int = 1) -> bytes:
    """A trace with reads of so many ms, one after the other on each thread, and a stage around all of them."""
    space = XSpace()
    plane = space.planes.add(name="/host:CPU")
    plane.event_metadata[1].name = "SingleElementIterator::FiniteTake::TFRecordV2#id=1#"
    plane.event_metadata[2].name = "Iterator::Root::Prefetch"
    for thread in range(threads):
        line = plane.lines.add(id=3 + thread, timestamp_ns=0)
        at = begin_ms * MS
        line.events.add(metadata_id=2, offset_ps=at, duration_ps=sum(reads_ms) * MS)
        for read_ms in reads_ms:
            line.events.add(metadata_id=1, offset_ps=at, duration_ps=read_ms * MS)
            at += read_ms * MS
    window = space.planes.add(name="Task Environment")
    for number, (name, value) in enumerate((("profile_start_time", 10**18), ("profile_stop_time", 10**18 + 10**9)), 1):
        window.stat_metadata[number].name = name
        window.stats.add(metadata_id=number, uint64_value=value)
    return space.SerializeToString()


def counters(rank: int, read_bytes: int | None, reads: int = 4) -> str:
    def grown(bytes_more: int, reads_more: int) -> dict[str, int | None]:
        known = None if read_bytes is None else 1000 + bytes_more
        return {"read_bytes": known, "reads": 10 + reads_more, "storage_bytes": 0}

    window = {"rank": rank, "process_id": 70 + rank, "start_s": 1.0, "stop_s": 2.0}
    return json.dumps({**window, "before": grown(0, 0), "after": grown(read_bytes or 0, reads)})


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """Return the views of a run on two ranks whose data were staged, or trained on in place."""

    def make(raw: dict[str, str | bytes], *options: str) -> dict[str, pd.DataFrame]:
        members = SimpleNamespace(total=lambda column: {"content_bytes": 6_000_000}[column])
        monkeypatch.setattr(module, "read_pack", lambda _: SimpleNamespace(packed_bytes=500, members=lambda _: members))
        entries = SimpleNamespace(total=lambda column: {"bytes": 6_000_000}[column])
        entries = SimpleNamespace(files={"train": entries}.__getitem__, root=lambda _: "/data")
        monkeypatch.setattr(module, "read_manifest", lambda _: entries)
        profile = make_profile(tmp_path / "p", "io", raw, tool=TOOL, ranks_per_node=2)
        origin = profile.record.provenance
        origin = origin.model_copy(update={"command": ("--manifest", "/m.json", *options), "page_cache": "dropped"})
        profile.__dict__["record"] = profile.record.model_copy(update={"provenance": origin})
        return io_views(profile)

    return make


RAW = {
    counters_name(0): counters(0, 2_000_000),
    trace_name(0): trace([10, 30]),
    counters_name(1): counters(1, 4_000_000),
    trace_name(1): trace([20], begin_ms=500),
}


def test_bytes_are_the_kernels_and_times_are_those_of_the_stages(watched):
    views = watched(RAW)
    row = views["io"].set_index("data").loc["training input"]
    assert (row["tool"], row["module"], row["workers"]) == (TOOL, MODULE, 2)
    assert row["read_bytes"] == 6_000_000
    assert row["reads"] == 8
    assert row["read_time_s"] == pytest.approx(0.060)
    assert row["bandwidth_sum_bytes_per_s"] == pytest.approx(2e6 / 0.040 + 4e6 / 0.020)
    assert row["bandwidth_parallel_bytes_per_s"] == pytest.approx(6e6 / 0.040)
    assert row["bandwidth_delivered_bytes_per_s"] == pytest.approx(6e6 / 0.520, rel=1e-3)
    assert row["dataset_epochs"] == pytest.approx(1.0)
    assert row["page_cache"] == "cold"
    assert ALL_READS() in row["reasons"]
    assert views["io_workers"]["process_id"].to_list() == [70, 71]
    stages = views["input_stages"].set_index("stage")
    assert stages.loc["TFRecordV2", ["calls", "total_s", "reads_files"]].to_list() == [3, pytest.approx(0.060), True]
    assert not stages.loc["Prefetch", "reads_files"]


def test_reads_of_parallel_threads_count_once_in_a_ranks_read_time(watched):
    """A rank's bandwidth is its bytes over the time in which it read, however many threads did."""
    row = watched({**RAW, trace_name(0): trace([10, 30], threads=4)})["io"].iloc[0]
    assert row["read_time_s"] == pytest.approx(4 * 0.040 + 0.020)
    assert row["read_wall_s"] == pytest.approx(0.060)
    assert row["bandwidth_sum_bytes_per_s"] == pytest.approx(2e6 / 0.040 + 4e6 / 0.020)
    assert row["bandwidth_parallel_bytes_per_s"] == pytest.approx(6e6 / 0.040)


def test_without_a_stage_that_reads_there_is_no_read_time_and_no_zero(watched):
    raw = {**RAW, trace_name(0): trace([])}
    row = watched(raw)["io"].iloc[0]
    assert row["read_bytes"] == 6_000_000
    assert pd.isna(row["read_time_s"])
    assert pd.isna(row["bandwidth_sum_bytes_per_s"])


def test_a_kernel_that_counts_no_reads_or_a_rank_that_is_lost_is_an_error(watched):
    with pytest.raises(ParseError, match="does not count"):
        watched({**RAW, counters_name(1): counters(1, None)})


def test_a_lost_rank_is_an_error(watched):
    with pytest.raises(ParseError, match=r"1 ranks, expected 2"):
        watched({name: content for name, content in RAW.items() if "1" not in name})


def test_staging_is_timed_by_its_ranks(watched):
    views = watched(RAW, "--pack", "/d/packed/packed.json", "--scratch", "/s/a")
    io = views["io"].set_index("data")
    assert list(io.index) == ["staging", "training input"]
    assert WHOLE_STAGING() in io.loc["staging", "reasons"]
    assert io.loc["training input", "page_cache"] == "warm"


def test_without_darshan_ranks_watch_themselves_unless_a_library_is_named(monkeypatch):
    monkeypatch.setattr(io, "find_darshan", lambda _: "libdarshan.so was not found")
    found = find_instrument(plan("io"))
    assert (found.tool, found.raw, found.step_profiler) == (TOOL, (COUNTERS, TRACES), "input")
    named = plan("io", profilers={"darshan_library": "/opt/libdarshan.so"})
    assert find_instrument(named) == Missing("libdarshan.so was not found")
