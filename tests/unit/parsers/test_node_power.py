"""Power of whole nodes."""

import pytest
from unit.parsers.artefacts import sample
from unit.parsers.damage import check_cuts, check_flips, check_foreign

from hpcai.metrics.profiles.energy import longest_gap, power_summary
from hpcai.parsers.findings import LEFT_OUT
from hpcai.parsers.node_power import read_node_power
from hpcai.parsers.power_samples import NOT_THE_SUM

TEXT = """timestamp,n1_watts,n2_watts,total_watts
2026-03-01T23:59:50,1000,500,1500
2026-03-02T00:00:00,1010,510,1520
2026-03-02T00:00:10,1000,500,1500
"""


def read(tmp_path, text):
    path = tmp_path / "bmc.csv"
    path.write_text(text)
    return read_node_power(path)


def test_one_row_per_node_and_time(tmp_path):
    reading = read(tmp_path, TEXT)
    assert reading.is_whole
    assert reading.table["device"].to_list() == ["n1", "n2"] * 3
    assert power_summary(reading.table, "bmc").energy_j == pytest.approx(30_200)


def test_a_total_alone_is_one_device(tmp_path):
    reading = read(tmp_path, "timestamp,total_watts\n2026-03-01T00:00:00Z,100.5\n2026-03-01T00:00:10Z,100.5\n")
    assert reading.table["device"].to_list() == ["total"] * 2
    assert power_summary(reading.table, "bmc").energy_j == pytest.approx(1005)


def test_a_total_that_is_not_the_sum_is_left_out(tmp_path):
    reading = read(tmp_path, TEXT.replace("1010", "1810"))
    assert reading.table["time_s"].to_list() == [0, 0, 20, 20]
    assert reading.reasons == (LEFT_OUT(line=3, why=NOT_THE_SUM(total_w=1520)),)


def test_published_two_nodes():
    reading = read_node_power(sample("power/bmc_two_nodes_total_watts.csv"))
    assert reading.is_whole
    totals = reading.table.groupby("time_s")["power_w"].sum()
    assert len(totals) == 2000
    assert totals.mean() == pytest.approx(5171.8495)
    summary = power_summary(reading.table, "bmc")
    assert summary.energy_j == pytest.approx(121_356_030)
    assert summary.energy_j / 3.6e6 == pytest.approx(33.710, abs=5e-4)
    assert summary.duration_s == 23459
    times = totals.index.to_numpy()
    assert (min(times[1:] - times[:-1]), longest_gap(times)) == (10, 35)


def test_damage(tmp_path):
    check_foreign(tmp_path, read_node_power)
    columns = ["time_s", "device", "power_w"]
    check_cuts(tmp_path / "x", TEXT.encode(), read_node_power, columns, has_end=False)
    data = sample("power/bmc_two_nodes_total_watts.csv").read_bytes()[:1500]
    data = data[: data.rindex(b"\n") + 1]
    check_cuts(tmp_path / "x", data, read_node_power, columns, has_end=False)
    # Times between their neighbours have no redundancy; power has its total.
    check_flips(tmp_path / "x", data, read_node_power, ["device", "power_w"], count=100)
