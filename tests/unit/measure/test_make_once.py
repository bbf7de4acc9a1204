import errno
import multiprocessing
import os
import time

import pytest
from unit.refusals import refused

from hpcai.core.errors import DatasetError
from hpcai.measure import claim
from hpcai.measure.claim import FULL, make_once


def test_what_is_not_there_is_made(tmp_path):
    output = tmp_path / "folder" / "made.json"
    make_once(output, lambda: output.write_text("made"))
    assert output.read_text() == "made"
    assert [file.name for file in output.parent.iterdir()] == ["made.json"]


def _make_slowly(output, started):
    def make():
        started.set()
        time.sleep(1.0)
        output.write_text("by the first")

    make_once(output, make)


def test_the_second_waits_and_takes_what_the_first_has_made(tmp_path, monkeypatch):
    output = tmp_path / "made.json"
    context = multiprocessing.get_context("fork")
    started = context.Event()
    first = context.Process(target=_make_slowly, args=(output, started))
    first.start()
    assert started.wait(20)
    monkeypatch.setattr(claim, "WAIT_S", 0.05)
    make_once(output, lambda: output.write_text("by the second"))
    first.join()
    assert output.read_text() == "by the first"


def test_one_that_was_killed_does_not_count(tmp_path, monkeypatch):
    output = tmp_path / "made.json"
    context = multiprocessing.get_context("fork")
    started = context.Event()
    first = context.Process(target=_make_slowly, args=(output, started))
    first.start()
    assert started.wait(20)
    first.kill()
    first.join()
    monkeypatch.setattr(claim, "WAIT_S", 0.05)
    make_once(output, lambda: output.write_text("by the second"))
    assert output.read_text() == "by the second"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_file_system_is_named(tmp_path, number):
    def make():
        raise OSError(number, f"a library that says where in its file, errno = {number}")

    facts = {"place": str(tmp_path), "file": "made.json", "reason": os.strerror(number)}
    with refused(DatasetError, FULL, **facts):
        make_once(tmp_path / "made.json", make)
    assert list(tmp_path.iterdir()) == []  # no claim stays


def test_a_library_that_loses_the_number_of_the_error(tmp_path, monkeypatch):
    def make():
        raise OSError("Unable to synchronously write data")

    with pytest.raises(OSError, match="Unable"):
        make_once(tmp_path / "made.json", make)
    monkeypatch.setattr(claim, "why_full", lambda folder: f"{folder.name} is full")
    with refused(DatasetError, FULL, reason=f"{tmp_path.name} is full"):
        make_once(tmp_path / "made.json", make)
