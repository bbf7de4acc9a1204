"""What the steps of a study tell of input and exchange, beyond steps and calls that were timed by themselves."""

import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcai.core.messages import Message
from hpcai.predict.scales.computing import change_of, input_per_sample_s
from hpcai.predict.scales.exchange import cycle_of
from hpcai.predict.scales.parts import Factor, parts_of
from hpcai.predict.what_if.measured import Point

if TYPE_CHECKING:
    from hpcai.predict.scales.measured import MeasuredScales

EXCHANGE_LIMITS = (0.25, 4.0)
"""Exchange in trainings over calls by themselves; outside of them one of the two was not measured well."""
IN_TRAINING = Message(
    "scales.in_training", "calls take {ratio:.3g} of their time in the {engine} trainings of {benchmarks} (median)"
)
NOT_IN_TRAINING = Message(
    "scales.not_in_training", "no training with the engine {engine} tells how long calls take in one: as by themselves"
)
ODD_EXCHANGE = Message(
    "scales.odd_exchange",
    "calls would take {ratio:.3g} of their time in the {engine} trainings of {benchmarks}, outside of {low:g} to "
    "{high:g}: not believed, so as by themselves",
)


@dataclass(frozen=True)
class Learnt:
    """What a study tells beyond its parts.

    Attributes
    ----------
    input_s
        Of a step, for each sample [s], by benchmark and engine.
    exchange
        Exchange in trainings over the same calls by themselves, by engine.
    """

    input_s: Mapping[tuple[str, str], float]
    exchange: Mapping[str, Factor]

    def exchange_of(self, engine: str) -> Factor:
        """Return the ratio of an engine; of one that did not train, calls count as by themselves."""
        return self.exchange.get(engine, Factor(1.0, NOT_IN_TRAINING(engine=engine)))


def learn(measured: "MeasuredScales") -> Learnt:
    """Return what a study tells. A scale that is predicted as if it had not run must not be in it."""
    trained = {(point.benchmark, point.engine) for point in measured.points}
    input_s = {which: input_per_sample_s(measured, *which) for which in sorted(trained)}
    engines = sorted({point.engine for point in measured.points})
    return Learnt(input_s, {engine: exchange_ratio(measured, engine, input_s) for engine in engines})


def exchange_ratio(measured: "MeasuredScales", engine: str, input_s: Mapping[tuple[str, str], float]) -> Factor:
    """Return an engine's exchange in trainings over the same calls by themselves: the median over benchmarks.

    The exchange of a training is its step less the computing of one rank, which was measured with one rank. Calls by
    themselves come after each other: they do not wait for ranks that compute, and others may disturb them. Engines wait
    in other ways, so one tells nothing of another.
    """
    found: dict[str, list[float]] = {}
    for point in (one for one in measured.points if one.engine == engine):
        for ratio in _ratios(measured, point, input_s):
            found.setdefault(point.benchmark, []).append(ratio)
    if not found:
        return Factor(1.0, NOT_IN_TRAINING(engine=engine))
    ratio = statistics.median(statistics.median(own) for own in found.values())
    low, high = EXCHANGE_LIMITS
    facts = {"ratio": ratio, "engine": engine, "benchmarks": ", ".join(sorted(found))}
    if not low <= ratio <= high:
        return Factor(1.0, ODD_EXCHANGE(**facts, low=low, high=high))
    return Factor(ratio, IN_TRAINING(**facts))


def _ratios(measured: "MeasuredScales", point: Point, input_s: Mapping[tuple[str, str], float]) -> Iterator[float]:
    """Yield the ratio of one scale, if it has several ranks, one message and a scale of one rank to start from."""
    setting, name = point.setting, point.benchmark
    alone = _one_rank(measured, point)
    is_usual = setting.precision == "fp32" and setting.spatial_parts == 1 and math.isnan(cycle_of(point))
    if setting.ranks == 1 or not is_usual or alone is None:
        return
    change = change_of(measured, alone, alone.step_s, setting, input_s[name, point.engine])
    parts = parts_of(measured, point, setting, math.nan)
    if not (change.reason or parts.reason) and parts.exchange.messages == 1:
        computing_s = alone.step_s * change.ratio * parts.contention.ratio * parts.slowest.ratio
        yield (point.step_s - computing_s) / parts.exchange.calls_s


def _one_rank(measured: "MeasuredScales", point: Point) -> Point | None:
    """Return the scale of one rank of the same benchmark and engine whose batch is nearest; none if there is none."""
    own = [
        one for one in measured.points
        if (one.benchmark, one.engine) == (point.benchmark, point.engine)
        and (one.setting.ranks, one.setting.precision) == (1, "fp32")
    ]  # fmt: skip
    samples = point.setting.micro_batch * point.setting.accumulation
    return min(
        own,
        key=lambda one: abs(math.log(one.setting.micro_batch * one.setting.accumulation / samples)),
        default=None,
    )
