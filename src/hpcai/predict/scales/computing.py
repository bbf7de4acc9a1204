"""How computing changes with the batch of a rank: as the timed step of its network, and input as its samples."""

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpcai.core.messages import Message
from hpcai.predict.scales.parts import Factor
from hpcai.predict.steps.compute import compute_at
from hpcai.predict.steps.report import StepTimes
from hpcai.predict.what_if.measured import Point
from hpcai.predict.what_if.step_model import Setting

if TYPE_CHECKING:
    from hpcai.predict.scales.measured import MeasuredScales

MOST_INPUT_RATIO = 2.0
"""Input over computing of a step. With more, other work of a step may hide in what is taken for input."""
SAME_BATCH = Message("scales.same_batch", "computing as at {scale}, which has the same batch of a rank")
BY_STEP = Message("scales.by_step", "computing as at {scale} times {ratio:.3g}, as {basis}")
WITH_INPUT = Message("scales.with_input", "{basis}, with {input_s:.3g} s of input for each sample")
OTHER_PRECISION = Message(
    "scales.other_precision", "found a start in {known}, asked for {asked}: no other precision is predicted from it"
)


def input_per_sample_s(measured: "MeasuredScales", benchmark: str, engine: str) -> float:
    """Return the time of a step that reading and decoding a sample takes [s]; 0 where it is hidden or not known.

    It is what one rank takes beyond its timed step: nothing is exchanged, and on a core that also computes, no input
    is hidden. With further cores, input is prepared during the step before.

    Parameters
    ----------
    measured
        The study; its scales of one rank count, in single precision, in which steps are timed.
    benchmark, engine
        Whose samples, and what trains.
    """
    if not measured.shared_core:
        return 0.0
    found = []
    for point in measured.points:
        setting = point.setting
        if (point.benchmark, point.engine, setting.ranks, setting.precision) != (benchmark, engine, 1, "fp32"):
            continue
        timed_s, _, reason = timed_step_of(measured.steps, benchmark, setting)
        left_s = point.step_s - timed_s
        if not reason and left_s <= MOST_INPUT_RATIO * timed_s:
            found.append(max(left_s, 0.0) / _samples(setting))
    return statistics.median(found) if found else 0.0


def timed_step_of(steps: Sequence[StepTimes], benchmark: str, setting: Setting) -> tuple[float, str, str]:
    """Return the timed step of a rank [s], without input and exchange, its basis, or why it is NaN."""
    computed = compute_at(steps, benchmark, setting.micro_batch)
    return setting.accumulation * computed.gradients_s + computed.update_s, computed.basis, computed.reason


def change_of(measured: "MeasuredScales", start: Point, alone_s: float, setting: Setting, input_s: float) -> Factor:
    """Return computing of a setting over that of a measured scale: 1 at the same batch of a rank.

    Otherwise input changes as the number of samples does, and the rest as the timed step does.

    Parameters
    ----------
    measured
        The study.
    start
        A measured scale of the same benchmark,
    alone_s
        and what one of its ranks would take by itself [s].
    setting
        What is asked for.
    input_s
        Of a step, for each sample [s].
    """
    if all(getattr(setting, name) == getattr(start.setting, name) for name in ("micro_batch", "accumulation")):
        return Factor(1.0, SAME_BATCH(scale=start.scale))
    if setting.precision != "fp32":
        return Factor(math.nan, reason=OTHER_PRECISION(known="fp32", asked=setting.precision))
    ends = [timed_step_of(measured.steps, start.benchmark, one) for one in (start.setting, setting)]
    reason = next((reason for *_, reason in ends if reason), "")
    if reason:
        return Factor(math.nan, reason=reason)
    after_s = ends[1][0]
    factor = calibration_to_step(measured, start, alone_s, input_s)
    ratio = (factor * after_s + input_s * _samples(setting)) / alone_s
    basis = " and ".join(dict.fromkeys(basis for _, basis, _ in ends))
    words = BY_STEP(scale=start.scale, ratio=ratio, basis=basis)
    return Factor(ratio, WITH_INPUT(basis=words, input_s=input_s) if input_s else words)


def calibration_to_step(measured: "MeasuredScales", start: Point, alone_s: float, input_s: float) -> float:
    """Return what one rank takes by itself, without input, over its timed step; NaN where that is not known."""
    timed_s, _, reason = timed_step_of(measured.steps, start.benchmark, start.setting)
    if reason or start.setting.precision != "fp32":
        return math.nan
    return (alone_s - input_s * _samples(start.setting)) / timed_s


def _samples(setting: Setting) -> float:
    """Return the samples of a step of a rank."""
    return setting.micro_batch * setting.accumulation
