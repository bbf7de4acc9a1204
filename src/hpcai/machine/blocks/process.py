"""A measuring process: steps, blocks and updates in turn, with one thread on one core.

It compiles everything, says that it is ready, and times when it is told to: what others compile disturbs no time.

Everything is timed once in each round (:mod:`hpcai.machine.blocks.rounds`): what disturbs the machine meets all alike.
Step and update are timed by the CPU time of their calls. All blocks are computed once in a round, by one call, which
reads the clock in between: the cost of a call is in no block. That of the update's call is in its time; what the step's
takes beyond, because it has more arguments, is the difference of two calls with these arguments that compute nothing.
"""

import argparse
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hpcai.core.messages import Message
from hpcai.machine.blocks.rounds import Call, time_in_turn
from hpcai.machine.kernels.process import settle, software_versions
from hpcai.machine.subprocess_measure import say_error
from hpcai.predict.steps.report import BlockTime, StepTimes

if TYPE_CHECKING:
    import keras

    from hpcai.machine.blocks.compile import Pass
    from hpcai.machine.blocks.subject import Subject
    from hpcai.machine.blocks.trace import Block, Traced

MODULE = "hpcai.machine.blocks.process"
READY = "ready"
"""Printed when everything is compiled; a line on standard input then starts the timing."""
ENOUGH_S = 6.0
"""For all rounds of one network and batch, at most."""
NO_TIME = Message("blocks.no_time", "the clock did not advance meanwhile: too short to be timed")


@dataclass
class Found:
    """A block that occurs once or several times in a network.

    Attributes
    ----------
    reason
        Why it cannot be computed alone; blank: it can.
    """

    block: "Block"
    count: int = 1
    reason: str = ""


@dataclass
class Prepared:
    """A network whose step, update and blocks are compiled; ``run`` computes those without a reason.

    Attributes
    ----------
    calls
        By key, what is timed besides the blocks.
    """

    subject: "Subject"
    found: Sequence[Found]
    run: "Pass"
    update: "Update"
    calls: Mapping[str, Call]


@dataclass
class Update:
    """An optimizer's compiled call on gradients that are there already, and its work by the fields of `BlockTime`.

    Attributes
    ----------
    captured
        Variables and gradients that it takes.
    """

    call: Call
    work: Mapping[str, Any]
    captured: Sequence[Any]

    def record(self, name: str, time_s: float) -> BlockTime:
        """Return it as a block."""
        return BlockTime(name=name, count=1, time_s=time_s, **self.work)


def main() -> None:
    """Print a line when all is compiled, and one with the times of each batch after a line of input."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("--network", help="a reference network; with --batch")
    parser.add_argument("--batch", type=int, action="append", default=[])
    parser.add_argument("--plan", type=Path, action="append", default=[], help="plan.json of a run; with --manifest")
    parser.add_argument("--manifest", type=Path)
    parser.add_argument("--pack", type=Path)
    parser.add_argument("--enough", type=float, default=ENOUGH_S, help="seconds for the rounds of a batch, at most")
    parser.add_argument("--samples", type=int, default=0, help="blocks of random sizes of each kind instead")
    parser.add_argument("--core", type=int, default=0, help="of those that this process may use")
    asked = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, [cores[asked.core % len(cores)]])
    settle()
    from hpcai.machine.blocks.samples import compile_anchors, time_samples

    prepared = [prepare(subject) for subject in _subjects(asked)]
    anchors = compile_anchors()
    print(READY, flush=True)
    sys.stdin.readline()
    for one in prepared:
        print(time_prepared(one, anchors, asked.enough).model_dump_json(), flush=True)
    for part in time_samples(asked.samples, anchors):
        print(part.model_dump_json(), flush=True)


def _subjects(asked: argparse.Namespace) -> Iterator["Subject"]:
    from hpcai.machine.blocks.subject import benchmark_subject, reference_subject

    for batch in asked.batch:
        yield reference_subject(asked.network, batch)
    for plan in asked.plan:
        yield benchmark_subject(plan, asked.manifest, asked.pack)


def trace_subject(subject: "Subject") -> "Traced":
    """Trace loss and gradients of a subject, divided into blocks."""
    from hpcai.machine.blocks.subject import trainable
    from hpcai.machine.blocks.trace import trace_gradients

    return trace_gradients(lambda *batch: (subject.loss(*batch), trainable(subject), None), subject.batch)


def find_distinct(traced: "Traced") -> list[Found]:
    """Return each block that differs from all before it, with the number of its like."""
    from hpcai.machine.blocks.compile import describe, make_graph

    found: dict[str, Found] = {}
    for block in traced.blocks:
        known = found.setdefault(describe(block, make_graph(block, traced.values)), Found(block, 0))
        known.count += 1
    return list(found.values())


def prepare(subject: "Subject") -> Prepared:
    """Compile a subject's step, its update and its blocks, each run once."""
    traced = trace_subject(subject)
    found = find_distinct(traced)
    run = compile_found(found, traced.values)
    subject.step()
    update = compile_update(subject.optimizer, traced.gradients, subject.model.trainable_variables)
    variables = [one for one in update.captured if one.dtype == "resource"]
    calls = {
        "step": subject.step,
        "update": update.call,
        "step's arguments": compile_nothing([*traced.captured, *subject.batch, *variables]),
        "update's arguments": compile_nothing(update.captured),
    }
    return Prepared(subject, found, run, update, calls)


def time_prepared(prepared: Prepared, anchors: "Pass", enough_s: float) -> StepTimes:
    """Return the times of what is compiled, measured in turn with the anchors."""
    subject, found = prepared.subject, prepared.found
    counts = [one.count for one in found if not one.reason]
    timed = time_in_turn(prepared.calls, [prepared.run, anchors], counts, enough_s)
    blocks_s, anchors_s = timed.passes_s
    sizes = tuple(math.prod(one.shape) for one in subject.model.trainable_variables)
    return StepTimes(
        network=subject.name,
        origin=subject.origin,
        batch=subject.samples,
        precision=subject.precision,
        software=software_versions(),
        optimizer=type(subject.optimizer).__name__,
        parameters=sum(sizes),
        gradient_sizes=sizes,
        step_s=timed.calls_s["step"],
        update_s=timed.calls_s["update"],
        arguments_s=timed.calls_s["step's arguments"] - timed.calls_s["update's arguments"],
        rounds=timed.rounds,
        update=prepared.update.record(type(subject.optimizer).__name__, timed.calls_s["update"]),
        blocks=tuple(record_blocks(found, blocks_s)),
        anchors_s=tuple(anchors_s.tolist()),
    )


def compile_found(found: Sequence[Found], values: Mapping[Any, Any], in_one_step: bool = True) -> "Pass":
    """Compile a call for all blocks that can be computed, and run it once; the others get a reason.

    Parameters
    ----------
    found
        Blocks.
    values
        That they compute with, by reference.
    in_one_step
        False: each block is a step of its own.
    """
    try:
        return _compile(found, values, in_one_step)
    except Exception:  # TensorFlow raises many types for unsupported operations
        for one in found:
            try:
                _compile([one], values, in_one_step)
            except Exception as error:
                one.reason = say_error(error)
    return _compile([one for one in found if not one.reason], values, in_one_step)


def _compile(found: Sequence[Found], values: Mapping[Any, Any], in_one_step: bool) -> "Pass":
    from hpcai.machine.blocks.compile import compile_pass

    run = compile_pass([one.block for one in found], values, in_one_step)
    run()
    return run


def compile_update(optimizer: "keras.Optimizer", gradients: Sequence[Any], variables: Sequence[Any]) -> Update:
    """Compile the update of variables by an optimizer that knows them, and run it once.

    Parameters
    ----------
    optimizer
        Whose update; it changes the variables.
    gradients
        Of the variables, in their order; None: a variable without one.
    variables
        Keras'.
    """
    import tensorflow as tf

    from hpcai.machine.blocks.work import describe_update

    kept = [(one, variable) for one, variable in zip(gradients, variables, strict=True) if one is not None]

    def update() -> None:
        optimizer.apply([one for one, _ in kept], [variable for _, variable in kept])

    compiled = tf.function(update, autograph=False)
    compiled()
    graph = compiled.get_concrete_function().graph
    work = describe_update(graph, graph.variables, [one for one, _ in kept])
    return Update(compiled, work, [outer for outer, _ in graph.captures])


def compile_nothing(arguments: Sequence[Any]) -> Call:
    """Compile a call that takes arguments, each once, and computes nothing, and run it once.

    Parameters
    ----------
    arguments
        Tensors, and handles of variables.
    """
    import tensorflow as tf

    def nothing() -> tf.Tensor:
        start = tf.timestamp()
        for one in arguments:
            start.graph.capture(one)
        return start

    compiled: Call = tf.function(nothing, autograph=False)
    compiled()
    return compiled


def record_blocks(found: Sequence[Found], blocks_s: NDArray[np.float64]) -> Iterator[BlockTime]:
    """Yield the record of each block: its work, and its time or why it has none.

    Parameters
    ----------
    found
        Blocks.
    blocks_s
        Time of each without a reason [s].
    """
    from hpcai.machine.blocks.trace import BEGINNINGS
    from hpcai.machine.blocks.work import describe_work

    times_s = iter(blocks_s.tolist())
    for one in found:
        operations = one.block.operations
        first = next((each for each in operations if each.type in BEGINNINGS), operations[0])
        time_s, reason = None if one.reason else next(times_s), one.reason
        if time_s is not None and time_s <= 0:
            time_s, reason = None, NO_TIME()
        yield BlockTime(name=first.name, count=one.count, time_s=time_s, reason=reason, **describe_work(one.block))


if __name__ == "__main__":
    main()
