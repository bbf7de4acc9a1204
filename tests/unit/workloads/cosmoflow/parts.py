"""Ranks that share samples, as threads of this process, and one rank with whole samples for comparison."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from unit.training.training_plans import make_plan

from hpcai.training import collective
from hpcai.training.backend import is_tensorflow
from hpcai.training.collectives.base import Ranks
from hpcai.training.workload import Streams
from hpcai.workloads.cosmoflow.training import CosmoFlow

EDGE = 16
SEEDS = Streams(weights=1, order=2, dropout=3)


class Group:
    """The collectives of ranks that are threads. Each puts its value into a table that the others read."""

    def __init__(self, parts: int) -> None:
        self.parts, self.names = parts, [[] for _ in range(parts)]
        self._own, self._barrier = threading.local(), threading.Barrier(parts)
        self._table: list[Any] = [None] * parts

    def __getitem__(self, index: int) -> tuple["Group", Ranks]:
        return self, Ranks(self._own.rank, self.parts, self._own.rank, self.parts, 0, 1)

    def run(self, step: Callable[[int], Any]) -> list[Any]:
        """Return what a function of the rank returns on each."""

        def on_rank(rank: int) -> Any:
            self._own.rank = rank
            try:
                return step(rank)
            except BaseException:
                self._barrier.abort()
                raise

        with ThreadPoolExecutor(self.parts) as threads:
            return list(threads.map(on_rank, range(self.parts)))

    def _meet(self, given: Any, name: str) -> list[Any]:
        self.names[self._own.rank].append(name)
        self._table[self._own.rank] = given
        self._barrier.wait(60)
        found = list(self._table)
        self._barrier.wait(60)
        return found

    def group_exchange(self, rows: tf.Tensor, sent: Sequence[int], received: Sequence[int], name: str) -> tf.Tensor:
        parts = [each[self._own.rank] for each in self._meet(tf.split(rows, sent), name)]
        assert [part.shape[0] for part in parts] == list(received)
        return tf.concat(parts, axis=0)

    def group_gather(self, rows: tf.Tensor, name: str) -> tf.Tensor:
        return tf.concat(self._meet(rows, name), axis=0)


@contextmanager
def group(parts: int) -> Iterator[Group]:
    """Let the collective layer exchange between threads."""
    with pytest.MonkeyPatch.context() as patch:
        ranks = Group(parts)
        patch.setattr(collective, "_joined", ranks)
        yield ranks


@keras.saving.register_keras_serializable(package="tests")
class Pool(keras.layers.MaxPooling3D):
    """A maximum over 2 x 2 x 2 voxels, because TensorFlow has none in double precision."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        depth = tf.maximum(inputs[:, ::2], inputs[:, 1::2])
        rows = tf.maximum(depth[:, :, ::2], depth[:, :, 1::2])
        return tf.maximum(rows[:, :, :, ::2], rows[:, :, :, 1::2])


def exact_model(workload: CosmoFlow) -> keras.Model:
    """Return the workload's model in double precision, with the same weights."""

    def exact(layer: keras.Layer) -> keras.Layer:
        config = {**layer.get_config(), "dtype": "float64"}
        inexact = is_tensorflow() and isinstance(layer, keras.layers.MaxPooling3D)
        return (Pool if inexact else type(layer)).from_config(config)

    model = workload.build_model(SEEDS)
    copy = keras.models.clone_model(model, clone_function=exact)
    rng = np.random.default_rng(1)  # biases of zero would hide an activation in the wrong place
    copy.set_weights([weight + 0.1 * rng.normal(size=weight.shape) for weight in model.get_weights()])
    return copy


def workload(parts: int, kernel: int = 3, conv_layers: int = 2, dropout: float = 0.0) -> CosmoFlow:
    """Return a small CosmoFlow of one replica."""
    model = {"kernel": kernel, "conv_layers": conv_layers, "dropout": dropout}
    return CosmoFlow(make_plan(parts, data={"edge": EDGE}, model=model, point={"spatial_parts": parts}))


def parts_of(values: np.ndarray, grid: Sequence[int]) -> list[np.ndarray]:
    """Return the parts of whole cubes (batch, depth, rows, ...), in the order of the ranks."""
    return [part for slab in np.split(values, grid[0], axis=1) for part in np.split(slab, grid[1], axis=2)]


def step_gradients(parts: int, counts: np.ndarray, targets: np.ndarray, **settings: Any) -> tuple[Any, list[Any]]:
    """Return a step's predictions on each rank, and its gradients as the engine averages them, layer by layer."""

    def step(rank: int) -> tuple[Any, list[Any]]:
        task = workload(parts, **settings)
        model = exact_model(task)
        with tf.GradientTape() as tape:
            predictions = model(parts_of(counts, task.benchmark.part_grid(parts))[rank], training=True)
            loss = tf.reduce_mean(tf.math.squared_difference(predictions, targets))
        gradients = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
        return predictions.numpy(), [gradient.numpy() for gradient in gradients]

    with group(parts) as ranks:
        results = ranks.run(step)
    assert len({tuple(names) for names in ranks.names}) == 1, "ranks exchange under other names"
    means = [np.mean(each, axis=0) for each in zip(*(gradients for _, gradients in results), strict=True)]
    return [predictions for predictions, _ in results], means
