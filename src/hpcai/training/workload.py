"""Interface of a benchmark's training; the loop does the rest."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from hpcai.config.benchmark import BenchmarkSettings
from hpcai.config.runs import RunPlan
from hpcai.training.work import LayerWork

Batch = tuple[tf.Tensor, ...]
Settings = TypeVar("Settings", bound=BenchmarkSettings)


@dataclass(frozen=True)
class Streams:
    """Seeds of a run's independent random streams."""

    weights: int
    order: int
    dropout: int


def seed_streams(seed: int, rank: int, part: int = 0) -> Streams:
    """Derive a rank's streams from the run's seed: all ranks share the weights, but not dropout.

    Parameters
    ----------
    seed
        Of the run.
    rank
        Number of the rank's replica: ranks that share samples also share dropout.
    part
        Number of the part of the dataset that the rank can read; ranks with the same part share the order. Another
        part needs an order of its own: the samples at one place of every part are neighbours of the whole dataset.
    """

    def draw(*key: int) -> int:
        return int(np.random.SeedSequence([seed, *key]).generate_state(1)[0]) % (2**31 - 1)

    order = draw(1, part) if part else draw(1)
    return Streams(weights=draw(0), order=order, dropout=draw(2, rank))


class Workload(ABC, Generic[Settings]):
    """One benchmark: sample format, model, loss, optimizer, schedule, quality and the hyper-parameters to log.

    A batch is a flat tuple of tensors. Batches, gradients and steps below belong to one rank; a micro-batch has
    ``plan.micro_batch`` samples, and an optimizer step takes ``plan.point.accumulation`` micro-batches.

    Parameters
    ----------
    plan
        What to train.
    statistics
        Statistics of the training data from the manifest, by name; see `hpcai.data.module.DataModule.statistics`.
    """

    weighted: ClassVar[bool] = False
    """Whether a step's loss is the sum of the micro-batches' losses over the sum of their `weight`; else their mean."""
    moving_statistics: ClassVar[Literal["first", "mean"]] = "first"
    """Source of the moving statistics in evaluation: rank 0, or the mean over the ranks."""
    mlperf_name: ClassVar[str]
    """Benchmark's name in an MLPerf log; our own name if the suite has no logs."""
    quality_metric: ClassVar[str]
    quality_unit: ClassVar[str] = ""
    """Unit of the quality; blank: a ratio, or a number in units of its own."""
    higher_is_better: ClassVar[bool]
    quality_key: ClassVar[str]
    """Key of the quality in an MLPerf log: eval_error or eval_accuracy."""

    def __init__(self, plan: RunPlan, statistics: Mapping[str, tuple[float, ...]] | None = None) -> None:
        self.plan = plan
        self.statistics = dict(statistics or {})

    @property
    def benchmark(self) -> Settings:
        """The benchmark file's settings."""
        return self.plan.benchmark  # type: ignore[return-value]  # the registry pairs workloads and settings

    @property
    def policy(self) -> str:
        """Keras' type policy of the plan's precision; variables stay float32."""
        narrow = {"bf16": "mixed_bfloat16", "fp16": "mixed_float16"}
        return narrow.get(self.plan.point.precision, "float32")

    @abstractmethod
    def batch_spec(self) -> tuple[tf.TensorSpec, ...]:
        """Return shape and type of the tensors of a micro-batch, all dimensions known."""

    def evaluation_spec(self) -> tuple[tf.TensorSpec, ...]:
        """Return `batch_spec` for as many samples as are evaluated at once."""
        plan = self.plan
        if plan.evaluation_batch == plan.micro_batch:
            return self.batch_spec()
        one_step = {"accumulation": 1, "global_batch": plan.evaluation_batch * plan.point.replicas}
        point = plan.point.model_copy(update=one_step)
        return type(self)(plan.model_copy(update={"point": point}), self.statistics).batch_spec()

    @abstractmethod
    def parse(self, record: tf.Tensor, seed: tf.Tensor | None) -> Batch:
        """Return the tensors of one sample from its serialised tf.train.Example, as transferred to the device.

        Parameters
        ----------
        record
            Scalar string.
        seed
            Shape (2,) int32, for augmentation with ``tf.random.stateless_*``: different for each epoch and sample,
            equal for any number of ranks that share the files. None in evaluation: nothing random.
        """

    @property
    def read_part(self) -> Callable[[tf.Tensor, tf.Tensor], Batch] | None:
        """Reader of this rank's part of a sample at a path and offset, if ranks share samples; otherwise None.

        It is called for staged files, which staging has verified; in place, `parse` gets the whole record, whose
        checksum covers all of it.
        """
        return None

    def collate(self, samples: tf.data.Dataset, size: int) -> tf.data.Dataset:
        """Make batches (*tensors of `batch_spec`, weights) of parsed samples.

        Every batch has the full shape; ``weights``, shape (size,) float32, is 1 for a sample and 0 for padding of the
        last batch. By default samples are stacked and padded with zeros.
        """
        return samples.batch(size).map(lambda *parts: _filled(parts, size))

    @abstractmethod
    def build_model(self, seeds: Streams) -> keras.Model:
        """Return the model with fresh weights that depend only on ``seeds.weights``."""

    @abstractmethod
    def build_optimizer(self) -> keras.optimizers.Optimizer:
        """Return the optimizer; its ``learning_rate`` is assigned before each step."""

    @abstractmethod
    def learning_rate(self, step: int) -> float:
        """Return the learning rate of an optimizer step, counted from 0; an epoch has `RunPlan.epoch_steps` steps."""

    @abstractmethod
    def loss(self, model: keras.Model, batch: Batch, seed: tf.Tensor) -> tf.Tensor:
        """Return the loss to minimise over one micro-batch, a float32 scalar: a mean, so that ranks can be averaged.

        A `weighted` workload returns that mean times the `weight`. Runs inside the compiled step, under the gradient
        tape. ``seed``, shape (2,) int32, differs for each step and rank, for random choices with
        ``tf.random.stateless_*``.
        """

    def weight(self, batch: Batch) -> tf.Tensor:  # noqa: ARG002
        """Return the weight of a micro-batch of a `weighted` workload, a non-negative float32 scalar.

        Losses and weights are summed over the micro-batches of all ranks, in the same exchange as the gradients.
        Weights should be near 1: half-precision gradients have little range.
        """
        return tf.ones(())

    @abstractmethod
    def evaluate(self, model: keras.Model, batch: Batch, weights: tf.Tensor) -> tf.Tensor:
        """Return rows (k, m) float64 from which `quality` follows; the first column counts samples.

        The rows of all batches and ranks are gathered. Usually one row of sums, to which a sample of weight 0 must not
        contribute, whatever it holds. ``k`` may vary between batches, ``m`` must not.
        """

    @abstractmethod
    def quality(self, rows: NDArray[np.float64]) -> float:
        """Return the quality over the whole validation set from the rows of all batches and ranks, (K, m)."""

    @abstractmethod
    def hyperparameters(self) -> dict[str, Any]:
        """Return the hyper-parameters that an MLPerf log must contain, by key."""

    @abstractmethod
    def layers(self) -> tuple[LayerWork, ...]:
        """Return the multiplying layers (convolutions and dense layers), counted by a formula for one sample."""

    def batch_layers(self) -> tuple[LayerWork, ...]:
        """Return `layers` as executed in the compiled step: including a sample's share of the batch padding."""
        return self.layers()


def _filled(parts: Batch, size: int) -> Batch:
    weights = tf.sequence_mask(tf.shape(parts[0])[0], size, dtype=tf.float32)
    return *(_fill(part, size) for part in parts), weights


def _fill(part: tf.Tensor, size: int) -> tf.Tensor:
    missing = size - tf.shape(part)[0]
    paddings = [[0, missing]] + [[0, 0]] * (part.shape.rank - 1)
    return tf.ensure_shape(tf.pad(part, paddings), [size, *part.shape[1:]])
