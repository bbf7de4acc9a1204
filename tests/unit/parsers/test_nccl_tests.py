"""nccl-tests: layouts, invalid results, damage."""

import math

import pytest
from unit.parsers.artefacts import sample
from unit.parsers.damage import check_cuts, check_flips, check_foreign

from hpcai.parsers.nccl_tests import NO_SUMMARY, NOT_CHECKED, OUT_OF_BOUNDS, read_nccl_tests

RANKS = "".join(f"#  Rank {rank} Group  0 Pid {70 + rank} on host device {rank} [0x0{rank}] GPU\n" for rank in range(4))
HEADER = (
    "#                                                        out-of-place                in-place\n"
    "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n"
    "#   (B)  (elements)                (us)  (GB/s) (GB/s)         (us)  (GB/s) (GB/s)\n"
)
ROWS = (
    "   1024        256  float  sum  -1  10.00   0.10   0.15   0  10.24   0.10   0.15  0\n"
    "1048576     262144  float  sum  -1  20.00  52.43  78.64   0  10.00 104.86 157.29  0\n"
)
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 59.0575\n#\n"
TEXT = RANKS + HEADER + ROWS + END
COLUMNS = ["bytes", "place", "time_s"]


def read(tmp_path, text):
    path = tmp_path / "nccl.out"
    path.write_text(text)
    return read_nccl_tests(path)


def test_both_places_of_each_size(tmp_path):
    reading = read(tmp_path, TEXT)
    assert reading.is_whole
    assert reading.facts == {"ranks": 4, "factor": 1.5, "average_bus_bandwidth_bytes_per_s": pytest.approx(59.0575e9)}
    last = reading.table.iloc[-1]
    assert last[["bytes", "count", "datatype", "operation", "root", "place"]].to_list() == [
        1 << 20, 1 << 18, "float", "sum", -1, "in",
    ]  # fmt: skip
    assert (last["time_s"], last["bus_bandwidth_bytes_per_s"]) == (pytest.approx(1e-5), pytest.approx(157.29e9))


def test_labels_and_messages_between_rows(tmp_path):
    text = "".join(f" 0: {line}\n3: host:7:7 [0] NCCL INFO Launch mode Parallel\n" for line in TEXT.splitlines())
    assert len(read(tmp_path, text).table) == 4


def test_old_layout_has_no_root_and_may_have_no_operation(tmp_path):
    header = HEADER.replace("  root", "").replace("#wrong", "error")
    rows = ROWS.replace("sum  -1", "").replace("0.15   0", "0.08 N/A").replace("  0\n", "  N/A\n")
    rows = rows.replace("  0  10.00", "  N/A  10.00").replace("0.15", "0.08").replace("78.64", "39.32")
    rows = rows.replace("157.29", "78.64")
    reading = read(tmp_path, RANKS + header + rows.replace(" 256 ", "  64 ").replace("262144", " 65536"))
    assert reading.table["operation"].to_list() == [""] * 4
    assert reading.table["root"].isna().all()
    assert reading.facts["factor"] == 0.75
    assert NOT_CHECKED() in reading.reasons
    assert reading.table["wrong"].isna().all()


def test_wrong_elements_have_no_bandwidth(tmp_path):
    text = RANKS + HEADER + ROWS.replace("157.29  0", "157.29  8")
    reading = read(tmp_path, text)
    assert reading.table["is_valid"].to_list() == [True, True, True, False]
    assert math.isnan(reading.table["bus_bandwidth_bytes_per_s"].iloc[-1])
    assert NO_SUMMARY() in reading.reasons


def test_out_of_bounds_values_make_all_rows_invalid(tmp_path):
    reading = read(tmp_path, TEXT.replace(": 0 OK", ": 2 FAILED"))
    assert not reading.table["is_valid"].any()
    assert reading.table["algorithm_bandwidth_bytes_per_s"].isna().all()
    assert "average_bus_bandwidth_bytes_per_s" not in reading.facts


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("20.00  52.43", "20.00  53.43", "bandwidth is not size / time"),
        ("1048576", "1048577", "bandwidth is not|size is not count x element"),
        ("157.29", "158.29", "bus bandwidth is not algorithm bandwidth x factor"),
        ("262144", "262145", "size is not count x element"),
        ("52.43", "5x.43", "fields that are not numbers"),
    ],
)
def test_rows_that_contradict_themselves_are_left_out(tmp_path, old, new, why):
    more = "2097152     524288  float  sum  -1  20.00 104.86 157.29   0  20.00 104.86 157.29  0\n"
    reading = read(tmp_path, (RANKS + HEADER + ROWS + more).replace(old, new, 1))
    assert any(word in " ".join(reading.reasons) for word in why.split("|"))
    assert reading.coverage_ratio < 1


def test_an_average_that_is_not_the_mean_of_the_cells_is_doubtful(tmp_path):
    assert "one of them is damaged" in " ".join(read(tmp_path, TEXT.replace("59.0575", "59.9575")).reasons)


def test_published_four_ranks():
    reading = read_nccl_tests(sample("nccl-tests/all_reduce_4xGH200_srun_labelled.out"))
    assert reading.is_whole
    assert (len(reading.table), reading.facts["ranks"], reading.facts["factor"]) == (60, 4, 1.5)
    assert reading.facts["average_bus_bandwidth_bytes_per_s"] == pytest.approx(116.529e9)
    assert reading.table["bus_bandwidth_bytes_per_s"].mean() == pytest.approx(116.529e9, rel=1e-5)
    row = reading.table[(reading.table["bytes"] == 4 << 30) & (reading.table["place"] == "out")].iloc[0]
    assert row["time_s"] == pytest.approx(19017e-6)
    assert row["algorithm_bandwidth_bytes_per_s"] == pytest.approx(225.85e9)
    assert row["bus_bandwidth_bytes_per_s"] == pytest.approx(338.78e9)


def test_published_run_with_wrong_data_is_rejected():
    reading = read_nccl_tests(sample("nccl-tests/all_reduce_64xGH200_16nodes.out"))
    wrong = reading.table[reading.table["wrong"] > 0]
    assert wrong["bytes"].unique().tolist() == [64 << 20]
    assert wrong["wrong"].to_list() == [4224, 992]
    assert not reading.table["is_valid"].any()
    assert reading.table["bus_bandwidth_bytes_per_s"].isna().all()
    assert reading.facts == {"ranks": 64, "factor": 2 * 63 / 64}
    assert OUT_OF_BOUNDS(values=3) in reading.reasons


def test_published_old_layout():
    reading = read_nccl_tests(sample("nccl-tests/all_reduce_8xA100_oldformat.log"))
    assert len(reading.table) == 2 * 34
    assert (reading.table["bytes"] == 0).sum() == 2 * 2
    assert reading.table["bus_bandwidth_bytes_per_s"].max() == pytest.approx(235.26e9)
    assert reading.facts["average_bus_bandwidth_bytes_per_s"] == pytest.approx(68.4048e9)


def test_damage(tmp_path):
    check_foreign(tmp_path, read_nccl_tests)
    check_cuts(tmp_path / "x", TEXT.encode(), read_nccl_tests, COLUMNS)
    data = sample("nccl-tests/all_reduce_8xA100_oldformat.log").read_bytes()
    check_cuts(tmp_path / "x", data, read_nccl_tests, COLUMNS)
    # Times of messages below 10 kB have no redundancy: their bandwidths have one digit.
    check_flips(tmp_path / "x", data, read_nccl_tests, ["bytes", "count", "place"])
