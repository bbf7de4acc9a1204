"""Read and check settings files, and collect the errors of all of them before reporting any."""

import stat
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError

from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message, join
from hpcai.core.sealed import unseal
from hpcai.core.yaml_loader import SafeLoader

Model = TypeVar("Model", bound=BaseModel)
WRONG = Message("reading.wrong", "{place}: found {found}; allowed: {allowed}")
"""Error in one setting."""

LARGEST_BYTES = 1 << 24
"""Larger than any settings file."""
MOST_VALUES = 1 << 18
"""More than any settings file has; nine lists of nine aliases each would be 400 million."""
DEEPEST = 100
"""Far deeper than any settings file. libyaml composes without a limit, and a million brackets end the process."""
TEMPLATE_KEY = "__use_yte__"
"""Makes Snakemake treat a settings file as a template (YTE), whose expressions are Python."""
NO_YAML = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
"""What PyYAML raises besides its own errors: Python's, for invalid dates, numbers and tags."""


@dataclass
class Problems:
    """Collects the errors of all files."""

    lines: list[str] = field(default_factory=list)

    def add(self, file: str, key: str, found: object, allowed: str) -> None:
        """Add one error."""
        place = f"{file}: {key}" if key else file
        self.lines.append(WRONG(place=place, found=shorten(found), allowed=allowed))

    def raise_if_any(self) -> None:
        """Raise one ConfigError with all lines."""
        if self.lines:
            count = len(self.lines)
            head = f"the configuration has {count} error{'s' if count > 1 else ''}; correct and start again:"
            raise ConfigError(join("\n  ", [head, *self.lines]))


def read_text(path: Path, problems: Problems, expected: str, missing: str) -> str | None:
    """Return the text of a settings file, in UTF-8 with or without byte-order mark; None after adding an error.

    Parameters
    ----------
    path
        The file. A folder, FIFO or device is refused unopened: opening one may block, and reading one may never end.
    problems
        Collects errors.
    expected, missing
        Expected content, and the text for a missing file.
    """
    try:
        facts = path.stat()
        if stat.S_ISREG(facts.st_mode) and facts.st_size <= LARGEST_BYTES:
            return path.read_text(encoding="utf-8-sig")
        is_file = stat.S_ISREG(facts.st_mode)
        found = f"{facts.st_size} bytes" if is_file else "a folder" if path.is_dir() else "no regular file"
    except FileNotFoundError:
        found, expected = "no such file", missing
    except UnicodeDecodeError as error:
        found, expected = f"invalid UTF-8 at byte {error.start}", f"{expected}; save it as UTF-8"
    except (OSError, ValueError) as error:
        found = str(error)
    problems.add(str(path), "", Words(found), expected)
    return None


def read_yaml(path: Path, problems: Problems) -> object:
    """Read a YAML file without duplicate keys; None after adding an error.

    Files that a study wrote about itself (JSON is YAML) are checked against their own digest.
    """
    expected = "a YAML file with each key once"
    text = read_text(path, problems, expected, _instead(path))
    if text is None:
        return None
    try:
        data = _load(text)
    except RecursionError:
        problems.add(str(path), "", Words("brackets or lists nested too deeply"), expected)
    except yaml.YAMLError as error:
        problems.add(str(path), "", Words(" ".join(str(error).split())), expected)
    except NO_YAML as error:
        found = f"a date, number or other value that cannot be ({' '.join(str(error).split())})"
        problems.add(str(path), "", Words(found), expected)
    else:
        return data
    return None


def _instead(path: Path) -> str:
    """Return what could be named in place of a missing file."""
    if not path.parent.is_dir():
        return f"an existing file; there is no folder {path.parent}"
    others = sorted(other.stem for other in path.parent.glob("*.yaml") if not other.name.startswith("."))
    return f"one of {', '.join(others)} in {path.parent}" if others else "an existing file; none is in this folder"


def _load(text: str) -> object:
    try:
        content = unseal(text.encode()).text
    except ValueError as error:
        raise yaml.YAMLError(str(error)) from error
    _refuse_deep(content)
    loader = _UniqueKeyLoader(content)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _count_values(node, {}) > MOST_VALUES:
            raise yaml.YAMLError(f"more than {MOST_VALUES} values, most of them through aliases (*name)")
        data: object = loader.construct_document(node)
    finally:
        loader.dispose()
    if isinstance(data, dict) and TEMPLATE_KEY in data:
        raise yaml.YAMLError(f"the key {TEMPLATE_KEY}: Snakemake would run the Python code that such a template holds")
    return data


def _refuse_deep(content: bytes) -> None:
    depth = 0
    for event in yaml.parse(content, SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise RecursionError(f"more than {DEEPEST} brackets or lists within each other")


def _count_values(node: yaml.Node, known: dict[int, int]) -> int:
    """Return the number of values in a node, counting aliases each time they are used."""
    if id(node) not in known:
        # A node that contains itself has infinitely many.
        known[id(node)] = MOST_VALUES
        children = node.value if isinstance(node, yaml.CollectionNode) else ()
        parts = (part for child in children for part in (child if isinstance(child, tuple) else (child,)))
        known[id(node)] = 1 + sum(_count_values(part, known) for part in parts)
    return known[id(node)]


class _UniqueKeyLoader(SafeLoader):  # type: ignore[misc]
    """PyYAML silently lets the last of two equal keys win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse a duplicate key, or one that is neither text nor number."""
        place = f"near line {node.start_mark.line + 1}"
        if any(key.tag == "tag:yaml.org,2002:merge" for key, _ in node.value):
            raise yaml.YAMLError(f"a merge key (<<), {place}: write its keys out")
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        odd = [key for key in keys if isinstance(key, bool) or not isinstance(key, (str, int, float))]
        if odd:
            raise yaml.YAMLError(f"the key {shorten(odd[0])}, {place}: keys are text")
        for key, count in Counter(keys).items():
            if count > 1:
                raise yaml.YAMLError(f"the key {key!r} stands {count} times, {place}")
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


@cache
def _adapter_of(model: type[Model]) -> TypeAdapter[Model]:
    """Return the validator of a model; building it takes longer than checking a row with it."""
    return TypeAdapter(model)


def validate(model: type[Model], data: object, file: str, problems: Problems) -> Model | None:
    """Return the checked model, or None after adding every error with its dotted key."""
    try:
        checked: Model = _adapter_of(model).validate_python(data)
    except ValidationError as error:
        for detail in error.errors():
            key = ".".join(str(part) for part in detail["loc"])
            found = Words("an unknown key") if detail["type"] == "extra_forbidden" else detail["input"]
            if detail["type"] == "missing":
                found = Words("nothing")
            problems.add(file, key, found, _allowed(detail))
        return None
    return checked


def _allowed(detail: Mapping[str, Any]) -> str:
    if detail["type"] == "extra_forbidden":
        return "the keys of config/schema.json; check the spelling"
    if detail["type"] == "missing":
        return "this key is required"
    if detail["type"] == "tuple_type":
        return "a list"
    if detail["type"] == "model_type":
        return "keys with values, one per line"
    return str(detail["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")


class Words(str):
    """Our own description of a found value, shown without quotes."""

    __slots__ = ()


def shorten(value: object) -> str:
    """Return a value as shown in messages."""
    try:
        text = str(value) if isinstance(value, Words) else repr(value)
    except (ValueError, RecursionError):  # Python refuses to format integers of more than 4300 digits
        text = f"a value of type {type(value).__name__} that is too long to show"
    return text if len(text) <= 120 else text[:117] + "..."
