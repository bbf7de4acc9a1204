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
"""Rounds end when the standard errors of step and of the sum of blocks, over the step, are below.

What a round does to everything counts for neither: it says nothing of their ratio, and more rounds do not lessen it.
"""
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
    for call in calls.values():
        call()
    lengths = [len(run()[0]) for run in passes]
    rounds: list[Floats] = []
    until_s = time.monotonic() + enough_s
    gc.collect()
    gc.disable()
    while len(rounds) < ROUNDS[1]:
        called = [cpu_time_s(call) for call in calls.values()]
        rounds.append(np.concatenate([called, *(run()[0] for run in passes)]))
        if len(rounds) >= ROUNDS[0] and (time.monotonic() >= until_s or _is_certain(rounds, list(calls), counts)):
            break
    gc.enable()
    own, rest = np.split(typical_times(np.array(rounds)), [len(calls)])
    parts = np.split(rest, np.cumsum(lengths)[:-1])
    return Timed(dict(zip(calls, own.tolist(), strict=True)), parts, len(rounds))


def _is_certain(rounds: Sequence[Floats], calls: Sequence[Any], counts: Sequence[int]) -> bool:
    times_s = np.array(rounds)
    times_s = times_s / _effects(times_s)[:, None]
    is_step = np.array([key == "step" for key in calls])
    called, blocks = times_s[:, : len(calls)], times_s[:, len(calls) :][:, : len(counts)]
    sums = blocks @ np.array(counts) + called[:, ~is_step].sum(axis=1)
    whole = called[:, is_step].sum(axis=1) if is_step.any() else sums
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
    return np.asarray(np.median(times_s / _effects(times_s)[:, None], axis=0))


def _effects(times_s: Floats) -> Floats:
    """Return by what factor each round slows all that is timed in it; the usual one is 1."""
    effects = np.ones(len(times_s))
    for _ in range(SWEEPS):
        found = np.median(times_s / effects[:, None], axis=0)
        told = found > 0
        if not told.any():
            break
        effects = np.median(times_s[:, told] / found[told], axis=1)
        effects /= np.median(effects)
    return effects
