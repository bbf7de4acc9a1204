"""Parse one line of HLO text into name, types, operation, operands and attributes (openxla.org/xla, HLO text)."""

import math
import re
from dataclasses import dataclass

Dimensions = tuple[int, ...]

_START = re.compile(r"\s*(?P<root>ROOT )?%?(?P<name>[A-Za-z_][\w.-]*) = ")
_OPERATION = re.compile(r" (?P<operation>[a-z][a-z0-9-]*)\(")
_ARRAY = re.compile(r"(?P<type>[a-z]+[0-9a-z]*)\[(?P<dimensions>[0-9,<=]*)\](?:\{[^{}]*\})?")
_OPERAND = re.compile(r"(?:(?P<type>[a-z0-9]+\[[^%]*|\([^%]*\)) )?%?(?P<name>[A-Za-z_][\w.-]*(?:#\d+)?)")
_CALLS = re.compile(
    r"(?P<role>calls|to_apply|body|condition|\w+_computations?)=(?:\{(?P<many>[^}]*)\}|%?(?P<one>[\w.-]+))"
)
_METADATA = re.compile(r'\b(?P<field>op_type|op_name)="(?P<value>[^"]*)"')
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_ELEMENT = re.compile(r"(?:bf|f|s|u|c)(?P<bits>\d+)(?:e\d+m\d+[a-z0-9]*)?")
_SIZELESS = {"token", "opaque"}
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_WITHOUT_OPERANDS = {"constant", "parameter"}


class HloError(ValueError):
    """A line, or a part of it, that contradicts itself or is not HLO."""


@dataclass(frozen=True)
class Operand:
    """An operand of an instruction; its type is blank if only the definition states it."""

    name: str
    type: str


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Parameters
    ----------
    line
        Number in the file, from 1.
    type
        Result type as written: one array or a tuple of arrays.
    attributes
        Text between the operands and the metadata.
    calls
        Pairs of role (``calls``, ``body``, ...) and name for each computation called.
    trips
        Trip count of a loop; None if the text does not state it.
    """

    line: int
    name: str
    is_root: bool
    type: str
    operation: str
    operands: tuple[Operand, ...]
    attributes: str
    calls: tuple[tuple[str, str], ...]
    trips: int | None
    op_type: str
    op_name: str

    def attribute(self, name: str) -> str:
        """Return the value of an attribute without braces; blank if absent."""
        found = re.search(rf"(?:^|[ ,]){re.escape(name)}=(?:\{{([^}}]*)\}}|([^ ,]+))", self.attributes)
        return (found[1] or found[2] or "") if found else ""

    def element(self, place: int) -> "Instruction":
        """Return the instruction that newer versions of XLA leave out and write as ``name#place``: a tuple's element.

        Raises
        ------
        HloError
            If the result has no such element.
        """
        types = [found[0] for found in _ARRAY.finditer(self.type)]
        if place >= len(types):
            raise HloError(f"{self.name} has {len(types)} results, but {self.name}#{place} is used")
        operands = (Operand(self.name, ""),)
        name, type_text = f"{self.name}#{place}", types[place]
        return Instruction(
            self.line, name, False, type_text, "get-tuple-element", operands, f"index={place}", (), None, "", ""
        )

    @property
    def is_cudnn(self) -> bool:
        """Whether it calls cuDNN, which stands for convolutions in programs for NVIDIA's GPUs."""
        return self.operation == "custom-call" and 'custom_call_target="__cudnn$' in self.attributes

    @property
    def result_bytes(self) -> int:
        """Size of its result [byte], without the workspace that cuDNN's calls return last."""
        sizes = [_array_bytes(found["type"], found["dimensions"]) for found in _ARRAY.finditer(self.type)]
        return sum(sizes[:-1] if self.is_cudnn else sizes)


def parse_instruction(text: str, line: int) -> Instruction:
    """Return the instruction of a line.

    Raises
    ------
    HloError
        If the line is not an instruction.
    """
    start = _START.match(text)
    if start is None:
        raise HloError(f"line {line}: no instruction")
    type_end = _end_of_type(text, start.end(), line)
    operation = _OPERATION.match(text, type_end)
    if operation is None:
        raise HloError(f"line {line}: no operation behind the type")
    name = operation["operation"]
    # A constant may contain text with unbalanced brackets.
    end = text.find(")", operation.end()) if name == "constant" else _closing(text, operation.end() - 1, line)
    inner = "" if name in _WITHOUT_OPERANDS else text[operation.end() : end]
    rest = text[end + 1 :]
    head, _, tail = rest.partition(", metadata={")
    if 'op_name="' in head:
        raise HloError(f"line {line}: metadata that do not begin")
    metadata = {found["field"]: found["value"] for found in _METADATA.finditer(tail)}
    return Instruction(
        line=line,
        name=start["name"],
        is_root=start["root"] is not None,
        type=text[start.end() : type_end],
        operation=name,
        operands=tuple(_operand(part, line) for part in _split(inner)),
        attributes=head,
        calls=tuple(_calls(head)),
        trips=int(found[1]) if (found := _TRIPS.search(rest)) else None,
        op_type=metadata.get("op_type", ""),
        op_name=metadata.get("op_name", ""),
    )


def dimensions(type_text: str) -> Dimensions:
    """Return the dimensions of an array type such as ``f32[4,32]{1,0}``.

    Raises
    ------
    HloError
        If the type is not an array of fixed dimensions.
    """
    found = _ARRAY.fullmatch(type_text)
    if found is None:
        raise HloError(f"{type_text[:40]!r} is not a type of an array")
    try:
        return tuple(int(part) for part in found["dimensions"].split(",") if part)
    except ValueError:
        raise HloError(f"{type_text[:40]!r} has no fixed dimensions") from None


def size_bytes(type_text: str) -> int:
    """Return the size of an array, or of all arrays of a tuple [byte]; the upper bound of a bounded dimension counts.

    Raises
    ------
    HloError
        If an element type or a dimension is unknown.
    """
    return sum(_array_bytes(found["type"], found["dimensions"]) for found in _ARRAY.finditer(type_text))


def _array_bytes(element: str, extents: str) -> int:
    try:
        return _element_bytes(element) * math.prod(int(part.removeprefix("<=")) for part in extents.split(",") if part)
    except ValueError as error:
        raise HloError(f"{element}[{extents[:40]}] has no size: {error}") from None


def _element_bytes(name: str) -> int:
    """Return the size of an element [byte]; XLA stores unpacked sub-byte elements in one byte each."""
    if name == "pred":
        return 1
    if name in _SIZELESS:
        return 0
    found = _ELEMENT.fullmatch(name)
    if found is None:
        raise HloError(f"elements of type {name} are not known")
    return max(int(found["bits"]) // 8, 1)


def element_type(type_text: str) -> str:
    """Return the element type of an array, for example ``f32``; blank for a tuple."""
    found = _ARRAY.fullmatch(type_text)
    return found["type"] if found else ""


def _end_of_type(text: str, start: int, line: int) -> int:
    if text[start : start + 1] == "(":
        return _closing(text, start, line) + 1
    end = text.find(" ", start)
    if end < 0:
        raise HloError(f"line {line}: ends within a type")
    return end


def _closing(text: str, start: int, line: int) -> int:
    """Return the position of the bracket that closes the one at ``start``."""
    open_brackets = []
    for found in re.finditer(r"[()\[\]{}]", text[start:]):
        if found[0] in _CLOSING:
            open_brackets.append(_CLOSING[found[0]])
        elif open_brackets.pop() != found[0]:
            break
        if not open_brackets:
            return start + found.start()
    raise HloError(f"line {line}: brackets that do not close")


def _split(text: str) -> list[str]:
    """Split at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    text = re.sub(r"/\*.*?\*/", "", text)
    for place, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    return [*parts, text[start:].strip()] if text.strip() else []


def _operand(text: str, line: int) -> Operand:
    found = _OPERAND.fullmatch(text)
    if found is None:
        raise HloError(f"line {line}: {text[:40]!r} is not an operand")
    return Operand(found["name"], found["type"] or "")


def _calls(attributes: str) -> list[tuple[str, str]]:
    found = []
    for match in _CALLS.finditer(attributes):
        names = [match["one"]] if match["one"] else (match["many"] or "").split(",")
        found += [(match["role"], name.strip().removeprefix("%")) for name in names if name.strip()]
    return found
