"""`hpcai run` in a real pseudo-terminal and in a pipe, on a small workflow: its screen, its end, and its signals."""

import fcntl
import json
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from workflow_project import ROOT

from hpcai.campaign.run_command import LEFT_OUT

RECORDS = "results/runs/toy/fp32/n1x1/r*/record.json"
IMPORTED = "results/rounds/v1.0/study.json"
ESCAPE = "\x1b"
CTRL_C = b"\x03"
BOUND_S = 60
OUTPUT = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "timeout": BOUND_S}


def command(folder, *words, **config):
    """Command line of `hpcai run` on the small workflow."""
    files = ["--snakefile", ROOT / "tests/workflow/stages.smk", "--directory", folder, "--cores", "2", "--keep-going"]
    settings = [f"{key}={value}" for key, value in config.items()]
    return [sys.executable, "-m", "hpcai", "run", *map(str, [*words, *files]), "--config", "name=toy", *settings]


def run_piped(folder, *words, **config):
    """Run it with its output in a pipe."""
    return subprocess.run(command(folder, *words, **config), check=False, **OUTPUT)


class Terminal:
    """A pseudo-terminal with `hpcai run` in it."""

    def __init__(self, folder, columns=80, environment=(), **config):
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            words = command(folder, **config)
            os.execve(words[0], words, {**os.environ, "TERM": "xterm-256color", **dict(environment)})
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
        self.text = ""

    def read(self, longest_s):
        """Take in what is shown; return False when nobody is there any more."""
        if select.select([self._terminal], [], [], longest_s)[0]:
            try:
                self.text += os.read(self._terminal, 65536).decode(errors="replace")
            except OSError:
                return False
        return True

    def wait_for(self, condition):
        end_s = time.monotonic() + BOUND_S
        while not condition():
            assert time.monotonic() < end_s, self.text
            self.read(0.1)

    def press(self, key):
        os.write(self._terminal, key)

    def end(self):
        """Wait for its end, and return its exit status."""
        end_s = time.monotonic() + BOUND_S
        while self.read(0.1):
            assert time.monotonic() < end_s, self.text
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def url(folder):
    return (folder / "results/report.html").as_uri()


def last_line(text):
    return text.strip().splitlines()[-1]


def test_a_pipe_gets_one_line_per_run_and_stage(tmp_path):
    done = run_piped(tmp_path)
    assert done.returncode == 0, done.stdout
    assert ESCAPE not in done.stdout
    times = [line for line in done.stdout.splitlines() if re.match(r"\d\d:\d\d:\d\d ", line)]
    assert len(times) == 4, done.stdout  # three runs, one stage
    assert sum("runs/toy/fp32/n1x1/r" in line for line in times) == 3
    assert last_line(done.stdout) == url(tmp_path)
    [log] = (tmp_path / "logs/run").glob("*.log")
    assert "rule train:" in log.read_text()
    stages = json.loads((tmp_path / "logs/run/stage_times.json").read_text())["stages"]
    assert [(stage["stage"], stage["jobs"], stage["failed"]) for stage in stages] == [("stages", 4, 0)]


def test_nothing_to_do_keeps_the_times_of_what_was_done(tmp_path):
    run_piped(tmp_path)
    before = (tmp_path / "logs/run/stage_times.json").read_bytes()
    again = run_piped(tmp_path)
    assert (again.returncode, last_line(again.stdout)) == (0, url(tmp_path))
    assert (tmp_path / "logs/run/stage_times.json").read_bytes() == before


def test_after_a_failure_the_report_of_the_rest_is_made(tmp_path):
    done = run_piped(tmp_path, failing=2)
    assert done.returncode == 1
    assert len(list(tmp_path.glob(RECORDS))) == 2
    assert len((tmp_path / "results/report.html").read_text().split()) == 2
    assert last_line(done.stdout) == url(tmp_path)
    assert "logs/train/2.log" in done.stdout


@pytest.mark.parametrize("tried", ["in the start", "in the report"])
def test_rounds_that_cannot_be_imported_are_named_and_left_out_of_the_report(tmp_path, tried):
    runs = [] if tried == "in the start" else [RECORDS.replace("*", number) for number in "12"]
    done = run_piped(tmp_path, *runs, failing=2, rounds=f"['{tmp_path}/v0.7.tar','hpc_results_v1.0','v2.0']")
    assert done.returncode == 1
    named = [found["rounds"] for found in map(LEFT_OUT.find_in, done.stdout.splitlines()) if found]
    assert named[-1] == f"{tmp_path}/v0.7.tar, v2.0"
    shown = (tmp_path / "results/report.html").read_text().split()
    assert shown == [*sorted(str(one.relative_to(tmp_path)) for one in tmp_path.glob(RECORDS)), IMPORTED]
    assert last_line(done.stdout) == url(tmp_path)
    [report] = [line for line in done.stdout.splitlines() if line.startswith("report of the results:")]
    again = subprocess.run([sys.executable, "-m", *shlex.split(report.partition(":")[2])], check=False, **OUTPUT)
    assert again.returncode == 0, again.stdout


def test_points_without_a_result_are_told_after_the_report(tmp_path):
    done = run_piped(tmp_path, lost=1)
    assert done.returncode == 1
    assert "1 of 3 points" in done.stdout
    assert "hpcai retry" in done.stdout
    assert "Report of the existing results" not in done.stdout  # it is there
    assert len((tmp_path / "results/report.html").read_text().split()) == 3
    assert last_line(done.stdout) == url(tmp_path)


def test_without_a_record_there_is_no_report(tmp_path):
    done = run_piped(tmp_path, "results/runs/toy/fp32/n1x1/r2/record.json", failing=2)
    assert done.returncode == 1
    assert not (tmp_path / "results/report.html").exists()


def test_a_reader_that_goes_away_ends_nothing(tmp_path):
    with subprocess.Popen(command(tmp_path, sleeps_s=1), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        process.stdout.readline()
        process.stdout.close()
        process.wait(timeout=BOUND_S)
    assert len(list(tmp_path.glob(RECORDS))) == 3
    assert (tmp_path / "results/report.html").exists()


def test_what_snakemake_refuses_is_shown(tmp_path):
    done = run_piped(tmp_path, "no_such_target")
    assert done.returncode == 1
    assert "file://" not in last_line(done.stdout)
    assert "no_such_target" in done.stdout.partition("Traceback")[0]


def test_questions_go_to_snakemake_as_they_are(tmp_path):
    done = run_piped(tmp_path, "--dry-run")
    assert done.returncode == 0
    assert "Job stats:" in done.stdout
    assert not (tmp_path / "logs/run").exists()


def test_a_terminal_gets_one_screen(tmp_path):
    terminal = Terminal(tmp_path, sleeps_s=2)
    terminal.wait_for(lambda: " of 4" in terminal.text)
    assert terminal.end() == 0
    assert ESCAPE in terminal.text
    assert "runs/toy/fp32/n1x1/r" in terminal.text
    assert last_line(terminal.text) == url(tmp_path)


def test_colours_can_be_switched_off(tmp_path):
    terminal = Terminal(tmp_path, columns=40, environment={"NO_COLOR": "1"})
    assert terminal.end() == 0
    colours = re.findall(r"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7])[0-9;]*m", terminal.text)
    assert colours == []


def started(folder):
    return (folder / "started").exists()


def signals(folder):
    file = folder / "signals"
    return file.read_text().split() if file.exists() else []


def test_ctrl_c_reaches_the_job_once_and_names_the_next_command(tmp_path):
    terminal = Terminal(tmp_path, sleeps_s=50)
    terminal.wait_for(lambda: started(tmp_path))
    time.sleep(0.5)
    terminal.press(CTRL_C)
    assert terminal.end() == 130
    assert signals(tmp_path) == ["INT"]
    assert "measure=false" in terminal.text
    assert not list((tmp_path / ".snakemake/locks").glob("*"))
    assert not (tmp_path / "results/report.html").exists()


def test_the_command_for_the_rest_makes_the_report(tmp_path):
    run_piped(tmp_path, "results/runs/toy/fp32/n1x1/r1/record.json")
    done = run_piped(tmp_path, "report", measure="false")
    assert (done.returncode, last_line(done.stdout)) == (0, url(tmp_path))


def test_a_second_ctrl_c_ends_at_once(tmp_path):
    terminal = Terminal(tmp_path, sleeps_s=50, deaf=1)
    terminal.wait_for(lambda: started(tmp_path))
    time.sleep(0.5)
    terminal.press(CTRL_C)
    terminal.wait_for(lambda: "Ctrl-C again" in terminal.text)
    pressed_s = time.monotonic()
    terminal.press(CTRL_C)
    assert terminal.end() == 130
    assert time.monotonic() - pressed_s < 10
    assert signals(tmp_path) == ["TERM"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_to_this_process_alone_reaches_the_job_once(tmp_path, number):
    words = command(tmp_path, sleeps_s=50)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        while not started(tmp_path):
            time.sleep(0.1)
        time.sleep(0.5)
        process.send_signal(number)
        process.communicate(timeout=BOUND_S)
    assert process.returncode == 128 + number
    assert len(signals(tmp_path)) <= 1


def processor_s(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_it_leaves_the_processor_to_the_run(tmp_path):
    terminal = Terminal(tmp_path, sleeps_s=30)
    terminal.wait_for(lambda: started(tmp_path) and "r1" in terminal.text.replace("r2", "r1").replace("r3", "r1"))
    before_s, begun_s = processor_s(terminal.pid), time.monotonic()
    while time.monotonic() - begun_s < 10:
        terminal.read(0.5)
    share = (processor_s(terminal.pid) - before_s) / (time.monotonic() - begun_s)
    terminal.press(CTRL_C)
    assert terminal.end() == 130
    assert share <= 0.01, f"{share:.2%} of a core"
