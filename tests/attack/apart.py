"""Calls that may hang, die or take all memory, each in a fork of its own; and what they said."""

import contextlib
import os
import pickle
import resource
import select
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from hpcai.core.errors import HpcaiError

Ending = Literal["returned", "refused", "traceback", "hung", "died"]
SETTLE_S = 5.0


@dataclass(frozen=True)
class Outcome:
    """How a call ended: what it returned (as far as it can be passed on), or the words of its error.

    Attributes
    ----------
    ending
        refused: with an error of ours; died: by a signal, for want of memory for example.
    value, words
        What it returned; its error, or the end of its traceback.
    output
        What it printed.
    """

    ending: Ending
    value: Any = None
    words: str = ""
    output: str = ""


def call_apart(
    function: Callable[[], Any], *, limit_s: float = 60, memory_bytes: int | None = None, uid: int | None = None
) -> Outcome:
    """Call a function in a fork of this process.

    Parameters
    ----------
    function
        What is called; it may leave anything behind but in memory.
    limit_s
        After so long it hangs, and is ended with all that it started.
    memory_bytes
        So much memory it may take beyond what this process has.
    uid
        Be this user, without further groups; only root can.
    """
    with TemporaryDirectory(prefix="hpcai-attack-") as folder:
        Path(folder).chmod(0o777)
        answer, output = Path(folder, "answer"), Path(folder, "output")
        child = os.fork()
        if child == 0:
            _become(function, answer, output, memory_bytes, uid)
        status = _wait(child, limit_s)
        printed = output.read_text(errors="replace") if output.exists() else ""
        if status is None:
            return Outcome("hung", words=f"no end after {limit_s:g} s", output=printed)
        if not answer.exists():
            return Outcome("died", words=f"ended by status {status}", output=printed)
        ending, value, words = pickle.loads(answer.read_bytes())
        return Outcome(ending, value, words, printed)


def _become(function: Callable[[], Any], answer: Path, output: Path, memory_bytes: int | None, uid: int | None) -> None:
    """Be the child: call, write the answer, end."""
    os.setsid()
    with output.open("wb") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    if memory_bytes is not None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + memory_bytes, used + memory_bytes))
    if uid is not None:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    found: tuple[Ending, Any, str]
    try:
        found = ("returned", function(), "")
    except HpcaiError as error:
        found = ("refused", None, f"{type(error).__name__}: {error}")
    except SystemExit as error:
        found = ("returned", error.code or 0, "")
    except BaseException:  # whatever it is, the attack goes on and tells of it
        found = ("traceback", None, "".join(traceback.format_exc().splitlines(keepends=True)[-8:]))
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
    try:
        data = pickle.dumps(found)
    except Exception:  # what cannot be passed on is not needed either
        data = pickle.dumps((found[0], None, found[2]))
    with contextlib.suppress(BaseException):
        partial = answer.with_suffix(".part")
        partial.write_bytes(data)
        partial.rename(answer)
    os._exit(0)


def _wait(child: int, limit_s: float) -> int | None:
    """Return the child's exit status; None after ending it, if it did not end by itself."""
    ended = os.pidfd_open(child)
    try:
        if _is_over(ended, limit_s):
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        _is_over(ended, SETTLE_S)
        os.waitpid(child, 0)
        return None
    finally:
        os.close(ended)


def _is_over(process: int, limit_s: float) -> bool:
    return bool(select.select([process], [], [], limit_s)[0])
