"""One timed thing at a time on a node."""

import subprocess
import sys
import tempfile
import threading

import pytest

from hpcai.machine_lock import machine_to_itself


@pytest.fixture(autouse=True)
def own_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_who_comes_second_says_once_that_it_waits():
    words, inside = [], threading.Event()

    def other() -> None:
        with machine_to_itself(words.append):
            inside.set()

    with machine_to_itself(pytest.fail):
        thread = threading.Thread(target=other)
        thread.start()
        assert not inside.wait(0.3)
    thread.join(10)
    assert inside.is_set()
    assert words == ["waits until another run or measurement on this machine has ended"]


def test_an_error_lets_the_next_one_in():
    with pytest.raises(ValueError, match="x"), machine_to_itself(pytest.fail):
        raise ValueError("x")
    with machine_to_itself(pytest.fail):
        pass


def test_a_process_that_is_killed_leaves_no_lock(tmp_path):
    text = """
import os, signal, tempfile
from hpcai.machine_lock import machine_to_itself
with machine_to_itself(print):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", text], env={"TMPDIR": str(tmp_path)}, check=False).returncode == -9
    assert len(list(tmp_path.glob("hpcai-*.run"))) == 1
    with machine_to_itself(pytest.fail):
        pass


def test_what_others_took_is_known_when_it_has_ended():
    with machine_to_itself(lambda _: None) as watch:
        assert watch.disturbance == ()
        sum(range(1_000_000))
    (found,) = watch.disturbance
    assert found.wall_s > 0
    assert found.others_s >= 0
