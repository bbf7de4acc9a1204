"""One timed thing at a time on a node."""

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from hpcai.core.errors import LaunchError
from hpcai.core.machine_lock import PLACE, PLACE_VARIABLE, WAITS, machine_to_itself

HOLD = """
import sys
from hpcai.core.machine_lock import machine_to_itself
with machine_to_itself(lambda _: print("waits", flush=True)):
    print("inside", flush=True)
    sys.stdin.read()
"""
BECOME_NOBODY = "import os, hpcai.core.machine_lock; os.setgroups([]); os.setgid(65534); os.setuid(65534)"


@pytest.fixture(autouse=True)
def own_lock(tmp_path, monkeypatch):
    monkeypatch.setenv(PLACE_VARIABLE, str(tmp_path))


def start_other(before="", **options):
    """Start a process that holds the lock until its input ends."""
    return subprocess.Popen(
        [sys.executable, "-c", before + HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
    )


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
    assert words == [WAITS()]


def test_another_folder_for_temporary_files_is_no_other_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "mine"))
    with machine_to_itself(pytest.fail):
        other = start_other(env={**os.environ, "TMPDIR": str(tmp_path / "other")})
        assert other.stdout.readline() == "waits\n"
    assert other.communicate("", timeout=60)[0] == "inside\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_waits_as_well(tmp_path):
    # What leads to pytest's folder is open to its owner alone.
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        environment = {**os.environ, PLACE_VARIABLE: place}
        other = start_other(BECOME_NOBODY, env=environment)
        assert other.stdout.readline() == "inside\n"
        own = start_other(env=environment)
        assert own.stdout.readline() == "waits\n"
        other.communicate("", timeout=60)
        assert own.communicate("", timeout=60)[0] == "inside\n"
        assert os.listdir(place) == []  # noqa: PTH208


def test_the_place_of_a_machine_is_nobodys():
    place = Path(PLACE)
    assert place.is_dir()
    assert not place.is_symlink()
    assert not place.stat().st_mode & 0o022


@pytest.mark.parametrize("kind", ["link", "file", "missing"])
def test_what_is_no_folder_is_an_error_and_left_as_it_is(tmp_path, monkeypatch, kind):
    file, odd = tmp_path / "file", tmp_path / "odd"
    file.write_bytes(b"x" * 700)
    if kind == "link":
        odd.symlink_to(tmp_path)
    elif kind == "file":
        odd.symlink_to(file)
    monkeypatch.setenv(PLACE_VARIABLE, str(odd))
    with pytest.raises(LaunchError, match=str(odd)), machine_to_itself(pytest.fail):
        pass
    assert file.read_bytes() == b"x" * 700


def test_an_error_lets_the_next_one_in():
    with pytest.raises(ValueError, match="x"), machine_to_itself(pytest.fail):
        raise ValueError("x")
    with machine_to_itself(pytest.fail):
        pass


def test_a_process_that_is_killed_leaves_no_lock():
    other = start_other()
    assert other.stdout.readline() == "inside\n"
    other.kill()
    other.wait()
    with machine_to_itself(pytest.fail):
        pass


def test_what_others_took_is_known_when_it_has_ended():
    with machine_to_itself(lambda _: None) as watch:
        assert watch.disturbance == ()
        sum(range(1_000_000))
    (found,) = watch.disturbance
    assert found.wall_s > 0
    assert found.others_s >= 0
