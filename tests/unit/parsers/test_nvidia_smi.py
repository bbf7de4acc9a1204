"""nvidia-smi queries: columns, units, several GPUs, missing values, damage."""

import math

import pytest
from unit.parsers.artefacts import sample
from unit.parsers.damage import check_cuts, check_flips, check_foreign

from hpcai.core.errors import ParseError
from hpcai.metrics.profiles.energy import SLOW_SENSOR, power_summary
from hpcai.parsers.nvidia_smi import read_nvidia_smi
from hpcai.parsers.power_samples import NO_VALUE, ONE_MOMENT, TIME_STANDS

FIRST, SECOND = "GPU-01234567-89ab-cdef-0123-456789abcdef", "GPU-11234567-89ab-cdef-0123-456789abcdef"
TEXT = "timestamp, power.draw [W], index, uuid\n" + "".join(
    f"{day} {time}, {watts:.2f} W, {index}, {uuid}\n"
    for day, time in (("2026/02/28", "23:59:58.500"), ("2026/02/28", "23:59:59.500"), ("2026/03/01", "00:00:00.500"))
    for index, uuid, watts in ((0, FIRST, 100.0), (1, SECOND, 50.0))
)


def read(tmp_path, text, **more):
    path = tmp_path / "power.csv"
    path.write_text(text)
    return read_nvidia_smi(path, **more)


def test_several_gpus_over_midnight(tmp_path):
    reading = read(tmp_path, TEXT)
    assert reading.is_whole
    assert reading.facts == {"column": "power.draw", "start": "2026-02-28T23:59:58.500000"}
    assert reading.table.groupby("device")["time_s"].apply(list).to_dict() == {FIRST: [0, 1, 2], SECOND: [0, 1, 2]}
    assert power_summary(reading.table, "nvml").energy_j == pytest.approx(300)


@pytest.mark.parametrize("column", ["power.draw [W]", "power.draw.average [W]", "power.draw.instant [W]"])
def test_values_without_units_and_the_names_of_columns(tmp_path, column):
    reading = read(tmp_path, TEXT.replace(" W,", ",").replace("power.draw [W]", column))
    assert reading.table["power_w"].sum() == 450
    assert reading.facts["column"] == column.removesuffix(" [W]")


@pytest.mark.parametrize("absent", ["[N/A]", "[Not Supported]", "N/A", "[Unknown Error]"])
def test_missing_power_is_nan_with_a_reason(tmp_path, absent):
    reading = read(tmp_path, TEXT.replace("50.00 W", absent, 1))
    assert reading.table["power_w"].isna().sum() == 1
    assert reading.reasons == (NO_VALUE(missing=1, samples=6),)


def test_devices_that_cannot_be_told_apart_are_refused(tmp_path):
    text = "timestamp, power.draw [W]\n2026/03/01 10:00:00.000, 10.00 W\n2026/03/01 10:00:01.000, 10.00 W\n"
    with pytest.raises(ParseError, match="samples without index or uuid"):
        read(tmp_path, text)
    assert len(read(tmp_path, text, devices=1).table) == 2


def test_times_that_do_not_go_on_and_damaged_devices_are_left_out(tmp_path):
    text = TEXT.replace("28 23:59:59.500, 50", "28 21:59:59.500, 50").replace(
        "100.00 W, 0, GPU-0", "100.00 W, 0, GPU-8", 1
    )
    reading = read(tmp_path, text + "2026/03/01 00:00:01.500, 100.00 W, 0, " + FIRST + "\n")
    assert reading.coverage_ratio == 5 / 7
    assert any("seen only here" in reason for reason in reading.reasons)
    assert any(TIME_STANDS() in reason for reason in reading.reasons)


def test_a_header_without_power_is_refused(tmp_path):
    with pytest.raises(ParseError, match="expected a query of nvidia-smi"):
        read(tmp_path, "timestamp, index\n2026/03/01 10:00:00.000, 0\n")


def test_published_series():
    reading = read_nvidia_smi(sample("power/nvidia_smi_query_gtx1650_11ms.csv"))
    assert reading.is_whole
    assert len(reading.table) == 80
    assert reading.table["time_s"].max() == pytest.approx(0.918)
    assert reading.table["power_w"].mean() == pytest.approx(19.78525)
    summary = power_summary(reading.table, "nvml")
    assert summary.energy_j == pytest.approx(18.1693, abs=5e-5)
    assert summary.value_changes == 9
    assert summary.reasons == (SLOW_SENSOR(changes=9, samples=80),)


def test_published_snapshot_has_no_energy():
    reading = read_nvidia_smi(sample("power/nvidia_smi_query_8xH200_snapshot.csv"))
    assert (len(reading.table), reading.table["device"].nunique()) == (8, 8)
    assert reading.table["power_w"].sum() == pytest.approx(605.39)
    assert reading.reasons == (ONE_MOMENT(),)
    assert math.isnan(power_summary(reading.table, "nvml").energy_j)


def test_damage(tmp_path):
    check_foreign(tmp_path, read_nvidia_smi)
    columns = ["time_s", "device", "power_w"]
    check_cuts(tmp_path / "x", TEXT.encode(), read_nvidia_smi, columns, has_end=False)
    data = sample("power/nvidia_smi_query_gtx1650_11ms.csv").read_bytes()
    check_cuts(tmp_path / "x", data, read_nvidia_smi, columns, has_end=False)
    # Neither power nor times between their neighbours have any redundancy.
    check_flips(tmp_path / "x", data, read_nvidia_smi, ["device"], count=100)


def test_power_in_another_unit_is_not_read(tmp_path):
    with pytest.raises(ParseError, match="unit"):
        read(tmp_path, TEXT.replace(" W,", ",").replace("[W]", "[mW]"))
