"""Two users on one machine: whose runs are timed when, and what one of them can do to the other's files."""

import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

from attack.apart import call_apart
from attack.tally import Tally
from unit.campaign.result_folders import finish_run
from unit.record_factory import make_plan

# Another user may not be allowed to read the Python of this one: what commands import late is there before.
import hpcai.campaign.screen  # noqa: F401
from hpcai.__main__ import main
from hpcai.config.machine import scratch_path
from hpcai.core.errors import HpcaiError
from hpcai.core.machine_lock import PLACE, PLACE_VARIABLE, machine_to_itself
from hpcai.data.stage_folder import claim_stage, clean_stage, sweep_stages
from hpcai.launchers.ranks import Ranks
from hpcai.measure.nodes import prepare_nodes

ONE, OTHER = 65533, 65534
"""Users without a name and without rights."""
TIMED_S = 0.5
PRECIOUS = b"x" * 700


def attack(random_numbers: random.Random, count: int) -> Tally:
    """Let two users time runs at once, and let one of them lay traps for the other; only root can become both.

    Parameters
    ----------
    random_numbers
        Who comes first, and with which folder for temporary files.
    count
        How often.
    """
    tally = Tally("two users")
    if os.geteuid() != 0:
        print("two users: not tried, because only root can become another user", flush=True)
        return tally
    for _ in range(count):
        for real in (False, True):
            _time_together(tally, random_numbers, real=real)
        for name, trap in TRAPS.items():
            _fall_in(tally, name, trap)
        _read_others(tally)
    return tally


@contextmanager
def _shared() -> Iterator[Path]:
    """Give a folder like /tmp: everybody may write, nobody may remove what is not theirs."""
    folder = Path(tempfile.mkdtemp(prefix="hpcai-attack-users-"))
    folder.chmod(0o1777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _time_together(tally: Tally, random_numbers: random.Random, *, real: bool) -> None:
    """Both users time something at once: in one place of the machine's lock, with folders for temporary files apart."""
    with _shared() as place:
        lock = Path(tempfile.mkdtemp(prefix="hpcai-attack-lock-"))
        lock.chmod(0o755)
        log = place / "times"
        log.touch()
        log.chmod(0o666)
        users = [ONE, OTHER, ONE, OTHER]
        random_numbers.shuffle(users)
        children = [_fork(partial(_time_something, log, place, PLACE if real else str(lock)), uid) for uid in users]
        statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        lock.rmdir()
        spans = sorted(json.loads(line) for line in log.read_text().splitlines())
    together = [(a, b) for a, b in pairwise(spans) if b[0] < a[1]]
    what = f"four runs of two users, lock on {PLACE if real else 'a folder'}"
    if any(statuses) or len(spans) != len(users):
        tally.add("the machine's lock", what, "silent", f"exit statuses {statuses}, {len(spans)} were timed")
    else:
        tally.add("the machine's lock", what, "silent" if together else "survived", f"at the same time: {together}")


def _fork(function: Callable[[], object], uid: int) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        function()
        status = 0
    finally:
        os._exit(status)


def _time_something(log: Path, place: Path, lock: str) -> None:
    own = place / f"tmp-{os.getpid()}"
    own.mkdir()
    os.environ["TMPDIR"], os.environ[PLACE_VARIABLE], tempfile.tempdir = str(own), lock, None
    with machine_to_itself(lambda _: None):
        start_s = time.monotonic()
        time.sleep(TIMED_S)
        span = json.dumps([start_s, time.monotonic()])
    with log.open("a") as stream:
        stream.write(span + "\n")


def _link_at(place: Path, target: Path) -> None:
    place.symlink_to(target)


def _file_at(place: Path, _: Path) -> None:
    place.write_bytes(b"mine")


def _folder_at(place: Path, _: Path) -> None:
    place.mkdir(mode=0o777)
    place.chmod(0o777)


def _closed_at(place: Path, _: Path) -> None:
    place.mkdir(mode=0o700)


def _marked_at(place: Path, target: Path) -> None:
    """A folder that looks like one that was staged to, with a link to what belongs to the other user."""
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    stage = place / "20260101T000000Z-abcdef"
    stage.mkdir()
    (stage / ".hpcai-stage").touch()
    (stage / "train").symlink_to(target)


TRAPS = {
    "a link": _link_at, "a file": _file_at, "an open folder": _folder_at, "a closed folder": _closed_at,
    "staged links": _marked_at,
}  # fmt: skip
"""What the other user put in the place of the scratch folder; the second argument is a folder of the victim."""


def _fall_in(tally: Tally, name: str, trap: Callable[[Path, Path], None]) -> None:
    """The other user lays a trap where this one's scratch folder will be; then this one measures."""
    with _shared() as place:
        home = place / "home"
        home.mkdir(mode=0o700)
        (home / "results.csv").write_bytes(PRECIOUS)
        for path in (home, home / "results.csv"):
            os.chown(path, ONE, ONE)
        scratch = place / Path(scratch_path("/x/hpcai-${UID}")).name.replace("0", str(ONE))
        call_apart(partial(trap, scratch, home), uid=OTHER)
        outcome = call_apart(partial(_stage, scratch), uid=ONE)
        harmed = not (home / "results.csv").exists() or (home / "results.csv").read_bytes() != PRECIOUS
        theirs = _is_others(scratch) and any(scratch.glob("run/*")) if not scratch.is_symlink() else False
    what = f"{name} in the place of the scratch folder"
    if outcome.ending == "traceback":
        tally.add("scratch", what, "traceback", outcome.words)
    elif harmed:
        tally.add("scratch", what, "silent", "files of this user were harmed")
    else:
        words = f"{outcome.ending}: {outcome.value or outcome.words}"
        tally.add("scratch", what, "noticed" if outcome.ending == "refused" else "survived", f"{words} {theirs}")


def _is_others(path: Path) -> bool:
    return path.exists() and path.stat().st_uid != ONE


def _stage(scratch: Path) -> str:
    """Do with a scratch folder what a run does before, while and after its ranks are at work."""
    ranks = Ranks.of(make_plan())
    report = prepare_nodes("mpirun", ranks, scratch / "run", [])
    problem = " ".join(node.problem for node in report.nodes)
    sweep_stages(scratch)
    try:
        claim_stage(scratch / "run")
        (scratch / "run/train").mkdir(exist_ok=True)
        clean_stage(scratch / "run")
    except OSError as error:
        raise HpcaiError(f"{problem}; {error}") from error
    return problem or "staged and cleaned"


def _read_others(tally: Tally) -> None:
    """This user calls every command on results that belong to the other, who lets nobody read or write them."""
    commands = ["doctor", "status", "restore", "retry", "discard", "efficiency", "compare"]
    for mode, words in ((0o755, "that may be read"), (0o700, "that may not be read")):
        with _shared() as place:
            results = place / "results"
            run = finish_run(results)
            before = (run / "record.json").read_bytes()
            for path in (results, *results.rglob("*")):
                os.chown(path, OTHER, OTHER)
                path.chmod(mode if path.is_dir() else mode & 0o644)
            for command in commands:
                folder = str(run if command in {"restore", "discard"} else results)
                more = ["--reason", "x"] if command == "discard" else [folder] if command == "compare" else []
                outcome = call_apart(partial(_hpcai, command, folder, *more), uid=ONE)
                text = f"{outcome.ending} {outcome.value} {outcome.words} {outcome.output}"
                what = f"hpcai {command} on another user's results {words}"
                if outcome.ending != "returned" or "Traceback (most recent" in text:
                    tally.add("results", what, "traceback", text)
                elif not run.exists() or (run / "record.json").read_bytes() != before:
                    tally.add("results", what, "silent", "the results were changed")
                else:
                    tally.add("results", what, "noticed" if outcome.value else "harmless", text)


def _hpcai(*words: str) -> int:
    sys.argv = ["hpcai", *words]
    return main()
