"""Measured training steps of reference networks, with one thread, for checking the cost models."""

import argparse
import logging
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal, get_args

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hpcai.core.disturbance import Disturbance, Tolerance
from hpcai.core.errors import LaunchError
from hpcai.core.machine_lock import machine_to_itself
from hpcai.core.programs import last_words
from hpcai.machine.kernels.process import cpu_time_s, processor_model, settle, software_versions
from hpcai.machine.subprocess_measure import THIS_PYTHON, run_process
from hpcai.metrics.quietness import Quiet, judge_quiet
from hpcai.predict.training.layers import LayerList
from hpcai.records.files import read_part

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

logger = logging.getLogger(__name__)
MODULE = "hpcai.machine.kernels.reference_steps"
BATCHES: dict[str, tuple[int, ...]] = {"small_cnn": (8, 16, 32), "vgg11": (8, 16, 32), "resnet50": (8,)}
"""Batch sizes to measure for each network; ResNet-50 has nine times the work of VGG11."""
REPETITIONS = 5
"""Minimum repetitions; short steps repeat for :data:`ENOUGH_S`, up to :data:`MOST_REPETITIONS`."""
MOST_REPETITIONS = 30
ENOUGH_S = 2.0
RATE = 1e-4
MOMENTUM = 0.9
CLASSES = 10
LIMIT_S = 300.0
"""Time limit for one network with all its batch sizes [s]."""
Part = Literal["forward", "gradients", "step"]
PARTS: tuple[Part, ...] = get_args(Part)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StepTime(_Part):
    """CPU time of one part of a training step."""

    network: str
    batch: int = Field(ge=1, description="Samples.")
    part: Part = Field(description="forward: with the loss; gradients: forward and backward; step: with the update.")
    cpu_time_s: float | None = Field(default=None, description="Median of the repetitions; none if not measured.")
    cpu_time_min_s: float | None = None
    repetitions: int = 0
    reason: str = ""


class ReferenceReport(_Part):
    """Steps of all reference networks, and their layers."""

    processor: str
    software: str
    threads: int = 1
    method: Literal["measured"] = "measured"
    networks: dict[str, LayerList] = Field(description="By the name that the steps have.")
    steps: tuple[StepTime, ...]
    disturbance: tuple[Disturbance, ...] = Field(default=(), description="What others took of the node meanwhile.")


class _Found(_Part):
    """First output of one network's process."""

    processor: str
    software: str
    network: LayerList


def measure_reference_steps(networks: Sequence[str], python: Sequence[str] = THIS_PYTHON) -> ReferenceReport:
    """Measure compiled training steps of the reference networks on random images, each network in its own process.

    A step is TensorFlow's compiled function of forward pass, loss, gradients and the training's SGD with momentum, with
    one thread on one core. Its time is the median CPU time of at least :data:`REPETITIONS`, after two warm-ups.

    Parameters
    ----------
    networks
        Names, keys of :data:`BATCHES`.
    python
        Command that runs Python in this environment or in the machine's image.

    Raises
    ------
    LaunchError
        If a process fails before it has built its network.
    """
    with machine_to_itself(logger.info) as watch:
        results = {name: _run(name, python) for name in networks}
    first = next(iter(results.values()))[0]
    return ReferenceReport(
        processor=first.processor,
        software=first.software,
        networks={name: found.network for name, (found, _) in results.items()},
        steps=tuple(step for _, steps in results.values() for step in steps),
        disturbance=watch.disturbance,
    )


def read_reference_steps(path: Path, tolerance: Tolerance) -> tuple[dict[str, LayerList], pd.DataFrame, Quiet]:
    """Return the networks by name, one row per network, batch and part with its time, and whether it was quiet.

    Raises
    ------
    RecordError
        If the file is missing or damaged.
    """
    report = read_part(ReferenceReport, path)
    times = pd.DataFrame([step.model_dump() for step in report.steps])
    return dict(report.networks), times, judge_quiet(report.disturbance, tolerance)


def _run(name: str, python: Sequence[str]) -> tuple[_Found, list[StepTime]]:
    """Return the output of one network's process; the reason for every part that it did not reach."""
    command = [*python, "-m", MODULE, "--network", name]
    logger.info("reference steps: measures %s", name)
    ended = run_process(command, LIMIT_S)
    first, *lines = ended.output.splitlines() or [""]
    words = f"the process {ended.ending}: {last_words(ended.errors)}"
    try:
        found = _Found.model_validate_json(first)
    except ValidationError as error:
        logger.debug("%s: %s", name, ended.errors)
        raise LaunchError(f"{' '.join(command)}: {words}") from error
    steps = [StepTime.model_validate_json(line) for line in lines]
    return found, [*steps, *_missing(name, steps, words)]


def _missing(name: str, steps: Sequence[StepTime], reason: str) -> list[StepTime]:
    known = {(step.batch, step.part) for step in steps}
    asked = [(batch, part) for batch in BATCHES[name] for part in PARTS]
    return [
        StepTime(network=name, batch=batch, part=part, reason=reason)
        for batch, part in asked
        if (batch, part) not in known
    ]


def main() -> None:
    """Print the setup and one line for each part of a network's steps."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("--network", choices=tuple(BATCHES), required=True)
    name = parser.parse_args().network
    settle()
    from hpcai.machine.kernels.reference_networks import build_model, reference_network

    network = reference_network(name)
    found = _Found(processor=processor_model(), software=software_versions(), network=network)
    print(found.model_dump_json(), flush=True)
    for batch in BATCHES[name]:
        for step in _time_parts(name, batch, compile_parts(build_model(network, batch), batch)):
            print(step.model_dump_json(), flush=True)


def compile_parts(model: "keras.Model", batch: int) -> dict[Part, Callable[[], object]]:
    """Return calls that run the parts of a compiled training step on random images.

    Parameters
    ----------
    model
        The model; its outputs are logits of 10 classes.
    batch
        Number of samples.
    """
    import tensorflow as tf

    from hpcai.training.momentum import MomentumSGD

    images = tf.random.stateless_normal([batch, *model.input_shape[1:]], seed=(1, 2))
    labels = tf.random.stateless_uniform([batch], seed=(1, 3), maxval=CLASSES, dtype=tf.int32)
    optimizer = MomentumSGD(RATE, momentum=MOMENTUM)
    optimizer.build(model.trainable_variables)

    def forward() -> "tf.Tensor":
        logits = model(images, training=True)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))

    def gradients() -> "list[tf.Tensor]":
        with tf.GradientTape() as tape:
            loss = forward()
        return tape.gradient(loss, [variable.value for variable in model.trainable_variables])  # type: ignore[no-any-return]

    def step() -> None:
        optimizer.apply(gradients(), model.trainable_variables)

    parts: tuple[Callable[[], object], ...] = (forward, gradients, step)
    return {part: tf.function(call, autograph=False) for part, call in zip(PARTS, parts, strict=True)}


def _time_parts(network: str, batch: int, calls: dict[Part, Callable[[], object]]) -> list[StepTime]:
    """Time the parts in turn, so that a disturbance affects all of them."""
    for call in calls.values():
        call()  # traces and compiles
    first_s = sum(cpu_time_s(call) for call in calls.values())
    rounds = min(MOST_REPETITIONS, max(REPETITIONS, math.ceil(ENOUGH_S / first_s)))
    times: dict[Part, list[float]] = {part: [] for part in calls}
    for _ in range(rounds):
        for part, call in calls.items():
            times[part].append(cpu_time_s(call))
    return [
        StepTime(
            network=network,
            batch=batch,
            part=part,
            cpu_time_s=median(found),
            cpu_time_min_s=min(found),
            repetitions=rounds,
        )
        for part, found in times.items()
    ]


if __name__ == "__main__":
    main()
