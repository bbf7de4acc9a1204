"""Measuring process of one network: its step, blocks and update in turn, with one thread on one core.

A time is the median CPU time of all threads over rounds, each of which times everything once: a disturbance affects
all parts alike. A block's time is the additional time of a call with several sets of operands over a call with one
set, per additional set.
"""

import argparse
import gc
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from hpcai.core.messages import Message
from hpcai.machine.kernels.process import cpu_time_s, settle, software_versions
from hpcai.machine.subprocess_measure import say_error
from hpcai.predict.steps.report import SETS, BlockTime, StepTimes

if TYPE_CHECKING:
    import tensorflow as tf

    from hpcai.machine.blocks.subject import Subject
    from hpcai.machine.blocks.trace import Block

MODULE = "hpcai.machine.blocks.process"
ENOUGH_S = 8.0
"""Time for all rounds of one network and batch [s]."""
ROUNDS = (5, 25)
"""Minimum and maximum number of rounds."""
Call = Callable[[], object]
NO_LONGER = Message("blocks.no_longer", "several sets of operands took no longer than one: too short to be timed")


@dataclass
class Found:
    """A block that occurs once or several times in a network."""

    block: "Block"
    graph: "tf.compat.v1.GraphDef"
    count: int = 1
    one: Call | None = None
    several: Call | None = None
    reason: str = ""


@dataclass
class Traced:
    """A subject's blocks, their input values, and the gradients passed to its optimizer."""

    blocks: Sequence["Block"] = ()
    values: Mapping[Any, Any] = field(default_factory=dict)
    gradients: Sequence[Any] = ()


def main() -> None:
    """Print one line with the times of one network at one batch size."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("--network", help="a reference network; with --batch")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--plan", type=Path, help="plan.json of a run of a benchmark; with --manifest")
    parser.add_argument("--manifest", type=Path)
    parser.add_argument("--pack", type=Path)
    parser.add_argument("--enough", type=float, default=ENOUGH_S, help="seconds for all rounds")
    asked = parser.parse_args()
    settle()
    from hpcai.machine.blocks.subject import benchmark_subject, reference_subject

    subject = (
        reference_subject(asked.network, asked.batch)
        if asked.network
        else benchmark_subject(asked.plan, asked.manifest, asked.pack)
    )
    print(time_subject(subject, asked.enough).model_dump_json(), flush=True)


def trace_subject(subject: "Subject") -> Traced:
    """Trace loss and gradients of a subject, divide them into blocks, and run them once for the intermediate values."""
    import tensorflow as tf

    from hpcai.machine.blocks.subject import trainable
    from hpcai.machine.blocks.trace import divide

    traced = Traced()
    references: list[Any] = []

    def compute(*batch: "tf.Tensor") -> tuple[list["tf.Tensor"], list["tf.Tensor"]]:
        loss = subject.loss(*batch)
        first_gradient = len(loss.graph.get_operations())
        gradients = tf.gradients(loss, trainable(subject))
        results = [loss, *(part for one in gradients for part in _parts(one))]
        traced.blocks = divide(loss.graph, results, first_gradient)
        between = {one.ref(): one for block in traced.blocks for one in (*block.inputs, *block.constants)}
        references[:] = between
        return list(between.values()), gradients

    specs = [tf.TensorSpec(one.shape, one.dtype) for one in subject.batch]
    function = tf.function(compute, autograph=False).get_concrete_function(*specs)
    variables = {id(one.handle): one for one in function.graph.variables}
    captured = [(inner, variables.get(id(outer))) for outer, inner in function.graph.captures]
    # Read variables before the step changes them: a block must get the same values as the step.
    before = {inner.ref(): one.numpy() for inner, one in captured if one is not None}
    values, traced.gradients = function(*subject.batch)
    traced.values = {**before, **dict(zip(references, (one.numpy() for one in values), strict=True))}
    return traced


def _parts(gradient: Any) -> tuple["tf.Tensor", ...]:  # noqa: ANN401  a tensor, slices of one, or nothing
    if gradient is None:
        return ()
    return (gradient.values, gradient.indices) if hasattr(gradient, "indices") else (gradient,)


def find_distinct(traced: Traced) -> list[Found]:
    """Return each distinct block, with the number of its occurrences."""
    from hpcai.machine.blocks.compile import describe, make_graph

    found: dict[str, Found] = {}
    for block in traced.blocks:
        graph = make_graph(block, traced.values)
        known = found.setdefault(describe(block, graph), Found(block, graph, 0))
        known.count += 1
    return list(found.values())


def time_subject(subject: "Subject", enough_s: float = ENOUGH_S) -> StepTimes:
    """Return the times of a subject's step, update and blocks, all measured in turn."""
    traced = trace_subject(subject)
    found = find_distinct(traced)
    for one in found:
        _compile(one, traced.values)
    calls: dict[Any, Call] = {"step": subject.step, "update": _compile_update(subject, traced.gradients)}
    for number, one in enumerate(found):
        if one.one and one.several:
            calls |= {(number, 1): one.one, (number, 2): one.several}
    times = _time_in_turn(calls, enough_s)
    return StepTimes(
        network=subject.name,
        origin=subject.origin,
        batch=subject.samples,
        software=software_versions(),
        optimizer=type(subject.optimizer).__name__,
        parameters=sum(math.prod(one.shape) for one in subject.model.trainable_variables),
        step_s=median(times["step"]),
        update_s=median(times["update"]),
        rounds=len(times["step"]),
        blocks=tuple(_block_time(one, times.get((number, 1)), times.get((number, 2)))
                     for number, one in enumerate(found)),
    )  # fmt: skip


def _compile(found: Found, values: Mapping[Any, Any]) -> None:
    """Compile a block and run it once, or record why this fails."""
    from hpcai.machine.blocks.compile import compile_block

    try:
        one, several = compile_block(found.block, found.graph, values)
        one()
        several()
    except Exception as error:  # TensorFlow raises many types for unsupported operations
        found.reason = say_error(error)
    else:
        found.one, found.several = one, several


def _compile_update(subject: "Subject", gradients: Sequence[Any]) -> Call:
    """Return a call of the subject's own optimizer on existing gradients."""
    import tensorflow as tf

    variables = subject.model.trainable_variables
    kept = [(one, variable) for one, variable in zip(gradients, variables, strict=True) if one is not None]

    def update() -> None:
        subject.optimizer.apply([one for one, _ in kept], [variable for _, variable in kept])

    compiled: Call = tf.function(update, autograph=False)
    return compiled


def _time_in_turn(calls: Mapping[Any, Call], enough_s: float) -> dict[Any, list[float]]:
    for call in calls.values():
        call()
    round_s = sum(cpu_time_s(call) for call in calls.values())
    rounds = min(ROUNDS[1], max(ROUNDS[0], math.ceil(enough_s / round_s)))
    times: dict[Any, list[float]] = {key: [] for key in calls}
    gc.collect()
    gc.disable()
    for _ in range(rounds):
        for key, call in calls.items():
            times[key].append(cpu_time_s(call))
    gc.enable()
    return times


def _block_time(found: Found, one: Sequence[float] | None, several: Sequence[float] | None) -> BlockTime:
    from hpcai.machine.blocks.trace import BEGINNINGS
    from hpcai.machine.blocks.work import count_bytes, count_flop, kind_of

    operations = found.block.operations
    first = next((each for each in operations if each.type in BEGINNINGS), operations[0])
    time_s, reason = None, found.reason
    if one and several:
        time_s = (median(several) - median(one)) / (SETS - 1)
        if time_s <= 0:
            time_s, reason = None, NO_LONGER()
    return BlockTime(
        name=first.name,
        kind=kind_of(found.block),
        count=found.count,
        operations=len(operations),
        work_flop=count_flop(operations),
        moved_bytes=count_bytes(found.block),
        cpu_time_s=time_s,
        reason=reason,
    )


if __name__ == "__main__":
    main()
