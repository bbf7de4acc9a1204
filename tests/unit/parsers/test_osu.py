"""OSU Micro-Benchmarks: columns, validation, damage."""

import pytest
from unit.parsers.artefacts import sample
from unit.parsers.damage import check_cuts, check_flips, check_foreign

from hpcai.parsers.findings import LEFT_OUT
from hpcai.parsers.osu import AVERAGE_OUTSIDE, read_osu

FULL = """
# OSU MPI Allreduce Latency Test v7.4
# Datatype: MPI_FLOAT.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
4                       1.50              1.25              1.75        1000
8                       1.60              1.55              1.65        1000
16                      2.00              1.90              2.10        1000
32                      3.00              2.90              3.10        1000
64                      5.00              4.90              5.10        1000
128                     9.00              8.90              9.10        1000
256                    17.00             16.90             17.10        1000
"""


def read(tmp_path, text):
    path = tmp_path / "osu.txt"
    path.write_text(text)
    return read_osu(path)


def test_all_columns_in_si(tmp_path):
    reading = read(tmp_path, FULL)
    assert reading.is_whole
    assert reading.facts == {"title": "OSU MPI Allreduce Latency Test v7.4", "datatype": "MPI_FLOAT"}
    first = reading.table.iloc[0]
    assert first[["latency_s", "latency_min_s", "latency_max_s"]].to_list() == pytest.approx([1.5e-6, 1.25e-6, 1.75e-6])
    assert (first["bytes"], first["iterations"]) == (4, 1000)


def test_older_latency_and_bandwidth_layouts(tmp_path):
    latency = read(tmp_path, "# OSU MPI Latency Test v5.6.2\n# Size          Latency (us)\n0     1.02\n1     1.04\n")
    assert latency.table["latency_s"].to_list() == pytest.approx([1.02e-6, 1.04e-6])
    bandwidth = read(
        tmp_path, "# OSU MPI Bandwidth Test v5.6.2\n# Size      Bandwidth (MB/s)\n1     2.50\n2     5.00\n"
    )
    assert bandwidth.table["bandwidth_bytes_per_s"].to_list() == [2.5e6, 5e6]
    assert bandwidth.table["latency_s"].isna().all()


def test_contradictions_are_left_out(tmp_path):
    text = FULL.replace("1.60    ", "1.70    ").replace("\n16 ", "\n17 ").replace("9.10        1000", "9.10")
    reading = read(tmp_path, text)
    assert reading.table["bytes"].to_list() == [4, 32, 64, 256]
    assert reading.coverage_ratio == 4 / 7
    assert LEFT_OUT(line=6, why=AVERAGE_OUTSIDE()) in reading.reasons


def test_published_full_table():
    reading = read_osu(sample("osu/osu_allreduce_np2_float_full.txt"))
    table = reading.table.set_index("bytes")
    assert reading.is_whole
    assert len(table) == 23
    assert table.loc[4, "latency_s":"iterations"].to_list() == pytest.approx([0.18e-6, 0.16e-6, 0.19e-6, 200])
    assert table.loc[1 << 24, "latency_s"] == pytest.approx(4631.33e-6)


def test_published_validation():
    passed = read_osu(sample("osu/osu_allreduce_np2_validate_ok.txt"))
    assert (len(passed.table), passed.table["is_valid"].all(), passed.is_whole) == (19, True, True)
    failed = read_osu(sample("osu/osu_allreduce_np2_validate_fail.txt"))
    assert failed.table["is_valid"].to_list() == [True] * 4 + [False]
    assert failed.table["bytes"].iloc[-1] == 16
    assert any("DATA VALIDATION ERROR" in reason for reason in failed.reasons)
    assert "results failed validation at 16 bytes" in failed.reasons


def test_damage(tmp_path):
    check_foreign(tmp_path, read_osu)
    columns = ["bytes", "latency_s", "latency_min_s", "latency_max_s", "is_valid"]
    check_cuts(tmp_path / "x", FULL.encode(), read_osu, columns, has_end=False)
    data = sample("osu/osu_allreduce_np2_float_full.txt").read_bytes()
    check_cuts(tmp_path / "x", data, read_osu, columns, has_end=False)
    # Low digits of times and the iterations have no redundancy.
    check_flips(tmp_path / "x", data, read_osu, ["bytes", "is_valid"])
