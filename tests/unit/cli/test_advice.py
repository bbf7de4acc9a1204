"""Commands that messages advise can be called as they are written."""

import ast
import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from hpcai.cli.main import app

ROOT = Path(__file__).parents[3]
ADVISED = re.compile(r"`(hpcai [^`]+)`")
NOT_READ = {"run"}
"""Commands that leave their arguments to another program."""


def texts_of(path):
    """Yield the texts of a module that names commands; a fact of a message is one word."""
    text = path.read_text()
    for node in ast.walk(ast.parse(text)) if "`hpcai " in text else ():
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "FACT" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"\{\w[^}]*\}", "FACT", node.value)


def advice():
    for path in sorted((ROOT / "src/hpcai").rglob("*.py")):
        for text in texts_of(path):
            for words in ADVISED.findall(text):
                yield " ".join(words.split())


def problem_of(words):
    """Return why a command cannot be called so; blank if it can. One that is named without arguments is only named."""
    command, rest = get_command(app), shlex.split(words)[1:]
    while rest and not rest[0].isupper() and hasattr(command, "get_command"):
        name, command = rest[0], command.get_command(None, rest.pop(0))
        if command is None:
            return f"no command {name!r}"
    if not rest or command.name in NOT_READ:
        return ""
    known = {name for param in command.params for name in param.opts} | {"--help"}
    given = {word.split("=")[0] for word in rest if word.startswith("--")}
    if unknown := {name for name in given if not any(one.startswith(name) for one in known)}:
        return f"no option {unknown}"
    needed = {param.opts[0] for param in command.params if param.required and param.opts[0].startswith("--")}
    return f"without {needed - given}" if needed - given else ""


@pytest.mark.parametrize("words", sorted(set(advice())))
def test_what_is_advised_can_be_called(words):
    assert problem_of(words) == ""


def test_incomplete_commands_are_found():
    assert problem_of("hpcai discard results/runs --reason x") == ""
    assert problem_of("hpcai discard") == ""
    assert problem_of("hpcai discard results/runs") == "without {'--reason'}"
    assert problem_of("hpcai discard results/runs --why x") == "no option {'--why'}"
    assert problem_of("hpcai predict nothing") == "no command 'nothing'"
