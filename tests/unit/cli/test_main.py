"""The command line reports every refusal of the file system in one sentence, without a traceback."""

import sys

import pytest

from hpcai.__main__ import main
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
