"""The messages of TensorFlow's profiler (tsl/profiler/protobuf/xplane.proto), as far as they are read here."""

from functools import cache
from typing import Any

MESSAGES = {
    "XSpace": {"planes": (1, "XPlane*")},
    "XPlane": {
        "name": (2, "string"),
        "lines": (3, "XLine*"),
        "event_metadata": (4, "XName*"),
        "stat_metadata": (5, "XName*"),
        "stats": (6, "XStat*"),
    },
    "XLine": {"id": (1, "int64"), "timestamp_ns": (3, "int64"), "events": (4, "XEvent*")},
    "XEvent": {"metadata_id": (1, "int64"), "offset_ps": (2, "int64"), "duration_ps": (3, "int64")},
    "XStat": {"metadata_id": (1, "int64"), "uint64_value": (3, "uint64"), "int64_value": (4, "int64")},
    # A map is a list of keys and values.
    "XName": {"key": (1, "int64"), "value": (2, "XMetadata")},
    "XMetadata": {"name": (2, "string")},
}
"""Fields by their number and type; a star stands for any number of them. All other fields are passed over."""
_PACKAGE = "hpcai.xspace"


@cache
def xspace_class() -> Any:  # noqa: ANN401  a protocol buffer has no static type
    """Return the class of the message ``XSpace``."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    file = FileDescriptorProto(name="xspace.proto", package=_PACKAGE, syntax="proto3")
    for message, fields in MESSAGES.items():
        described = file.message_type.add(name=message)
        for name, (number, kind) in fields.items():
            plain = kind.removesuffix("*")
            label = FieldDescriptorProto.LABEL_REPEATED if plain != kind else FieldDescriptorProto.LABEL_OPTIONAL
            field = described.field.add(name=name, number=number, label=label)
            if plain in MESSAGES:
                field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{_PACKAGE}.{plain}"
            else:
                field.type = getattr(FieldDescriptorProto, f"TYPE_{plain.upper()}")
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.XSpace"))
