"""Power of several devices in parallel columns: read if the header defines each column, refused otherwise."""

import sys

import pytest
from unit.parsers.damage import check_cuts, check_foreign
from unit.refusals import refused, told

from hpcai.__main__ import main
from hpcai.core.errors import ParseError
from hpcai.metrics.profiles.energy import power_summary
from hpcai.parsers.power_table import NO_UNIT, TOOL, WATTS, read_power_table
from hpcai.parsers.reading import NOTHING_READ
from hpcai.parsers.registry import read_artefact

ROWS = "2026-05-05T19:14:50,100.5,200\n2026-05-05T19:14:51,100.5,200\n2026-05-05T19:14:52,100.5,200\n"
TEXT = f"timestamp, GPU0 [W], GPU1 [W]\n{ROWS}"


@pytest.fixture
def table(tmp_path):
    def write(text):
        path = tmp_path / "power.csv"
        path.write_text(text)
        return path

    return write


def test_one_row_per_device_and_time(table):
    reading = read_artefact(table(TEXT))
    assert reading.is_whole
    assert reading.table["device"].to_list() == ["GPU0", "GPU1"] * 3
    assert reading.table["time_s"].to_list() == [0, 0, 1, 1, 2, 2]
    assert reading.facts["start"] == "2026-05-05T19:14:50"
    assert power_summary(reading.table, "table").energy_j == pytest.approx(601)


@pytest.mark.parametrize(
    ("header", "factor"),
    [
        ("timestamp,GPU0 (W),GPU1 (W)", 1),
        ("timestamp,GPU0_W,GPU1_W", 1),
        ('"timestamp","GPU0 [mW]","GPU1 [mW]"', 1e-3),
        ("time,gcd 0 [kW],gcd 1 [W]", (1e3, 1)),
    ],
)
def test_units_of_the_header(table, header, factor):
    first, second = factor if isinstance(factor, tuple) else (factor, factor)
    power = read_power_table(table(f"{header}\n{ROWS}")).table["power_w"]
    assert power.to_list()[:2] == pytest.approx([100.5 * first, 200 * second])


@pytest.mark.parametrize("unit", WATTS)
def test_a_header_without_units_needs_to_be_told(table, monkeypatch, capsys, unit):
    path = table(f"timestamp, GPU0, GPU1\n{ROWS}")
    with pytest.raises(ParseError) as error:
        read_artefact(path)
    assert told(str(error.value), NO_UNIT) == {"column": "'GPU0'"}
    monkeypatch.setattr(sys, "argv", ["hpcai", "read", str(path), "--unit", unit])
    assert main() == 0
    first = capsys.readouterr().out.splitlines()[1].split(",")
    assert (first[1], float(first[2])) == ("GPU0", pytest.approx(100.5 * WATTS[unit]))


@pytest.mark.parametrize("times", ["1777922090.25 1777922091.25", "2026/05/05 19:14:50.250 2026/05/05 19:14:51.250"])
def test_times_that_can_be_read_in_one_way(table, times):
    parts = times.split(" ")
    first, second = " ".join(parts[: len(parts) // 2]), " ".join(parts[len(parts) // 2 :])
    reading = read_power_table(table(f"timestamp;GPU0 [W]\n{first};1\n{second};2\n"))
    assert reading.table["time_s"].to_list() == [0, 1]


SPRING = ("2026-03-29T01:59:58+01:00", "2026-03-29T01:59:59+01:00", "2026-03-29T03:00:00+02:00")
"""What `date -Iseconds` prints around the change to summer time."""
AUTUMN = ("2026-10-25T02:59:58+02:00", "2026-10-25T02:59:59+02:00", "2026-10-25T02:00:00+01:00")
TWO_ZONES = ("2026-05-05T17:14:50Z", "2026-05-05T19:14:51+02:00", "2026-05-05T17:14:52Z")


@pytest.mark.parametrize("stamps", [SPRING, AUTUMN, TWO_ZONES])
def test_times_with_an_offset_are_moments(table, stamps):
    rows = "".join(f"{stamp},1\n" for stamp in stamps)
    reading = read_power_table(table(f"timestamp,GPU0 [W]\n{rows}"))
    assert reading.is_whole
    assert reading.table["time_s"].to_list() == [0, 1, 2]


@pytest.mark.parametrize(("name", "factor"), [("time_s", 1), ("time [ms]", 1e-3), ("timestamp_us", 1e-6)])
def test_times_with_a_unit_stand_as_they_are(table, name, factor):
    reading = read_power_table(table(f"{name}\tGPU0 [W]\n10\t1\n20\t2\n"))
    assert reading.table["time_s"].to_list() == pytest.approx([10 * factor, 20 * factor])


@pytest.mark.parametrize(
    ("header", "row"),
    {
        "numbers without a unit": ("timestamp,GPU0 [W]", "0.5,1"),
        "milliseconds since 1970, not said": ("timestamp,GPU0 [W]", "1777922090250,1"),
        "days first": ("timestamp,GPU0 [W]", "05/06/2026 10:00:00,1"),
        "a unit for some": ("timestamp,GPU0 [W],GPU1", "2026-05-05T19:14:50,1,2"),
        "another quantity": ("timestamp,GPU0 [W],GPU0 [C]", "2026-05-05T19:14:50,1,2"),
        "another name": ("timestamp,GPU0 [W],GPU0_temperature [W]", "2026-05-05T19:14:50,1,2"),
        "small letters": ("timestamp,GPU0_mw,GPU1_mw", "2026-05-05T19:14:50,1,2"),
        "twice": ("timestamp,GPU0 [W],GPU0 [W]", "2026-05-05T19:14:50,1,2"),
        "two times": ("timestamp,time,GPU0 [W]", "2026-05-05T19:14:50,1,2"),
        "no time": ("GPU0 [W],GPU1 [W]", "1,2"),
        "time alone": ("timestamp", "2026-05-05T19:14:50"),
        "no name": ("timestamp,[W]", "2026-05-05T19:14:50,1"),
        "one row per device": ("timestamp,gpu [W],level [W]", "2026-05-05T19:14:50,0,1"),
        "not finite": ("timestamp,GPU0 [W]", "2026-05-05T19:14:50,inf"),
        "a quote that nobody closed": ('timestamp,"GPU0 [W]', "2026-05-05T19:14:50,1"),
        "a header without end": ("timestamp" + ",GPU0 [W]" * 10_000, "2026-05-05T19:14:50,1"),
        "less than nothing": ("timestamp,GPU0 [W]", "2026-05-05T19:14:50,-1"),
    }.values(),
)
def test_what_may_mean_two_things_is_refused(table, header, row):
    with refused(ParseError, NOTHING_READ, tool=TOOL):
        read_power_table(table(f"{header}\n{row}\n"))


@pytest.mark.parametrize("header", ["timestamp,gpu,level", "timestamp,index,GPU0", "timestamp,GPU0,GPU0_temp"])
def test_a_unit_makes_no_power_of_other_columns(table, header):
    with pytest.raises(ParseError, match="may not be the power"):
        read_power_table(table(f"{header}\n2026-05-05T19:14:50,0,1\n"), "W")


def test_a_unit_beside_those_of_the_header_is_refused(table):
    with pytest.raises(ParseError, match="--unit"):
        read_power_table(table(TEXT), "mW")


def test_a_unit_is_for_tables_of_power_alone(table, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["hpcai", "read", str(table(TEXT)), "--unit", "W", "--tool", "rapl"])
    assert main() == 1
    assert "--unit" in capsys.readouterr().err


def test_a_total_must_be_the_sum(table):
    rows = "2026-05-05T19:14:50,1,2,3\n2026-05-05T19:14:51,1,2,4\n"
    reading = read_power_table(table(f"timestamp,GPU0 [W],GPU1 [W],total [W]\n{rows}"))
    assert reading.table["device"].to_list() == ["GPU0", "GPU1"]
    assert "line 3" in reading.reasons[0]


def test_damage(tmp_path):
    check_foreign(tmp_path, read_power_table)
    check_cuts(tmp_path / "x", TEXT.encode(), read_power_table, ["time_s", "device", "power_w"], has_end=False)
