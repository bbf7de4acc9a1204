"""A step from all measured scales that lead to it: what disturbed or favoured one of them counts less."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from hpcai.core.messages import Message
from hpcai.predict.scales.exchange import cycle_of, is_same_cycle
from hpcai.predict.scales.measured import MeasuredScales
from hpcai.predict.scales.model import Asked, ScaleStep, predict_scale
from hpcai.predict.what_if.measured import Point
from hpcai.predict.what_if.step_model import Setting

MEAN_OF = Message("scales.mean_of", "computing as the mean of what {scales} lead to")


def predict_from_all(
    measured: MeasuredScales, own: Sequence[Point], asked: Asked
) -> tuple[tuple[Point, ...], ScaleStep]:
    """Return the step that is asked for, and the measured scales that it starts from.

    Parameters
    ----------
    measured
        The study and what was measured of its machine.
    own
        Measured scales of one benchmark and engine, at least one. The one that is asked for counts only if there is no
        other. Otherwise nothing that it tells is used.
    asked
        What is wanted.

    Returns
    -------
    tuple
        Scales, nearest first, and the mean of the steps that they lead to. If none leads to one, the nearest scale,
        and the reason in the step.
    """
    others = [point for point in own if not asked.is_of(point)]
    without = leave_out(measured, own[0].benchmark, asked) if 0 < len(others) < len(own) else measured
    found = [
        (point, predict_scale(without, point, asked))
        for point in sorted(others or own, key=lambda point: _farness(point.setting, asked.setting))
    ]
    known = [(point, step) for point, step in found if not step.reason]
    if not known:
        return found[0][:1], found[0][1]
    return tuple(point for point, _ in known), _mean(known)


def leave_out(measured: MeasuredScales, benchmark: str, asked: Asked) -> MeasuredScales:
    """Return a study as if a scale of a benchmark had not run, under whatever variant it was measured."""
    kept = (point for point in measured.points if point.benchmark != benchmark or not asked.is_of(point))
    return replace(measured, points=tuple(kept))


def usual_scale(points: Sequence[Point]) -> Point:
    """Return the first scale that tells what is not asked for: of the usual setting or, without one, nearest to it.

    It is in single precision without compression, with one micro-batch, whole samples, and one message in the usual
    cycle; what comes first weighs more.
    """
    return min(points, key=lambda point: (*_unusual(point.setting), not is_same_cycle(cycle_of(point), math.nan)))


def _unusual(setting: Setting) -> tuple[bool, ...]:
    return (
        setting.precision != "fp32",
        setting.compression != "none",
        setting.accumulation > 1,
        setting.spatial_parts > 1,
        setting.gradient_groups > 1,
        setting.fusion_bytes is not None,
    )


def say_scales(points: Sequence[Point]) -> str:
    """Name measured scales by variant, nodes and ranks."""
    return ", ".join(f"{point.variant} {point.scale}" for point in points)


def _mean(known: Sequence[tuple[Point, ScaleStep]]) -> ScaleStep:
    """Return the mean step. Only computing, and what of the exchange it hides, differ between starts."""
    points, steps = [point for point, _ in known], [step for _, step in known]
    if len(steps) == 1:
        return steps[0]
    return replace(
        steps[0],
        step_s=statistics.fmean(one.step_s for one in steps),
        compute_s=statistics.fmean(one.compute_s for one in steps),
        exposed_s=statistics.fmean(one.exposed_s for one in steps),
        basis=(MEAN_OF(scales=say_scales(points)), *steps[0].basis[1:]),
    )


def _farness(one: Setting, asked: Setting) -> tuple[bool, float, float]:
    """Order measured scales: those of the same batch of a rank first, then by octaves of ranks and of batches."""
    batches = abs(math.log2(max(asked.micro_batch, 1e-9) / one.micro_batch))
    return (
        one.accumulation != asked.accumulation or batches > 0,
        abs(math.log2(asked.ranks / one.ranks)),
        batches,
    )
