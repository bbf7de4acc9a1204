"""Messages of TensorFlow's profiler (tsl/profiler/protobuf/xplane.proto), limited to the fields read here."""

from functools import cache
from typing import Any

from hpcai.core.protobuf import message_class

MESSAGES = {
    "XSpace": {"planes": (1, "XPlane*")},
    "XPlane": {
        "name": (2, "string"),
        "lines": (3, "XLine*"),
        "event_metadata": (4, "XName*"),
        "stat_metadata": (5, "XName*"),
        "stats": (6, "XStat*"),
    },
    "XLine": {"id": (1, "int64"), "name": (2, "string"), "timestamp_ns": (3, "int64"), "events": (4, "XEvent*")},
    "XEvent": {"metadata_id": (1, "int64"), "offset_ps": (2, "int64"), "duration_ps": (3, "int64")},
    "XStat": {"metadata_id": (1, "int64"), "uint64_value": (3, "uint64"), "int64_value": (4, "int64")},
    "XName": {"key": (1, "int64"), "value": (2, "XMetadata")},
    "XMetadata": {"name": (2, "string")},
}


@cache
def xspace_class() -> Any:  # noqa: ANN401  a protocol buffer has no static type
    """Return the class of the message ``XSpace``."""
    return message_class(MESSAGES, "XSpace")
