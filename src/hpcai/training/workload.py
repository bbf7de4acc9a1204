"""What a benchmark has to say about itself; the loop does the rest."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from hpcai.config.runs import RunPlan


@dataclass(frozen=True)
class Streams:
    """Seeds of a run's independent random streams."""

    weights: int
    order: int
    dropout: int


def seed_streams(seed: int, rank: int) -> Streams:
    """Derive the streams of a rank from the run's seed: all ranks share weights and order, none shares dropout."""

    def draw(*key: int) -> int:
        return int(np.random.SeedSequence([seed, *key]).generate_state(1)[0]) % (2**31 - 1)

    return Streams(weights=draw(0), order=draw(1), dropout=draw(2, rank))


class Workload(ABC):
    """One benchmark: model, loss, optimizer, sample format, quality and the hyper-parameters to log."""

    mlperf_name: ClassVar[str]
    quality_metric: ClassVar[str]
    higher_is_better: ClassVar[bool]
    quality_key: ClassVar[str]
    """Key of the quality in an MLPerf log: eval_error or eval_accuracy."""

    def __init__(self, plan: RunPlan) -> None:
        self.plan = plan

    @abstractmethod
    def batch_spec(self) -> tuple[tf.TensorSpec, tf.TensorSpec]:
        """Return shape and type of a batch's features and targets."""

    @abstractmethod
    def parse(self, record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return features and targets of one serialised record, as they travel to the device."""

    @abstractmethod
    def build_model(self, seeds: Streams) -> keras.Model:
        """Return the model, from features as parsed to predictions, with fresh weights."""

    @abstractmethod
    def build_optimizer(self) -> keras.optimizers.Optimizer:
        """Return the optimizer."""

    @abstractmethod
    def learning_rate(self, epoch: int) -> float:
        """Return the learning rate of an epoch, counted from 0."""

    @abstractmethod
    def loss(self, model: keras.Model, targets: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Return the loss to minimise: the mean over the batch, a float32 scalar."""

    @abstractmethod
    def quality_sums(self, targets: tf.Tensor, predictions: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Return the sums of a batch from which the quality follows; the first one counts the samples, (n,)."""

    @abstractmethod
    def quality(self, sums: NDArray[np.float64]) -> float:
        """Return the quality from the sums over all samples."""

    @abstractmethod
    def hyperparameters(self) -> dict[str, Any]:
        """Return the hyper-parameters that an MLPerf log must show, by key."""
