"""Power of a node as its management controller tells it by Redfish: the resources Power and EnvironmentMetrics.

Formats: DMTF DSP0268, ``/redfish/v1/Chassis/ID/Power`` (#Power, its list PowerControl) and
``/redfish/v1/Chassis/ID/EnvironmentMetrics`` (#EnvironmentMetrics, PowerWatts and EnergyJoules or EnergykWh).
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpcai.core.errors import ParseError
from hpcai.core.messages import Message
from hpcai.parsers.findings import Findings
from hpcai.parsers.json_text import read_json
from hpcai.parsers.power_samples import COLUMNS, explain_missing, sample
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading, nothing_read
from hpcai.parsers.text import read_lines

ONE_MOMENT = Message("redfish.one_moment", "one answer: power at a single time, no energy from it")
NOT_ONE = Message(
    "redfish.not_one",
    "found the power of {names}, expected that of one node; end the address with #/PowerControl/NUMBER or MemberId",
)
NO_POWER = Message("redfish.no_power", "found {found}, expected a Redfish resource with PowerControl or PowerWatts")

TOOL = "a Redfish resource with power"
ADVICE = "save the answer of /redfish/v1/Chassis/ID/Power or /redfish/v1/Chassis/ID/EnvironmentMetrics"
CHASSIS = "Chassis"
WHOLE_NODE = {f"{whole} Power Control" for whole in ("Node", "System", "Chassis", "Server")}
"""Names of a whole node's entry beside those of its accelerators, where no entry has a context: Cray EX and others, as
Cray-HPE/hms-capmc knows them."""
JOULES_PER_KWH = 3.6e6
Entry = tuple[str, float, float]


def read_redfish(path: Path) -> Reading:
    """Read the power in one answer: one row per entry of PowerControl, or one for EnvironmentMetrics.

    Raises
    ------
    ParseError
        If the file is no such resource.
    """
    findings = Findings(path, TOOL)
    try:
        found = read_json("\n".join(read_lines(path, TOOL)))
    except ValueError as error:
        raise nothing_read(path, TOOL, f"no JSON ({error})"[:120], ADVICE) from error
    if not isinstance(found, dict):
        raise nothing_read(path, TOOL, "JSON that is no resource", ADVICE)
    findings.facts = {name.lstrip("@"): str(found[name]) for name in ("@odata.id", "@odata.type") if name in found}
    for number, (device, watts, joules) in enumerate(_entries(found), 1):
        if watts < 0 or joules < 0:
            findings.leave_out(number, "a negative value")
        else:
            findings.records.append(sample(number, device, math.nan, watts, joules))
    findings.note(ONE_MOMENT())
    explain_missing(findings)
    return findings.reading(COLUMNS, ADVICE)


def node_power_w(resource: object, fragment: str = "") -> float:
    """Return the power of one node [W]; NaN if the controller does not know it now.

    Parameters
    ----------
    resource
        The answer, decoded.
    fragment
        Place in it, as in Redfish's own addresses: ``/PowerControl/0``, or by its MemberId ``/PowerControl/Node``, as
        Cray's controllers write it; blank: the only entry, or that of the chassis or whole node.

    Raises
    ------
    ParseError
        If it holds no power, or that of several nodes or parts.
    """
    if not isinstance(resource, dict):
        raise ParseError(NO_POWER(found=type(resource).__name__))
    entries = _chosen(resource, fragment.rpartition("/")[2])
    if len(entries) > 1:
        raise ParseError(NOT_ONE(names=", ".join(name for name, *_ in entries)))
    if not entries:
        raise ParseError(NO_POWER(found=", ".join(map(str, resource))[:200]))
    return entries[0][1]


def _chosen(resource: Mapping[str, Any], member: str) -> list[Entry]:
    """Return the entry of a number or MemberId; without one, that of the whole node if it is known, else all."""
    entries, controls = _entries(resource), _controls(resource)
    if member:
        named = [entry for entry, one in zip(entries, controls, strict=False) if one.get("MemberId") == member]
        return entries[int(member) : int(member) + 1] if member.isdecimal() else named
    for is_whole in (_is_chassis, _is_node):
        if found := [entry for entry, one in zip(entries, controls, strict=False) if is_whole(one)]:
            return found
    return entries


def _is_chassis(control: Mapping[str, Any]) -> bool:
    return control.get("PhysicalContext") == CHASSIS


def _is_node(control: Mapping[str, Any]) -> bool:
    return control.get("Name") in WHOLE_NODE


def _controls(resource: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = resource.get("PowerControl")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _entries(resource: Mapping[str, Any]) -> list[Entry]:
    """Return name, power [W] and energy [J] of each entry; NaN: not told."""
    if controls := _controls(resource):
        return [(_name(one, at), _number(one.get("PowerConsumedWatts")), math.nan) for at, one in enumerate(controls)]
    readings = {name: resource.get(name) for name in ("PowerWatts", "EnergyJoules", "EnergykWh")}
    values = {name: _number(one.get("Reading")) for name, one in readings.items() if isinstance(one, dict)}
    if not values:
        return []
    kwh = values.get("EnergykWh", math.nan)
    joules = values.get("EnergyJoules", math.nan)
    return [("chassis", values.get("PowerWatts", math.nan), kwh * JOULES_PER_KWH if math.isnan(joules) else joules)]


def _name(control: Mapping[str, Any], number: int) -> str:
    return str(control.get("Name") or control.get("MemberId") or number)


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return math.nan
    try:
        return float(value) if math.isfinite(value) else math.nan
    except OverflowError:  # an integer of more than 308 digits
        return math.nan


READER = Reader("redfish", "power in a resource of Redfish", read_redfish, looks=(TOOL,))
