"""Convert a predicted step to a row: rate, speedup, VFLOPS and time to train, with their intervals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hpcai.catalogue.points import POINT
from hpcai.core.messages import Message
from hpcai.metrics.scaling.model_limits import MOST_EFFICIENCY_RATIO, is_too_efficient, why_too_efficient
from hpcai.predict.what_if.measured import MeasuredStudy, Point
from hpcai.predict.what_if.published_epochs import PublishedEpochs
from hpcai.predict.what_if.step_model import NO_STEP, StepModel
from hpcai.predict.what_if.training_time import epochs_at, measure_parts

if TYPE_CHECKING:
    from hpcai.predict.what_if.answers import Case

NO_OVERLAP = "computing and exchange one after another (no overlap)"
OVERLAP = "messages travel one after another while gradients are computed, ready at equal intervals (overlap)"
GROUPS = "exchanging batch-norm statistics within groups of ranks takes no additional time"
PARTS = Message(
    "outcome.parts",
    "{parts} ranks share each sample: each computes its part of the voxels, and waits for planes and rows before each "
    "convolution, both ways, over the link of the allreduce",
)
BOUNDS = ("", "low_", "high_")
OTHER_BASE = Message(
    "outcome.other_base",
    "no parallel efficiency: the base, {base}, has another {what}, and the ratio would be above 1",
)
UNEVEN_RANKS = Message(
    "outcome.uneven_ranks",
    "{ranks} ranks cannot be divided evenly among {nodes} nodes with at most {most} each",
)
MORE_RANKS = Message("outcome.more_ranks", "{ranks} ranks are {times:g} times the largest measured scale ({largest})")
FEWER_SAMPLES = Message(
    "outcome.fewer_samples",
    "{batch:g} samples of a rank are fewer than were measured ({smallest:g})",
)
MORE_NODES = Message("outcome.more_nodes", "{nodes} nodes are more than the machine has ({most})")
NO_TRAINING = "no run of the scale that one starts from reached its target"
NO_QUALITY = "no quality coefficient was measured: the suite has no exponent, or no run reached a quality"


def complete_row(
    study: MeasuredStudy, case: "Case", points: Sequence[Point], curves: Mapping[str, PublishedEpochs]
) -> dict[str, Any]:
    """Return the row of one prediction; without a step it has a reason and no numbers.

    Parameters
    ----------
    study
        Measured points and models.
    case
        The case to predict.
    points
        All measured points of the variant.
    curves
        Epochs over batch, by benchmark.
    """
    model = case.model
    factor, unscaled = study.calibrate(model, case.start)
    reason = _why_not(study, case) or unscaled
    step = replace(NO_STEP, reason=reason) if reason else model.estimate(case.setting, case.exchange, factor)
    row = {**_head(study, case, points), "reason": step.reason}
    if row["reason"]:
        return row
    low_s, high_s = case.interval.around(step.step_s)
    steps = dict(zip(BOUNDS, (step.step_s, low_s, high_s), strict=True))
    parts = {
        "compute_s": step.compute_s,
        "communication_s": step.communication_s,
        "communication_share_ratio": step.exposed_s / step.step_s,
        "calibration_ratio": factor,
        "interval_basis": case.interval.basis,
        "interval_n": case.interval.n,
    }
    rates = _rates(case, steps)
    speedups, impossible = _speedups(case, points, rates)
    if impossible:
        return {**row, "reason": impossible}
    outcome = {**_named("step_{}s", steps), **_named("rate_{}samples_per_s", rates), **speedups}
    scores, words = _score(study, case, rates)
    times, more = _times(study, case, steps, curves)
    assumed = "; ".join(
        filter(None, (*_taken_for_granted(case, model, factor), case.exchange.assumed, *case.assumed, words, more))
    )
    return {**row, **parts, **outcome, **scores, **times, "assumed": assumed}


def _taken_for_granted(case: "Case", model: StepModel, factor: float) -> tuple[str, ...]:
    start = case.start
    return (
        f"computing takes {factor:.3g} times what the {model.words} says, as at {start.scale}: input, loss and "
        "contention between ranks are in the factor",
        OVERLAP if model.overlap else NO_OVERLAP,
        GROUPS if start.row["batchnorm_group"] > 1 else "",
        PARTS(parts=case.setting.spatial_parts) if case.setting.spatial_parts > 1 else "",
    )


def _head(study: MeasuredStudy, case: "Case", points: Sequence[Point]) -> dict[str, Any]:
    setting, start = case.setting, case.start
    base = _baseline(start, points)
    return {
        "benchmark": start.benchmark,
        "variant": start.variant,
        "engine": start.engine,
        "from_scale": start.scale,
        "scale_words": setting.scale,
        "nodes": setting.nodes,
        "ranks": setting.ranks,
        "link": case.exchange.name,
        "precision": setting.precision,
        "compression": setting.compression,
        "global_batch_samples": setting.global_batch,
        "regime": case.regime,
        "question": case.question,
        "cost_model": case.model.words,
        "baseline": base.scale,
        "baseline_ranks": base.setting.ranks,
        "extrapolated": _extrapolated(study, case, points),
        "method": "modelled",
        "source": study.sources(start.benchmark, case.exchange, case.model),
    }


def _why_not(study: MeasuredStudy, case: "Case") -> str:
    """Return why such a training is impossible; blank if it is possible."""
    setting, most = case.setting, study.machine.ranks_per_node
    if setting.ranks % setting.nodes:
        return UNEVEN_RANKS(ranks=setting.ranks, nodes=setting.nodes, most=most)
    if case.question == "link" and setting.ranks == 1:
        return "one rank exchanges nothing: no scale with more ranks was measured"
    return setting.why_impossible


def _baseline(start: Point, points: Sequence[Point]) -> Point:
    """Return the point that the study compares with, otherwise the one with the fewest ranks."""
    named = str(start.row.get("baseline") or "")
    return next((point for point in points if point.scale == named), points[0])


def _extrapolated(study: MeasuredStudy, case: "Case", points: Sequence[Point]) -> str:
    """Describe how far a prediction is outside the measurements; blank if it is inside."""
    largest = max(point.setting.ranks for point in points)
    smallest = min(point.setting.micro_batch for point in points)
    ranks, batch, nodes = case.setting.ranks, case.setting.micro_batch, study.machine.nodes
    words: list[str] = []
    if ranks > largest:
        words.append(MORE_RANKS(ranks=ranks, times=ranks / largest, largest=largest))
    if 1 <= batch < smallest:
        words.append(FEWER_SAMPLES(batch=batch, smallest=smallest))
    if case.setting.nodes > nodes:
        words.append(MORE_NODES(nodes=case.setting.nodes, most=nodes))
    return "; ".join(words)


def _rates(case: "Case", steps: Mapping[str, float]) -> dict[str, float]:
    """Return samples per second: the measured rate at the starting point, times the predicted change."""
    start = case.start
    by_steps = start.setting.global_batch / start.step_s
    measured = float(start.row["train_rate_samples_per_s"])
    scale = measured / by_steps if measured > 0 else 1.0
    return _inverse({bound: scale * case.setting.global_batch / value for bound, value in steps.items()})


def _speedups(case: "Case", points: Sequence[Point], rates: Mapping[str, float]) -> tuple[dict[str, Any], str]:
    """Return speed-up and efficiency against the base, and why nothing is predicted if they are impossible.

    If link, precision or compression differ from the base, the ratio includes their effect; if it exceeds 1, it is not
    reported as an efficiency. The interval of an efficiency ends at 1.
    """
    base = _baseline(case.start, points)
    compared = float(base.row["train_rate_samples_per_s"])
    if not compared > 0:
        return {}, ""
    speedups = {bound: rate / compared for bound, rate in rates.items()}
    more = case.setting.ranks / base.setting.ranks
    found: dict[str, Any] = _named("speedup_{}ratio", speedups)
    if is_too_efficient(speedups[""] / more):
        if case.question == "scale":
            return {}, why_too_efficient(speedups[""] / more, base.scale)
        return {**found, "efficiency_reason": OTHER_BASE(base=base.scale, what=case.question)}, ""
    efficiencies = {bound: min(value / more, MOST_EFFICIENCY_RATIO) for bound, value in speedups.items()}
    return {**found, **_named("efficiency_{}ratio", efficiencies)}, ""


def _score(study: MeasuredStudy, case: "Case", rates: Mapping[str, float]) -> tuple[dict[str, Any], str]:
    """Return FLOPS and VFLOPS at the measured quality, and their assumptions."""
    scores, start = study.tables.scores, case.start
    rows = scores[(scores[POINT] == [start.row[name] for name in POINT]).all(axis=1)]
    if rows.empty:
        return {"vflops_reason": "the scale that one starts from has no score"}, ""
    score = rows.iloc[0]
    flop, coefficient = float(score["flop_per_sample"]), float(score["quality_coefficient_ratio"])
    found: dict[str, Any] = _named("rate_{}flop_per_s", {bound: rate * flop for bound, rate in rates.items()})
    if not coefficient > 0:
        return {**found, "vflops_reason": NO_QUALITY}, ""
    valid = {bound: rate * flop * coefficient for bound, rate in rates.items()}
    return {**found, **_named("vflops_{}flop_per_s", valid)}, f"quality as measured at {start.scale}"


def _times(
    study: MeasuredStudy, case: "Case", steps: Mapping[str, float], curves: Mapping[str, PublishedEpochs]
) -> tuple[dict[str, Any], str]:
    """Return the time to train, and its assumptions."""
    start = case.start
    parts = measure_parts(study.tables.runs, start.row)
    if parts is None:
        return {"time_to_train_reason": NO_TRAINING, "epochs_basis": NO_TRAINING}, ""
    batches = (start.setting.global_batch, case.setting.global_batch)
    epochs = epochs_at(parts, batches, start.benchmark, curves)
    found: dict[str, Any] = {"epochs": epochs.number, "epochs_basis": epochs.basis}
    if math.isnan(epochs.number):
        return {**found, "time_to_train_reason": epochs.basis}, ""
    fewer_steps = batches[0] / batches[1]
    times = {
        bound: parts.time_to_train_s(epochs.number, fewer_steps * value / start.step_s)
        for bound, value in steps.items()
    }
    words = f"staging, the evaluations of an epoch and the rest of a training take as long as at {start.scale}"
    scatter = "the interval holds the error of the step, not the scatter of the epochs"
    return {**found, **_named("time_to_train_{}s", times)}, f"{words}; {scatter}"


def _named(pattern: str, values: Mapping[str, float]) -> dict[str, float]:
    return {pattern.format(bound): value for bound, value in values.items()}


def _inverse(values: Mapping[str, float]) -> dict[str, float]:
    """Return the bounds of a quantity that falls as its cause rises: low and high are swapped."""
    return {"": values[""], "low_": values["high_"], "high_": values["low_"]}
