"""Reads of several files at the same time: Darshan adds their times, its trace tells which overlapped."""

import math

import pytest
from unit.parsers.darshan.darshan_writer import Log, Record, read

from hpcai.metrics.profiles.io import OVERLAPPING, IoSetting, io_summary
from hpcai.parsers.darshan import log as darshan_log
from hpcai.parsers.darshan.child import answer_log
from hpcai.parsers.darshan.log import read_darshan_logs
from hpcai.profiles.io.read_times import NOT_TRACED, with_wall_times

DATA = "/data/train"
FILES = [read(f"{DATA}/{name}", 2048, seconds=1.5) for name in "ab"]
"""Two files, each read for 1.5 s between second 1 and second 3."""
TRACES = [(FILES[0], [(0, 2048, 1.0, 2.5)]), (FILES[1], [(0, 2048, 1.5, 3.0)])]


@pytest.fixture(autouse=True)
def without_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in this process: these logs are undamaged."""
    monkeypatch.setattr(darshan_log, "read_guarded", lambda paths, table: [answer_log(path, table) for path in paths])


@pytest.fixture
def summary(tmp_path):
    """Return the row of a process's log, and why not all is known of its read times."""

    def make(records: list[Record], traces: list) -> tuple[dict, tuple[str, ...]]:
        path = tmp_path / "user_python_id77-100_11-21-36303-1234567890_1.darshan"
        path.write_bytes(Log(records, traces=traces).encode())
        processes, untraced = with_wall_times(read_darshan_logs([path], DATA).table, [path], DATA, "POSIX")
        return io_summary(processes, IoSetting(dataset_bytes=4096), "POSIX"), untraced

    return make


def test_reads_at_the_same_time_count_once_where_they_are_traced(summary):
    row, untraced = summary(FILES, TRACES)
    assert (row["read_time_s"], row["read_wall_s"], untraced) == (3.0, 2.0, ())
    assert row["bandwidth_sum_bytes_per_s"] == row["bandwidth_parallel_bytes_per_s"] == 4096 / 2.0
    assert (row["io_epoch_s"], row["io_epoch_mean_s"], row["reasons"]) == (2.0, 2.0, "")


@pytest.mark.parametrize("traces", [[], TRACES[:1]])
def test_without_a_whole_trace_a_sum_longer_than_the_window_is_no_read_time(summary, traces):
    row, untraced = summary(FILES, traces)
    assert row["read_time_s"] == 3.0
    assert math.isnan(row["read_wall_s"])
    assert math.isnan(row["bandwidth_sum_bytes_per_s"])
    assert math.isnan(row["bandwidth_parallel_bytes_per_s"])
    assert math.isnan(row["io_epoch_mean_s"])
    assert row["bandwidth_delivered_bytes_per_s"] == 4096 / 2.0
    assert row["reasons"] == OVERLAPPING()
    assert untraced == (NOT_TRACED(workers=1),)


def test_without_a_trace_a_possible_sum_is_kept_as_a_bound(summary):
    row, untraced = summary([read(f"{DATA}/{name}", 2048, seconds=0.5) for name in "ab"], [])
    assert (row["read_wall_s"], row["bandwidth_sum_bytes_per_s"], row["reasons"]) == (1.0, 4096.0, "")
    assert untraced == (NOT_TRACED(workers=1),)
