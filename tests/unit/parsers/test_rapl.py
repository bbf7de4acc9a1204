"""RAPL counters: wraps, overlapping domains, damage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.parsers.damage import check_cuts, check_flips, check_foreign

from hpcai.metrics.profiles.energy import power_summary
from hpcai.parsers.findings import LEFT_OUT
from hpcai.parsers.rapl import LARGE_GAP, LARGE_STEP, NO_MEMORY, read_rapl, unwrap

RANGE = 262_143_328_850
HEADER = "monotonic_s,domain,energy_uj,max_energy_range_uj\n"
TEXT = HEADER + "".join(
    f"{50 + tick / 10:.3f},{domain},{(start + tick * step) % RANGE},{RANGE}\n"
    for tick in range(20)
    for domain, start, step in (
        ("package-0", RANGE - 50_000_000, 10_000_000),
        ("package-0/core", 5, 6_000_000),
        ("dram", 9, 1_000_000),
    )
)


def read(tmp_path, text):
    path = tmp_path / "rapl.csv"
    path.write_text(text)
    return read_rapl(path)


def test_counters_count_on_over_a_wrap(tmp_path):
    reading = read(tmp_path, TEXT)
    assert reading.is_whole
    package = reading.table[reading.table["device"] == "package-0"]["energy_j"]
    assert package.to_list() == pytest.approx([10.0 * tick for tick in range(20)])


def test_domains_inside_a_package_are_not_added(tmp_path):
    summary = power_summary(read(tmp_path, TEXT).table, "rapl")
    assert summary.energy_j == pytest.approx(190 + 19)
    assert summary.mean_power_w == pytest.approx(110)


def test_the_memory_of_each_package_is_added_and_its_absence_is_said(tmp_path):
    domains = ("package-0", "package-1", "dram-0:1", "dram-1:1", "psys-2")
    rows = [f"{tick},{domain},{tick * 10_000_000},{RANGE}\n" for tick in range(4) for domain in domains]
    reading = read(tmp_path, HEADER + "".join(rows))
    assert reading.is_whole
    assert power_summary(reading.table, "rapl").mean_power_w == pytest.approx(40)
    without = read(tmp_path, HEADER + "".join(row for row in rows if "dram" not in row))
    assert without.reasons == (NO_MEMORY(),)
    assert power_summary(without.table, "rapl").mean_power_w == pytest.approx(20)


@pytest.mark.parametrize("tick", [0, 7, 19])
def test_a_step_beyond_any_power_is_damage_and_no_wrap(tmp_path, tick):
    lines = TEXT.splitlines(keepends=True)
    time, domain, _, _ = lines[3 * tick + 1].split(",")
    lines[3 * tick + 1] = f"{time},{domain},{RANGE // 2},{RANGE}\n"
    reading = read(tmp_path, "".join(lines))
    assert reading.reasons == (LEFT_OUT(line=3 * tick + 2, why=LARGE_STEP(domain="package-0", largest_power_w=2000)),)
    energy = reading.table[reading.table["device"] == "package-0"]["energy_j"]
    assert energy.iloc[-1] == pytest.approx({0: 180, 7: 190, 19: 180}[tick])


def test_a_gap_may_hide_a_wrap(tmp_path):
    reading = read(tmp_path, HEADER + "".join(f"{time},dram,{time * 1000},65532610987\n" for time in (0, 1, 100)))
    assert reading.reasons == (LARGE_GAP(domain="dram", gap_s=99),)


@given(st.lists(st.integers(0, 99), max_size=20), st.integers(0, 99))
def test_unwrapping_gives_back_what_was_counted(steps, start):
    sums, counters = [0], [start]
    for step in steps:
        sums.append(sums[-1] + step)
        counters.append((counters[-1] + step) % 100)
    assert unwrap(counters, 100) == sums


def test_damage(tmp_path):
    check_foreign(tmp_path, read_rapl)
    columns = ["time_s", "device", "energy_j"]
    check_cuts(tmp_path / "x", TEXT.encode(), read_rapl, columns, has_end=False)
    # Low digits of counters and times have no redundancy; the workflow checks a sum of the file.
    check_flips(tmp_path / "x", TEXT.encode(), read_rapl, ["device"], count=100)
