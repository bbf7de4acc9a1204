"""The command line reports every refusal of the file system in one sentence, without a traceback."""

import sys

import pytest
from typer.main import get_command

from hpcai.__main__ import main
from hpcai.cli.main import Program, app, call
from hpcai.measure import publish


@pytest.mark.parametrize("command", ["restore", "discard"])
def test_what_the_file_system_refuses_is_one_sentence(tmp_path, monkeypatch, capsys, command):
    def refuse(*_):
        raise PermissionError(13, "Permission denied", "/theirs/record.json")

    monkeypatch.setattr(publish, {"restore": "restore", "discard": "discard_all"}[command], refuse)
    words = [command, str(tmp_path), *(["--reason", "x"] if command == "discard" else [])]
    monkeypatch.setattr(sys, "argv", ["hpcai", *words])
    assert main() == 1
    said = capsys.readouterr().err
    assert said.startswith("error: /theirs/record.json: Permission denied;")
    assert "Traceback" not in said
    assert len(said.splitlines()) == 1


def test_every_command_stands_in_one_section_of_the_help():
    shown = [name for names in Program.sections.values() for name in names]
    assert sorted(shown) == sorted(get_command(app).commands)


@pytest.mark.parametrize("words", [[], ["predict"], ["list"]])
def test_without_a_command_the_commands_are_shown(monkeypatch, capsys, words):
    monkeypatch.setattr(sys, "argv", ["hpcai", *words])
    assert main() == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    group = get_command(app)
    for word in words:
        group = group.get_command(None, word)
    assert [name for name in group.list_commands(None) if f"  {name} " not in printed.err] == []


def commands_of(group, *before):
    """Yield the words and the command of every command."""
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        yield from (
            commands_of(command, *before, name) if hasattr(command, "list_commands") else [([*before, name], command)]
        )


def test_help_is_plain_text_and_explains_every_option(capsys):
    unexplained = []
    for words, command in commands_of(get_command(app)):
        assert call([*words, "--help"]) == 0
        printed = capsys.readouterr().out
        assert not set(printed) & set("│╭╰"), words
        unexplained += [(words, param.name) for param in command.params if not getattr(param, "help", None)]
    assert unexplained == []
