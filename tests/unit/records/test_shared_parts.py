"""What records have in common is shared, and read as if it were not."""

import json

import pytest
from unit.record_factory import make_machine, make_mixed_study, make_record, make_two_suites, write_records

from hpcai.core.errors import RecordError
from hpcai.records.files import read_record
from hpcai.records.run import RunRecord


def test_records_are_read_as_if_each_stood_alone(tmp_path):
    paths = write_records([*make_mixed_study(), *make_two_suites(variant="other")], tmp_path)
    read = [read_record(path).model_dump_json() for path in paths]
    assert read == [RunRecord.model_validate_json(path.read_bytes()).model_dump_json() for path in paths]


def test_equal_parts_are_the_same_objects(tmp_path):
    first, second = map(read_record, write_records([make_record(repetition=n) for n in (1, 2)], tmp_path))
    assert first.plan.benchmark is second.plan.benchmark
    assert first.plan.machine is second.plan.machine
    assert first.plan_digest != second.plan_digest


@pytest.mark.parametrize("wrong", [True, 1.5, "1", None])
def test_a_value_of_another_type_is_found_after_an_equal_record(tmp_path, wrong):
    # Python takes true for 1: a part with it is not that of the record read before.
    (good,) = write_records([make_record(machine=make_machine(nodes=1))], tmp_path / "good")
    read_record(good)
    values = json.loads(good.read_text())
    values["plan"]["machine"]["nodes"] = wrong
    bad = tmp_path / "record.json"
    bad.write_text(json.dumps(values))
    with pytest.raises(RecordError, match=r"plan\.machine\.nodes"):
        read_record(bad)
