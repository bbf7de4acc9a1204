"""LAMB, AdamW and Adam against their formulas, several steps long."""

from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

from hpcai.training.lamb import Lamb
from hpcai.training.moments import MomentOptimizer
from hpcai.workloads.deepcam.training.adam import Adam, AdamW

SHAPES = [(3, 3, 2, 4), (4,), (4,), (1,), (2, 5)]
RATES = [0.1, 0.2, 0.05, 0.01]
Step = Callable[[list, list, list, list, int, float], None]


def gradients(scale: float) -> list[list[np.ndarray]]:
    random = np.random.default_rng(4)
    steps = [[scale * random.normal(size=shape).astype(np.float32) for shape in SHAPES] for _ in RATES]
    for step in steps:
        # A variable without gradient: without decay its update has the norm 0.
        step[2][:] = 0
    return steps


def start() -> list[np.ndarray]:
    random = np.random.default_rng(6)
    values = [random.normal(size=shape).astype(np.float32) for shape in SHAPES]
    # As the shifts of batch normalisation begin: the norm is 0.
    values[1][:] = 0
    return values


def run(optimizer: MomentOptimizer, scale: float) -> list[np.ndarray]:
    variables = [keras.Variable(values) for values in start()]
    optimizer.build(variables)
    compiled = tf.function(lambda parts: optimizer.apply(parts, variables), autograph=False)
    for rate, parts in zip(RATES, gradients(scale), strict=True):
        optimizer.learning_rate.assign(rate)
        compiled([tf.constant(part) for part in parts])
    assert int(optimizer.iterations.numpy()) == len(RATES)
    return [variable.numpy() for variable in variables]


def lamb(decay: float, betas: tuple[float, float], scale: float) -> list[np.ndarray]:
    """multi_tensor_lamb.cu: adam_w_mode, bias_correction, grad_averaging, max_grad_norm 1, eps 1e-6."""
    values = [value.astype(np.float64) for value in start()]
    means, squares = ([np.zeros_like(value) for value in values] for _ in range(2))
    for step, (rate, parts) in enumerate(zip(RATES, gradients(scale), strict=True), 1):
        norm = np.sqrt(sum(float((part.astype(np.float64) ** 2).sum()) for part in parts))
        clip = norm / 1.0 if norm > 1.0 else 1.0
        for index, part in enumerate(parts):
            gradient = part / clip
            means[index] = betas[0] * means[index] + (1 - betas[0]) * gradient
            squares[index] = betas[1] * squares[index] + (1 - betas[1]) * gradient**2
            mean, square = means[index] / (1 - betas[0] ** step), squares[index] / (1 - betas[1] ** step)
            update = mean / (np.sqrt(square) + 1e-6) + decay * values[index]
            ratio = 1.0
            if decay != 0:
                norms = np.linalg.norm(values[index]), np.linalg.norm(update)
                ratio = norms[0] / norms[1] if all(norms) else 1.0
            values[index] = values[index] - rate * ratio * update
    return values


def adam(decay: float, betas: tuple[float, float], scale: float, *, decoupled: bool) -> list[np.ndarray]:
    """torch.optim.Adam and AdamW, eps 1e-6."""
    values = [value.astype(np.float64) for value in start()]
    means, squares = ([np.zeros_like(value) for value in values] for _ in range(2))
    for step, (rate, parts) in enumerate(zip(RATES, gradients(scale), strict=True), 1):
        for index, part in enumerate(parts):
            gradient = part.astype(np.float64)
            if decoupled:
                values[index] = values[index] * (1 - rate * decay)
            else:
                gradient = gradient + decay * values[index]
            means[index] = betas[0] * means[index] + (1 - betas[0]) * gradient
            squares[index] = betas[1] * squares[index] + (1 - betas[1]) * gradient**2
            denominator = np.sqrt(squares[index]) / np.sqrt(1 - betas[1] ** step) + 1e-6
            values[index] = values[index] - rate / (1 - betas[0] ** step) * means[index] / denominator
    return values


@pytest.mark.parametrize("scale", [1e-3, 1.0], ids=["below the clip", "clipped"])
@pytest.mark.parametrize("decay", [0.0, 0.01, 0.5])
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.8, 0.95)])
def test_lamb_is_the_formula_of_apex(scale: float, decay: float, betas: tuple[float, float]) -> None:
    for ours, expected in zip(run(Lamb(0.1, betas, decay), scale), lamb(decay, betas, scale), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize(("optimizer", "decoupled"), [(Adam, False), (AdamW, True)])
def test_adam_is_the_formula_of_pytorch(optimizer: type[MomentOptimizer], decoupled: bool, decay: float) -> None:
    expected = adam(decay, (0.9, 0.999), 1e-5, decoupled=decoupled)
    for ours, value in zip(run(optimizer(0.1, (0.9, 0.999), decay), 1e-5), expected, strict=True):
        np.testing.assert_allclose(ours, value, rtol=2e-5, atol=1e-6)


def test_a_variable_of_norm_zero_moves_with_the_plain_rate() -> None:
    """Shifts of batch normalisation begin at zero; a ratio of 0 would keep them there for ever."""
    moved = run(Lamb(0.1, (0.9, 0.999), 0.01), 1.0)[1]
    assert np.abs(moved).min() > 0


def test_a_gradient_that_is_no_number_shows() -> None:
    optimizer, variable = Lamb(0.1, (0.9, 0.999), 0.01), keras.Variable(np.ones(3, np.float32))
    optimizer.build([variable])
    optimizer.apply([tf.constant([1.0, np.nan, 1.0])], [variable])
    assert np.isnan(variable.numpy()).all()


def test_loss_scaling_changes_no_step_and_leaves_out_an_overflow() -> None:
    variables = [keras.Variable(values) for values in start()]
    scaled = keras.optimizers.LossScaleOptimizer(Lamb(RATES[0], (0.9, 0.999), 0.01), initial_scale=8.0)
    scaled.build(variables)
    compiled = tf.function(lambda parts: scaled.apply(parts, variables), autograph=False)
    overflow = [tf.fill(shape, np.inf) for shape in SHAPES]
    for rate, parts in zip(RATES, gradients(1.0), strict=True):
        scaled.learning_rate.assign(rate)
        before = [variable.numpy() for variable in variables]
        compiled([tf.cast(part, tf.float32) for part in overflow])
        for variable, value in zip(variables, before, strict=True):
            np.testing.assert_array_equal(variable.numpy(), value)
        # Each overflow halves the scale.
        scale = float(scaled.scale_loss(1.0))
        compiled([tf.constant(part * scale) for part in parts])
    for variable, expected in zip(variables, run(Lamb(0.1, (0.9, 0.999), 0.01), 1.0), strict=True):
        np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-5, atol=1e-7)
