"""Protocol-buffer messages declared in Python: nothing to compile, and no owning package to import."""

from collections.abc import Mapping
from typing import Any

Messages = Mapping[str, Mapping[str, tuple[int, str]]]
"""Maps a message to its fields by name, with number and type; a star after the type marks a repeated field. A map is a
list of messages with the fields 1 and 2. Undeclared fields are skipped."""


def message_class(messages: Messages, name: str) -> Any:  # noqa: ANN401  a protocol buffer has no static type
    """Return the class of a protocol-buffer message, version 3.

    Parameters
    ----------
    messages
        All messages; field types are their names or built-in ones such as ``int64``.
    name
        One of them.
    """
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    package = f"hpcai.{name}"
    file = FileDescriptorProto(name=f"{name}.proto", package=package, syntax="proto3")
    for message, fields in messages.items():
        described = file.message_type.add(name=message)
        for field_name, (number, kind) in fields.items():
            plain = kind.removesuffix("*")
            label = FieldDescriptorProto.LABEL_REPEATED if plain != kind else FieldDescriptorProto.LABEL_OPTIONAL
            field = described.field.add(name=field_name, number=number, label=label)
            if plain in messages:
                field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{package}.{plain}"
            else:
                field.type = getattr(FieldDescriptorProto, f"TYPE_{plain.upper()}")
    pool = DescriptorPool()  # a separate pool: TensorFlow has registered some of these names
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
