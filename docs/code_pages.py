"""Pages of the reference that show the code itself: the help of every command, and the library's public names."""

import ast
import os
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from markdown_text import first_line, parameters

LIBRARY = Path(__file__).resolve().parent.parent / "src/hpcai"
OWN = "modules"
"""The page of modules that are in no package."""


def commands() -> Iterator[str]:
    """Yield the help of every command."""
    yield from ("# Command line", "", "The help of every command, as the commands print it.", "")
    for name in command_names():
        yield from (f"## hpcai {name}", "", "```text", help_of(*name.split()).rstrip(), "```", "")


def command_names() -> list[str]:
    """Return all commands; those of a group with its name before them."""
    from typer.main import get_command

    from hpcai.cli.main import app

    return list(_names(get_command(app)))


def _names(group: Any, before: str = "") -> Iterator[str]:  # noqa: ANN401 - Typer does not export the type
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        yield from _names(command, f"{name} ") if hasattr(command, "list_commands") else [before + name]


def help_of(*words: str) -> str:
    """Return what a command prints for --help, always at the same width."""
    from hpcai.cli.main import call

    printed = StringIO()
    with redirect_stdout(printed), patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1"}):
        call([*words, "--help"])
    return printed.getvalue()


def api() -> Iterator[str]:
    """Yield the list of packages."""
    yield from (
        "# Python API",
        "",
        "Public classes and functions of `src/hpcai/`, read from the code. Their docstrings",
    )
    yield from ("say parameters, units and errors.", "", "```{toctree}", ":maxdepth: 1", "")
    yield from (f"api-{package}" for package in packages())
    yield "```"


def packages() -> dict[str, list[Path]]:
    """Return the modules of each package of the library; `OWN` are those beside the packages."""
    found: dict[str, list[Path]] = {OWN: []}
    for file in sorted(LIBRARY.rglob("*.py")):
        parts = file.relative_to(LIBRARY).parts
        if file.name not in ("__init__.py", "__main__.py"):
            found.setdefault(parts[0] if len(parts) > 1 else OWN, []).append(file)
    return found


def package_page(package: str, files: list[Path]) -> Iterator[str]:
    """Yield every module of a package with its public classes and functions, without importing them."""
    yield from (f"# hpcai.{package}" if package != OWN else "# hpcai", "")
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        shown = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_"]
        module = ".".join(file.relative_to(LIBRARY.parent).with_suffix("").parts)
        yield from (f"## {module}", "", first_line(tree), "")
        yield from (f"* `{node.name}{parameters(node)}`: {first_line(node)}" for node in shown)
        yield ""
