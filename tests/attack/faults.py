"""Faults while a run is measured: signals at random lines and moments, a full disk; one right record is left."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import pytest
from attack.apart import Outcome, call_apart
from attack.study import write_config
from attack.tally import Tally
from end_to_end.hit_ranks import ranks_of
from unit.measure.test_measure import Run
from workflow_project import STUB_RANKS, Project, edit_yaml

from hpcai.config.load import load_study_file, write_plan
from hpcai.data.manifest import read_manifest
from hpcai.errors import HpcaiError, ResultsError
from hpcai.machine_lock import PLACE_VARIABLE
from hpcai.measure import claim
from hpcai.measure.attempts import has_verdict
from hpcai.records import FINISHED, RunRecord, read_record

MEASURE = str(Path(read_record.__code__.co_filename).parent)
LINES_PER_FAULT = 5
"""A run whose rank does nothing takes a second: so many signals at random lines for each at a random moment."""
LIMIT_S = 180
PAUSE_S = 3.0
EPOCHS, EPOCH_S = 7, 0.2
"""A stub rank's error after epoch n is 1/n, so that the target is reached in this one."""
DISK = "1m"
RUN = "cosmoflow_mini/w/n1x2/r1"
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP)
VICTIMS = ("supervisor", "rank", "launcher", "all")
ENVIRONMENT = {**os.environ, **STUB_RANKS}


def attack(folder: Path, random_numbers: random.Random, count: int) -> Tally:
    """Hit runs that are under way, start them again as the workflow would, and look what is published.

    Parameters
    ----------
    folder
        An empty folder.
    random_numbers
        Whom to hit, when, and how.
    count
        Faults at random moments; there are five times as many at random lines.
    """
    tally, lock = Tally("faults"), folder / "lock"
    lock.mkdir()
    os.environ[PLACE_VARIABLE] = ENVIRONMENT[PLACE_VARIABLE] = str(lock)
    os.environ.pop("SLURM_JOB_ID", None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claim, "WAIT_S", 0.05)
        patch.setattr(claim, "REFRESH_S", 0.1)
        _hit_lines(tally, folder, random_numbers, LINES_PER_FAULT * count)
        _fill_disk(tally, random_numbers, count)
    _hit_processes(tally, folder / "moments", random_numbers, count)
    _hit_controller(tally, folder / "controller", random_numbers, max(1, count // 4))
    return tally


def _hit_lines(tally: Tally, folder: Path, random_numbers: random.Random, count: int) -> None:
    """Send a signal to the supervisor at a line of its own code, drawn by chance, more often near the publication."""
    lines = _lines_of(folder / "lines")
    for number in range(count):
        first = 0 if random_numbers.random() < 0.5 else int(0.7 * lines)
        line, sent = random_numbers.randrange(first, lines), random_numbers.choice([signal.SIGKILL, signal.SIGTERM])
        with _run_in(folder / f"line{number}") as run:
            call_apart(partial(_measure_until, run, line, sent), limit_s=LIMIT_S)
            again = call_apart(partial(_measure, run), limit_s=LIMIT_S)
            _judge(tally, "a line", f"{sent.name} at line {line} of {lines}", again, _problems(run))


@contextmanager
def _run_in(folder: Path) -> Iterator[Run]:
    folder.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        yield Run(folder, patch)


def _lines_of(folder: Path) -> int:
    with _run_in(folder) as run:
        counted = call_apart(partial(_measure_until, run, -1, signal.SIGKILL), limit_s=LIMIT_S)
    if counted.ending != "returned":
        raise AssertionError(f"a run that nobody hit ended badly: {counted}")
    return int(counted.value)


def _measure_until(run: Run, line: int, sent: signal.Signals) -> int:
    """Measure, and send a signal to this process at the line of that number; return how many lines there were."""
    seen = 0

    def count(frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        nonlocal seen
        if not frame.f_code.co_filename.startswith(MEASURE):
            return None
        if event == "line":
            seen += 1
            if seen == line:
                os.kill(os.getpid(), sent)
        return count

    sys.settrace(count)
    try:
        run.measure()
    finally:
        sys.settrace(None)
    return seen


def _measure(run: Run) -> str:
    return str(run.measure().outcome)


def _problems(run: Run) -> str:
    """Say what is wrong with a run that was measured to its end; blank if nothing is."""
    problem = _folder_problem(run.folder)
    if problem:
        return problem
    record, scratch = read_record(run.folder / "record.json"), run.folder.parent / "scratch"
    if record.training is None or record.training.run_s != 0.1 or record.training.seed != run.plan.seed:
        return f"the training is not the one that was reported: {record.training}"
    if record.provenance.data_digest != read_manifest(run.inputs.manifest).digest:
        return "the data are others"
    left = [path.name for path in scratch.iterdir()] if scratch.exists() else []
    return f"left in the scratch folder: {left}" if left else ""


def _folder_problem(folder: Path) -> str:
    """Say what is wrong with the folder of a run; blank if one record is published and every attempt has a verdict."""
    published, original = folder / "record.json", folder / "raw/record.json"
    if not published.exists() or published.read_bytes() != original.read_bytes():
        return "no record is published, or two that differ"
    record = read_record(published)
    attempts = sorted((folder / "attempts").glob("*"))
    silent = [path.name for path in attempts if not has_verdict(path)]
    if silent:
        return f"attempts without a verdict: {silent}"
    finished = [path for path in attempts if _is_finished(path)]
    if finished:
        return f"finished attempts that are not published: {finished}"
    if (folder / "claim.json").exists():
        return "a claim was left"
    if record.outcome != "converged":
        return f"outcome {record.outcome}: {record.reason}"
    missing = {path.name for path in attempts} - {one.attempt for one in record.earlier_attempts}
    return f"attempts that the record does not name: {missing}" if missing else ""


def _is_finished(attempt: Path) -> bool:
    if not (attempt / "record.json").exists() or (attempt / "interrupted.json").exists():
        return False
    try:
        return read_record(attempt / "record.json").outcome in FINISHED
    except HpcaiError:
        return False


def _judge(tally: Tally, target: str, what: str, again: Outcome, problem: str) -> None:
    if again.ending == "traceback" or "Traceback (most recent" in again.output:
        tally.add(target, what, "traceback", f"{again.words} {again.output}")
    elif again.ending != "returned":
        tally.add(target, what, "silent", f"the next start: {again.ending}: {again.words} {again.output}")
    else:
        tally.add(target, what, "silent" if problem else "survived", problem)


def _fill_disk(tally: Tally, random_numbers: random.Random, count: int) -> None:
    """Let the file system of the results be full while a run is measured, and make room for the next start."""
    for _ in range(count):
        with tempfile.TemporaryDirectory(prefix="hpcai-attack-disk-") as place:
            mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", place]
            if subprocess.run(mount, capture_output=True, check=False).returncode:
                print("full disk: not tried, because no file system may be mounted here", flush=True)
                return
            try:
                _measure_on_full_disk(tally, Path(place), random_numbers.randrange(0, 40_000))
            finally:
                subprocess.run(["umount", "--lazy", place], check=True)


def _measure_on_full_disk(tally: Tally, place: Path, free_bytes: int) -> None:
    with _run_in(place / "study") as run:
        filler, space = place / "filler", os.statvfs(place)
        filler.write_bytes(bytes(max(space.f_bavail * space.f_frsize - free_bytes, 0)))
        first = call_apart(partial(_measure_or_say, run), limit_s=LIMIT_S)
        filler.unlink()
        if first.ending == "traceback":
            tally.add("a full disk", f"{free_bytes} bytes free", "traceback", first.words)
            return
        again = call_apart(partial(_measure_again, run), limit_s=LIMIT_S)
        _judge(tally, "a full disk", f"{free_bytes} bytes free", again, _problems(run))


def _measure_or_say(run: Run) -> str:
    try:
        return _measure(run)
    except ResultsError as error:
        return str(error)


def _measure_again(run: Run) -> str:
    """Measure again as a user does: what broke down is tried again."""
    from hpcai.measure.publish import forget_breakdowns

    if (run.folder / "record.json").exists():
        forget_breakdowns(run.folder)
    return _measure(run)


def _hit_processes(tally: Tally, folder: Path, random_numbers: random.Random, count: int) -> None:
    """Send signals at random moments to the supervisor, a rank, its launcher or all of a run with stub ranks."""
    command, place = _prepare(folder)
    unharmed_s = _time_s(command, place / "unharmed" / RUN)
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


def _start(command: Sequence[str], run: Path) -> subprocess.Popen[str]:
    run.mkdir(parents=True, exist_ok=True)
    whole = [*command, "--folder", str(run), "--log", str(run.parent / f"{run.name}.log")]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(whole, env=ENVIRONMENT, start_new_session=True, **output)


def _time_s(command: Sequence[str], run: Path) -> float:
    started_s = time.monotonic()
    status, words = _end_of(_start(command, run))
    problem = _folder_problem(run) if not status else words
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
        subprocess.run([command[0], "retry", str(run)], env=ENVIRONMENT, capture_output=True, check=True)
    problem = f"the next start ended with {status}: {words}" if status else _folder_problem(run)
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
        study = write_config(own / "config")
        words = ["measure", "--snakefile", str(Project(own).root / "Snakefile"), "--directory", str(own)]
        words += ["--workflow-profile", str(Project(own).root / "profiles/default"), "--configfile", str(study)]
        words += ["--config", f"config_dir={study.parent}"]
        (own / "config/runs/attacked.tsv").write_text(_stub_rows(own / "config/runs/attacked.tsv"))
        program = str(Path(sys.executable).with_name("snakemake"))
        log = own / "first.log"
        with log.open("wb") as output:
            first = subprocess.Popen([program, *words], env=ENVIRONMENT, stdout=output, stderr=output)
        after_s = random_numbers.uniform(1.0, 25.0)
        time.sleep(after_s)
        first.kill()
        first.wait()
        done = subprocess.run([program, *words], env=ENVIRONMENT, capture_output=True, text=True, check=False)
        runs = sorted(own.glob("results/runs/*/*/*/r*"))
        problems = [f"{run.name}: {found}" for run in runs if (found := _folder_problem(run))]
        what = f"SIGKILL to the controller after {after_s:.1f} s"
        if "Traceback (most recent" in done.stdout + done.stderr:
            tally.add("the controller", what, "traceback", done.stderr[-400:])
        elif done.returncode or len(runs) != 2 or problems:
            words_of = f"status {done.returncode}, {len(runs)} runs of 2, {problems}: {done.stderr[-300:]}"
            tally.add("the controller", what, "silent", words_of)
        else:
            tally.add("the controller", what, "survived")


def _stub_rows(table: Path) -> str:
    """Return the rows of a run table whose ranks are no real ones."""
    lines = table.read_text().splitlines()
    return "\n".join(line for line in lines if "\treal\t" not in line) + "\n"
