"""Meters of power and energy: what is sampled, and what is said where there are none."""

import csv
import time

from hpcai.measure.power import Meter, find_power_meters, metered


def counters(folder, energy_uj=1000):
    for index in range(2):
        domain = folder / f"intel-rapl:{index}"
        (domain / f"intel-rapl:{index}:0").mkdir(parents=True)
        (domain / "name").write_text(f"{'package-0' if index == 0 else 'psys'}\n")
        (domain / "energy_uj").write_text(f"{energy_uj + index}\n")
        (domain / "max_energy_range_uj").write_text("262143328850\n")


def test_every_missing_meter_has_its_reason(tmp_path, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    meters, reasons = find_power_meters(tmp_path / "nothing")
    assert {reason.split(":")[0] for reason in reasons} == {"NVML", "RAPL", "Slurm"} - {
        {"nvml": "NVML", "rapl": "RAPL", "slurm": "Slurm"}[meter.instrument] for meter in meters
    }


def test_packages_are_sampled_their_parts_are_not_and_the_platform_is_named(tmp_path):
    counters(tmp_path)
    meter = next(meter for meter in find_power_meters(tmp_path)[0] if meter.instrument == "rapl")
    assert meter.sample() == [("package-0", 1000, 262143328850), ("psys-1", 1001, 262143328850)]


def test_a_counter_that_may_not_be_read_is_a_reason(tmp_path):
    counters(tmp_path)
    (tmp_path / "intel-rapl:0/energy_uj").unlink()
    reasons = find_power_meters(tmp_path)[1]
    assert any(reason.startswith("RAPL:") and "energy_uj" in reason for reason in reasons)


def test_samples_cover_begin_and_end(tmp_path):
    values = iter(range(1000))
    meter = Meter("nvml", ("monotonic_s", "index", "power_mw"), lambda: [(0, next(values))])
    before_s = time.monotonic()
    with metered([meter], tmp_path):
        time.sleep(0.25)
    rows = list(csv.DictReader((tmp_path / "power_nvml.csv").open()))
    assert len(rows) >= 3
    assert float(rows[-1]["monotonic_s"]) - float(rows[0]["monotonic_s"]) > 0.2
    assert before_s <= float(rows[0]["monotonic_s"])
    assert [int(row["power_mw"]) for row in rows] == list(range(len(rows)))
