"""likwid-perfctr -O: raw events, metrics, regions, damage; recorded runs and texts after likwid.lua."""

from pathlib import Path

import pytest
from unit.parsers.damage import check_cuts, check_flips, check_foreign

from hpcai.parsers.findings import LEFT_OUT
from hpcai.parsers.likwid import CONTRADICTED, NO_METRICS, NO_STATISTICS, ROWS_MISSING, read_likwid

RECORDED = Path(__file__).parents[2] / "data/likwid"
START = "STRUCT,Info,3,,,\nCPU name:,Intel(R) Xeon(R) Gold 6148,,,,\nCPU type:,Intel Skylake SP processor,,,,\n"
RAW = """TABLE,Group 1 Raw,MEM_DP,2,,
Event,Counter,HWThread 0,HWThread 4,,
INSTR_RETIRED_ANY,FIXC0,1000000,3000000,,
FP_ARITH_INST_RETIRED_512B_PACKED_DOUBLE,PMC3,500,700,,
TABLE,Group 1 Raw STAT,MEM_DP,2,,
Event,Counter,Sum,Min,Max,Avg
INSTR_RETIRED_ANY STAT,FIXC0,4000000,1000000,3000000,2000000
FP_ARITH_INST_RETIRED_512B_PACKED_DOUBLE STAT,PMC3,1200,500,700,600
"""
METRIC = """TABLE,Group 1 Metric,MEM_DP,5,,
Metric,HWThread 0,HWThread 4,,,
Runtime (RDTSC) [s],2.5000,2.5000,,,
CPI,0.5000,nan,,,
DP [MFLOP/s],16.5000,17.5000,,,
Memory data volume [GBytes],1.200000e-03,0,,,
L2 miss ratio [%],50,25,,,
TABLE,Group 1 Metric STAT,MEM_DP,5,,
Metric,Sum,Min,Max,Avg,
Runtime (RDTSC) [s] STAT,5,2.5000,2.5000,2.5000,
CPI STAT,0.5000,0.5000,0.5000,0.2500,
DP [MFLOP/s] STAT,34,16.5000,17.5000,17,
Memory data volume [GBytes] STAT,0.0012,0,0.0012,0.0006,
L2 miss ratio [%] STAT,75,25,50,37.5000,
"""
TEXT = START + RAW + METRIC


def read(tmp_path, text):
    path = tmp_path / "likwid.csv"
    path.write_text(text)
    return read_likwid(path)


def test_events_and_metrics_in_si(tmp_path):
    reading = read(tmp_path, TEXT)
    assert reading.is_whole
    assert reading.facts["cpu_type"] == "Intel Skylake SP processor"
    table = reading.table.set_index(["name", "place"])
    assert table.loc[("INSTR_RETIRED_ANY", "HWThread 4"), "value"] == 3_000_000
    assert table.loc[("INSTR_RETIRED_ANY", "HWThread 4"), ["kind", "counter"]].to_list() == ["event", "FIXC0"]
    assert table.loc[("DP", "HWThread 0"), ["value", "unit"]].to_list() == [16.5e6, "FLOP/s"]
    assert table.loc[("Memory data volume", "HWThread 0"), ["value", "unit"]].to_list() == [1.2e6, "byte"]
    assert table.loc[("L2 miss ratio", "HWThread 0"), ["value", "unit"]].to_list() == [0.5, "ratio"]
    assert table["value"].isna().sum() == 1


def test_regions_and_one_thread_without_metrics(tmp_path):
    text = START + (
        "TABLE,Region step,Group 1 Raw,Custom,2,,\n"
        "Region Info,HWThread 3,,,,\nRDTSC Runtime [s],1.250000,,,,\ncall count,10,,,,\n"
        "Event,Counter,HWThread 3,,,\nRuntime (RDTSC) [s],TSC,1.250000e+00,,,\nINSTR_RETIRED_ANY,FIXC0,42,,,\n"
    )
    reading = read(tmp_path, text)
    assert reading.is_whole
    assert reading.table["region"].to_list() == ["step"] * 2
    assert reading.table["value"].to_list() == [1.25, 42]


@pytest.mark.parametrize(
    ("name", "cpu_type", "counted", "places"),
    [
        ("mem_cascade_lake.csv", "Intel Cascadelake SP processor", 12, ["Core 0"]),
        ("mem_zen.csv", "AMD K17 (Zen) architecture", 2, ["Core 0", "Core 6", "Core 12", "Core 18"]),
    ],
)
def test_recorded_traffic_of_all_memory_channels(name, cpu_type, counted, places):
    reading = read_likwid(RECORDED / name)
    assert reading.is_whole, reading.reasons
    assert reading.facts["cpu_type"] == cpu_type
    events = reading.table[reading.table["kind"] == "event"]
    assert events["counter"].nunique() == counted
    volume = reading.table[reading.table["name"] == "Memory data volume"]
    assert volume["value"].sum() == pytest.approx(64 * events["value"].sum(), rel=1e-6)  # a count is a line of 64 bytes
    assert volume.loc[volume["value"] > 0, "place"].to_list() == places


def test_the_same_event_of_another_channel_is_compared_with_its_own_statistics(tmp_path):
    text = (RECORDED / "mem_cascade_lake.csv").read_text()
    reading = read(tmp_path, text.replace("MBOX1C0,666449400,0,", "MBOX1C0,666449400,9000000,", 1))
    assert LEFT_OUT(line=9, why=CONTRADICTED(name="CAS_COUNT_RD")) in reading.reasons
    assert len(reading.reasons) == 1


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("1000000,3000000,,", "1000000,3900000,,", CONTRADICTED(name="INSTR_RETIRED_ANY")),
        ("500,700,,", "500,7z0,,", "no row of numbers"),
        ("500,700,,", "500,700,1,", "no row of numbers"),
        ("Group 1 Raw STAT", "Group 1 Raw STAR", "a damaged or missing title"),
        ("TABLE,Group 1 Metric,", "TCBLE,Group 1 Metric,", "no table of metrics"),
    ],
)
def test_damaged_rows_and_tables_are_left_out(tmp_path, old, new, why):
    assert why in " ".join(read(tmp_path, TEXT.replace(old, new, 1)).reasons)


def test_missing_tables_are_noticed(tmp_path):
    assert read(tmp_path, START + RAW).reasons == (NO_METRICS(group=1, name="MEM_DP"),)
    cut = TEXT[: TEXT.index("TABLE,Group 1 Metric STAT")]
    assert NO_STATISTICS(table="group 1 Metric") in read(tmp_path, cut).reasons
    rows = TEXT[: TEXT.index("DP [MFLOP/s],")]
    assert (
        LEFT_OUT(line=12, why=ROWS_MISSING(table="group 1 Metric", rows=2, expected=5)) in read(tmp_path, rows).reasons
    )


def test_damage(tmp_path):
    check_foreign(tmp_path, read_likwid)
    check_cuts(tmp_path / "x", TEXT.encode(), read_likwid, ["name", "place", "value"])
    # Neither names, nor values whose statistics lost their name, have any redundancy.
    check_flips(tmp_path / "x", TEXT.encode(), read_likwid, ["group"], count=150)


@pytest.mark.parametrize(
    ("old", "new"), [("[GBytes]", "[GByues]"), ("[GBytes]", "[GBytes"), ("[GBytes]", "[gBytes]"), ("[%]", "[$]")]
)
def test_a_metric_in_a_unit_that_is_not_known_is_left_out(tmp_path, old, new):
    reading = read(tmp_path, TEXT.replace(old, new))
    whole = read(tmp_path, TEXT)
    assert len(reading.table) == len(whole.table) - 2
    assert reading.seen_records - reading.complete_records == 1
