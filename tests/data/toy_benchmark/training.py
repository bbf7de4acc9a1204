"""The toy's training."""

from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from hpcai.training.work import LayerWork
from hpcai.training.workload import Batch, Streams, Workload
from hpcai.workloads.toy.settings import ToyBenchmark


class Toy(Workload[ToyBenchmark]):
    """One dense layer."""

    mlperf_name: ClassVar[str] = "toy"
    quality_metric: ClassVar[str] = "mean_absolute_error"
    higher_is_better: ClassVar[bool] = False
    quality_key: ClassVar[str] = "eval_error"

    def batch_spec(self) -> tuple[tf.TensorSpec, ...]:
        """Return inputs and sums."""
        batch, numbers = self.plan.micro_batch, self.benchmark.data.numbers
        return tf.TensorSpec([batch, numbers], tf.float32), tf.TensorSpec([batch, 1], tf.float32)

    def parse(self, record: tf.Tensor, seed: tf.Tensor | None) -> Batch:
        """Return inputs and sum of one sample."""
        numbers = tf.io.FixedLenFeature([self.benchmark.data.numbers], tf.float32)
        example = tf.io.parse_single_example(record, {"x": numbers, "y": tf.io.FixedLenFeature([1], tf.float32)})
        return example["x"], example["y"]

    def build_model(self, seeds: Streams) -> keras.Model:
        """Return the layer."""
        inputs = keras.Input((self.benchmark.data.numbers,), batch_size=self.plan.micro_batch)
        start = keras.initializers.GlorotUniform(seed=seeds.weights)
        return keras.Model(inputs, keras.layers.Dense(1, kernel_initializer=start)(inputs))

    def build_optimizer(self) -> keras.optimizers.Optimizer:
        """Return plain gradient descent."""
        return keras.optimizers.SGD(self.learning_rate(0))

    def learning_rate(self, step: int) -> float:
        """Return the same rate for all steps."""
        return self.benchmark.recipe.learning_rate

    def loss(self, model: keras.Model, batch: Batch, seed: tf.Tensor) -> tf.Tensor:
        """Return the mean squared error."""
        return tf.reduce_mean(tf.math.squared_difference(model(batch[0], training=True), batch[1]))

    def evaluate(self, model: keras.Model, batch: Batch, weights: tf.Tensor) -> tf.Tensor:
        """Return the number of samples and the sum of their absolute errors."""
        errors = tf.abs(model(batch[0], training=False) - batch[1])[:, 0]
        return tf.cast(tf.stack([tf.reduce_sum(weights), tf.reduce_sum(errors * weights)])[tf.newaxis], tf.float64)

    def quality(self, rows: NDArray[np.float64]) -> float:
        """Return the mean absolute error."""
        samples, error = rows.sum(axis=0)
        return float(error / samples)

    def hyperparameters(self) -> dict[str, Any]:
        """Return what a log shows."""
        return {"opt_name": "sgd"}

    def layers(self) -> tuple[LayerWork, ...]:
        """Return the layer."""
        return (LayerWork("dense", self.benchmark.data.numbers, needs_input_gradient=False),)
