"""Monotonic time, kept apart by phase (the habit of google-research/big_vision: utils.py, Chrono)."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


def monotonic_s() -> float:
    """Return the monotonic clock [s]; ranks and supervisor of one node share it."""
    return time.monotonic()


@dataclass
class Stretch:
    """One stretch of time; its length is known when it has ended."""

    seconds: float = 0.0


class Chrono:
    """Adds up the time spent in named phases that do not overlap."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._phase: str | None = None

    @contextmanager
    def phase(self, name: str) -> Iterator[Stretch]:
        """Count the time of the block for the phase ``name``; yields this one stretch of it."""
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
