"""A launcher is watched: limits, signs of life, and no remaining processes."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from hpcai.config.study import Limits
from hpcai.measure import watch as watching
from hpcai.measure.watch import ATTEMPT_VARIABLE, _marked, end_orphans, watch
from hpcai.training import launch_nodes, spawn

LONG = Limits(run_s=30, stall_s=30)


def run(tmp_path, code, limits=LONG, **options):
    command = [sys.executable, "-c", code]
    return watch(command, tmp_path, limits, {ATTEMPT_VARIABLE: f"test-{os.getpid()}"}, **options)


def test_end(tmp_path):
    ending = run(tmp_path, "print('hello'); raise SystemExit(3)")
    assert (ending.verdict, ending.exit_status) == ("ended", 3)
    assert ending.wall_s > 0
    assert (tmp_path / "output.log").read_text() == "hello\n"


def test_time_limit(tmp_path):
    ending = run(tmp_path, "import time; time.sleep(60)", Limits(run_s=1, stall_s=30))
    assert ending.verdict == "timed_out"
    assert ending.wall_s < 15


def test_no_sign_of_life(tmp_path):
    ending = run(tmp_path, "import time; time.sleep(60)", Limits(run_s=30, stall_s=1))
    assert ending.verdict == "stalled"


def test_signs_of_life_keep_it_going(tmp_path):
    heartbeat = repr(str(tmp_path / "heartbeat"))
    beat = f"import pathlib, time\nfor i in range(8): pathlib.Path({heartbeat}).touch(); time.sleep(.3)"
    assert run(tmp_path, beat, Limits(run_s=30, stall_s=1.5)).verdict == "ended"


def test_ranks_that_outlive_their_launcher_are_ended(tmp_path):
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True)\n"
        "print(child.pid)"
    )
    run(tmp_path, code)
    orphan = int((tmp_path / "output.log").read_text())
    assert not psutil.pid_exists(orphan) or psutil.Process(orphan).status() == psutil.STATUS_ZOMBIE


def test_a_deaf_launcher_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("hpcai.measure.watch.GRACE_S", 0.5)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    ending = run(tmp_path, deaf, Limits(run_s=4, stall_s=30))
    assert (ending.verdict, ending.exit_status) == ("timed_out", -9)


@pytest.mark.parametrize("launcher", [spawn, launch_nodes])
def test_our_launchers_have_time_to_end_their_ranks(launcher):
    assert launcher.END_LIMIT_S + 1.0 < watching.GRACE_S


def test_a_file_system_that_hangs_does_not_hold_up_the_watch(tmp_path, monkeypatch):
    hangs = threading.Event()
    monkeypatch.setattr("hpcai.measure.watch.KILLED_S", 0.2)
    ending = run(tmp_path, "import time; time.sleep(60)", Limits(run_s=30, stall_s=1), on_poll=hangs.wait)
    hangs.set()
    assert ending.verdict == "stalled"


@pytest.mark.parametrize("code", [errno.ESTALE, errno.EIO, errno.ENOENT])
def test_a_file_system_that_is_gone_ends_in_a_verdict(tmp_path, monkeypatch, code):
    real = Path.stat

    def gone(path, **options):
        if path.name == "heartbeat":
            raise OSError(code, os.strerror(code))
        return real(path, **options)

    monkeypatch.setattr(Path, "stat", gone)
    assert run(tmp_path, "import time; time.sleep(60)", Limits(run_s=30, stall_s=1)).verdict == "stalled"


def test_a_launcher_is_told_to_end_when_its_supervisor_is_killed(tmp_path):
    told = tmp_path / "told"
    launcher = (
        "import pathlib, signal, sys, time\n"
        f"def end(*_): pathlib.Path({str(told)!r}).touch(); sys.exit()\n"
        "signal.signal(signal.SIGTERM, end)\nprint('ready', flush=True)\ntime.sleep(60)"
    )
    supervisor = (
        "import pathlib, sys\nfrom hpcai.config.study import Limits\nfrom hpcai.measure.watch import watch\n"
        f"watch([sys.executable, '-c', {launcher!r}], pathlib.Path({str(tmp_path)!r}), Limits(run_s=60, stall_s=60), "
        "{'HPCAI_ATTEMPT': 'of a killed supervisor'})"
    )
    process = subprocess.Popen([sys.executable, "-c", supervisor])
    output = tmp_path / "output.log"
    wait_for(lambda: output.exists() and "ready" in output.read_text())
    process.kill()
    process.wait()
    wait_for(told.exists)


def wait_for(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_an_interrupted_supervisor_ends_its_launcher(tmp_path):
    def interrupt():
        raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "import time; time.sleep(60)", on_poll=interrupt)
    assert time.monotonic() - started < 15
    assert not list(_marked([f"test-{os.getpid()}"]))


BEATS = "import pathlib, time\nfor i in range(COUNT): pathlib.Path(HEARTBEAT).touch(); time.sleep(0.1)"


@pytest.mark.parametrize(("longest_s", "verdict"), [(30.0, "ended"), (1.0, "stood_still")])
def test_a_supervisor_that_was_stopped_does_not_say_that_its_ranks_were_silent(tmp_path, longest_s, verdict):
    beats = BEATS.replace("COUNT", "40").replace("HEARTBEAT", repr(str(tmp_path / "heartbeat")))
    supervisor = (
        "import pathlib, sys\nfrom hpcai.config.study import Limits\nfrom hpcai.measure import watch\n"
        f"watch.STOOD_STILL_S = {longest_s}\nraw = pathlib.Path({str(tmp_path)!r})\n"
        f"ending = watch.watch([sys.executable, '-c', {beats!r}], raw, Limits(run_s=60, stall_s=2), "
        "{'HPCAI_ATTEMPT': 'of a stopped supervisor'})\n"
        "(raw / 'verdict').write_text(f'{ending.verdict} {ending.stood_still_s}')"
    )
    process = subprocess.Popen([sys.executable, "-c", supervisor])
    wait_for((tmp_path / "heartbeat").exists)
    process.send_signal(signal.SIGSTOP)
    time.sleep(2.5)
    process.send_signal(signal.SIGCONT)
    assert process.wait() == 0
    found, stood_still_s = (tmp_path / "verdict").read_text().split()
    assert found == verdict
    assert float(stood_still_s) > 2.0


OWN_VARIABLE = f"HPCAI_ATTEMPT_OF_TEST_{os.getpid()}"
"""In place of the real one: campaigns of other tests on this machine end orphans, too, and would be faster."""
ORPHAN = f"""
import os, subprocess, sys
child = subprocess.Popen(["sleep", "60"], env={{**os.environ, {OWN_VARIABLE!r}: sys.argv[1]}}, start_new_session=True)
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def own_orphans(monkeypatch):
    monkeypatch.setattr(watching, "ATTEMPT_VARIABLE", OWN_VARIABLE)


@pytest.mark.usefixtures("own_orphans")
def test_only_what_nobody_watches_any_more_is_ended():
    ranks = []
    for attempt in (f"orphan-{os.getpid()}", f"watched-{os.getpid()}"):
        command = [sys.executable, "-c", ORPHAN, attempt]
        parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        ranks.append((parent, psutil.Process(int(parent.stdout.readline()))))
    (gone, orphan), (_, watched) = ranks
    try:
        gone.kill()
        gone.wait()
        wait_for(lambda: orphan.ppid() != gone.pid)
        if orphan.ppid() != 1 and orphan.parent().name() != "systemd":
            pytest.skip("on this machine orphans are adopted by another process than init")
        assert orphan.pid in end_orphans()
        assert not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE
        assert watched.is_running()
    finally:
        for parent, rank in ranks:
            rank.kill() if rank.is_running() else None
            parent.communicate()


@pytest.mark.usefixtures("own_orphans")
def test_a_run_that_has_one_watched_process_here_is_left_alone():
    attempt = f"partly-{os.getpid()}"
    parents = [
        subprocess.Popen(
            [sys.executable, "-c", ORPHAN, attempt], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    ranks = [psutil.Process(int(parent.stdout.readline())) for parent in parents]
    try:
        parents[0].kill()
        parents[0].wait()
        wait_for(lambda: ranks[0].ppid() != parents[0].pid)
        assert not {rank.pid for rank in ranks} & {*end_orphans()}
        assert all(rank.is_running() for rank in ranks)
    finally:
        for parent, rank in zip(parents, ranks, strict=True):
            rank.kill()
            parent.communicate()
