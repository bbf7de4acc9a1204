"""A measuring process: steps, blocks and updates in turn, with one thread on one core.

It compiles everything, says that it is ready, and times when it is told to: what others compile disturbs no time.

A time is the median of the CPU time of all threads, over rounds in which everything is timed once: what disturbs the
machine meets all of them alike. A block's time is what a call with several sets of operands takes longer than one with
a single set, for each set that it has more. Short blocks have more sets, so that these take longer than a call does.
"""

import argparse
import gc
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcai.core.messages import Message
from hpcai.machine.kernels.process import cpu_time_s, settle, software_versions
from hpcai.machine.subprocess_measure import say_error
from hpcai.predict.steps.report import BlockTime, StepTimes

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from hpcai.machine.blocks.subject import Subject
    from hpcai.machine.blocks.trace import Block, Traced

MODULE = "hpcai.machine.blocks.process"
READY = "ready"
"""Printed when everything is compiled; a line on standard input then starts the timing."""
ENOUGH_S = 6.0
"""For all rounds of one network and batch, at most."""
CERTAIN_RATIO = 0.003
"""Rounds end when the standard errors of step and of the sum of blocks, over the step, are below."""
ROUNDS = (7, 60)
"""At least, at most."""
Call = Callable[[], object]
NO_LONGER = Message("blocks.no_longer", "{sets} sets of operands took no longer than one: too short to be timed")


@dataclass
class Found:
    """A block that occurs once or several times in a network."""

    block: "Block"
    graph: "tf.compat.v1.GraphDef"
    count: int = 1
    sets: int = 0
    one: Call | None = None
    several: Call | None = None
    reason: str = ""


@dataclass
class Prepared:
    """A network whose step, update and blocks are compiled."""

    subject: "Subject"
    found: Sequence[Found]
    update: "Update"


@dataclass
class Update:
    """An optimizer's compiled call on gradients that are there already, and its work by the fields of `BlockTime`."""

    call: Call
    work: Mapping[str, Any]

    def record(self, name: str, times: Sequence[float]) -> BlockTime:
        """Return it as a block."""
        return BlockTime(name=name, count=1, cpu_time_s=median(times), **self.work)


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
    prepared = [prepare(subject) for subject in _subjects(asked)]
    print(READY, flush=True)
    sys.stdin.readline()
    for one in prepared:
        print(time_prepared(one, asked.enough).model_dump_json(), flush=True)
    if asked.samples:
        from hpcai.machine.blocks.samples import time_samples

        print(time_samples(asked.samples).model_dump_json(), flush=True)


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
        graph = make_graph(block, traced.values)
        known = found.setdefault(describe(block, graph), Found(block, graph, 0))
        known.count += 1
    return list(found.values())


def prepare(subject: "Subject") -> Prepared:
    """Compile a subject's step, its update and its blocks, each run once."""
    from hpcai.machine.blocks.work import count_bytes

    traced = trace_subject(subject)
    found = find_distinct(traced)
    step_bytes = sum(one.count * count_bytes(one.block) for one in found)
    for one in found:
        compile_found(one, traced.values, step_bytes)
    subject.step()
    update = compile_update(subject.optimizer, traced.gradients, subject.model.trainable_variables)
    return Prepared(subject, found, update)


def time_prepared(prepared: Prepared, enough_s: float) -> StepTimes:
    """Return the times of what is compiled, measured in turn."""
    subject, found = prepared.subject, prepared.found
    calls, weights = collect_calls(found)
    times = time_in_turn(
        {"step": subject.step, "update": prepared.update.call, **calls}, {"update": 1.0, **weights}, enough_s
    )
    return StepTimes(
        network=subject.name,
        origin=subject.origin,
        batch=subject.samples,
        precision=subject.precision,
        software=software_versions(),
        optimizer=type(subject.optimizer).__name__,
        parameters=sum(math.prod(one.shape) for one in subject.model.trainable_variables),
        step_s=median(times["step"]),
        update_s=median(times["update"]),
        rounds=len(times["step"]),
        update=prepared.update.record(type(subject.optimizer).__name__, times["update"]),
        blocks=tuple(block_time(one, number, times) for number, one in enumerate(found)),
    )


def collect_calls(found: Sequence[Found]) -> tuple[dict[Any, Call], dict[Any, float]]:
    """Return the calls of blocks, by the place of each and 1 (one set) or 2 (several), and how much each counts."""
    calls: dict[Any, Call] = {}
    weights: dict[Any, float] = {}
    for number, one in enumerate(found):
        if one.one and one.several:
            weight = one.count / (one.sets - 1)
            calls |= {(number, 1): one.one, (number, 2): one.several}
            weights |= {(number, 1): -weight, (number, 2): weight}
    return calls, weights


def compile_found(found: Found, values: Mapping[Any, Any], step_bytes: float) -> None:
    """Compile a block and run it once, or note why that cannot be done.

    Parameters
    ----------
    found
        Gets the calls.
    values
        That it computes with, by reference.
    step_bytes
        That all blocks of its step move.
    """
    from hpcai.machine.blocks.compile import compile_block
    from hpcai.machine.blocks.work import choose_sets

    found.sets = choose_sets(found.block, step_bytes)
    try:
        one, several = compile_block(found.block, found.graph, values, found.sets)
        one()
        several()
    except Exception as error:  # TensorFlow raises many types for unsupported operations
        found.reason = say_error(error)
    else:
        found.one, found.several = one, several


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
    return Update(compiled, describe_update(graph, graph.variables, [one for one, _ in kept]))


def time_in_turn(calls: Mapping[Any, Call], weights: Mapping[Any, float], enough_s: float) -> dict[Any, list[float]]:
    """Time each call once in every round, until the step and the sum of the others are certain or time is up.

    Parameters
    ----------
    calls
        By key; that of the step is ``step``, which may be missing.
    weights
        How much each of the others counts in the sum.
    enough_s
        At most so long, but never fewer rounds than :data:`ROUNDS` says [s].
    """
    times: dict[Any, list[float]] = {key: [] for key in calls}
    for call in calls.values():
        call()
    until_s = time.monotonic() + enough_s
    gc.collect()
    gc.disable()
    for number in range(1, ROUNDS[1] + 1):
        for key, call in calls.items():
            times[key].append(cpu_time_s(call))
        if number >= ROUNDS[0] and (time.monotonic() >= until_s or _is_certain(times, weights)):
            break
    gc.enable()
    return times


def _is_certain(times: Mapping[Any, Sequence[float]], weights: Mapping[Any, float]) -> bool:
    sums = np.sum([weight * np.array(times[key]) for key, weight in weights.items()], axis=0)
    whole = np.array(times["step"]) if "step" in times else sums
    errors = [np.median(np.abs(one - np.median(one))) / math.sqrt(len(one)) for one in (sums, whole)]
    # Of normal errors: 1.48 from the median deviation to the standard one, 1.25 from the mean's to the median's.
    return bool(1.48 * 1.25 * max(errors) < CERTAIN_RATIO * np.median(whole))


def block_time(found: Found, number: int, times: Mapping[Any, Sequence[float]]) -> BlockTime:
    """Return the record of a block: its work, and its time by the keys of `collect_calls`, or why it has none."""
    from hpcai.machine.blocks.trace import BEGINNINGS
    from hpcai.machine.blocks.work import describe_work

    operations = found.block.operations
    first = next((each for each in operations if each.type in BEGINNINGS), operations[0])
    time_s, reason = None, found.reason
    if (number, 1) in times:
        time_s = (median(times[number, 2]) - median(times[number, 1])) / (found.sets - 1)
        if time_s <= 0:
            time_s, reason = None, NO_LONGER(sets=found.sets)
    work = describe_work(found.block)
    return BlockTime(name=first.name, count=found.count, sets=found.sets, cpu_time_s=time_s, reason=reason, **work)


if __name__ == "__main__":
    main()
