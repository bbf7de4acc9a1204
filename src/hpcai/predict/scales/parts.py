"""Parts of a step at other scales: contention, the slowest rank, and what of the exchange shows."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hpcai.core.messages import Message
from hpcai.predict.scales.exchange import ExchangeTime, exchange_time
from hpcai.predict.what_if.measured import Point
from hpcai.predict.what_if.step_model import FORWARD_RATIO, Setting

if TYPE_CHECKING:
    from hpcai.predict.scales.measured import MeasuredScales

Floats = NDArray[np.float64]
BACKWARD_RATIO = 1 - FORWARD_RATIO
"""Of a micro-batch in a timed step."""
ALONE = Message("scales.alone", "one rank of a node has no contention")
OWN_CONTENTION = Message(
    "scales.own_contention", "contention of {ratio:.3g} from {instances} independent trainings of {benchmark} at once"
)
OTHERS_CONTENTION = Message(
    "scales.others_contention",
    "contention of {ratio:.3g} from {instances} independent trainings of other benchmarks ({benchmarks}) at once",
)
NO_CONTENTION = Message(
    "scales.no_contention",
    "no {instances} independent trainings were measured at once: list them in the study's weak_runs",
)
SLOWEST = Message("scales.slowest", "{ratio:.3g} for waiting until the slowest of {ranks} ranks has computed")
NO_SCATTER = Message("scales.no_scatter", "too few steps of one rank tell how they scatter: no waiting for the slowest")
FACTORS = Message("scales.factor", "{what} of {ratio:.3g} is outside of {low:g} to {high:g}: not believed")
ASSUMED_CORE = Message(
    "scales.assumed_core",
    "assumed, because no run's record tells it: one core of a rank computes and transfers",
)
FACTOR_LIMITS = (0.5, 2.0)


@dataclass(frozen=True)
class Factor:
    """A ratio with what it stands on, or why it is NaN."""

    ratio: float
    basis: str = ""
    reason: str = ""


def contention_of(groups: pd.DataFrame, benchmark: str, instances: int) -> Factor:
    """Return by what factor so many independent trainings on a node slow each other down.

    The benchmark's own groups count; without any, the median of the others'.

    Parameters
    ----------
    groups
        Table ``contention``.
    benchmark
        Which trains.
    instances
        Ranks of a node.
    """
    if instances == 1:
        return Factor(1.0, ALONE())
    known = groups
    if len(groups):
        known = groups[(groups["instances"] == instances) & (groups["ranks"] == 1) & (groups["contention_ratio"] > 0)]
    if known.empty:
        return Factor(math.nan, reason=NO_CONTENTION(instances=instances))
    own = known[known["benchmark"] == benchmark]
    rows = own if len(own) else known
    ratio = float((1 / rows["contention_ratio"]).median())
    low, high = FACTOR_LIMITS
    if not low <= ratio <= high:
        return Factor(math.nan, reason=FACTORS(what="contention", ratio=ratio, low=low, high=high))
    facts = {"ratio": ratio, "instances": instances}
    if len(own):
        return Factor(ratio, OWN_CONTENTION(benchmark=benchmark, **facts))
    names = ", ".join(sorted(set(rows["benchmark"])))
    return Factor(ratio, OTHERS_CONTENTION(benchmarks=names, **facts))


def slowest_of(scatter: Floats | None, ranks: int) -> Factor:
    """Return the median of the slowest of so many ranks over the median of one, if their steps scatter independently.

    Of n independent steps the slowest is below a quantile q with probability q^n: its median is the quantile 0.5^(1/n).

    Parameters
    ----------
    scatter
        Steps of one rank over their median; None: not known, which counts as none.
    ranks
        That wait for each other.
    """
    if ranks == 1:
        return Factor(1.0)
    if scatter is None or not len(scatter):
        return Factor(1.0, NO_SCATTER())
    ratio = float(np.quantile(scatter, 0.5 ** (1 / ranks)))
    low, high = FACTOR_LIMITS
    if not low <= ratio <= high:
        return Factor(math.nan, reason=FACTORS(what="waiting for the slowest", ratio=ratio, low=low, high=high))
    return Factor(ratio, SLOWEST(ratio=ratio, ranks=ranks))


def exposed_exchange_s(exchange: ExchangeTime, backward_s: float, *, shared_core: bool) -> float:
    """Return what messages that become ready at equal intervals of the backward pass add to computing [s].

    The last waits for the last gradient. Where one core computes and transfers, only the waiting happens meanwhile.
    """
    if exchange.messages <= 1:
        return exchange.calls_s
    before = 1 - 1 / exchange.messages
    hidden_s = min(backward_s * before, exchange.waiting_s * before if shared_core else math.inf)
    return max(exchange.calls_s / exchange.messages, exchange.calls_s - hidden_s)


@dataclass(frozen=True)
class Parts:
    """All of a setting but its computing.

    Attributes
    ----------
    shared_core
        Whether one core of a rank computes and transfers.
    core_assumed
        Whether nothing tells that.
    micro_batches
        Of a step. Gradients travel during the backward pass of the last, once the others are added up.
    """

    contention: Factor
    slowest: Factor
    exchange: ExchangeTime
    shared_core: bool
    core_assumed: bool = False
    micro_batches: int = 1

    @property
    def reason(self) -> str:
        """Why a part is not known; blank if all are."""
        return self.contention.reason or self.slowest.reason or self.exchange.reason

    @property
    def basis(self) -> tuple[str, ...]:
        """What the parts stand on; blank where there is none."""
        assumed = f"; {ASSUMED_CORE()}" if self.core_assumed else ""
        return (f"{self.contention.basis}{assumed}", self.slowest.basis, self.exchange.basis)

    def step(self, gradients_s: float, update_s: float) -> tuple[float, float]:
        """Return the step and what it shows of the exchange, of computing without contention [s].

        Computing is that of all micro-batches.
        """
        slower = self.contention.ratio * self.slowest.ratio
        backward_s = slower * gradients_s / self.micro_batches * BACKWARD_RATIO
        shown_s = exposed_exchange_s(self.exchange, backward_s, shared_core=self.shared_core)
        return slower * (gradients_s + update_s) + shown_s, shown_s


def parts_of(measured: "MeasuredScales", point: Point, setting: Setting, cycle_s: float) -> Parts:
    """Return the parts of a setting, with the calls of its exchange by themselves.

    Parameters
    ----------
    measured
        The study.
    point
        Whose benchmark and engine train.
    setting
        What is asked for.
    cycle_s
        Horovod's cycle [s]; NaN: the usual one.
    """
    return Parts(
        contention=contention_of(measured.contention, point.benchmark, math.ceil(setting.ranks / setting.nodes)),
        slowest=slowest_of(measured.scatter_of(point.benchmark), setting.ranks),
        exchange=exchange_time(measured.links, point.engine, setting, measured.gradients(point.benchmark), cycle_s),
        shared_core=measured.shared_core,
        core_assumed=measured.core_assumed,
        micro_batches=setting.accumulation,
    )
