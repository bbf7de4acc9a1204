"""perf stat -x: layouts, missing counters, damage."""

import pytest
from unit.parsers.artefacts import sample
from unit.parsers.damage import check_cuts, check_flips, check_foreign
from unit.refusals import refused

from hpcai.core.errors import ParseError
from hpcai.parsers.findings import LEFT_OUT
from hpcai.parsers.perf_stat import ADVICE, MISSING, OTHER_RATE, SHARED, read_perf_stat
from hpcai.parsers.reading import NOTHING_READ

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
