"""One writer per run folder: a claim file names the process at work, and later ones wait until it ends."""

import json
import logging
import math
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hpcai.core.errors import DatasetError, ResultsError, RunRefusedError
from hpcai.core.files import NO_SPACE, why_full
from hpcai.core.messages import Message, at
from hpcai.measure.claim_holder import Holder, Life, life_here, life_in_slurm, parse_holder, this_process
from hpcai.measure.interruption import Signals, ended_by_signals

CLAIM = "claim.json"
REFRESH_S = 10.0
"""Interval at which a holder refreshes its claim."""
STALE_S = 120.0
"""Without other evidence, a claim counts as abandoned after this time without change: network file systems may serve
cached data for up to 60 s (nfs(5), acregmax), and a busy node may skip a few refreshes."""
QUIET_S = 30.0
"""The same, if Slurm reports that the holder's job has ended: processes on a node that Slurm lost may continue."""
WAIT_S = 2.0
SLOW_S = 2.0
"""Checking a claim takes milliseconds. If it takes seconds, the file server is unreachable. The holder cannot refresh
its claim then either, so its patience starts again."""
ASK_S = 30.0
"""Interval at which Slurm is asked about a holder."""
TELL_S = 60.0
_PATIENCE_S: dict[Life, Callable[[], float]] = {
    "gone": lambda: 0.0,
    "ended": lambda: QUIET_S,
    "unknown": lambda: STALE_S,
    "alive": lambda: math.inf,
}
logger = logging.getLogger(__name__)
TAKEN_OVER = Message(
    "claim.taken_over",
    "this process sent no heartbeat for some time, and another one took over the run; this attempt is not published",
)
FULL = Message(
    "claim.full",
    "no room for {file} and what belongs to it ({reason}); make room there, and start the workflow again",
)


class Claim:
    """The claim of this process on one folder."""

    def __init__(self, path: Path, holder: Holder) -> None:
        self.path, self.holder = path, holder
        # Every claim is unique, even among claims of one process.
        self.content = (json.dumps({**holder.to_json(), "token": secrets.token_hex(8)}) + "\n").encode()
        self._lost, self._ended = False, threading.Event()

    def require(self) -> None:
        """Raise RunRefusedError if another process has taken over the claim; reads no file."""
        if self._lost:
            raise RunRefusedError(at(str(self.path.parent), TAKEN_OVER()))

    def confirm(self) -> None:
        """Check on disk that the claim is still held, and raise RunRefusedError if not.

        Raises
        ------
        OSError
            If the folder cannot be read.
        """
        self._lost = self._lost or not self._is_held()
        self.require()

    @contextmanager
    def refreshed(self) -> Iterator[None]:
        """Keep the claim fresh while the block runs."""
        thread = threading.Thread(target=self._refresh, name="claim", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            # Otherwise the refresh might find the claim missing and take it again.
            thread.join()
            self._let_go()

    def _refresh(self) -> None:
        while not self._lost and not self._ended.wait(REFRESH_S):
            try:
                self._lost = not self._is_held()
                if not self._lost:
                    os.utime(self.path)
            except OSError as error:
                logger.warning("%s: the claim cannot be refreshed now (%s)", self.path, error.strerror)

    def _is_held(self) -> bool:
        # A claim that was removed by hand is claimed again, which reveals whether another process came in between.
        # `confirm` and the thread that refreshes the claim may do so at the same moment: only the content tells.
        while (seen := _look(self.path)) is None:
            if _put(self.content, self.path):
                return True
        return seen.content == self.content

    def _let_go(self) -> None:
        with suppress(OSError), _alone_at(self.path):
            if self.path.read_bytes() == self.content:
                self.path.unlink()


@contextmanager
def claimed(folder: Path, say: Callable[[str], object] = logger.info) -> Iterator[Claim]:
    """Hold the claim on a run folder while the block runs; first wait for any other process there.

    Parameters
    ----------
    folder
        Folder of the run or group; created if missing.
    say
        Called with the reason for waiting, at once and every minute.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    claim = Claim(folder / CLAIM, this_process())
    _take(claim, say)
    with claim.refreshed():
        yield claim


@dataclass(frozen=True)
class Guard:
    """External events that may end a measurement: a takeover by another process, and signals."""

    claim: Claim
    signals: Signals


@contextmanager
def at_work(name: str, folder: Path, say: Callable[[str], object]) -> Iterator[Guard]:
    """Hold a results folder while the block works on it; signals and a full file system give a one-sentence error.

    Parameters
    ----------
    name
        Name of the run or group, for the message of an interruption.
    folder
        Folder of the run or group.
    say
        Called with the reason for waiting.
    """
    with ended_by_signals(name) as signals, results_written(folder), claimed(folder, say) as claim:
        yield Guard(claim, signals)


@contextmanager
def results_written(folder: Path) -> Iterator[None]:
    """Turn failures to write a results folder into one clear sentence.

    Raises
    ------
    ResultsError
        If the system refuses a read or write in the block.
    """
    try:
        yield
    except OSError as error:
        raise ResultsError(
            f"{error.filename or folder}: {error.strerror or error}, so that {folder} could not be completed; make "
            "room or repair the file system, then start the workflow again"
        ) from error


def make_once(output: Path, make: Callable[[], object]) -> None:
    """Make something that only one process may make at a time, such as a dataset; a second process waits and reuses it.

    A job left over from a lost controller may still be making it.

    Parameters
    ----------
    output
        File written last, when everything else in its folder is complete.
    make
        Writes the file.

    Raises
    ------
    DatasetError
        If the file system or the user's quota is full, besides the errors of ``make``.
    """
    with _room_for(output), claimed(output.parent, logger.info) as claim:
        if output.exists():
            logger.info("%s: was made by another process in the meantime", output)
            return
        make()
        claim.confirm()


@contextmanager
def _room_for(output: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # HDF5 has its own words for the number, and other libraries may lose it.
        reason = os.strerror(error.errno) if error.errno in NO_SPACE else why_full(output.parent)
        if not reason:
            raise
        raise DatasetError(at(str(output.parent), FULL(file=output.name, reason=reason))) from error


def holder_of(folder: Path) -> Holder | None:
    """Return the holder of the claim on a folder, alive or not; None without a claim."""
    seen = _look(folder / CLAIM)
    return parse_holder(seen.content) if seen else None


def live_holder(folder: Path) -> Holder | None:
    """Return the process at work on a folder, as far as can be determined at once; None without one.

    If neither this node nor Slurm knows, a claim younger than ``STALE_S`` by this node's clock counts as alive.
    """
    seen = _look(folder / CLAIM)
    if seen is None:
        return None
    holder = parse_holder(seen.content)
    life = life_here(holder)
    life = life_in_slurm(holder) if life == "unknown" else life
    if life == "unknown":
        life = "alive" if time.time() - seen.changed_ns / 1e9 < STALE_S else "gone"
    return holder if life == "alive" else None


@dataclass(frozen=True)
class _Seen:
    """A claim as last read."""

    content: bytes
    changed_ns: int


def _look(path: Path) -> _Seen | None:
    # Opening a file asks the file server; checking its name may return data a minute old (nfs(5)).
    try:
        with path.open("rb") as stream:
            return _Seen(stream.read(), os.fstat(stream.fileno()).st_mtime_ns)
    except FileNotFoundError:
        return None


class _Judge:
    """Judges from several reads whether a claim was abandoned; times are those of this process."""

    def __init__(self) -> None:
        self._seen: _Seen | None = None
        self._since_s, self._ask_at_s = 0.0, 0.0
        self._in_slurm: Life = "unknown"

    def life(self, seen: _Seen) -> Life:
        now_s, holder = time.monotonic(), parse_holder(seen.content)
        if self._seen is None or seen.content != self._seen.content:
            self._ask_at_s = now_s
        if seen != self._seen:
            self._seen, self._since_s = seen, now_s
        here = life_here(holder)
        if here != "unknown":
            return here
        if now_s >= self._ask_at_s:
            self._in_slurm, self._ask_at_s = life_in_slurm(holder), now_s + ASK_S
        return self._in_slurm

    def start_again(self) -> None:
        """Count the silence of a holder from now on."""
        self._since_s = time.monotonic()

    def is_left_behind(self, life: Life) -> bool:
        return time.monotonic() - self._since_s >= _PATIENCE_S[life]()


def _take(claim: Claim, say: Callable[[str], object]) -> None:
    judge, tell_at_s = _Judge(), time.monotonic()
    while True:
        asked_s = time.monotonic()
        if _put(claim.content, claim.path):
            return
        seen = _look(claim.path)
        if seen is None:
            continue
        # A file server may have performed a request although its answer was lost.
        if seen.content == claim.content:
            return
        was_slow = time.monotonic() - asked_s > SLOW_S
        life = judge.life(seen)
        if was_slow:
            judge.start_again()
        if judge.is_left_behind(life):
            if _take_over(claim, seen):
                logger.warning("%s: was left behind by %s", claim.path, parse_holder(seen.content).words)
                return
            continue
        if time.monotonic() >= tell_at_s:
            say(_wait_words(parse_holder(seen.content), life))
            tell_at_s = time.monotonic() + TELL_S
        time.sleep(WAIT_S)


def _wait_words(holder: Holder, life: Life) -> str:
    if life == "alive":
        return f"waits until {holder.words}, has finished this run (to end it: {holder.remedy})"
    return f"waits until {holder.words}, has finished this run, or has sent no heartbeat for {_PATIENCE_S[life]():g} s"


def _take_over(claim: Claim, judged: _Seen) -> bool:
    """Replace an abandoned claim; if several processes try, one succeeds."""
    with _alone_at(claim.path):
        if _look(claim.path) != judged:
            return False
        draft = _draft(claim.content, claim.path)
        draft.replace(claim.path)
        return True


@contextmanager
def _alone_at(path: Path) -> Iterator[None]:
    """Wait until no other process replaces or removes a claim, which takes a moment.

    A process killed in that moment leaves the gate shut; it is removed after ``STALE_S`` without change.
    """
    gate = path.with_name(f".{path.name}.gate")
    seen, since_s = 0, time.monotonic()
    while True:
        asked_s = time.monotonic()
        with suppress(FileExistsError):
            gate.mkdir()
            break
        with suppress(FileNotFoundError):
            changed = gate.stat().st_ctime_ns
            if changed != seen or time.monotonic() - asked_s > SLOW_S:
                seen, since_s = changed, time.monotonic()
            if time.monotonic() - since_s >= STALE_S:
                gate.rmdir()
        time.sleep(0.05)
    try:
        yield
    finally:
        with suppress(FileNotFoundError):
            gate.rmdir()


def _put(content: bytes, path: Path) -> bool:
    """Create a file atomically if it does not exist; return False if it does (link(2))."""
    if path.exists():
        return False
    draft = _draft(content, path)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def _draft(content: bytes, path: Path) -> Path:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(descriptor, 0o644)
            stream.write(content)
    except BaseException:
        draft.unlink()
        raise
    return draft
