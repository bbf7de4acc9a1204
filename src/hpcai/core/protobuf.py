"""Protocol-buffer messages that are declared in Python, so that nothing has to be compiled and no owner imported."""

from collections.abc import Mapping
from typing import Any

Messages = Mapping[str, Mapping[str, tuple[int, str]]]
"""By message the fields by name, with number and type; a star behind the type stands for any number of them. A map is
a list of messages with the fields 1 and 2. Fields that are not declared are passed over."""


def message_class(messages: Messages, name: str) -> Any:  # noqa: ANN401  a protocol buffer has no static type
    """Return the class of a message of protocol buffers, version 3.

    Parameters
    ----------
    messages
        All messages; types of fields are their names or those of the language, such as ``int64``.
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
    pool = DescriptorPool()  # of its own: TensorFlow has registered some of these names
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
