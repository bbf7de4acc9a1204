"""A table is read as it was written, or refused with its name."""

import random
import subprocess
import sys

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from unit.record_factory import make_mixed_study, write_records

from hpcai.core.errors import ParseError, RecordError, TableError
from hpcai.core.table_files import open_parquet, read_parquet, write_parquet
from hpcai.metrics.run_tables import collect_runs

FLIPS = 600


@pytest.fixture
def runs(tmp_path):
    return collect_runs(write_records(make_mixed_study(), tmp_path / "runs"))


def test_a_table_comes_back_and_others_can_read_it(tmp_path, runs):
    path = tmp_path / "runs.parquet"
    write_parquet(runs, path)
    pd.testing.assert_frame_equal(read_parquet(path), runs)
    pd.testing.assert_frame_equal(pd.read_parquet(path), runs)
    assert list(read_parquet(path, ["run_s"]).columns) == ["run_s"]
    first = path.read_bytes()
    write_parquet(runs.copy(), path)
    assert path.read_bytes() == first


def test_every_flipped_bit_is_noticed(tmp_path, runs):
    path, draw = tmp_path / "runs.parquet", random.Random(18)
    write_parquet(runs, path)
    whole = path.read_bytes()
    for place in draw.sample(range(8 * len(whole)), FLIPS):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        try:
            found = read_parquet(path)
        except TableError:
            continue
        # The mark before the digest is no part of the table.
        pd.testing.assert_frame_equal(found, runs)


def test_pages_of_large_tables_have_checksums(tmp_path):
    path, numbers = tmp_path / "t.parquet", list(range(10_000))
    with open_parquet(path, pa.schema([("a", pa.int64())]), use_dictionary=False) as writer:
        writer.write_table(pa.table({"a": numbers}))
    assert read_parquet(path)["a"].to_list() == numbers
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(0)
    damaged = bytearray(path.read_bytes())
    damaged[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(TableError):
        read_parquet(path)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no table", b"PAR1 a PAR1", None])
def test_what_is_no_table_is_named(tmp_path, content):
    path = tmp_path / "t.parquet"
    if content is not None:
        path.write_bytes(content)
    for kind in (RecordError, ParseError):
        with pytest.raises(kind, match="run the workflow again") as caught:
            read_parquet(path)
        assert str(path) in str(caught.value)


def test_a_cut_table_is_named(tmp_path, runs):
    path = tmp_path / "runs.parquet"
    write_parquet(runs, path)
    whole = path.read_bytes()
    for length in random.Random(18).sample(range(len(whole)), 50):
        path.write_bytes(whole[:length])
        with pytest.raises(TableError):
            read_parquet(path)


def test_a_table_of_an_earlier_version_is_read(tmp_path, runs):
    runs.to_parquet(tmp_path / "old.parquet", index=False)
    pd.testing.assert_frame_equal(read_parquet(tmp_path / "old.parquet"), runs)


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: /proc/self/task lists threads")
def test_reading_starts_no_thread(tmp_path, runs):
    """Pyarrow's threads abort or hang short processes at their end, two of a hundred (apache/arrow 34314, 50482)."""
    write_parquet(runs, tmp_path / "runs.parquet")
    code = (
        "import os, sys; from hpcai.core.table_files import read_parquet; import pandas; "
        "before = len(os.listdir('/proc/self/task')); read_parquet(sys.argv[1]); "
        "print(len(os.listdir('/proc/self/task')) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "runs.parquet"], capture_output=True, check=True)
    assert int(done.stdout) == 0
