"""A reader that goes away, such as `head`, does not change the status of a command."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hpcai.__main__ import main
from hpcai.campaign import status
from hpcai.cli import campaign
from hpcai.cli.closed_pipes import dropping_unread, is_unread


def unread_pipe() -> int:
    """Return the end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(("words", "expected"), [(["doctor", "."], 2), (["list"], 1), (["list", "--help"], 0)])
def test_a_verdict_keeps_its_status_if_nobody_reads_it(tmp_path, words, expected, unbuffered):
    pipe = unread_pipe()
    try:
        command = [sys.executable, "-m", "hpcai", *words]
        shared = {"stdout": pipe, "stderr": pipe, "env": {**os.environ, "PYTHONUNBUFFERED": unbuffered}}
        done = subprocess.run(command, check=False, cwd=tmp_path, timeout=120, **shared)
    finally:
        os.close(pipe)
    assert done.returncode == expected


@pytest.mark.parametrize("line_buffering", [False, True])
def test_what_nobody_reads_is_dropped(line_buffering):
    with os.fdopen(unread_pipe(), "w") as output, Path(os.devnull).open("w") as errors:
        output.reconfigure(line_buffering=line_buffering)
        with dropping_unread(output, errors):
            for _ in range(3):
                print("x" * 100_000, flush=True)
            assert is_unread(sys.stdout)
            assert not is_unread(sys.stderr)
        assert sys.stdout is not output


def test_watching_ends_when_nobody_reads(tmp_path, monkeypatch):
    monkeypatch.setattr(status, "status_of", lambda _: SimpleNamespace(is_over=False))
    monkeypatch.setattr(status, "say_status", lambda _: "running")
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        assert len(slept) < 3

    monkeypatch.setattr(campaign.time, "sleep", sleep)
    monkeypatch.setattr(sys, "argv", ["hpcai", "status", str(tmp_path), "--watch", "1"])
    with os.fdopen(unread_pipe(), "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        assert main() == 0
    assert slept == []
