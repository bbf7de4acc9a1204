"""Reads and checks files of settings, and collects what is wrong in all of them before anything is said."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError

from hpcai.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)


@dataclass
class Problems:
    """Collects the errors of all files."""

    lines: list[str] = field(default_factory=list)

    def add(self, file: str, key: str, found: object, allowed: str) -> None:
        """Note one error."""
        place = f"{file}: {key}" if key else file
        self.lines.append(f"{place}: found {shorten(found)}; allowed: {allowed}")

    def raise_if_any(self) -> None:
        """Raise one ConfigError with all lines."""
        if self.lines:
            count = len(self.lines)
            head = f"the configuration has {count} error{'s' if count > 1 else ''}; correct and start again:"
            raise ConfigError("\n  ".join([head, *self.lines]))


def read_yaml(path: Path, problems: Problems) -> object:
    """Read a YAML file in which no key stands twice."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeyLoader)  # noqa: S506  a SafeLoader
    except FileNotFoundError:
        others = sorted(other.stem for other in path.parent.glob("*.yaml"))
        problems.add(str(path), "", Words("no such file"), f"one of {', '.join(others) or 'none yet'} in {path.parent}")
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problems.add(str(path), "", Words(" ".join(str(error).split())), "a YAML file with each key once")
    return None


class _UniqueKeyLoader(yaml.SafeLoader):
    """PyYAML silently lets the last of two equal keys win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse a key that stands twice."""
        counts = Counter(self.construct_object(key, deep=True) for key, _ in node.value)
        for key, count in counts.items():
            if count > 1:
                raise yaml.YAMLError(f"the key {key!r} stands {count} times, near line {node.start_mark.line + 1}")
        return super().construct_mapping(node, deep)


@cache
def _adapter_of(model: type[Model]) -> TypeAdapter[Model]:
    """Return what checks a model; to build it takes longer than to check a row with it."""
    return TypeAdapter(model)


def validate(model: type[Model], data: object, file: str, problems: Problems) -> Model | None:
    """Return the checked model, or None after noting every error with its dotted key."""
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
        return "keys with their values, one to a line"
    return str(detail["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")


class Words(str):
    """Our own words for what was found, shown without quotes."""

    __slots__ = ()


def shorten(value: object) -> str:
    """Return a value as messages show it."""
    text = str(value) if isinstance(value, Words) else repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
