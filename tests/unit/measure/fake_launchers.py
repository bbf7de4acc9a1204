"""Launchers that only tests have."""

from collections.abc import Callable

from hpcai.launchers.declaration import Launcher
from hpcai.launchers.ranks import Ranks


def fake(command: Callable[[Ranks], list[str]]) -> Launcher:
    """Return a launcher of which nothing but its command is known."""
    return Launcher("of a test", command, programs=(), rank_variables=(), local_rank_variables=())
