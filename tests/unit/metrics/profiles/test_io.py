"""Input bandwidths by three definitions, epochs, and reasons for missing values."""

import math

import pandas as pd
import pytest
from unit.parsers.artefacts import sample

from hpcai.metrics.profiles import io
from hpcai.metrics.profiles.io import IoSetting, data_module, io_summary, io_workers
from hpcai.parsers.darshan.log import read_darshan_logs

MIB = 1 << 20


def processes(*rows: dict) -> pd.DataFrame:
    """Return processes that read 1,000 B in 2 s, from second 10 to second 20, unless told otherwise."""
    usual = {
        "job": "7", "rank": 0, "processes": 1, "executable": "python", "module": "POSIX", "is_worker": True,
        "files": 2.0, "read_bytes": 1000.0, "written_bytes": 0.0, "reads": 5.0, "opens": 2.0, "read_time_s": 2.0,
        "write_time_s": 0.0, "metadata_s": 0.5, "slowest_rank_s": 0.0, "first_read_s": 10.0, "last_read_s": 20.0,
    }  # fmt: skip
    identity = [{"log": f"{place}.darshan", "process_id": place} for place in range(len(rows))]
    frame = pd.DataFrame([{**usual, **own, **row} for own, row in zip(identity, rows, strict=True)])
    return frame.astype({"is_worker": "boolean", "rank": "Int64"})


def test_three_definitions_of_bandwidth():
    frame = processes({}, {"read_bytes": 3000.0, "read_time_s": 4.0, "first_read_s": 12.0, "last_read_s": 30.0})
    row = io_summary(frame, IoSetting(page_cache="cold", dataset_bytes=2000, epoch_s=10, files=4))
    assert row["bandwidth_sum_bytes_per_s"] == 1000 / 2 + 3000 / 4
    assert row["bandwidth_parallel_bytes_per_s"] == 4000 / 4
    assert row["bandwidth_delivered_bytes_per_s"] == 4000 / 20
    assert row["dataset_epochs"] == 2
    assert (row["io_epoch_s"], row["io_epoch_mean_s"], row["io_epoch_delivered_s"]) == (2, 1.5, 10)
    assert row["io_share_ratio"] == 0.2
    assert (row["workers"], row["files"], row["reads"], row["metadata_s"]) == (2, 4, 10, 1)
    assert row["reasons"] == ""


def test_processes_that_read_no_data_do_not_count():
    frame = processes({}, {"is_worker": False, "read_bytes": 0.0, "read_time_s": math.nan})
    assert len(io_workers(frame, "POSIX")) == 1
    assert io_summary(frame, IoSetting())["bandwidth_sum_bytes_per_s"] == 500


def test_reads_without_a_measurable_time_have_no_bandwidth():
    row = io_summary(processes({}, {"read_time_s": 0.0}), IoSetting(page_cache="warm", dataset_bytes=1000))
    assert math.isnan(row["bandwidth_sum_bytes_per_s"])
    assert math.isnan(row["bandwidth_parallel_bytes_per_s"])
    assert math.isnan(row["io_epoch_s"])
    assert row["bandwidth_delivered_bytes_per_s"] == 200
    assert "no measurable time" in row["reasons"]
    assert "warm page cache" in row["reasons"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"read_time_s": math.nan}, "is not available"),
        ({"rank": -1, "processes": 4}, "files shared by ranks"),
    ],
)
def test_times_that_are_missing_or_sums_over_ranks(change, reason):
    row = io_summary(processes({}, change), IoSetting())
    assert math.isnan(row["bandwidth_sum_bytes_per_s"])
    assert math.isnan(row["bandwidth_parallel_bytes_per_s"])
    assert reason in row["reasons"]
    assert io.SIZE_UNKNOWN() in row["reasons"]


def test_nobody_read_or_nobody_knows():
    row = io_summary(processes({"is_worker": False, "read_bytes": 0.0}), IoSetting())
    assert row["workers"] == 0
    assert math.isnan(row["read_bytes"])
    assert "no process read data" in row["reasons"]
    row = io_summary(processes({"is_worker": None, "read_bytes": math.nan}), IoSetting())
    assert io.UNKNOWN_READERS(processes=1) in row["reasons"]


def test_modules_are_never_added():
    frame = processes({}, {"module": "MPI-IO", "read_bytes": 9000.0}, {"module": "STDIO", "read_bytes": 400.0})
    assert data_module(frame) == "POSIX"
    row = io_summary(frame, IoSetting())
    assert (row["module"], row["read_bytes"]) == ("POSIX", 1000)
    assert io.READ_ELSEWHERE(bytes=400, module="STDIO") in row["reasons"]
    assert io_summary(frame, IoSetting(), "MPI-IO")["read_bytes"] == 9000
    assert data_module(processes({"module": "STDIO"})) == "STDIO"


def test_reasons_of_the_reading_are_kept():
    row = io_summary(processes({}), IoSetting(dataset_bytes=10, coverage_ratio=0.5, reasons=("a log is damaged",)))
    assert row["coverage_ratio"] == 0.5
    assert row["reasons"] == "a log is damaged"


def test_published_job_of_a_data_loader():
    paths = sorted(sample("darshan/dlio_job").glob("*.darshan"))
    reading = read_darshan_logs(paths, "/grand/projects/radix-io/usr/snyder/dlio/train")
    setting = IoSetting(dataset_bytes=85_245_431_505 / 5, files=112)
    row = io_summary(reading.table, setting)
    assert row["workers"] == 8
    assert row["bandwidth_sum_bytes_per_s"] / MIB == pytest.approx(16_783.947, abs=1e-3)
    assert row["bandwidth_parallel_bytes_per_s"] / MIB == pytest.approx(14_135.114, abs=1e-3)
    assert row["bandwidth_delivered_bytes_per_s"] / MIB == pytest.approx(2_176.291, abs=1e-3)
    assert row["dataset_epochs"] == pytest.approx(5)
    assert row["io_epoch_s"] == pytest.approx(5.751378 / 5, abs=1e-6)


def slowest_rank_bandwidth(processes, module):
    """Darshan's agg_perf_by_slowest of one log [byte/s] (darshan-logutils-accumulator.c), from our table of processes.

    Bytes read and written over the time of the slowest rank in files of its own plus that of the slowest rank in each
    shared file.
    """
    rows = processes[processes["module"] == module]
    moved_bytes = rows[["read_bytes", "written_bytes"]].sum(skipna=False).sum(skipna=False)
    is_shared = (rows["rank"] < 0).fillna(value=False).astype(bool)
    own_s = rows.loc[~is_shared, ["read_time_s", "write_time_s", "metadata_s"]].sum(axis=1, skipna=False)
    slowest_s = own_s.max(skipna=False) if len(own_s) else 0.0
    return moved_bytes / (slowest_s + rows.loc[is_shared, "slowest_rank_s"].sum(skipna=False))


def test_published_bandwidths_of_the_slowest_rank():
    """As darshan-parser and PyDarshan print agg_perf_by_slowest (MiB/s)."""
    expected = {
        "nonmpi_dxt_anonymized": {"POSIX": 239.727501, "STDIO": 1.131744},
        "release/mpi-io-test-x86_64-3.1.0": {"POSIX": 1742.470723, "MPI-IO": 1733.664796},
        "release/mpi-io-test-x86_64-3.2.1": {"POSIX": 3871.013858, "MPI-IO": 3826.456021},
        "release/mpi-io-test-x86_64-3.4.0": {"POSIX": 3691.483563, "MPI-IO": 3652.381844},
        "release/mpi-io-test-x86_64-3.5.0": {"POSIX": 3122.286459, "MPI-IO": 2897.666262},
        "derived_truncated_tail": {"POSIX": 3691.483563, "MPI-IO": 3652.381844},
        "sample_mpiio_2048ranks": {"POSIX": 24_535.281934},
        "noposix": {"STDIO": 283.829871},
        "stdio_no_posix": {"STDIO": 4.223776},
    }
    paths = [sample(f"darshan/{name}.darshan") for name in expected]
    table = read_darshan_logs(paths, None).table
    for path, modules in zip(paths, expected.values(), strict=True):
        rows = table[table["log"] == str(path)]
        found = {module: round(slowest_rank_bandwidth(rows, module) / MIB, 6) for module in modules}
        assert found == modules
    first = table[table["log"] == str(paths[6])]
    assert math.isnan(slowest_rank_bandwidth(first, "STDIO"))  # one of its times is negative
