"""Texts of the code as Markdown: tables, code, types of a JSON schema."""

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]
LIMITS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
EXACT = 2**53 - 1
"""The bound of every count: nobody has to read it."""


def heading(*words: str) -> tuple[str, str]:
    """Return the first two lines of a table."""
    return row(*words), row(*("---" for _ in words))


def row(*cells: str) -> str:
    """Return one line of a table; a bar within a cell would end it."""
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def one_line(text: str) -> str:
    """Return a text without line breaks."""
    return " ".join(text.split())


def code_spans(text: str) -> str:
    """Return a docstring's text as Markdown: its literals and roles become code, the rest stays as it is written."""
    literal = re.split(r"(``[^`]+``|:\w+:`[^`]+`|`[^`]+`)", one_line(text))
    return "".join(f"`{part.partition('`')[2].strip('`~')}`" if "`" in part else escaped(part) for part in literal)


def escaped(text: str) -> str:
    """Return a text in which no character is Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>#$])", r"\\\1", one_line(text))


def value_of(schema: Schema) -> str:
    """Return in words what a key may hold."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if choices := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        return " or ".join(dict.fromkeys(value_of(choice) for choice in choices))
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        parts = schema.get("prefixItems") or [schema.get("items", {})]
        return "list of " + " and ".join(dict.fromkeys(value_of(part) for part in parts))
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"mapping to {value_of(schema['additionalProperties'])}"
    limits = [f"{sign} {schema[key]:g}" for key, sign in LIMITS.items() if schema.get(key, EXACT) != EXACT]
    pattern = [f"`{schema['pattern']}`"] if "pattern" in schema else []
    return " ".join([schema.get("type", "any"), *limits, *pattern])


def parameters(node: ast.FunctionDef | ast.ClassDef) -> str:
    """Return the parameters of a function."""
    return f"({', '.join(argument.arg for argument in node.args.args)})" if isinstance(node, ast.FunctionDef) else ""


def first_line(node: ast.Module | ast.FunctionDef | ast.ClassDef) -> str:
    """Return the first paragraph of a docstring."""
    return code_spans((ast.get_docstring(node) or "").partition("\n\n")[0])
