"""When a campaign is expected to end: modelled from its own finished runs, never guessed."""

import calendar
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hpcai.campaign.controller_note import UTC
from hpcai.campaign.durations import mean_width
from hpcai.campaign.states import RunState

WAITING = ("not started", "interrupted")
"""States of measurements that are still to be made; what is adoptable takes no time."""


@dataclass(frozen=True)
class Forecast:
    """How long the measurements still take."""

    remaining_s: float | None
    """Modelled; None: not known."""
    basis: str
    """What it rests on, or why it is not known."""


def forecast(states: Sequence[RunState], elapsed_s: Mapping[str, float]) -> Forecast:
    """Return how long the measurements of a campaign still take.

    The median wall time of finished runs of a point stands for each that is left of it; the sum is divided by how
    many ran at the same time on average while any ran. Waiting in queues and the analysis are not in it.

    Parameters
    ----------
    states
        Of all planned measurements.
    elapsed_s
        Of those under way, by folder [s].
    """
    left = [one for one in states if one.state in {*WAITING, "under way"}]
    if not left:
        return Forecast(0.0, "all is measured")
    walls: dict[str, list[float]] = defaultdict(list)
    for one in states:
        if one.state == "finished" and one.wall_s is not None:
            walls[one.folder.point].append(one.wall_s)
    points = sorted({one.folder.point for one in left})
    if unknown := [point for point in points if point not in walls]:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        return Forecast(None, f"no run has finished yet of {unknown[0]}{more}")
    runs = sum(len(walls[point]) for point in points)
    median_s = {point: statistics.median(walls[point]) for point in points}
    each_s = [max(median_s[one.folder.point] - elapsed_s.get(one.folder.name, 0.0), 0.0) for one in left]
    width = mean_width(_spans(states, elapsed_s))
    remaining_s = max([sum(each_s) / width, *each_s])
    basis = f"modelled: median wall times of {runs} finished runs of the same points, {width:.1f} at the same time"
    return Forecast(remaining_s, f"{basis}; without waiting in queues and without the analysis")


def _spans(states: Iterable[RunState], elapsed_s: Mapping[str, float]) -> list[tuple[float, float]]:
    """Return start and end of all runs so far by the wall clock [s]."""
    now = time.time()
    spans = [(now - elapsed, now) for elapsed in elapsed_s.values()]
    for one in states:
        if one.wall_s is not None and one.started_utc:
            start = float(calendar.timegm(time.strptime(one.started_utc, UTC)))
            spans.append((start, start + one.wall_s))
    return spans
