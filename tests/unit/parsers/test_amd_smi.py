"""amd-smi: CSV and JSON of its metrics and its monitor; partitions, missing values, damage."""

import json
import math

import pytest
from unit.parsers.damage import check_cuts, check_foreign
from unit.parsers.tool_output import hand_made

from hpcai.core.errors import ParseError
from hpcai.metrics.profiles.energy import power_summary
from hpcai.parsers.amd_smi import DAMAGED, OTHER_UNIT, accelerators_power_w, read_amd_smi
from hpcai.parsers.findings import LEFT_OUT
from hpcai.parsers.power_samples import COLUMNS, NO_VALUE, ONE_MOMENT
from hpcai.parsers.registry import read_artefact


def test_a_watched_metric_has_power_energy_and_times_of_each_accelerator():
    reading = read_amd_smi(hand_made("amd_smi_metric.csv"))
    table = reading.table.set_index("device")
    assert reading.facts["column"] == "socket_power"
    assert table.loc["0", "time_s"].to_list() == [0.0, 1.0, 2.0]
    assert table.loc["0", "power_w"].to_list() == [400.0, 420.0, 440.0]
    assert table.loc["1", "power_w"].isna().to_list() == [False, True, False]
    assert power_summary(reading.table[reading.table["device"] == "0"], "amd_smi").energy_j == pytest.approx(840.0)


def test_a_monitor_counts_a_partitioned_accelerator_once():
    reading = read_amd_smi(hand_made("amd_smi_monitor.csv"))
    assert reading.table["power_w"].to_list() == [400.0, 410.0]
    assert reading.is_whole


WATCHED = """\
timestamp,gpu,gfx_activity,mm_activity,vcn_activity,gfx_busy_inst_xcp_0,socket_power,gfx_voltage,power_management,hotspot
1790000000,0,97,N/A,"['N/A', 'N/A']","[97, 96]",1310,N/A,ENABLED,61
1790000001,0,97,N/A,"['N/A', 'N/A']","[97, 96]",1340,N/A,ENABLED,62
"""


def test_lists_in_cells_do_not_shift_the_power(tmp_path):
    path = tmp_path / "watched.csv"
    path.write_text(WATCHED)
    reading = read_amd_smi(path)
    assert reading.is_whole
    assert reading.table["power_w"].to_list() == [1310.0, 1340.0]


def test_a_line_that_is_no_csv_is_left_out(tmp_path):
    path = tmp_path / "watched.csv"
    path.write_text(WATCHED + "1790000002,0," + "7" * 200_000 + "," * 7 + "\n" + '1790000003,0,"97' + "\n\n")
    reading = read_amd_smi(path)
    assert (reading.complete_records, reading.seen_records) == (2, 4)


def test_a_second_partition_without_a_group_of_power_has_none():
    first = '{"gpu": 0, "power": {"socket_power": {"value": 131, "unit": "W"}}}'
    answers = accelerators_power_w('{"gpu_data": [' + first + ', {"gpu": 1, "power": "N/A"}]}')
    assert answers[0] == 131
    assert math.isnan(answers[1])


def test_json_of_one_moment_has_units_and_says_that_it_has_no_times():
    reading = read_amd_smi(hand_made("amd_smi_metric.json"))
    assert reading.table["power_w"].to_list()[0] == 142.0
    assert reading.table["energy_j"].to_list()[0] == 178319.5
    assert reading.table["power_w"].isna().to_list() == [False, True]
    assert set(reading.reasons) == {ONE_MOMENT(), NO_VALUE(missing=1, samples=2)}
    watts = accelerators_power_w(hand_made("amd_smi_metric.json").read_text())
    assert watts[0] == 142.0
    assert math.isnan(watts[1])
    assert accelerators_power_w("[" * 200_000) == {}


def test_another_unit_and_a_damaged_number_are_left_out(tmp_path):
    path = tmp_path / "metric.json"
    path.write_text(hand_made("amd_smi_metric.json").read_text().replace('142, "unit": "W"', '142000, "unit": "mW"'))
    reading = read_amd_smi(path)
    assert reading.table["device"].to_list() == ["1"]
    assert any(OTHER_UNIT(column="socket_power", unit="mW", expected="W") in reason for reason in reading.reasons)
    path.write_text(hand_made("amd_smi_metric.csv").read_text().replace(",420,", ",4x0,"))
    assert read_amd_smi(path).coverage_ratio == 5 / 6


def document(stamp, watts):
    power = {"socket_power": {"value": watts, "unit": "W"}}
    return json.dumps({"gpu_data": [{"gpu": 0, "timestamp": stamp, "power": power}]}, indent=1) + "\n"


@pytest.mark.parametrize("left", [1, 40, -2])
def test_a_truncated_later_document_is_told(tmp_path, left):
    first, second = document(1790000000, 142), document(1790000001, 144)
    path = tmp_path / "watched.json"
    path.write_text("\n" + first + second)
    whole = read_amd_smi(path)
    assert (whole.table["power_w"].to_list(), whole.is_whole) == ([142.0, 144.0], True)
    path.write_text(first + second[:left])
    reading = read_amd_smi(path)
    assert reading.table["power_w"].to_list() == [142.0]
    assert (reading.complete_records, reading.seen_records) == (1, 2)
    (reason,) = reading.reasons
    assert LEFT_OUT.find_in(reason)["line"] == str(len(first.splitlines()) + 1)
    assert DAMAGED.find_in(reason)["why"]


def test_a_truncated_only_document_is_refused_with_its_damage(tmp_path):
    path = tmp_path / "metric.json"
    path.write_text(document(1790000000, 142)[:-2])
    with pytest.raises(ParseError, match=DAMAGED.pattern):
        read_amd_smi(path)


def test_damaged_and_foreign_files(tmp_path):
    data = hand_made("amd_smi_metric.csv").read_bytes()
    check_cuts(tmp_path / "cut.csv", data, read_amd_smi, COLUMNS, has_end=False)
    check_foreign(tmp_path, read_amd_smi)
    path = tmp_path / "empty.json"
    path.write_text('{"gpu_data": []}')
    with pytest.raises(ParseError):
        read_amd_smi(path)


@pytest.mark.parametrize("name", ["amd_smi_metric.csv", "amd_smi_monitor.csv", "amd_smi_metric.json"])
def test_it_is_told_apart_from_other_tools(name):
    found = read_artefact(hand_made(name))
    assert found.tool == "output of amd-smi"
