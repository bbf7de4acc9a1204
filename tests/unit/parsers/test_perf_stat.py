"""perf stat -x: layouts, missing counters, damage."""

import math
from pathlib import Path

import pytest
from unit.parsers.artefacts import sample
from unit.parsers.damage import check_cuts, check_flips, check_foreign
from unit.refusals import refused

from hpcai.core.errors import ParseError
from hpcai.parsers.findings import LEFT_OUT
from hpcai.parsers.perf_stat import ADVICE, MISSING, OTHER_RATE, SHARED, read_perf_stat
from hpcai.parsers.reading import NOTHING_READ
from hpcai.parsers.registry import read_artefact

RECORDED = Path(__file__).resolve().parents[2] / "data/perf"
PLAIN = """# started on Mon Jan  5 08:00:00 2026

1500.00,msec,task-clock,1500000000,100.00,1.500,CPUs utilized
300,,context-switches,1500000000,100.00,200.000,/sec
7000000000,,cycles,1500000000,75.00,4.667,GHz
<not supported>,,LLC-loads,0,100.00,,
12.50,Joules,power/energy-pkg/,1500000000,100.00,,
"""


def write(tmp_path, text):
    path = tmp_path / "perf.csv"
    path.write_text(text)
    return path


def test_units_are_si_and_missing_counters_have_a_reason(tmp_path):
    reading = read_perf_stat(write(tmp_path, PLAIN))
    table = reading.table.set_index("event")
    assert table.loc["task-clock", ["value", "unit"]].to_list() == [1.5, "s"]
    assert table.loc["power/energy-pkg/", ["value", "unit"]].to_list() == [12.5, "J"]
    assert table["value"].isna().to_list() == [False, False, False, True, False]
    assert table.loc["LLC-loads", "reason"] == "not supported by this machine"
    assert table.loc["cycles", "enabled_ratio"] == 0.75
    assert reading.reasons == (
        f"LLC-loads: {MISSING['<not supported>']}",
        SHARED(events="cycles"),
    )


@pytest.mark.parametrize("separator", [";", "\t", "|", ":"])
def test_any_separator_is_found(tmp_path, separator):
    text = PLAIN.replace(",", separator).replace("08:00:00", "8").replace("power/", "power-")
    table = read_perf_stat(write(tmp_path, text)).table
    assert table["value"].sum() == 1.5 + 300 + 7e9 + 12.5


@pytest.mark.parametrize("separator", [",", ";"])
def test_decimal_commas_are_refused(tmp_path, separator):
    lines = ["1500.00|msec|task-clock|1500000000|100.00|1.500|CPUs utilized", "3||faults|1500000000|100.00|2.000|/sec"]
    text = "\n".join(lines).replace(".", ",").replace("|", separator) + "\n"
    with refused(ParseError, NOTHING_READ, advice=ADVICE):
        read_perf_stat(write(tmp_path, text))


def test_places_repeats_and_an_event_with_separators(tmp_path):
    text = (
        "CPU0,10,,cpu/event=0x3c,umask=0x1/,2000000,100.00,,\n"
        "CPU1,11,,cpu/event=0x3c,umask=0x1/,2000000,100.00,,\n"
        "S0,2,12,,faults,2000000,100.00,,\n"
        "13,,faults,0.78%,2000000,100.00,,\n"
        ",,,,,0.50,stalled cycles per insn\n"
    )
    reading = read_perf_stat(write(tmp_path, text))
    assert reading.is_whole
    assert reading.table["value"].to_list() == [10, 11, 12, 13]
    assert reading.table["place"].to_list() == ["CPU0", "CPU1", "S0", ""]
    assert reading.table["event"].iloc[0] == "cpu/event=0x3c,umask=0x1/"
    assert reading.table["cpus"].iloc[2] == 2
    assert reading.table["variation_ratio"].iloc[3] == pytest.approx(0.0078)


def test_contradictions_are_left_out(tmp_path):
    text = PLAIN.replace("1500.00,", "1900.00,").replace("300,", "390,").replace("75.00", "175.00")
    reading = read_perf_stat(write(tmp_path, text))
    assert reading.table["event"].to_list() == ["LLC-loads", "power/energy-pkg/"]
    assert reading.coverage_ratio == 2 / 5
    assert LEFT_OUT(line=4, why=OTHER_RATE(value=390, run_s=1.5, rate=200)) in reading.reasons


def test_an_interval_without_all_events_is_left_out(tmp_path):
    rows = [f"  {time}.100000000;{time};;{event};900;100.00;;\n" for time in (1, 2, 3) for event in ("faults", "moves")]
    text = "".join(rows).replace("2.100000000;2;;m", "2.100000001;2;;m")
    reading = read_perf_stat(write(tmp_path, text))
    assert reading.table["value"].to_list() == [1, 1, 3, 3]
    assert reading.coverage_ratio == 4 / 6


def test_published_run_with_missing_counters():
    table = read_perf_stat(sample("perf/perf_stat_hpl_2ranks_vm.csv")).table.set_index("event")["value"]
    assert table["task-clock"] == pytest.approx(0.52586)
    assert table["page-faults"] == 17913
    assert table[["cycles", "instructions", "branches", "branch-misses"]].isna().all()


def test_published_run_of_five_intervals():
    reading = read_perf_stat(sample("perf/perf_stat_interval_semicolon.csv"))
    values = reading.table.groupby("time_s")["value"]
    assert reading.facts["intervals"] == len(values) == 5
    assert values.count().to_list() == [3, 0, 0, 0, 3]


def test_damage(tmp_path):
    check_foreign(tmp_path, read_perf_stat)
    check_cuts(tmp_path / "x", PLAIN.encode(), read_perf_stat, ["event", "value"], has_end=False)
    data = sample("perf/perf_stat_interval_semicolon.csv").read_bytes()
    check_cuts(tmp_path / "x", data, read_perf_stat, ["time_s", "event", "value"], has_end=False)
    # Counts of intervals shorter than 10 ms and names of events have no redundancy.
    check_flips(tmp_path / "x", data, read_perf_stat, ["time_s"])


@pytest.mark.parametrize("unit", ["msdc", "ksec", "MSEC", "kib"])
def test_a_unit_that_is_not_known_is_never_read_as_another(tmp_path, unit):
    reading = read_perf_stat(write(tmp_path, PLAIN.replace("msec", unit)))
    assert "task-clock" not in set(reading.table["event"])
    assert reading.coverage_ratio == 4 / 5


@pytest.mark.parametrize("name", ["zen3.txt", "zen4_intervals.txt", "cascade_lake.txt", "ice_lake.csv"])
def test_recorded_output_is_read_whole(name):
    reading = read_perf_stat(RECORDED / name)
    assert reading.coverage_ratio == 1
    if name != "ice_lake.csv":  # two bare lines do not tell their tool
        assert read_artefact(RECORDED / name).table.equals(reading.table)


def test_a_count_of_zen_4_is_a_line_by_perf_itself():
    table = read_perf_stat(RECORDED / "zen4_intervals.txt").table
    lines = table[table["event"].str.startswith("umc_cas_cmd")]
    assert len(lines) == 4 * 3
    assert (lines["value"] * 64 / 1e6).to_list() == pytest.approx(lines["derived"].to_list(), rel=1e-3)
    read = lines[lines["event"] == "umc_cas_cmd.rd"]["derived_unit"]
    assert set(read) == {"MB/s  umc_mem_read_bandwidth"}


def test_a_count_of_zen_3_is_a_line_by_perf_itself():
    reading = read_perf_stat(RECORDED / "zen3.txt")
    (whole_mib,) = reading.table["derived"].dropna()
    assert reading.table["value"].sum() * 64 / 2**20 == pytest.approx(whole_mib, rel=1e-3)
    assert reading.table["enabled_ratio"].between(0.499, 0.501).all()
    assert reading.reasons == (SHARED(events=", ".join(f"dram_channel_data_controller_{i}" for i in range(8))),)


def test_intel_s_counts_are_bytes_already():
    table = read_perf_stat(RECORDED / "cascade_lake.txt").table.set_index("event")
    assert table.loc["uncore_imc/cas_count_read/", ["value", "unit"]].to_list() == [767.95 * 2**20, "byte"]
    sockets = read_perf_stat(RECORDED / "ice_lake.csv").table
    assert sockets["place"].to_list() == ["S0", "S1"]
    assert sockets["value"].to_list() == [0.85 * 2**20, 2**20]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("   <not supported> MiB  uncore_imc/cas_count_read/", [None, "byte", MISSING["<not supported>"]]),
        ("   <not counted>      dram_channel_data_controller_6      (0.00%)", [None, "", MISSING["<not counted>"]]),
        ("          1,500.25 msec task-clock      #    1.500 CPUs utilized   ( +-  0.53% )", [1.50025, "s", ""]),
        (
            "S0        1              27.01 MiB  uncore_imc/cas_count_write/ #   103.00 DRAM",
            [27.01 * 2**20, "byte", ""],
        ),
    ],
)
def test_printed_lines(tmp_path, line, expected):
    (row,) = read_perf_stat(write(tmp_path, f" Performance counter stats for 'true':\n\n{line}\n")).table.to_dict(
        "records"
    )
    assert [None if math.isnan(row["value"]) else row["value"], row["unit"], row["reason"]] == [
        pytest.approx(expected[0]), *expected[1:],
    ]  # fmt: skip


def test_a_printed_count_with_decimals_is_one_of_another_country(tmp_path):
    text = " Performance counter stats for 'true':\n\n   544.810      cycles\n   17      page-faults\n"
    reading = read_perf_stat(write(tmp_path, text))
    assert reading.table["event"].to_list() == ["page-faults"]
    assert reading.coverage_ratio == 1 / 2
