"""The network to train while timing its blocks: a benchmark according to its plan, or a reference network."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import keras
import tensorflow as tf

from hpcai.config.plan_file import read_plan
from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message, at
from hpcai.machine.kernels.reference_networks import build_model, reference_network
from hpcai.machine.kernels.reference_steps import CLASSES, MOMENTUM, RATE, compile_parts
from hpcai.predict.steps.report import Origin
from hpcai.training import collective
from hpcai.training.dataset import Dataset, Sources
from hpcai.training.engine import Engine
from hpcai.training.input import Batch, Reading, Schedule, train_batches
from hpcai.training.momentum import MomentumSGD
from hpcai.training.registry import workload_of
from hpcai.training.workload import seed_streams

FP32_ONLY = Message(
    "blocks.fp32_only",
    "found precision {found}, expected fp32, tf32 or bf16: blocks do not scale losses; choose another run",
)
ENGINE = "tensorflow"
"""A single rank exchanges nothing, and this engine starts without a launcher."""


@dataclass(frozen=True)
class Subject:
    """A network in training.

    Attributes
    ----------
    loss
        Computes the loss of a batch; traced, never run on its own.
    step
        Takes a complete training step.
    batch
        Real samples of the training split, or random images.
    """

    name: str
    origin: Origin
    samples: int
    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    loss: Callable[..., tf.Tensor]
    step: Callable[[], object]
    batch: Batch
    precision: str = "fp32"


def reference_subject(name: str, samples: int) -> Subject:
    """Return a reference network on random images.

    Parameters
    ----------
    name
        A key of :data:`hpcai.machine.kernels.reference_steps.BATCHES`.
    samples
        Samples per batch.
    """
    model = build_model(reference_network(name), samples)
    images = tf.random.stateless_normal([samples, *model.input_shape[1:]], seed=(1, 2))
    labels = tf.random.stateless_uniform([samples], seed=(1, 3), maxval=CLASSES, dtype=tf.int32)
    optimizer = MomentumSGD(RATE, momentum=MOMENTUM)
    optimizer.build(model.trainable_variables)

    def loss(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        logits = model(images, training=True)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))

    step = compile_parts(model, samples)["step"]
    return Subject(name, "reference network", samples, model, optimizer, loss, step, (images, labels))


def benchmark_subject(plan_file: Path, manifest: Path, pack: Path | None) -> Subject:
    """Return a benchmark according to its plan, on the first batch of its training split, staged as in a run.

    Parameters
    ----------
    plan_file
        ``plan.json`` of a single-rank run.
    manifest, pack
        Manifest and pack of its dataset; the pack only if the benchmark trains on one.

    Raises
    ------
    HpcaiError
        If its precision uses loss scaling, or its data cannot be read.
    """
    plan = read_plan(plan_file)
    if plan.point.precision == "fp16":
        raise ConfigError(at(str(plan_file), FP32_ONLY(found=plan.point.precision)))
    alone = {"nodes": 1, "ranks_per_node": 1, "accumulation": 1, "batchnorm_group": 1}
    point = plan.point.model_copy(update={**alone, "global_batch": plan.micro_batch, "engine": ENGINE})
    plan = plan.model_copy(update={"point": point})
    ranks = collective.start(plan.point, ENGINE)
    with tempfile.TemporaryDirectory(prefix="hpcai-blocks-") as folder:
        dataset = Dataset(plan, ranks, Sources(manifest, pack, Path(folder), shared_scratch=True), threads=1)
        if dataset.is_staged:
            dataset.stage(lambda: None)
        workload = workload_of(plan, dataset.statistics)
        reading = Reading(workload.parse, workload.collate, plan.micro_batch, dataset.threads)
        schedule = Schedule(1, 1, plan.epoch_steps * plan.local_batch)
        batch = next(iter(train_batches(dataset.samples("train"), reading, schedule)))
    engine = Engine(workload, seed_streams(1, 0))
    draws = tf.Variable(0, dtype=tf.int32, trainable=False)

    def loss(*parts: tf.Tensor) -> tf.Tensor:
        draws.assign_add(1)
        return workload.loss(engine.model, parts, tf.random.experimental.stateless_fold_in(tf.constant([1, 0]), draws))

    return Subject(
        plan.benchmark.name, "benchmark", plan.micro_batch, engine.model, engine.optimizer, loss,
        lambda: engine.train([batch]), batch, plan.point.precision,
    )  # fmt: skip


def trainable(subject: Subject) -> Sequence[tf.Variable]:
    """Return the variables that a subject trains."""
    return [variable.value for variable in subject.model.trainable_variables]
