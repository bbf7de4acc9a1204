"""A step at other numbers of ranks: t(p) = contention x slowest rank x computing + what of the exchange shows.

Computing starts from one measured scale, and changes as the timed step of its network and the input of its samples do.
Nothing is fitted to the scales that are asked for.
"""

import math
from dataclasses import dataclass, replace

from hpcai.core.messages import Message
from hpcai.metrics.scaling.model_limits import why_not_calibrated
from hpcai.predict.scales.computing import OTHER_PRECISION, calibration_to_step, change_of
from hpcai.predict.scales.exchange import cycle_of, is_same_cycle
from hpcai.predict.scales.measured import MeasuredScales
from hpcai.predict.scales.parts import Parts, parts_of
from hpcai.predict.steps.compute import compute_at
from hpcai.predict.what_if.measured import Point
from hpcai.predict.what_if.step_model import SLOW_EXCHANGE, Setting

SHARED_SAMPLES = Message("scales.shared_samples", "ranks that share samples (spatial_parts {parts}) are not modelled")
MANY_MESSAGES = Message("scales.many_messages", "{scale} has {messages} messages: computing cannot be told from them")
NO_PARAMETERS = Message(
    "scales.no_parameters",
    "the blocks of {benchmark} were not timed, so what it exchanges is not known: run `make predict`",
)


@dataclass(frozen=True)
class Asked:
    """What a step is wanted for: how it trains, and Horovod's cycle [s]; NaN: the default."""

    setting: Setting
    cycle_s: float = math.nan

    def is_of(self, point: Point) -> bool:
        """Return whether a scale was measured as it is asked for; a cycle is no part of a setting."""
        return point.setting == self.setting and is_same_cycle(cycle_of(point), self.cycle_s)


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
    messages
        Of its gradients; 0 with one rank.
    """

    step_s: float
    compute_s: float = math.nan
    contention_ratio: float = math.nan
    slowest_ratio: float = math.nan
    exchange_s: float = math.nan
    exposed_s: float = math.nan
    basis: tuple[str, ...] = ()
    reason: str = ""
    messages: int = 0

    def times(self, ratio: float) -> "ScaleStep":
        """Return the step on a host where each part takes so many times as long."""
        parts = ("step_s", "compute_s", "exchange_s", "exposed_s")
        return replace(self, **{name: ratio * getattr(self, name) for name in parts})


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
    if not reason and not measured.gradients(start.benchmark).parameters:
        reason = NO_PARAMETERS(benchmark=start.benchmark)
    if reason:
        return ScaleStep(math.nan, reason=reason)
    before = _parts(measured, start, Asked(start.setting, cycle_of(start)))
    after = _parts(measured, start, asked)
    alone_s, reason = _alone_s(start, before)
    reason = reason or after.reason
    if reason:
        return ScaleStep(math.nan, reason=reason)
    input_s = measured.learnt.input_s.get((start.benchmark, start.engine), 0.0)
    change = change_of(measured, start, alone_s, asked.setting, input_s)
    factor = calibration_to_step(measured, start, alone_s, input_s)
    # The same batch of a rank needs no timed step, so one that is not known is no obstacle.
    reason = change.reason or ("" if math.isnan(factor) else why_not_calibrated(factor))
    if reason:
        return ScaleStep(math.nan, reason=reason)
    compute_s = alone_s * change.ratio
    # Updates are a small part, and hide nothing: they count as computing whose gradients are on their way.
    step_s, exposed_s = after.step(compute_s, 0.0)
    basis = tuple(filter(None, (change.basis, *after.basis)))
    return ScaleStep(
        step_s, compute_s, after.contention.ratio, after.slowest.ratio, after.exchange.calls_s, exposed_s, basis,
        messages=after.exchange.messages,
    )  # fmt: skip


def predict_unseen(measured: MeasuredScales, target: Point, factor: float) -> ScaleStep:
    """Return the step of a benchmark none of whose runs counts: its timed step times a factor of others'.

    Parameters
    ----------
    measured
        Without anything of the benchmark but its timed steps.
    target
        What is predicted; only its setting counts.
    factor
        Measured over modelled computing of other benchmarks.
    """
    setting = target.setting
    computed = compute_at(measured.steps, target.benchmark, setting.micro_batch)
    reason = why_impossible(target, setting) or computed.reason
    if reason:
        return ScaleStep(math.nan, reason=reason)
    parts = _parts(measured, target, Asked(setting, cycle_of(target)))
    if parts.reason:
        return ScaleStep(math.nan, reason=parts.reason)
    gradients_s, update_s = factor * setting.accumulation * computed.gradients_s, factor * computed.update_s
    step_s, exposed_s = parts.step(gradients_s, update_s)
    return ScaleStep(
        step_s, gradients_s + update_s, parts.contention.ratio, parts.slowest.ratio, parts.exchange.calls_s, exposed_s,
        tuple(filter(None, (computed.basis, *parts.basis))), messages=parts.exchange.messages,
    )  # fmt: skip


def why_impossible(start: Point, setting: Setting) -> str:
    """Return why nothing is predicted for a setting; blank if something may be."""
    if setting.why_impossible:
        return setting.why_impossible
    if setting.precision != start.setting.precision:
        return OTHER_PRECISION(known=start.setting.precision, asked=setting.precision)
    parts = max(setting.spatial_parts, start.setting.spatial_parts)
    return SHARED_SAMPLES(parts=parts) if parts > 1 else ""


def _parts(measured: MeasuredScales, point: Point, asked: Asked) -> Parts:
    """Return the parts of a setting in a training, where calls take the time that the study's trainings show."""
    alone, learnt = parts_of(measured, point, asked.setting, asked.cycle_s), measured.learnt.exchange_of(point.engine)
    return replace(alone, exchange=alone.exchange.in_training(learnt.ratio, learnt.basis))


def _alone_s(start: Point, parts: Parts) -> tuple[float, str]:
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


def calibration_of(measured: MeasuredScales, point: Point) -> float:
    """Return computing of a measured scale, with its input, over its timed step; NaN where either is not known."""
    parts = _parts(measured, point, Asked(point.setting, cycle_of(point)))
    alone_s, reason = _alone_s(point, parts)
    found = math.nan if reason else calibration_to_step(measured, point, alone_s, 0.0)
    return math.nan if reason or why_not_calibrated(found) else found
