"""Check system files: the 33 required fields, and placeholder values."""

import json
from collections.abc import Mapping
from typing import Any

from hpcai.mlperf_hpc.compliance.model import Finding
from hpcai.mlperf_hpc.rounds.systems import DIVISIONS, is_placeholder, whole_number

RULE = "system_desc_checker"
REQUIRED_FIELDS = (
    "submitter",
    "division",
    "status",
    "system_name",
    "number_of_nodes",
    "host_processors_per_node",
    "host_processor_model_name",
    "host_processor_core_count",
    "host_processor_vcpu_count",
    "host_processor_frequency",
    "host_processor_caches",
    "host_processor_interconnect",
    "host_memory_capacity",
    "host_storage_type",
    "host_storage_capacity",
    "host_networking",
    "host_networking_topology",
    "host_memory_configuration",
    "accelerators_per_node",
    "accelerator_model_name",
    "accelerator_host_interconnect",
    "accelerator_frequency",
    "accelerator_on-chip_memories",
    "accelerator_memory_configuration",
    "accelerator_memory_capacity",
    "accelerator_interconnect",
    "accelerator_interconnect_topology",
    "cooling",
    "hw_notes",
    "framework",
    "other_software_stack",
    "operating_system",
    "sw_notes",
)
"""Copied from inside a function of the package; a test keeps both lists equal."""
JOINED_FIELDS = (
    "submitter",
    "system_name",
    "host_processor_model_name",
    "host_processor_core_count",
    "accelerator_model_name",
    "accelerators_per_node",
    "framework",
)
"""Fields that the package joins as text; it stops if one is not a string."""
NOTES = ("hw_notes", "sw_notes")
"""Fields that may be blank."""
_COUNTS = ("number_of_nodes", "host_processors_per_node", "accelerators_per_node")


def read_fields(path: str, content: bytes) -> tuple[dict[str, Any] | None, list[Finding]]:
    """Return the fields of a system file; None, with a failure, if it is not a JSON object."""
    try:
        fields = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        message = f"the system file is not JSON: {error}; the package stops here"
        return None, [Finding(path, getattr(error, "lineno", None), "", RULE, message, stops=True)]
    if not isinstance(fields, dict):
        message = f"found a {type(fields).__name__}, expected a JSON object; the package stops here"
        return None, [Finding(path, None, "", RULE, message, stops=True)]
    return fields, []


def check_system(path: str, content: bytes) -> list[Finding]:
    """Check one system file.

    Parameters
    ----------
    path
        Path of the file, relative to the root.

    Returns
    -------
    list of Finding
        Failures for missing fields and for values that stop the package; warnings for blank and placeholder values,
        unknown divisions and counts that are not whole numbers.
    """
    fields, findings = read_fields(path, content)
    if fields is None:
        return findings
    text = content.decode("utf-8").splitlines()
    for field in REQUIRED_FIELDS:
        if field not in fields:
            findings.append(Finding(path, None, field, f"{RULE}: required fields", f"missing field {field}"))
    for field in JOINED_FIELDS:
        if field in fields and not isinstance(fields[field], str):
            message = f"{field} is {fields[field]!r}, expected a text; the package stops here"
            findings.append(Finding(path, line_of(text, field), field, f"{RULE}: texts", message, stops=True))
    return findings + _warnings(path, fields, text)


def _warnings(path: str, fields: Mapping[str, Any], text: list[str]) -> list[Finding]:
    messages = {
        field: f"{field} is {fields[field]!r}, expected what the machine has"
        for field in REQUIRED_FIELDS
        if field in fields and field not in NOTES and is_placeholder(fields[field])
    }
    if "division" in fields and fields["division"] not in DIVISIONS:
        messages["division"] = (
            f"division is {fields['division']!r}, expected closed or open: no seeds and RCPs are checked"
        )
    for field in _COUNTS:
        if field in fields and whole_number(fields[field]) is None:
            messages[field] = f"{field} is {fields[field]!r}, expected a whole number"
    return [
        Finding(path, line_of(text, field), field, "MLPerf HPC rules, system description", message, "warning")
        for field, message in messages.items()
    ]


def line_of(text: list[str], field: str) -> int | None:
    """Return the first line of a JSON file that has a field, from 1."""
    return next((number for number, words in enumerate(text, start=1) if f'"{field}"' in words), None)
