"""Rounds in which calls and blocks are timed once each, and the time of each over all rounds.

What disturbs the machine meets all that is timed in a round: its effect on the round is taken out before the median
over rounds is taken (median polish; Tukey, Exploratory Data Analysis, 1977, chapter 11).
"""

import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hpcai.machine.kernels.process import cpu_time_s

if TYPE_CHECKING:
    from hpcai.machine.blocks.compile import Pass

Call = Callable[[], object]
Floats = NDArray[np.float64]
CERTAIN_RATIO = 0.003
"""Rounds end when the standard errors of step and of the sum of blocks, over the step, are below."""
ROUNDS = (7, 60)
"""At least, at most."""
SWEEPS = 10
"""Of median polish: it has settled to a thousandth long before."""


@dataclass(frozen=True)
class Timed:
    """What rounds say.

    Attributes
    ----------
    calls_s
        CPU time of each call, by key [s].
    passes_s
        Times of the blocks of each pass [s]; 0 where the clock did not advance.
    rounds
        How many there were.
    """

    calls_s: Mapping[Any, float]
    passes_s: Sequence[Floats]
    rounds: int


def time_in_turn(calls: Mapping[Any, Call], passes: Sequence["Pass"], counts: Sequence[int], enough_s: float) -> Timed:
    """Time calls and blocks once in every round, until the step and the sum of the others are certain or time is up.

    Parameters
    ----------
    calls
        By key; that of the step is ``step``, which may be missing.
    passes
        Each computes blocks.
    counts
        How often each block of the first pass counts in the sum.
    enough_s
        At most so long, but never fewer rounds than :data:`ROUNDS` says [s].
    """
    times: dict[Any, list[float]] = {key: [] for key in calls}
    blocks: list[list[Floats]] = [[] for _ in passes]
    for call in (*calls.values(), *passes):
        call()
    until_s = time.monotonic() + enough_s
    gc.collect()
    gc.disable()
    for number in range(1, ROUNDS[1] + 1):
        for key, call in calls.items():
            times[key].append(cpu_time_s(call))
        for place, run in enumerate(passes):
            blocks[place].append(run()[0])
        if number >= ROUNDS[0] and (time.monotonic() >= until_s or _is_certain(times, np.array(blocks[0]) @ counts)):
            break
    gc.enable()
    called = np.array(list(times.values())).reshape(len(times), number).T
    found = typical_times(np.hstack([called, *map(np.array, blocks)]))
    own, *parts = np.split(found, np.cumsum([called.shape[1], *(len(one[0]) for one in blocks)])[:-1])
    return Timed(dict(zip(times, own.tolist(), strict=True)), parts, number)


def _is_certain(times: Mapping[Any, Sequence[float]], blocks_s: Floats) -> bool:
    sums = blocks_s + sum(np.array(times[key]) for key in times if key != "step")
    whole = np.array(times["step"]) if "step" in times else sums
    errors = [np.median(np.abs(one - np.median(one))) / math.sqrt(len(one)) for one in (sums, whole)]
    # Of normal errors: 1.48 from the median deviation to the standard one, 1.25 from the mean's to the median's.
    return bool(1.48 * 1.25 * max(errors) < CERTAIN_RATIO * np.median(whole))


def typical_times(times_s: Floats) -> Floats:
    """Return the typical time of each column [s]: its median over rounds, without what a round does to all of them.

    Parameters
    ----------
    times_s
        Shape (rounds, columns) [s].
    """
    times_s = np.asarray(times_s, dtype=float)
    found: Floats = np.median(times_s, axis=0)
    told = found > 0
    if not told.any():
        return found
    for _ in range(SWEEPS):
        rounds = np.median(times_s[:, told] / found[told], axis=1)
        rounds /= np.median(rounds)
        found = np.asarray(np.median(times_s / rounds[:, None], axis=0))
        told = found > 0
    return found
