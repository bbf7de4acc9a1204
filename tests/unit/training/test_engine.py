"""Steps, micro-batches, loss scaling and moving statistics of one rank."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf
from unit.training.training_plans import make_plan

from hpcai.config.machine import Device
from hpcai.training.batch_norm import batch_norm
from hpcai.training.engine import Engine
from hpcai.training.work import LayerWork
from hpcai.training.workload import Streams, Workload
from hpcai.workloads.cosmoflow.training import CosmoFlow

SEEDS = Streams(weights=1, order=2, dropout=3)


class Line(Workload[Any]):
    """A dense layer after batch normalisation: the smallest model with everything that the engine handles."""

    mlperf_name: ClassVar[str] = "line"
    quality_metric: ClassVar[str] = "error"
    higher_is_better: ClassVar[bool] = False
    quality_key: ClassVar[str] = "eval_error"

    def batch_spec(self) -> tuple[tf.TensorSpec, ...]:
        size = self.plan.micro_batch
        return tf.TensorSpec([size, 1, 1, 2], tf.float32), tf.TensorSpec([size], tf.float32)

    def parse(self, record: tf.Tensor, seed: tf.Tensor | None) -> tuple[tf.Tensor, ...]:
        raise NotImplementedError

    def build_model(self, seeds: Streams) -> keras.Model:
        inputs = keras.Input((1, 1, 2), batch_size=self.plan.micro_batch)
        values = batch_norm(self.plan, momentum=0.5, epsilon=1e-5, dtype=self.policy)(inputs)
        values = keras.layers.Dense(1, kernel_initializer="ones", dtype=self.policy)(values)
        return keras.Model(inputs, keras.layers.Reshape((), dtype="float32")(values))

    def build_optimizer(self) -> keras.optimizers.Optimizer:
        return keras.optimizers.SGD(0.0)

    def learning_rate(self, step: int) -> float:
        return 0.1 * step

    def loss(self, model: keras.Model, batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tf.Tensor:
        inputs, targets = batch
        noise = tf.random.stateless_uniform([], seed) if self.noisy else 0.0
        return self.factor * tf.reduce_mean(tf.square(model(inputs, training=True) - targets)) + noise

    def evaluate(self, model: keras.Model, batch: tuple[tf.Tensor, ...], weights: tf.Tensor) -> tf.Tensor:
        return tf.stack([tf.cast(weights, tf.float64), tf.cast(model(batch[0], training=False), tf.float64)], 1)

    def quality(self, rows: np.ndarray) -> float:
        return float(rows.sum())

    def hyperparameters(self) -> dict[str, Any]:
        return {}

    def layers(self) -> tuple[LayerWork, ...]:
        return ()

    noisy = False
    factor = 1.0


class Weighted(Line):
    """Micro-batches are weighted by the sum of their targets, which here are numbers of parts."""

    weighted: ClassVar[bool] = True

    def weight(self, batch: tuple[tf.Tensor, ...]) -> tf.Tensor:
        return tf.reduce_sum(batch[1])

    def loss(self, model: keras.Model, batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tf.Tensor:
        nothing = 0.0 * tf.reduce_sum(model(batch[0], training=True))
        return self.weight(batch) * (tf.reduce_sum(model.layers[-2].kernel.value) + nothing)


def engine_of(workload: type[Workload[Any]] = Line, **point: object) -> Engine:
    return Engine(workload(make_plan(point={"global_batch": 4, **point})), SEEDS)


def random_batch(size: int = 4) -> tuple[tf.Tensor, ...]:
    random = np.random.default_rng(4)
    return tf.constant(random.normal(size=(size, 1, 1, 2)), tf.float32), tf.constant(
        random.normal(size=size), tf.float32
    )


def test_micro_batches_make_the_step_of_the_whole_batch(single_rank: None) -> None:
    whole, parts = (
        Engine(CosmoFlow(make_plan(point={"global_batch": 4, "accumulation": count})), SEEDS) for count in (1, 2)
    )
    random = np.random.default_rng(2)
    for _ in range(3):
        counts = tf.constant(random.poisson(1, (4, 16, 16, 16, 4)), tf.int16)
        targets = tf.constant(random.uniform(-1, 1, (4, 4)), tf.float32)
        for engine in (whole, parts):
            engine.set_learning_rate(0.01)
        one = whole.train([(counts, targets)])
        two = parts.train([(counts[:2], targets[:2]), (counts[2:], targets[2:])])
        assert float(one) == pytest.approx(float(two), rel=1e-5)
    for first, second in zip(whole.model.weights, parts.model.weights, strict=True):
        np.testing.assert_allclose(first.numpy(), second.numpy(), rtol=1e-4, atol=1e-6)


def test_a_step_is_normalised_by_the_weights_of_all_its_micro_batches(single_rank: None) -> None:
    engine = engine_of(Weighted, accumulation=2)
    engine.warm_up()
    kernel = next(weight for weight in engine.model.trainable_weights if weight.name == "kernel")
    engine.set_learning_rate(0.5)
    inputs = random_batch()[0]
    batches = [(inputs[:2], tf.constant([1.0, 2.0])), (inputs[2:], tf.constant([0.0, 5.0]))]
    assert float(engine.train(batches)) == pytest.approx(2.0)  # the sum of two ones, whatever the weights
    np.testing.assert_allclose(kernel.numpy(), 1 - 0.5, rtol=1e-6)  # the gradient is one as well
    none = [(inputs[:2], tf.zeros(2)), (inputs[2:], tf.zeros(2))]
    assert float(engine.train(none)) == 0
    np.testing.assert_allclose(kernel.numpy(), 1 - 0.5, rtol=1e-6)


def test_warm_up_with_micro_batches_leaves_no_trace(single_rank: None) -> None:
    engine, untouched = engine_of(accumulation=2), engine_of(accumulation=2)
    engine.warm_up()
    assert engine.no_rows.shape == (0, 2)
    inputs, targets = random_batch()
    batches = [(inputs[:2], targets[:2]), (inputs[2:], targets[2:])]
    losses = []
    for one in (engine, untouched):
        one.set_learning_rate(0.1)
        losses.append(float(one.train(batches)))
    assert losses[0] == losses[1]
    assert engine.digest() == untouched.digest()


def test_random_choices_differ_from_step_to_step(single_rank: None) -> None:
    class Noisy(Line):
        noisy = True

    engine, again = engine_of(Noisy), engine_of(Noisy)
    losses = [[float(one.train([random_batch()])) for _ in range(3)] for one in (engine, again)]
    assert losses[0] == losses[1]
    assert len(set(losses[0])) == 3


def test_evaluation_gives_the_rows_of_the_workload(single_rank: None) -> None:
    rows = engine_of().evaluate((*random_batch(), tf.constant([1.0, 1, 1, 0]))).numpy()
    assert rows.shape == (4, 2)
    assert rows[:, 0].tolist() == [1, 1, 1, 0]


def test_half_precision_scales_the_loss_and_takes_the_same_step(single_rank: None) -> None:
    """Gradients of 1e-9 vanish in half precision without loss scaling."""

    class Small(Line):
        factor = 1e-7

    engines = [engine_of(Small, precision=precision) for precision in ("fp32", "fp16")]
    for engine in engines:
        engine.set_learning_rate(1e6)
        engine.train([random_batch()])
    exact, half = ([weight.numpy() for weight in engine.model.trainable_weights] for engine in engines)
    for one, other in zip(exact, half, strict=True):
        np.testing.assert_allclose(other, one, rtol=2e-2, atol=2e-3)
    kernel = next(weight for weight in engines[1].model.trainable_weights if weight.name == "kernel")
    assert np.abs(kernel.numpy() - 1).max() > 1e-3


def test_half_precision_leaves_out_a_step_that_overflows(single_rank: None) -> None:
    class Large(Line):
        factor = 1e8

    engine = engine_of(Large, precision="fp16")
    before = [weight.numpy() for weight in engine.model.trainable_weights]
    scale = float(engine.optimizer.dynamic_scale)
    engine.set_learning_rate(0.1)
    engine.train([random_batch()])
    for weight, value in zip(engine.model.trainable_weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)
    assert float(engine.optimizer.dynamic_scale) < scale


@pytest.mark.parametrize(("precision", "skipped"), [("fp16", 3), ("fp32", 0)])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_steps_that_overflow_are_counted(single_rank: None, precision: str, skipped: int, accumulation: int) -> None:
    class Large(Line):
        factor = 1e8

    engine = engine_of(Large, precision=precision, accumulation=accumulation)
    engine.warm_up()
    assert engine.skipped_steps == 0
    inputs, targets = random_batch()
    size = 4 // accumulation
    batches = [(inputs[first : first + size], targets[first : first + size]) for first in range(0, 4, size)]
    for _ in range(3):
        engine.train(batches)
    assert engine.skipped_steps == skipped


def test_steps_count_as_soon_as_the_loss_scale_has_found_its_size(single_rank: None) -> None:
    class Larger(Line):
        factor = 1e3

    engine = engine_of(Larger, precision="fp16")
    found = []
    for _ in range(20):
        engine.train([random_batch()])
        found.append(engine.skipped_steps)
    skipped = found[-1]
    assert 0 < skipped < 20
    assert found == [*range(1, skipped + 1), *[skipped] * (20 - skipped)]


def test_a_learning_rate_reaches_the_optimizer_behind_the_loss_scale(single_rank: None) -> None:
    engine = engine_of(precision="fp16")
    engine.set_learning_rate(0.25)
    assert float(engine.optimizer.inner_optimizer.learning_rate) == 0.25


def test_steps_with_large_gradients_are_skipped_and_counted() -> None:
    inputs, targets = tf.ones([4, 16, 16, 16, 4], tf.int16), tf.zeros([4, 4])
    engines = {}
    for limit in (0.0, 1e-9, 1e9):
        recipe = {"skip_gradient_norm": limit}
        engines[limit] = Engine(CosmoFlow(make_plan(recipe=recipe, model={"conv_layers": 1})), SEEDS)
        engines[limit].warm_up()
        assert engines[limit].skipped_steps == 0
        before = engines[limit].digest()
        engines[limit].set_learning_rate(0.1)
        for _ in range(2):
            engines[limit].train([(inputs, targets)])
        assert (engines[limit].digest() == before) == (limit == 1e-9)
    assert [engine.skipped_steps for engine in engines.values()] == [0, 2, 0]
    assert engines[0.0].digest() == engines[1e9].digest()


@pytest.fixture
def tf32_allowed() -> Iterator[Callable[[], bool]]:
    """Whether TensorFlow may take TF32; afterwards it may, as at its start."""
    yield tf.config.experimental.tensor_float_32_execution_enabled
    tf.config.experimental.enable_tensor_float_32_execution(True)


@pytest.mark.parametrize(("precision", "allowed"), [("fp32", False), ("tf32", True), ("bf16", True), ("fp16", True)])
def test_accelerators_multiply_as_the_plan_asks(
    tf32_allowed: Callable[[], bool], precision: str, allowed: bool
) -> None:
    class Seen(Line):
        def build_model(self, seeds: Streams) -> keras.Model:
            seen.append(tf32_allowed())  # before anything is compiled
            return super().build_model(seeds)

    plan = make_plan(point={"global_batch": 4, "precision": precision})
    seen: list[bool] = []
    for before in (True, False):
        tf.config.experimental.enable_tensor_float_32_execution(before)
        Engine(Seen(plan), SEEDS)
        assert tf32_allowed() == before  # a processor has no TF32: nothing is set
        gpu = plan.machine.model_copy(update={"device": Device(kind="gpu")})
        Engine(Seen(plan.model_copy(update={"machine": gpu})), SEEDS)
        assert tf32_allowed() == allowed
    assert seen == [True, allowed, False, allowed]
