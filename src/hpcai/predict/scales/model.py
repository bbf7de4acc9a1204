"""A step at other numbers of ranks: t(p) = contention x slowest rank x computing + what of the exchange shows.

Nothing is fitted. Computing starts from one measured scale, and changes as the blocks of its network do.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hpcai.core.messages import Message
from hpcai.metrics.scaling.model_limits import why_not_calibrated
from hpcai.predict.scales.exchange import ExchangeTime, exchange_time
from hpcai.predict.scales.measured import Floats, MeasuredScales
from hpcai.predict.steps.compute import compute_at
from hpcai.predict.what_if.measured import Point
from hpcai.predict.what_if.step_model import FORWARD_RATIO, SLOW_EXCHANGE, Setting

BACKWARD_RATIO = 1 - FORWARD_RATIO
"""Of a micro-batch in timed blocks."""
SAME_BATCH = Message("scales.same_batch", "computing as at {scale}, which has the same batch of a rank")
BY_BLOCKS = Message("scales.by_blocks", "computing as at {scale} times {ratio:.3g}, as {basis}")
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
OTHER_PRECISION = Message(
    "scales.other_precision", "found a start in {known}, asked for {asked}: no other precision is predicted from it"
)
SHARED_SAMPLES = Message("scales.shared_samples", "ranks that share samples (spatial_parts {parts}) are not modelled")
MANY_MESSAGES = Message("scales.many_messages", "{scale} has {messages} messages: computing cannot be told from them")
FACTORS = Message("scales.factor", "{what} of {ratio:.3g} is outside of {low:g} to {high:g}: not believed")
NO_PARAMETERS = Message(
    "scales.no_parameters",
    "the blocks of {benchmark} were not timed, so what it exchanges is not known: run `make predict`",
)
FACTOR_LIMITS = (0.5, 2.0)


@dataclass(frozen=True)
class Asked:
    """What a step is wanted for: how it trains, and Horovod's cycle [s]; NaN: the default."""

    setting: Setting
    cycle_s: float = math.nan


@dataclass(frozen=True)
class Factor:
    """A ratio with what it stands on, or why it is NaN."""

    ratio: float
    basis: str = ""
    reason: str = ""


@dataclass(frozen=True)
class ScaleStep:
    """A predicted step and its parts [s]; NaN where `reason` says why.

    Attributes
    ----------
    step_s
        Of the whole.
    compute_s
        As one rank alone computes it.
    contention_ratio, slowest_ratio
        Factors of computing: other ranks of the node, and waiting for the slowest.
    exchange_s, exposed_s
        All calls, and what of them does not happen during the backward pass.
    basis
        What each part stands on.
    """

    step_s: float
    compute_s: float = math.nan
    contention_ratio: float = math.nan
    slowest_ratio: float = math.nan
    exchange_s: float = math.nan
    exposed_s: float = math.nan
    basis: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class _Parts:
    """All of a setting but its computing."""

    contention: Factor
    slowest: Factor
    exchange: ExchangeTime
    shared_core: bool

    @property
    def reason(self) -> str:
        return self.contention.reason or self.slowest.reason or self.exchange.reason

    def step(self, gradients_s: float, update_s: float) -> tuple[float, float]:
        """Return the step and what it shows of the exchange, of computing without contention [s]."""
        slower = self.contention.ratio * self.slowest.ratio
        shown_s = exposed_exchange_s(self.exchange, slower * gradients_s * BACKWARD_RATIO, shared_core=self.shared_core)
        return slower * (gradients_s + update_s) + shown_s, shown_s


def predict_scale(measured: MeasuredScales, start: Point, asked: Asked) -> ScaleStep:
    """Return the step of a training at another scale, batch or way of exchanging than one that was measured.

    Parameters
    ----------
    measured
        The study and what was measured of its machine.
    start
        A measured scale of the same benchmark and precision.
    asked
        What is wanted.
    """
    reason = why_impossible(start, asked.setting)
    parameters = measured.parameters(start.benchmark)
    if not reason and not parameters:
        reason = NO_PARAMETERS(benchmark=start.benchmark)
    if reason:
        return ScaleStep(math.nan, reason=reason)
    before = _parts(measured, start, Asked(start.setting, cycle_of(start)), parameters)
    after = _parts(measured, start, asked, parameters)
    alone_s, reason = _alone_s(start, before)
    reason = reason or after.reason
    if reason:
        return ScaleStep(math.nan, reason=reason)
    change = _change(measured, start, asked.setting)
    reason = change.reason or why_not_calibrated(_calibration(measured, start, alone_s))
    if reason:
        return ScaleStep(math.nan, reason=reason)
    compute_s = alone_s * change.ratio
    # Updates are a small part, and hide nothing: they count as computing whose gradients are on their way.
    step_s, exposed_s = after.step(compute_s, 0.0)
    basis = tuple(filter(None, (change.basis, after.contention.basis, after.slowest.basis, after.exchange.basis)))
    return ScaleStep(
        step_s, compute_s, after.contention.ratio, after.slowest.ratio, after.exchange.calls_s, exposed_s, basis
    )


def predict_unseen(measured: MeasuredScales, target: Point, factor: float) -> ScaleStep:
    """Return the step of a benchmark none of whose runs counts: its blocks times a factor of other benchmarks.

    Parameters
    ----------
    measured
        Without anything of the benchmark but its blocks.
    target
        What is predicted; only its setting counts.
    factor
        Measured over modelled computing of other benchmarks.
    """
    setting, parameters = target.setting, measured.parameters(target.benchmark)
    computed = compute_at(measured.steps, target.benchmark, setting.micro_batch)
    reason = why_impossible(target, setting) or computed.reason
    if reason:
        return ScaleStep(math.nan, reason=reason)
    parts = _parts(measured, target, Asked(setting, cycle_of(target)), parameters)
    if parts.reason:
        return ScaleStep(math.nan, reason=parts.reason)
    gradients_s, update_s = factor * setting.accumulation * computed.gradients_s, factor * computed.update_s
    step_s, exposed_s = parts.step(gradients_s, update_s)
    return ScaleStep(
        step_s, gradients_s + update_s, parts.contention.ratio, parts.slowest.ratio, parts.exchange.calls_s, exposed_s,
        (computed.basis, parts.contention.basis, parts.exchange.basis),
    )  # fmt: skip


def why_impossible(start: Point, setting: Setting) -> str:
    """Return why nothing is predicted for a setting; blank if something may be."""
    if setting.why_impossible:
        return setting.why_impossible
    if setting.precision != start.setting.precision:
        return OTHER_PRECISION(known=start.setting.precision, asked=setting.precision)
    parts = max(setting.spatial_parts, start.setting.spatial_parts)
    return SHARED_SAMPLES(parts=parts) if parts > 1 else ""


def _parts(measured: MeasuredScales, point: Point, asked: Asked, parameters: int) -> _Parts:
    setting = asked.setting
    per_node = math.ceil(setting.ranks / setting.nodes)
    return _Parts(
        contention=contention_of(measured.contention, point.benchmark, per_node),
        slowest=slowest_of(measured.scatter_of(point.benchmark), setting.ranks),
        exchange=exchange_time(measured.links, point.engine, setting, parameters, asked.cycle_s),
        shared_core=measured.shared_core,
    )


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


def _alone_s(start: Point, parts: _Parts) -> tuple[float, str]:
    """Return what one rank of a measured scale would compute by itself [s], or why nobody can tell."""
    if parts.reason:
        return math.nan, parts.reason
    if parts.exchange.messages > 1:
        return math.nan, MANY_MESSAGES(scale=start.scale, messages=parts.exchange.messages)
    left_s = start.step_s - parts.exchange.calls_s
    if left_s <= 0:
        facts = {"exchange_s": parts.exchange.calls_s, "step_s": start.step_s}
        return math.nan, SLOW_EXCHANGE(scale=start.scale, **facts)
    return left_s / (parts.contention.ratio * parts.slowest.ratio), ""


def _change(measured: MeasuredScales, start: Point, setting: Setting) -> Factor:
    """Return computing of a setting over that of a measured scale: 1 at the same batch, else as its blocks."""
    same = ("micro_batch", "accumulation")
    if all(getattr(setting, name) == getattr(start.setting, name) for name in same):
        return Factor(1.0, SAME_BATCH(scale=start.scale))
    if setting.precision != "fp32":
        return Factor(math.nan, reason=OTHER_PRECISION(known="fp32", asked=setting.precision))
    times_s = []
    basis: Sequence[str] = ()
    for one in (start.setting, setting):
        computed = compute_at(measured.steps, start.benchmark, one.micro_batch)
        if computed.reason:
            return Factor(math.nan, reason=computed.reason)
        times_s.append(one.accumulation * computed.gradients_s + computed.update_s)
        basis = (*basis, computed.basis)
    ratio = times_s[1] / times_s[0]
    return Factor(ratio, BY_BLOCKS(scale=start.scale, ratio=ratio, basis=" and ".join(dict.fromkeys(basis))))


def calibration_of(measured: MeasuredScales, point: Point) -> float:
    """Return measured over modelled computing of a measured scale; NaN where either is not known."""
    parts = _parts(measured, point, Asked(point.setting, cycle_of(point)), measured.parameters(point.benchmark))
    alone_s, reason = _alone_s(point, parts)
    found = math.nan if reason else _calibration(measured, point, alone_s)
    return math.nan if reason or why_not_calibrated(found) else found


def _calibration(measured: MeasuredScales, point: Point, alone_s: float) -> float:
    """Return computing over its blocks; 1 where blocks are not needed."""
    computed = compute_at(measured.steps, point.benchmark, point.setting.micro_batch)
    if computed.reason or point.setting.precision != "fp32":
        return 1.0
    return alone_s / (point.setting.accumulation * computed.gradients_s + computed.update_s)


def cycle_of(point: Point) -> float:
    """Return the cycle of Horovod that a scale was measured with [s]; NaN: the default."""
    return float(point.row.get("cycle_time_s", math.nan))
