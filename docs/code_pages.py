"""Pages of the reference that show the code itself: the help of every command, and the library's public names."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from markdown_text import first_line, parameters

LIBRARY = Path(__file__).resolve().parent.parent / "src/hpcai"
GROUP, OWN = "mlperf", "modules"
"""The command that has commands of its own; the page of modules that are in no package."""


def commands() -> Iterator[str]:
    """Yield the help of every command."""
    yield from ("# Command line", "", "The help of every command, as the commands print it.", "")
    predictors = [("python -m hpcai.predict", name) for name in ("hpl", "training")]
    for program, name in [("hpcai", name) for name in command_names()] + predictors:
        yield from (f"## {program} {name}", "", "```text", help_of(*program.split(), *name.split()).rstrip(), "```", "")


def command_names() -> list[str]:
    """Return all commands; those of a group with its name before them."""
    names = subcommands(help_of("hpcai"))
    nested = [f"{GROUP} {name}" for name in subcommands(help_of("hpcai", GROUP))]
    return [*(name for name in names if name != GROUP), *nested]


def subcommands(text: str) -> list[str]:
    """Return the commands that a help text lists."""
    return re.findall(r"^    ([a-z][a-z-]*)(?=\s)", text, re.MULTILINE)


def help_of(*words: str) -> str:
    """Return what a command prints for --help, always at the same width."""
    program = [sys.executable, "-m", "hpcai", *words[1:]] if words[0] == "hpcai" else [sys.executable, *words[1:]]
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    return subprocess.run([*program, "--help"], capture_output=True, text=True, check=True, env=environment).stdout


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
