"""Monotonic time per phase (as in google-research/big_vision: utils.py, Chrono)."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache


def monotonic_s() -> float:
    """Return the monotonic clock [s]; ranks and supervisor of one node share it."""
    return time.monotonic()


@dataclass(frozen=True)
class Clocks:
    """Both clocks at one moment: the monotonic one, and the wall clock [s since the Unix epoch]."""

    monotonic_s: float
    wall_s: float


@cache
def clocks() -> Clocks:
    """Return both clocks at the moment of this process's first call."""
    return Clocks(monotonic_s(), time.time())


def stamp_ms() -> int:
    """Return a time stamp [ms since the Unix epoch] whose differences follow the monotonic clock.

    It is the wall clock of :func:`clocks` plus the monotonic time since. If a person or daemon adjusts the wall clock
    meanwhile, durations do not change.
    """
    start = clocks()
    return int((start.wall_s + monotonic_s() - start.monotonic_s) * 1000)


@dataclass
class Stretch:
    """One interval; its length is known after its end."""

    seconds: float = 0.0


class Chrono:
    """Adds up the time spent in named, non-overlapping phases."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._phase: str | None = None

    @contextmanager
    def phase(self, name: str) -> Iterator[Stretch]:
        """Count the block's time for the phase ``name``; yields this interval."""
        if self._phase is not None:
            raise RuntimeError(f"phase {name!r} inside phase {self._phase!r}: phases must not overlap")
        stretch = Stretch()
        self._phase, started_s = name, monotonic_s()
        try:
            yield stretch
        finally:
            stretch.seconds = monotonic_s() - started_s
            self.seconds[name] += stretch.seconds
            self._phase = None
