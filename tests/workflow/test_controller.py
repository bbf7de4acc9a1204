"""The process that waits for a timed job leaves it the cores, however Snakemake is started."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from workflow_project import ROOT

OUTPUT = "output.txt"
SNAKEMAKE = Path(sys.executable).parent / "snakemake"
DONE_JOBS, SLEEPS_S, WINDOW_S = 60, 5, 3.0
MOST_RATIO = 0.01
STARTS = {
    "bare": [],
    "default profile": ["--workflow-profile", ROOT / "profiles/default"],
    "laptop": ["--profile", ROOT / "profiles/laptop"],
    "workstation": ["--profile", ROOT / "profiles/workstation"],
}


def start(folder, *options, **config):
    """Start Snakemake on the toy of waiting jobs."""
    files = ["--snakefile", ROOT / "tests/workflow/waiting.smk", "--directory", folder]
    command = [SNAKEMAKE, *files, "--cores", "2", *options, "--config", *(f"{k}={v}" for k, v in config.items())]
    # Into a file: a pipe that nobody reads would hold it up.
    with (folder / OUTPUT).open("w") as output:
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)


def processor_time_s(process):
    """What a process itself, without its jobs, has used of the processor."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def share_while_waiting(folder, *options, **config):
    """Share of one core that Snakemake takes while it only waits for a job."""
    process = start(folder, *options, done=DONE_JOBS, sleeps_s=SLEEPS_S, **config)
    try:
        while not (folder / "sleeping").exists():
            assert process.poll() is None, (folder / OUTPUT).read_text()
            time.sleep(0.1)
        time.sleep(0.5)
        before_s, started_s = processor_time_s(process), time.monotonic()
        time.sleep(WINDOW_S)
        used_s, passed_s = processor_time_s(process) - before_s, time.monotonic() - started_s
        assert len((folder / "sleeping").read_text().split()) == 1, "the job that was waited for has ended"
        return used_s / passed_s
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_snakemake_itself_looks_again_and_again(tmp_path):
    assert share_while_waiting(tmp_path) > 3 * MOST_RATIO


@pytest.mark.parametrize("options", STARTS.values(), ids=STARTS)
def test_the_controller_rests_while_a_job_runs(tmp_path, options):
    assert share_while_waiting(tmp_path, *options, quiet=1) <= MOST_RATIO


@pytest.mark.parametrize(("ended", "looks"), [(0, 0), (1, 1), (5000, 1)])
def test_jobs_that_ended_together_are_looked_at_together(ended, looks):
    """Each of 10,000 that ended had a look of its own, which took a core for minutes beside the job that came next."""
    limiter = SimpleNamespace(get_free_jobs=lambda: 100)
    scheduler = SimpleNamespace(job_rate_limiter=limiter, _open_jobs=threading.Semaphore(ended))
    known = {"workflow": SimpleNamespace(scheduler=scheduler)}
    exec((ROOT / "workflow/rules/controller.smk").read_text(), known)
    known["look_again_only_if_held_back"]()
    scheduler._schedule_reevalutation(1.0)
    assert scheduler._open_jobs._value == looks


def test_the_workflow_calls_it_at_its_start():
    onstart = re.search(r"^onstart:\n((?:    .*\n)+)", (ROOT / "workflow/Snakefile").read_text(), re.MULTILINE)
    assert "look_again_only_if_held_back()" in onstart[1]


def test_a_limit_of_job_starts_is_kept(tmp_path):
    process = start(tmp_path, "--max-jobs-per-timespan", "4/2s", "--until", "short", done=12, quiet=1)
    assert process.wait(timeout=300) == 0, (tmp_path / OUTPUT).read_text()
    times_s = sorted(path.stat().st_mtime for path in (tmp_path / "short").iterdir())
    assert len(times_s) == 12
    # The last four start two spans after the first four.
    assert times_s[-1] - times_s[3] > 3.5


def test_a_limit_over_a_long_time_does_not_keep_snakemake_alive(tmp_path):
    process = start(tmp_path, "--max-jobs-per-timespan", "1000/1h", "--until", "short", done=12, quiet=1)
    assert process.wait(timeout=60) == 0, (tmp_path / OUTPUT).read_text()
