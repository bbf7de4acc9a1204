"""System files: the package's 33 fields, and values that stop the package."""

import json
import logging

import pytest
from mlperf_logging.system_desc_checker import system_desc_checker
from unit.mlperf_hpc.compliance.authority import quiet
from unit.mlperf_hpc.log_factory import system_json

from hpcai.mlperf_hpc.compliance.systems_check import JOINED_FIELDS, REQUIRED_FIELDS, check_system


def ask(path, content) -> bool | None:
    """Return the package's verdict; None where it stops."""
    path.write_bytes(content)
    with quiet():
        try:
            return system_desc_checker.check_system_desc(str(path), "hpc", "3.0.0")[0]
        except Exception:
            return None


def test_required_fields_are_the_packages(tmp_path, caplog):
    path = tmp_path / "machine.json"
    path.write_text("{}")
    with caplog.at_level(logging.ERROR):
        system_desc_checker.check_system_desc(str(path), "hpc", "3.0.0")
    assert len(REQUIRED_FIELDS) == 33
    for field in REQUIRED_FIELDS:
        assert f"'Missing field {field}'" in caplog.text
    assert caplog.text.count("Missing field") == 33


CASES = {
    "whole": system_json(),
    "one missing": system_json(cooling=None),
    "two missing": system_json(cooling=None, framework=None),
    "number for text": system_json(number_of_nodes=4),
    "no JSON": "{,}",
    "trailing comma": '{"a": 1,}',
    "list": "[]",
    "empty": "",
    **{f"{field} as number": system_json(**{field: 4}) for field in JOINED_FIELDS},
}


@pytest.mark.parametrize("kind", CASES)
def test_equals_the_package(kind, tmp_path):
    content = CASES[kind].encode()
    answer = ask(tmp_path / "machine.json", content)
    findings = check_system("systems/machine.json", content)
    failures = [finding for finding in findings if finding.failed]
    if kind == "list":  # the system checker itself reads it, the package checker stops at its division
        assert failures
        assert answer is False
        return
    assert bool(failures) == (answer is not True)
    assert any(finding.stops for finding in failures) == (answer is None)


def test_findings_name_field_and_line():
    content = system_json(accelerators_per_node=8)
    line = next(n for n, words in enumerate(content.split("\n"), start=1) if "accelerators_per_node" in words)
    (finding,) = [one for one in check_system("systems/a.json", content.encode()) if one.failed]
    assert (finding.source, finding.line, finding.key) == ("systems/a.json", line, "accelerators_per_node")


@pytest.mark.parametrize(
    ("field", "value"),
    [("cooling", ""), ("host_networking", "N/A"), ("division", "Closed!"), ("number_of_nodes", "many")],
)
def test_values_that_say_nothing_are_warned_of(field, value):
    (finding,) = check_system("systems/a.json", system_json(**{field: value}).encode())
    assert (finding.severity, finding.key) == ("warning", field)


def test_notes_may_be_blank():
    assert check_system("systems/a.json", json.dumps(json.loads(system_json(hw_notes="", sw_notes=""))).encode()) == []
