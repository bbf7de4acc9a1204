"""Samples of our own NVML sampler."""

import pytest
from unit.parsers.damage import check_cuts, check_flips, check_foreign

from hpcai.parsers.findings import LEFT_OUT
from hpcai.parsers.nvml_samples import MONOTONIC, NO_NUMBERS, WALL, read_nvml_samples

TEXT = "monotonic_s,index,power_mw\n" + "".join(
    f"{100 + tick / 10:.6f},{index},{200_000 + index}\n" for tick in range(5) for index in (0, 1)
)


def read(tmp_path, text):
    path = tmp_path / "nvml.csv"
    path.write_text(text)
    return read_nvml_samples(path)


def test_power_and_counter_in_si(tmp_path):
    reading = read(tmp_path, TEXT)
    assert reading.is_whole
    assert reading.table["device"].to_list() == ["0", "1"] * 5
    assert reading.table["power_w"].iloc[1] == pytest.approx(200.001)
    assert reading.table["energy_j"].isna().all()
    counted = read(tmp_path, "monotonic_s,index,power_mw,energy_mj\n1.0,0,5000,7000\n2.0,0,,12000\n")
    assert counted.table["energy_j"].to_list() == [7, 12]
    assert counted.table["power_w"].isna().to_list() == [False, True]


def test_samples_tell_their_clock(tmp_path):
    wall = read(tmp_path, TEXT.replace("monotonic_s", "wall_s"))
    assert wall.facts["clock"] == WALL
    own = read(tmp_path, TEXT)
    assert own.facts["clock"] == MONOTONIC
    assert wall.table.equals(own.table)


def test_windows_line_ends_are_line_ends(tmp_path):
    reading = read(tmp_path, TEXT.replace("\n", "\r\n"))
    assert reading.is_whole
    assert len(reading.table) == 10


def test_damaged_samples_are_left_out(tmp_path):
    reading = read(tmp_path, TEXT.replace("100.100000,0", "900.100000,0").replace("200001\n", "20x001\n", 1))
    assert reading.coverage_ratio == 8 / 10
    assert reading.reasons[0] == LEFT_OUT(line=3, why=NO_NUMBERS())


def test_damage(tmp_path):
    check_foreign(tmp_path, read_nvml_samples)
    check_cuts(tmp_path / "x", TEXT.encode(), read_nvml_samples, ["time_s", "device", "power_w"], has_end=False)
    # Neither power and times, nor an index that changes to another device's, have any redundancy.
    check_flips(tmp_path / "x", TEXT.encode(), read_nvml_samples, ["device"], count=100)
