"""dcgmi dmon: repeated headers, missing values, counters without times."""

import pytest
from unit.parsers.damage import check_cuts, check_flips, check_foreign

from hpcai.metrics.profiles.energy import NO_TIME_STAMPS, power_summary
from hpcai.parsers.dcgm import COUNTED, NO_NUMBERS, read_dcgm_dmon
from hpcai.parsers.findings import LEFT_OUT
from hpcai.parsers.power_samples import NO_VALUE

HEADER = "#Entity         POWER             TOTEC\nID              W                 mJ\n"
TEXT = "".join(
    (HEADER if tick % 3 == 0 else "")
    + "".join(f"GPU {gpu}           {100 + gpu}.000           {5_000_000 + 100_000 * tick}\n" for gpu in (0, 1))
    for tick in range(6)
)


def read(tmp_path, text, **more):
    path = tmp_path / "dmon.txt"
    path.write_text(text)
    return read_dcgm_dmon(path, **more)


def test_the_counter_gives_energy_without_times(tmp_path):
    reading = read(tmp_path, TEXT)
    assert reading.table["device"].to_list() == ["GPU 0", "GPU 1"] * 6
    assert reading.table["time_s"].isna().all()
    assert reading.reasons == ("no time stamps",)
    summary = power_summary(reading.table, "nvml")
    assert summary.energy_j == pytest.approx(2 * 500)
    assert summary.mean_power_w != summary.mean_power_w


def test_nominal_times_are_named_as_such(tmp_path):
    reading = read(tmp_path, TEXT, interval_s=1.0)
    assert reading.table["time_s"].max() == 5
    assert reading.reasons == (f"no time stamps{COUNTED(interval_s=1.0)}",)


def test_power_alone_without_times_has_no_energy(tmp_path):
    text = "# Entity  POWER\n  Id  W\n    GPU 0  75.5\n    GPU 0  N/A\n    GPU 0  76.5\n"
    reading = read(tmp_path, text)
    assert reading.table["power_w"].isna().to_list() == [False, True, False]
    assert NO_VALUE(missing=1, samples=3) in reading.reasons
    summary = power_summary(reading.table, "nvml")
    assert summary.energy_j != summary.energy_j
    assert NO_TIME_STAMPS() in summary.reasons


def test_damaged_rows_are_left_out(tmp_path):
    reading = read(tmp_path, TEXT.replace("100.000  ", "1q0.000  ", 1).replace("101.000  ", "", 1))
    assert reading.coverage_ratio == 10 / 12
    assert LEFT_OUT(line=3, why=NO_NUMBERS()) in reading.reasons


def test_damage(tmp_path):
    check_foreign(tmp_path, read_dcgm_dmon)
    check_cuts(tmp_path / "x", TEXT.encode(), read_dcgm_dmon, ["device", "power_w", "energy_j"], has_end=False)
    # Neither numbers nor a changed device have any redundancy.
    check_flips(tmp_path / "x", TEXT.encode(), read_dcgm_dmon, ["device"])


@pytest.mark.parametrize(("old", "new"), [(" W ", " V "), ("mJ", "uJ")])
def test_rows_under_other_units_are_left_out(tmp_path, old, new):
    reading = read(tmp_path, TEXT.replace(old, new, 1))
    assert reading.coverage_ratio == 6 / 12
