"""System files: numbers in any form, and joining by the folder's name."""

import json

import pytest
from unit.mlperf_hpc.log_factory import log_text, system_json, write_tree

from hpcai.mlperf_hpc.rounds.reading import read_round
from hpcai.mlperf_hpc.rounds.systems import is_placeholder, read_system, whole_number


def system_of(text, path="ORG/systems/machine.json"):
    repairs = []
    content = text if isinstance(text, bytes) else text.encode()
    return read_system(path, content, repairs), [repair.kind for repair in repairs]


@pytest.mark.parametrize(
    ("value", "number"),
    [("128", 128), (128, 128), ("128 ", 128), (128.0, 128), ("0", 0), (0, 0)]
    + [(value, None) for value in ("2x64", "", "N/A", "TBD", None, 1.5, True, "-4", "٣", [4], 1e300, float("nan"))],
)
def test_numbers_may_be_text(value, number):
    assert whole_number(value) == number


def test_a_whole_file_needs_no_repair():
    system, kinds = system_of(system_json(system_name="another name"))
    assert kinds == []
    assert (system.name, system.nodes, system.processors_per_node, system.accelerators_per_node) == ("machine", 4, 2, 8)
    assert (system.processors, system.accelerators, system.units) == (8, 32, 32)
    assert (system.accelerator, system.processor, system.division) == ("A100-SXM4-40GB", "EPYC 7742", "closed")
    assert system.fields["system_name"] == "another name"


@pytest.mark.parametrize("accelerator", ["N/A", ""])
def test_a_machine_without_accelerators_counts_processors(accelerator):
    system, kinds = system_of(system_json(accelerators_per_node="0", accelerator_model_name=accelerator))
    assert (system.accelerators, system.units, system.accelerator, kinds) == (0, 8, "", [])


@pytest.mark.parametrize("field", ["number_of_nodes", "host_processors_per_node", "accelerators_per_node"])
@pytest.mark.parametrize("value", [None, "", "N/A", "TBD", "2x64", "-1", 2.5])
def test_a_count_that_is_no_number_is_unknown_and_listed(field, value):
    system, kinds = system_of(system_json(**{field: value}))
    assert kinds == ["system_count"]
    known = (system.nodes, system.processors_per_node, system.accelerators_per_node)
    assert known.count(None) == 1


def test_no_machine_has_no_nodes():
    system, kinds = system_of(system_json(number_of_nodes="0"))
    assert (system.nodes, system.units, kinds) == (None, None, ["system_count"])


@pytest.mark.parametrize(
    ("division", "expected"), [("Closed ", "closed"), ("OPEN", "open"), ("", ""), (None, ""), (3, "")]
)
def test_divisions(division, expected):
    system, kinds = system_of(system_json(division=division))
    assert system.division == expected
    assert kinds == ([] if expected else ["system_division"])


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"a": 1,}', "[1]", "null", b"\xff\xfe{}", "[" * 100_000],
    ids=["empty", "open", "comma", "list", "null", "utf-16", "deep"],
)
def test_what_is_no_json_object_is_no_system(text):
    system, kinds = system_of(text)
    assert (system, kinds) == (None, ["system_unreadable"])


def test_a_byte_order_mark_is_no_damage():
    system, kinds = system_of(b"\xef\xbb\xbf" + system_json().encode())
    assert (system.nodes, kinds) == (4, [])


@pytest.mark.parametrize(
    "words", ["SUBMISSION_PLATFORM_PLACEHOLDER", "128xSUBMISSION_PLATFORM_PLACEHOLDER", "n/a", " ", None]
)
def test_placeholders(words):
    assert is_placeholder(words)
    assert not is_placeholder("Piz Daint GPU")


def written(root, **files):
    """Write a tree of one submission on ``machine`` and the given system files."""
    write_tree(root, logs=[log_text()], description=None)
    (root / "ORG/systems").mkdir()
    for name, nodes in files.items():
        (root / f"ORG/systems/{name}.json").write_text(system_json(number_of_nodes=nodes))
    found = read_round(root)
    return found.submissions[0].system, [repair.kind for repair in found.repairs]


def test_the_folders_name_joins_and_nothing_else(tmp_path):
    system, kinds = written(tmp_path, machine=4, machine2=5)
    assert (system.nodes, kinds) == (4, [])


def test_another_case_is_taken_and_listed(tmp_path):
    system, kinds = written(tmp_path, Machine=4, other=5)
    assert (system.name, kinds) == ("Machine", ["system_by_case"])


def test_the_only_file_left_is_taken_and_listed(tmp_path):
    system, kinds = written(tmp_path, m4chine=4)
    assert (system.name, kinds) == ("m4chine", ["system_by_elimination"])


def test_nothing_is_guessed_among_several(tmp_path):
    system, kinds = written(tmp_path, one=4, two=5)
    assert (system, kinds) == (None, ["system_missing"])


def test_another_organisations_file_is_not_taken(tmp_path):
    write_tree(tmp_path, logs=[log_text()], description=None)
    write_tree(tmp_path, org="B")
    found = read_round(tmp_path)
    assert found.submissions[0].system is None
    assert [system.source for system in found.systems] == ["B/systems/machine.json"]
    assert [repair.kind for repair in found.repairs] == ["system_missing"]


def test_two_folders_do_not_share_the_file_that_is_left(tmp_path):
    for name in ("one", "two"):
        write_tree(tmp_path, system=name, logs=[log_text()], description=None)
    (tmp_path / "ORG/systems").mkdir()
    (tmp_path / "ORG/systems/three.json").write_text(json.dumps({"division": "open"}))
    found = read_round(tmp_path)
    assert [one.system for one in found.submissions] == [None, None]
