"""Time training steps: `python -m hpcai.machine.steps.process --folder CASE --engine jax ...`.

One batch of random numbers, created before the clock starts, serves all steps. It stays in device memory if the engine
supports that. A block of steps is timed as a whole; it ends when the loss of its last step has reached the host.
"""

import argparse
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcai.config.plan_file import read_plan
from hpcai.config.runs import RunPlan
from hpcai.core.errors import TrainingError
from hpcai.core.messages import Message
from hpcai.machine.steps.engines import module_of
from hpcai.machine.steps.report import MODULE, PLAN, TRACE, Block, Place, StepReport, report_path
from hpcai.machine.work.step import workload_of_one_rank
from hpcai.records.files import write_sealed
from hpcai.training.work import computed_flop
from hpcai.training.workload import seed_streams

if TYPE_CHECKING:
    import tensorflow as tf


BLOCKS = 5
TRACED_STEPS = 5
WARM_STEPS = 3
NOT_FINITE = Message(
    "steps.not_finite", "{benchmark} in {precision}: found the loss {loss}, expected a finite number: nothing is timed"
)


def main() -> None:
    """Time the steps of one case and write the report."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=main.__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="of the case, with its plan.json")
    parser.add_argument("--engine", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True, help="for all timed steps together")
    given = parser.parse_args()
    plan = read_plan(given.folder / PLAN)
    device = settle(plan, given.engine)
    report = time_steps(plan, given, device)
    write_sealed(report, report_path(given.folder))


def settle(plan: RunPlan, engine: str) -> str:
    """Configure device and threads before anything is compiled; return the device's name."""
    from hpcai.training import collective

    device: str = module_of(engine).configure_device(plan.machine.device, plan.machine.cores_per_rank, 0)
    collective.start(plan.point, engine)
    if engine != "jax" or plan.machine.device.kind == "cpu":
        return device
    import jax

    return str(jax.devices()[0].device_kind)


def time_steps(plan: RunPlan, given: argparse.Namespace, device: str) -> StepReport:
    """Return the times of the steps of a plan.

    Raises
    ------
    TrainingError
        If the loss is not finite: such steps do not train.
    """
    workload = workload_of_one_rank(plan, samples=given.batch, engine=given.engine)
    engine: Any = module_of(given.engine).Engine(workload, seed_streams(1, 0))
    engine.set_learning_rate(workload.learning_rate(0))
    batch, place = place_batch(engine, given.engine, random_batch(workload.batch_spec()))

    def run(steps: int) -> float:
        for _ in range(steps):
            loss = engine.train([batch])
        return float(loss)

    first = _timed(run, 1)
    run(WARM_STEPS)
    # Enough steps to make clock resolution and loss transfer negligible.
    steps = max(1, math.ceil(given.seconds / BLOCKS / _timed(run, 1).duration_s))
    blocks = tuple(_timed(run, steps) for _ in range(BLOCKS))
    if not math.isfinite(loss := run(1)):
        raise TrainingError(NOT_FINITE(benchmark=plan.benchmark.name, precision=plan.point.precision, loss=loss))
    with _traced(given.folder, given.engine) as problems:
        run(TRACED_STEPS)
    return StepReport(
        engine=given.engine,
        device=device,
        precision=plan.point.precision,
        batch=given.batch,
        batch_place=place,
        parameters=engine.parameters,
        flop_per_sample=computed_flop(workload.layers(), 1),
        first_step_s=first.duration_s,
        blocks=blocks,
        traced_steps=0 if problems else TRACED_STEPS,
        trace_reason="; ".join(problems),
    )


def _timed(run: Callable[[int], float], steps: int) -> Block:
    started_s = time.monotonic()
    run(steps)
    return Block(started_s=started_s, duration_s=time.monotonic() - started_s, steps=steps)


@contextmanager
def _traced(folder: Path, engine: str) -> Iterator[list[str]]:
    """Write the device's activity in the body to `TRACE`; yield a list that receives the reason if this fails."""
    problems: list[str] = []
    traces = folder / "trace"
    if engine == "jax":
        import jax

        jax.profiler.start_trace(str(traces))
        yield problems
        jax.profiler.stop_trace()
    else:
        import tensorflow as tf

        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
        tf.profiler.experimental.start(str(traces), options=options)
        yield problems
        tf.profiler.experimental.stop()
    found = sorted(traces.rglob("*.xplane.pb"))
    for file in found:
        file.replace(folder / TRACE)
    if not found:
        problems.append("the profiler wrote no trace")
    shutil.rmtree(traces, ignore_errors=True)


def place_batch(engine: Any, name: str, batch: tuple[Any, ...]) -> tuple[tuple[Any, ...], Place]:  # noqa: ANN401
    """Return a batch placed for all steps, and its location: an engine with ``put`` keeps it on the device."""
    if name != "jax":
        return batch, "device"  # TensorFlow already placed it there
    put = getattr(engine, "put", None)
    return (put(batch), "device") if put else (tuple(np.asarray(part) for part in batch), "host")


def random_batch(specs: "tuple[tf.TensorSpec, ...]") -> tuple[Any, ...]:
    """Return random tensors: samples of counts or pixels, targets in [-1, 1], labels 0 and 1.

    Zeros would give the right time but not the power: a multiplier draws less power on zeros.
    """
    import tensorflow as tf

    generator = np.random.default_rng(1)

    def values(spec: tf.TensorSpec) -> np.ndarray[Any, Any]:
        shape, is_sample = tuple(spec.shape), spec.shape.rank > 2
        if spec.dtype.is_integer:
            return generator.poisson(1.0, shape) if is_sample else generator.integers(0, 2, shape)
        return generator.uniform(0.0, 255.0, shape) if is_sample else generator.uniform(-1.0, 1.0, shape)

    return tuple(tf.constant(values(spec).astype(spec.dtype.as_numpy_dtype)) for spec in specs)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    main()
