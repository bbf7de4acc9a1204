"""Redfish: power of a chassis in both resources, and which of several entries is that of a node."""

import json
import math

import pytest
from unit.parsers.damage import check_foreign
from unit.parsers.tool_output import hand_made

from hpcai.core.errors import ParseError
from hpcai.parsers.redfish import ONE_MOMENT, node_power_w, read_redfish
from hpcai.parsers.registry import read_artefact

POWER = json.loads(hand_made("redfish_power.json").read_text())
METRICS = json.loads(hand_made("redfish_environment_metrics.json").read_text())


def test_each_entry_of_power_control_is_a_row():
    reading = read_redfish(hand_made("redfish_power.json"))
    assert reading.table["power_w"].to_list() == [612.0, 241.0]
    assert reading.facts["odata.id"] == "/redfish/v1/Chassis/1/Power"
    assert reading.reasons == (ONE_MOMENT(),)


def test_environment_metrics_have_power_and_energy():
    (row,) = read_redfish(hand_made("redfish_environment_metrics.json")).table.to_dict("records")
    assert (row["power_w"], row["energy_j"]) == (374.5, 9e6)


def test_the_power_of_a_node_is_that_of_its_chassis_or_the_entry_that_is_named():
    assert node_power_w(POWER) == 612.0
    assert node_power_w(POWER, "/PowerControl/1") == 241.0
    assert node_power_w(METRICS) == 374.5
    for unknown in (None, "612", True, 10**400):
        assert math.isnan(node_power_w({"PowerControl": [{"PowerConsumedWatts": unknown}]}))


def test_a_cray_ex_node_is_told_from_its_accelerators_by_name():
    names = ("Node Power Control", "Accelerator0 Power Control", "Accelerator1 Power Control")
    members = ("Node", "Accelerator0", "Accelerator1")
    controls = [
        {"MemberId": member, "Name": name, "PowerConsumedWatts": watts}
        for member, name, watts in zip(members, names, (1800, 420, 430), strict=True)
    ]
    power = {"@odata.id": "/redfish/v1/Chassis/Node0/Power", "PowerControl": controls}
    assert node_power_w(power) == 1800.0
    assert node_power_w(power, "/PowerControl/Accelerator1") == 430.0
    assert node_power_w(power, "/PowerControl/1") == 420.0
    with pytest.raises(ParseError):
        node_power_w({"PowerControl": controls[1:]})
    with pytest.raises(ParseError):
        node_power_w({"PowerControl": [controls[0], controls[0]]})  # two nodes of one controller


def test_openbmc_names_its_only_entry_after_the_chassis_and_has_no_context():
    limit = {"LimitInWatts": None}
    entry = {"MemberId": "0", "Name": "Chassis Power Control", "PowerConsumedWatts": 231.0, "PowerLimit": limit}
    assert node_power_w({"Id": "Power", "PowerControl": [entry], "PowerSupplies": []}) == 231.0


@pytest.mark.parametrize(
    ("resource", "fragment"),
    [
        ({"PowerControl": [{"PowerConsumedWatts": 5}, {"PowerConsumedWatts": 6}]}, ""),  # of which node?
        (POWER, "/PowerControl/7"),
        ({"Status": {}}, ""),
        ([], ""),
    ],
)
def test_what_is_not_the_power_of_one_node_is_refused(resource, fragment):
    with pytest.raises(ParseError):
        node_power_w(resource, fragment)


def test_damaged_and_foreign_files(tmp_path):
    check_foreign(tmp_path, read_redfish)
    path = tmp_path / "cut.json"
    path.write_text(hand_made("redfish_power.json").read_text()[:-20])
    with pytest.raises(ParseError):
        read_redfish(path)


@pytest.mark.parametrize("name", ["redfish_power.json", "redfish_environment_metrics.json"])
def test_it_is_told_apart_from_other_tools(name):
    assert read_artefact(hand_made(name)).tool == "a Redfish resource with power"
