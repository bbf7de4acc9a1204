"""Signals at random moments to the processes of runs with stub ranks, and to the workflow that starts them."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
from attack.published import folder_problem
from attack.study import write_config, write_stub_config
from attack.tally import Tally
from end_to_end.hit_ranks import ranks_of
from workflow_project import STUB_RANKS, Project, edit_yaml

from hpcai.config.load import load_study_file
from hpcai.config.plan_file import write_plan
from hpcai.records.files import read_record
from hpcai.records.run import FINISHED, RunRecord

LIMIT_S = 180
PAUSE_S = 3.0
PAUSE_EVERY = 4
"""So many other faults for each pause of a rank at work, and for each of the workflow."""
EPOCHS, EPOCH_S = 7, 0.2
"""A stub rank's error after epoch n is 1/n, so that the target is reached in this one."""
RUN = "cosmoflow_mini/w/n1x2/r1"
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP)
VICTIMS = ("supervisor", "rank", "launcher", "all")


def attack(tally: Tally, folder: Path, random_numbers: random.Random, count: int) -> None:
    """Hit processes, start what was hit again as users do, and look what is published.

    Parameters
    ----------
    tally
        Takes what became of each.
    folder
        Where to work.
    random_numbers
        Whom to hit, when, and how.
    count
        Signals to a run; there are a quarter as many pauses, and signals to the workflow.
    """
    _hit_processes(tally, folder / "moments", random_numbers, count)
    _hit_controller(tally, folder / "controller", random_numbers, max(1, count // PAUSE_EVERY))


def _hit_processes(tally: Tally, folder: Path, random_numbers: random.Random, count: int) -> None:
    """Send signals at random moments to the supervisor, a rank, its launcher or all of a run with stub ranks."""
    command, place = _prepare(folder)
    unharmed_s = _time_s(command, place / "unharmed" / RUN)
    for number in range(max(1, count // PAUSE_EVERY)):
        run = place / f"pause{number}" / RUN
        first = _start(command, run)
        _wait_for_epochs(run)
        time.sleep(random_numbers.uniform(0.0, 0.5))
        paused = _hit(first, run, "rank", signal.SIGSTOP)
        status, _ = _end_of(first)
        what = f"SIGSTOP to a rank at work, SIGCONT after {PAUSE_S} s"
        _finish(tally, (command, run), what, f"status {status}", paused=paused)
    for number in range(count):
        run = place / f"fault{number}" / RUN
        victim, sent = random_numbers.choice(VICTIMS), random_numbers.choice(SIGNALS)
        after_s = random_numbers.uniform(0.0, 1.1 * unharmed_s)
        what = f"{sent.name} to {victim} after {after_s:.1f} s"
        first = _start(command, run)
        time.sleep(after_s)
        paused = _hit(first, run, victim, sent)
        status, words = _end_of(first)
        if "Traceback (most recent" in words:
            tally.add("a moment", what, "traceback", words)
            continue
        _finish(tally, (command, run), what, f"status {status}", paused=paused)


def _wait_for_epochs(run: Path) -> None:
    """Wait until the first epoch of a run is over."""
    deadline_s = time.monotonic() + LIMIT_S
    while not any(file.stat().st_size for file in run.glob("attempts/*/epochs.jsonl")):
        if time.monotonic() > deadline_s:
            raise AssertionError(f"{run}: no epoch after {LIMIT_S} s")
        time.sleep(0.02)


def _prepare(folder: Path) -> tuple[list[str], Path]:
    """Write a plan of two stub ranks with its data; return the command that measures it, and where runs go."""
    folder.mkdir()
    study = write_config(folder / "config")
    edit_yaml(study, limits={"run_s": 60, "stall_s": 30, "disturbance": {"repeats": 0}})
    edit_yaml(folder / "config/benchmarks/cosmoflow_mini.yaml", target__value=1 / EPOCHS, recipe__max_epochs=20)
    (folder / "config/runs/attacked.tsv").write_text(
        (folder / "config/runs/attacked.tsv").read_text() + "cosmoflow_mini\tw\t1\t2\t1\tfp32\tnone\t\n"
    )
    done = Project(folder, study=study, environment=STUB_RANKS).snakemake("pack")
    if done.returncode:
        raise AssertionError(done.stdout)
    write_plan(load_study_file(study).plans()[RUN], folder / "plan.json")
    data = folder / "data/cosmoflow_mini"
    files = [
        "--plan",
        folder / "plan.json",
        "--manifest",
        data / "manifest.json",
        "--pack",
        data / "packed/packed.json",
    ]
    program = [Path(sys.executable).with_name("hpcai"), "measure", *files, "--launcher", "horovodrun"]
    return [*map(str, program)], folder / "results/runs"


def _environment() -> dict[str, str]:
    return {**os.environ, **STUB_RANKS}


def _start(command: Sequence[str], run: Path) -> subprocess.Popen[str]:
    run.mkdir(parents=True, exist_ok=True)
    whole = [*command, "--folder", str(run), "--log", str(run.parent / f"{run.name}.log")]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(whole, env=_environment(), start_new_session=True, **output)


def _time_s(command: Sequence[str], run: Path) -> float:
    started_s = time.monotonic()
    status, words = _end_of(_start(command, run))
    problem = folder_problem(run) if not status else words
    if status or problem:
        raise AssertionError(f"a run that nobody hit ended with {status}: {problem}")
    return time.monotonic() - started_s


def _end_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    try:
        words = process.communicate(timeout=LIMIT_S)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        words = f"no end after {LIMIT_S} s {process.communicate()[0]}"
    return process.returncode, words


def _hit(supervisor: subprocess.Popen[str], run: Path, victim: str, sent: signal.Signals) -> bool:
    """Send a signal; return whether it was a pause, after which all goes on."""
    hit = [one for one in _victims(supervisor, run, victim) if one.is_running()]
    for one in hit:
        _send(one, sent)
    if sent != signal.SIGSTOP or not hit:
        return False
    time.sleep(PAUSE_S)
    for one in hit:
        _send(one, signal.SIGCONT)
    return True


def _send(process: psutil.Process, sent: signal.Signals) -> None:
    try:
        process.send_signal(sent)
    except psutil.Error:
        return


def _victims(supervisor: subprocess.Popen[str], run: Path, victim: str) -> list[psutil.Process]:
    try:
        top = psutil.Process(supervisor.pid)
        below = top.children(recursive=True)
    except psutil.Error:
        return []
    ranks = [one for attempt in (run / "attempts").glob("*") for one in ranks_of(attempt.name)]
    chosen = {"supervisor": [top], "rank": ranks[-1:], "launcher": below[:1], "all": [top, *below]}
    return chosen[victim] or [top]


def _finish(tally: Tally, measured: tuple[Sequence[str], Path], what: str, first: str, *, paused: bool) -> None:
    """Start the run again until it is measured, as the workflow and `hpcai retry` do, and judge what is there."""
    command, run = measured
    for _ in range(2):
        status, words = _end_of(_start(command, run))
        if "Traceback (most recent" in words:
            tally.add("a moment", what, "traceback", words)
            return
        if status or read_record(run / "record.json").outcome in FINISHED:
            break
        subprocess.run([command[0], "retry", str(run)], env=_environment(), capture_output=True, check=True)
    problem = f"the next start ended with {status}: {words}" if status else folder_problem(run)
    problem = problem or _number_problem(read_record(run / "record.json"), paused=paused) or _leftover(run)
    tally.add("a moment", what, "silent" if problem else "survived", f"{first}; {problem}" if problem else first)


def _number_problem(record: RunRecord, *, paused: bool) -> str:
    """Say which number of a run of stub ranks is wrong: their error after epoch n is 1/n, and an epoch has its time."""
    training = record.training
    if training is None or [epoch.quality for epoch in training.epochs] != [1 / n for n in range(1, EPOCHS + 1)]:
        return f"found the epochs {training and [epoch.quality for epoch in training.epochs]}"
    unharmed_s = EPOCHS * EPOCH_S
    if paused and training.run_s > unharmed_s + PAUSE_S - 0.5 and not getattr(record, "is_stalled", False):
        return f"a pause of {PAUSE_S} s is in run_s = {training.run_s:.2f} s, and the record does not say so"
    return ""


def _leftover(run: Path) -> str:
    """Say what is left of a run that has ended: ranks, or staged data."""
    attempts = [path.name for path in (run / "attempts").glob("*")]
    ranks = [rank.pid for attempt in attempts for rank in ranks_of(attempt)]
    scratch = Path(tempfile.gettempdir(), "hpcai-tests")
    staged = [name for name in attempts if (scratch / name).exists()]
    return f"left: ranks {ranks}, staged data {staged}" if ranks or staged else ""


def _hit_controller(tally: Tally, folder: Path, random_numbers: random.Random, count: int) -> None:
    """Kill the workflow itself at a random moment, and start it again."""
    for number in range(count):
        own = folder / str(number)
        own.mkdir(parents=True)
        study = write_stub_config(own / "config")
        words = ["measure", "--snakefile", str(Project(own).root / "Snakefile"), "--directory", str(own)]
        words += ["--workflow-profile", str(Project(own).root / "profiles/default"), "--configfile", str(study)]
        words += ["--config", f"config_dir={study.parent}"]
        program = str(Path(sys.executable).with_name("snakemake"))
        log = own / "first.log"
        with log.open("wb") as output:
            first = subprocess.Popen([program, *words], env=_environment(), stdout=output, stderr=output)
        after_s = random_numbers.uniform(1.0, 25.0)
        time.sleep(after_s)
        first.kill()
        first.wait()
        # As `hpcai doctor` says: the lock of a controller that was killed is taken away first.
        subprocess.run([program, *words, "--unlock"], env=_environment(), capture_output=True, check=False)
        done = subprocess.run([program, *words], env=_environment(), capture_output=True, text=True, check=False)
        runs = sorted(own.glob("results/runs/*/*/*/r*"))
        problems = [f"{run.name}: {found}" for run in runs if (found := folder_problem(run))]
        what = f"SIGKILL to the controller after {after_s:.1f} s"
        if "Traceback (most recent" in done.stdout + done.stderr:
            tally.add("the controller", what, "traceback", done.stderr[-400:])
        elif done.returncode or len(runs) != 2 or problems:
            words_of = f"status {done.returncode}, {len(runs)} runs of 2, {problems}: {done.stderr[-300:]}"
            tally.add("the controller", what, "silent", words_of)
        else:
            tally.add("the controller", what, "survived")
