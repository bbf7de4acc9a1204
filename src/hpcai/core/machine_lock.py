"""A lock that allows one timed measurement at a time on this node, because concurrent work distorts it."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hpcai.core.disturbance import Disturbance, disturbance_of, look, use_since
from hpcai.core.errors import LaunchError
from hpcai.core.messages import Message

WAITS = Message("machine_lock.waits", "waiting for another run or measurement on this machine to end")

PLACE = "/dev"
"""The folder to lock. The kernel creates one per node: all users and jobs there see the same one, no other node does,
and nobody can replace it by a link or a file. Nothing is written to it.
"""
PLACE_VARIABLE = "HPCAI_LOCK_FOLDER"
"""Names another folder; for tests, whose workers time nothing."""


@dataclass
class Watch:
    """Use of this node by others during a measurement, not counting this process and its children.

    Empty until the measurement has ended.
    """

    disturbance: tuple[Disturbance, ...] = ()


@contextmanager
def machine_to_itself(say: Callable[[str], object]) -> Iterator[Watch]:
    """Wait until nothing else is timed on this node, by any user or workflow.

    The lock is released when its process ends, in any way. Taking it twice in one process deadlocks.

    Parameters
    ----------
    say
        Called once, with a sentence, if the lock is taken.

    Raises
    ------
    LaunchError
        If the node's folder cannot be opened or locked.
    """
    with _opened_place() as (place, lock):
        _take(place, lock, say)
        watch, start = Watch(), look()
        yield watch
        watch.disturbance = disturbance_of([use_since(start)])


@contextmanager
def _opened_place() -> Iterator[tuple[str, int]]:
    """Open the folder to lock: read-only, so that all users may, and never through a link."""
    place = os.environ.get(PLACE_VARIABLE, PLACE)
    try:
        lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise _no_lock(place, error) from error
    try:
        yield place, lock
    finally:
        os.close(lock)


def _take(place: str, lock: int, say: Callable[[str], object]) -> None:
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(WAITS())
            fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:
        raise _no_lock(place, error) from error


def _no_lock(place: str, error: OSError) -> LaunchError:
    return LaunchError(
        f"{place}: cannot be locked ({error.strerror or error}), expected a folder that every user of this node may "
        f"read and lock (flock), so that only one measurement runs at a time; unset {PLACE_VARIABLE} if it is set, "
        f"otherwise ask the administrator of this node"
    )
