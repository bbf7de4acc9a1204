"""The declared messages match those of TensorFlow, field by field."""

import pytest
from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace

from hpcai.parsers.xspace import MESSAGES, xspace_class


def described(descriptor, name):
    """Return the description of a message nested in another, found by its fields."""
    waiting, seen = [descriptor], {}
    while waiting:
        one = waiting.pop()
        seen[one.name] = one
        parts = [field.message_type for field in one.fields if field.message_type]
        waiting += [part for part in parts if part.name not in seen]
    return seen[name]


TENSORFLOWS = {"XName": "EventMetadataEntry", "XMetadata": "XEventMetadata"}


@pytest.mark.parametrize("message", MESSAGES)
def test_fields(message):
    own = described(xspace_class().DESCRIPTOR, message)
    other = described(XSpace.DESCRIPTOR, TENSORFLOWS.get(message, message))
    for field in own.fields:
        same = other.fields_by_name[field.name]
        assert (field.number, field.type, field.label) == (same.number, same.type, same.label)


def test_names_of_statistics_are_as_those_of_events():
    entry, metadata = (described(XSpace.DESCRIPTOR, name) for name in ("StatMetadataEntry", "XStatMetadata"))
    assert {name: entry.fields_by_name[name].number for name in ("key", "value")} == {"key": 1, "value": 2}
    assert metadata.fields_by_name["name"].number == MESSAGES["XMetadata"]["name"][0]


def test_a_trace_of_tensorflow_is_read():
    trace = XSpace()
    plane = trace.planes.add(name="/host:CPU")
    plane.event_metadata[7].name = "product:MatMul"
    plane.lines.add(id=3, timestamp_ns=11).events.add(metadata_id=7, offset_ps=5, duration_ps=2)
    plane.stats.add(metadata_id=1, uint64_value=2**63)
    space = xspace_class()()
    space.ParseFromString(trace.SerializeToString())
    assert [(entry.key, entry.value.name) for entry in space.planes[0].event_metadata] == [(7, "product:MatMul")]
    (line,) = space.planes[0].lines
    assert (line.id, line.timestamp_ns, line.events[0].offset_ps, line.events[0].duration_ps) == (3, 11, 5, 2)
    assert space.planes[0].stats[0].uint64_value == 2**63
