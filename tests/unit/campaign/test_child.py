"""A program called in its own session: its status, its output, and its end whatever happens to the caller."""

import errno
import os
import signal
import sys
import time

import pytest

from hpcai.campaign.child import Child


def call(log, code, look=lambda: 0.05):
    """Run Python code that can report that it has begun."""
    return Child().call([sys.executable, "-c", code], log, dict(os.environ), look)


@pytest.mark.parametrize(
    ("code", "status"),
    [("pass", 0), ("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137)],
    ids=["success", "failure", "killed"],
)
def test_exit_status_as_a_shell_has_it(tmp_path, code, status):
    assert call(tmp_path / "log", code) == status


def test_output_goes_to_the_log_after_what_is_there(tmp_path):
    log = tmp_path / "log"
    log.write_text("before\n")
    call(log, "import sys; print('out', flush=True); print('err', file=sys.stderr)")
    assert log.read_text().split() == ["before", "out", "err"]


def test_it_does_not_go_on_when_this_side_breaks_down(tmp_path):
    begun = tmp_path / "begun"
    started_s = time.monotonic()

    def look():
        if begun.exists():
            raise ValueError
        return 0.05

    with pytest.raises(ValueError):  # noqa: PT011
        call(tmp_path / "log", f"import pathlib, time; pathlib.Path({str(begun)!r}).touch(); time.sleep(60)", look)
    assert time.monotonic() - started_s < 30


def no_such_call(_):
    raise OSError(errno.ENOSYS, "Function not implemented")


@pytest.mark.parametrize(
    ("code", "status"),
    [("raise SystemExit(3)", 3), ("import time; time.sleep(0.5)", 0)],
    ids=["at once", "later"],
)
def test_a_kernel_that_tells_no_end_of_a_process_is_asked(tmp_path, monkeypatch, code, status):
    looks = []
    monkeypatch.setattr(os, "pidfd_open", no_such_call)
    assert call(tmp_path / "log", code, lambda: looks.append(1) or 0.05) == status
    assert looks


def test_it_does_not_go_on_when_its_end_cannot_be_awaited(tmp_path, monkeypatch):
    started_s = time.monotonic()

    def break_down(_):
        raise ValueError

    monkeypatch.setattr(os, "pidfd_open", break_down)
    child = Child()
    code = "import time; time.sleep(60)"
    with pytest.raises(ValueError):  # noqa: PT011
        child.call([sys.executable, "-c", code], tmp_path / "log", dict(os.environ), lambda: 0.05)
    assert child._process is None
    assert time.monotonic() - started_s < 30


def test_a_signal_is_passed_on_and_the_old_handlers_come_back(tmp_path):
    child, before = Child(), signal.getsignal(signal.SIGTERM)
    begun = tmp_path / "begun"

    def look():
        if begun.exists() and not child.signals:
            os.kill(os.getpid(), signal.SIGTERM)
        return 0.05

    code = f"import pathlib, time; pathlib.Path({str(begun)!r}).touch(); time.sleep(60)"
    with child.listening():
        status = child.call([sys.executable, "-c", code], tmp_path / "log", dict(os.environ), look)
    assert (status, child.signals) == (128 + signal.SIGTERM, [signal.SIGTERM])
    assert signal.getsignal(signal.SIGTERM) == before


def test_what_the_caller_wants_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Child().listening():
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
