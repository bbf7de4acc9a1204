"""Programs: their location on the PATH, their exit status, and what one that failed said last."""

import os
import re
import shutil
import signal
import sys
from pathlib import Path

from hpcai.core.errors import LaunchError
from hpcai.core.messages import Message

KILLED = Message("programs.killed", "was ended by {signal_name}")
ENDED = Message("programs.ended", "ended with {status}")
END_LIMIT_S = 5.0
"""Time that our launchers give their ranks to end, as horovodrun does [s]; their supervisor allows more."""
LONGEST_QUOTE = 300
"""Maximum length of quoted output [characters]."""
_ERROR = re.compile(r"^(?:[\w.]+(?:Error|Exception)|E\S*).*", re.MULTILINE)


def find_program(name: str) -> str:
    """Return the path of a program that starts ranks.

    Raises
    ------
    LaunchError
        If it is not installed.
    """
    found = shutil.which(name)
    if found is None:
        raise LaunchError(
            f"{name}: program not found on the PATH; install it or choose another launcher in the profile"
        )
    return found


def let_be_found(*names: str) -> None:
    """Put this Python's folder first on the PATH if programs in it are not found there, or other ones of their names.

    Its environment may not have been activated, or another one may have been. Programs that it lacks do not count.
    """
    folder = str(Path(sys.executable).parent)
    if any(own != shutil.which(name) for name in names if (own := shutil.which(name, path=folder))):
        os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


def shell_status(return_code: int) -> int:
    """Return the exit status in shell convention: 128 + signal for a process ended by a signal."""
    return return_code if return_code >= 0 else 128 - return_code


def say_ending(return_code: int) -> str:
    """Return how a process ended, as the end of a sentence: its exit status, or the signal that ended it."""
    if return_code >= 0:
        return ENDED(status=return_code)
    number = -return_code
    # Real-time signals have no names.
    known = number in set(signal.Signals)
    return KILLED(signal_name=signal.Signals(number).name if known else f"signal {number}")


def last_words(errors: str) -> str:
    """Return the last error that a process printed, or else its last line."""
    lines = _ERROR.findall(errors) or [line for line in errors.splitlines() if line.strip()] or ["nothing was printed"]
    return str(lines[-1]).strip()[:LONGEST_QUOTE]
