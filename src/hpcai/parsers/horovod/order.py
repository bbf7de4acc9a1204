"""Check event order in a Horovod timeline: one lock guards the writer, so times must not decrease."""

import numpy as np

from hpcai.parsers.horovod.events import Events, Gap, no_events
from hpcai.parsers.horovod.words import Codes, Places

SLACK_US = 100
"""Tolerated disorder; files of Horovod 0.16 to 0.28 show none."""


MISPLACED = "an event whose time does not fit its neighbours"
BACKWARDS = "time that runs backwards"


class Ordering:
    """Concatenates blocks, finds events with impossible times, and numbers the text between gaps.

    The last event waits for its successor, which reveals a time that is too late.
    """

    def __init__(self) -> None:
        self._waiting = no_events()
        self._before_us = -(1 << 62)
        self._era = 0

    def add(self, blocks: list[Events], *, is_last: bool) -> tuple[Events, Codes, list[Gap]]:
        """Return the next events, the number of gaps before each, and the gaps.

        Parameters
        ----------
        blocks
            Blocks in the order of the file.
        is_last
            Whether these are the last blocks.
        """
        parts = [self._waiting, *blocks]
        offsets = np.cumsum([0, *(len(part.kinds) for part in parts)])
        gaps = [
            Gap(gap.before + int(offset), gap.place, gap.reason)
            for part, offset in zip(parts, offsets, strict=False)
            for gap in part.gaps
        ]
        columns = [np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS]
        times, count = columns[1], len(columns[1])
        misplaced, turns = _find_misplaced(times, self._before_us, is_last=is_last)
        gaps += [Gap(row, int(times[row]), MISPLACED, is_time=True) for row in misplaced]
        gaps += [Gap(row, int(times[row]), BACKWARDS, is_time=True) for row in turns]
        ready = count
        self._waiting = no_events()
        if not is_last:
            ready = max(count - 1, 0)
            later = [gap for gap in gaps if gap.before >= count]
            gaps = [gap for gap in gaps if gap.before < count]
            self._waiting = Events(*(column[-1:] for column in columns))
            self._waiting.gaps = [Gap(min(count, 1), gap.place, gap.reason, gap.is_time) for gap in later]
        eras = self._number_eras(gaps, count)
        for gap in gaps:
            gap.around_us = _around(times, gap.before, self._before_us)
        columns, eras = [column[:ready] for column in columns], eras[:ready]
        if misplaced:
            keep = np.ones(count, np.bool_)
            keep[misplaced] = False
            columns, eras = [column[keep[:ready]] for column in columns], eras[keep[:ready]]
        if len(eras):
            self._before_us = int(columns[1][-1])
        return Events(*columns), eras, gaps

    def _number_eras(self, gaps: list[Gap], count: int) -> Codes:
        eras = np.full(count, self._era, np.int32)
        for gap in gaps:
            eras[gap.before :] += 1
        self._era += len(gaps)
        return eras


_COLUMNS = ("kinds", "times_us", "tensors", "codes")


def _find_misplaced(times: Places, before_us: int, *, is_last: bool) -> tuple[list[int], list[int]]:
    """Return events outside the times of both neighbours, and positions where time decreases for good."""
    misplaced: list[int] = []
    turns: list[int] = []
    all_times = np.concatenate([[before_us], times])
    for late in np.flatnonzero(all_times[1:] < all_times[:-1] - SLACK_US):
        early = int(late)  # index of the earlier time in `times`, one less than in `all_times`
        if early and times[early] >= all_times[late - 1] - SLACK_US:
            misplaced.append(early - 1)
        elif early + 1 < len(times):
            fits = times[early + 1] >= all_times[late] - SLACK_US
            (misplaced if fits else turns).append(early)
        elif is_last:
            misplaced.append(early)
    return misplaced, turns


def _around(times: Places, before: int, before_us: int) -> tuple[int, int]:
    """Return the times of the events around a gap; a missing neighbour gives zero length on that side."""
    near = times[max(before - 1, 0) : before + 2]
    low = before_us if before == 0 and before_us > 0 else int(near.min(initial=1 << 62))
    return (min(low, int(near.max(initial=low))), int(near.max(initial=low)))
