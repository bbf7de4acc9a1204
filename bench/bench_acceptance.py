"""Losses that an acceptance finds, by simulation: of 3, 8 and 64 nodes, one is slower in one measurement.

The rule is the acceptance's own with its default settings. The noise of nodes that take turns was measured on the test
cluster (`tests/unit/acceptance_factory.py`); that of others is what the acceptance aims at. A loss counts as found with
a power if that share of the simulated fleets shows it.
"""

import math
import sys
from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from unit.acceptance_factory import (
    HEAVY_TAIL,
    PASS_DRIFT,
    SHAMOS_OF_TAIL,
    TURN_NOISE,
)

from hpcai.config.acceptance import Acceptance
from hpcai.metrics.statistics.fleet import LEAST_FLEET, FleetTest, place_in_fleet

COMPARISONS = {3: 42, 8: 156, 64: 1312}
"""By nodes: ten measurements of each, its best pair (latency, bandwidth), pairs of up to eight rounds, rings."""
SPREADS = (0.005, 0.01)
"""Standard deviations between healthy nodes."""
POWERS = (0.8, 0.9)
FLEETS, HEALTHY_FLEETS = 400, 4000
LOSSES = np.arange(0.01, 0.401, 0.005)
NOISE, REPEATS = 0.05, 40
"""Of nodes at once: such noise has a standard error of 1 %, where the acceptance stops."""


@dataclass(frozen=True)
class Fleet:
    """Nodes that are alike, how they are measured, and what is assumed of them."""

    name: str
    nodes: int
    spread: float
    passes: int = 0
    assumed_ratio: float = Acceptance().assumed_spread_ratio

    def values(self, random: np.random.Generator) -> NDArray[np.float64]:
        """Return logarithms of the repetitions of each node."""
        count, noise = (self.passes, TURN_NOISE) if self.passes else (REPEATS, NOISE)
        tail = random.standard_t(HEAVY_TAIL, (self.nodes, count)) / SHAMOS_OF_TAIL
        drift = PASS_DRIFT * random.standard_normal(count) if self.passes else 0.0
        return noise * tail + drift + self.spread * random.standard_normal((self.nodes, 1))

    def found(self, logs: NDArray[np.float64]) -> list[bool]:
        """Return for each node whether it counts as suspicious or broken."""
        limits = Acceptance()
        values = {str(number): own for number, own in enumerate(np.exp(logs))}
        test = FleetTest(COMPARISONS[self.nodes], self.assumed_ratio)
        places = place_in_fleet(values, test, lower_is_better=False, in_passes=bool(self.passes))  # type: ignore[arg-type]
        return [
            one.loss_ratio >= limits.suspicious_ratio and one.p_value < limits.false_alarm_ratio
            for one in places.values()
        ]


FLEETS_TO_TRY = (
    *(
        Fleet(f"{passes} turns, same host", 3, 0.0, passes, assumed_ratio=assumed_ratio)
        for passes in (6, 12)
        for assumed_ratio in (0.02, 0.005)
    ),
    *(Fleet("at once", nodes, spread) for nodes in COMPARISONS for spread in SPREADS),
)


def main() -> None:
    """Print a row for each fleet."""
    print(f"{'nodes':>5s}  {'measured':24s} {'spread':>6s} {'assumed':>7s} ", end="")
    print(*(f"{f'found, {power:.0%}':>11s}" for power in POWERS), f"{'false alarms':>12s}")
    for fleet in FLEETS_TO_TRY:
        assumed = f"{fleet.assumed_ratio:.1%}" if fleet.nodes < LEAST_FLEET else "-"
        print(f"{fleet.nodes:5d}  {fleet.name:24s} {fleet.spread:6.1%} {assumed:>7s} ", end="", flush=True)
        print(*(f"{loss:11.1%}" for loss in losses_found(fleet)), say_false_alarms(fleet), flush=True)


def losses_found(fleet: Fleet) -> list[float]:
    """Return the least loss of one node that is found with each power; infinity beyond all that were tried."""
    random = np.random.default_rng(20261127)
    fleets = [fleet.values(random) for _ in range(FLEETS)]

    def share(loss: float) -> float:
        return float(np.mean([fleet.found(_slowed(one, loss))[0] for one in fleets]))

    places = [bisect_left(LOSSES, power, key=share) for power in POWERS]  # a larger loss is found more often
    return [float(LOSSES[place]) if place < len(LOSSES) else math.inf for place in places]


def _slowed(logs: NDArray[np.float64], loss: float) -> NDArray[np.float64]:
    slowed = logs.copy()
    slowed[0] += math.log1p(-loss)
    return slowed


def say_false_alarms(fleet: Fleet) -> str:
    """Return how many comparisons of healthy nodes raised an alarm."""
    random = np.random.default_rng(1)
    fleets = HEALTHY_FLEETS * 3 // fleet.nodes
    alarms = sum(sum(fleet.found(fleet.values(random))) for _ in range(fleets))
    return f"{alarms} of {fleets * fleet.nodes}"


if __name__ == "__main__":
    main()
