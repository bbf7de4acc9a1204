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
    unknown = {"PowerControl": [{"PowerConsumedWatts": None}]}
    assert math.isnan(node_power_w(unknown))


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
