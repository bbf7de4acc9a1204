import multiprocessing
import time

from hpcai.measure import claim
from hpcai.measure.claim import make_once


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
