"""LARS and LAMB as large batches are trained with, against float64 steps written with NumPy alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from unit.workloads.image_classification.training.image_plans import image_plan

from hpcai.training.registry import workload_of

SHAPES = [(3, 3, 2, 4), (4,), (4,), (8, 5), (5,), (2, 3)]
"""Convolution, scale and shift of batch norm, dense kernel, bias, and a kernel that begins at zero."""
RATES = [0.1, 0.4, 0.4, 0.05]
DECAY = 0.05
TESTS = Path(__file__).parents[2]


def start() -> list[np.ndarray]:
    random = np.random.default_rng(6)
    values = [random.normal(size=shape).astype(np.float32) for shape in SHAPES]
    values[-1][:] = 0
    return values


def gradients(scale: float) -> list[list[np.ndarray]]:
    random = np.random.default_rng(4)
    steps = [[scale * random.normal(size=shape).astype(np.float32) for shape in SHAPES] for _ in RATES]
    steps[0][3][:] = 0  # a kernel without gradient
    return steps


def steps_of_ours(optimizer: keras.optimizers.Optimizer, scale: float) -> list[np.ndarray]:
    variables = [keras.Variable(values) for values in start()]
    optimizer.build(variables)
    step, tensor = lambda parts: optimizer.apply(parts, variables), keras.ops.convert_to_tensor
    if keras.backend.backend() == "tensorflow":
        step, tensor = tf.function(step, autograph=False), tf.constant
    for rate, parts in zip(RATES, gradients(scale), strict=True):
        optimizer.learning_rate.assign(rate)
        step([tensor(part) for part in parts])
    assert int(optimizer.iterations.numpy()) == len(RATES)
    return [np.asarray(variable.numpy()) for variable in variables]


def lars(scale: float, momentum: float, trust: float) -> list[np.ndarray]:
    """mlcommons/training, lars_optimizer.py: compute_lr and _resource_apply_dense, skip_list [batch norm, bias]."""
    values = [value.astype(np.float64) for value in start()]
    velocities = [np.zeros_like(value) for value in values]
    for rate, parts in zip(RATES, gradients(scale), strict=True):
        for index, part in enumerate(parts):
            gradient, scaled = part.astype(np.float64), rate
            if SHAPES[index] not in [(4,), (5,)]:
                weight, slope = np.linalg.norm(values[index]), np.linalg.norm(gradient)
                if weight > 0 and slope > 0:
                    scaled = rate * trust * weight / (slope + DECAY * weight + 1e-7)
                gradient = gradient + DECAY * values[index]
            velocities[index] = momentum * velocities[index] - scaled * gradient
            values[index] = values[index] + velocities[index]
    return values


def lamb(scale: float, betas: tuple[float, float]) -> list[np.ndarray]:
    """You et al. 2020, algorithm 2, with apex' clip; batch norm and bias have neither decay nor ratio."""
    values = [value.astype(np.float64) for value in start()]
    means, squares = ([np.zeros_like(value) for value in values] for _ in range(2))
    for step, (rate, parts) in enumerate(zip(RATES, gradients(scale), strict=True), 1):
        clip = max(1.0, np.sqrt(sum(float((part.astype(np.float64) ** 2).sum()) for part in parts)))
        for index, part in enumerate(parts):
            gradient = part.astype(np.float64) / clip
            means[index] = betas[0] * means[index] + (1 - betas[0]) * gradient
            squares[index] = betas[1] * squares[index] + (1 - betas[1]) * gradient**2
            mean, square = means[index] / (1 - betas[0] ** step), squares[index] / (1 - betas[1] ** step)
            update, ratio = mean / (np.sqrt(square) + 1e-6), 1.0
            if SHAPES[index] not in [(4,), (5,)]:
                update = update + DECAY * values[index]
                norms = np.linalg.norm(values[index]), np.linalg.norm(update)
                ratio = norms[0] / norms[1] if all(norms) else 1.0
            values[index] = values[index] - rate * ratio * update
    return values


def optimizer_of(name: str, **recipe: object) -> keras.optimizers.Optimizer:
    plan = image_plan(recipe={"optimizer": name, "weight_decay": DECAY, **recipe})
    return workload_of(plan).build_optimizer()


@pytest.mark.parametrize("scale", [1e-3, 1.0])
@pytest.mark.parametrize(("momentum", "trust"), [(0.9, 0.001), (0.875, 0.02)])
def test_lars_is_mlperfs_reference(scale: float, momentum: float, trust: float) -> None:
    ours = steps_of_ours(optimizer_of("lars", momentum=momentum, trust_coefficient=trust), scale)
    for found, expected in zip(ours, lars(scale, momentum, trust), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-3, 1.0])
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.8, 0.95)])
def test_lamb_leaves_batch_norm_and_bias_alone(scale: float, betas: tuple[float, float]) -> None:
    ours = steps_of_ours(optimizer_of("lamb", betas=list(betas)), scale)
    for found, expected in zip(ours, lamb(scale, betas), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["lars", "lamb"])
def test_loss_scaling_changes_no_step_and_leaves_out_an_overflow(name: str) -> None:
    variables = [keras.Variable(values) for values in start()]
    scaled = keras.optimizers.LossScaleOptimizer(optimizer_of(name), initial_scale=8.0)
    scaled.build(variables)
    compiled = tf.function(lambda parts: scaled.apply(parts, variables), autograph=False)
    before = [variable.numpy() for variable in variables]
    compiled([tf.fill(shape, np.inf) for shape in SHAPES])
    for variable, value in zip(variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)
    for rate, parts in zip(RATES, gradients(1.0), strict=True):
        scaled.learning_rate.assign(rate)
        scale = float(scaled.scale_loss(1.0))
        compiled([tf.constant(part * scale) for part in parts])
    for variable, expected in zip(variables, steps_of_ours(optimizer_of(name), 1.0), strict=True):
        np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-5, atol=1e-7)


def in_a_process(engine: str, code: str) -> dict:
    """Return what a program prints whose Keras computes with an engine: the backend is chosen on import."""
    environment = {**os.environ, "KERAS_BACKEND": engine, "PYTHONPATH": str(TESTS)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_jax_takes_the_same_steps() -> None:
    code = (
        "import json; from unit.training.test_large_batch import optimizer_of, steps_of_ours; print(json.dumps("
        "{name: [one.tolist() for one in steps_of_ours(optimizer_of(name), 1.0)] for name in ('lars', 'lamb')}))"
    )
    found = in_a_process("jax", code)
    for name, expected in {"lars": lars(1.0, 0.875, 0.001), "lamb": lamb(1.0, (0.9, 0.999))}.items():
        for ours, value in zip(found[name], expected, strict=True):
            np.testing.assert_allclose(np.array(ours), value, rtol=2e-5, atol=1e-6)


ENGINE_STEPS = """
import json
import numpy as np
from unit.workloads.image_classification.training.image_plans import image_plan
from hpcai.training import collective
from hpcai.training.engines import steps_of
from hpcai.training.registry import workload_of
from hpcai.training.workload import Streams
modules, found = steps_of(ENGINE), {}
modules.configure_device(image_plan().machine.device, 1, 0)
for name in ("lars", "lamb"):
    recipe = {"optimizer": name, "base_learning_rate": 2.0 if name == "lars" else 0.01}
    plan = image_plan(recipe=recipe, point={"engine": ENGINE})
    if not found:
        collective.start(plan.point, ENGINE)
    engine = modules.Engine(workload_of(plan), Streams(weights=1, order=2, dropout=3))
    engine.warm_up()
    engine.set_learning_rate(plan.benchmark.recipe.base_learning_rate)
    random = np.random.default_rng(2)
    batch = random.uniform(0, 255, (8, 32, 32, 3)).astype(np.float32), np.arange(8, dtype=np.int32)
    found[name] = [float(engine.train([batch])) for _ in range(4)]
print(json.dumps(found))
"""


@pytest.mark.slow
def test_whole_steps_are_those_of_tensorflow_with_jax() -> None:
    tensorflow, jax = (in_a_process(name, f"ENGINE = {name!r}\n{ENGINE_STEPS}") for name in ("tensorflow", "jax"))
    for name in ("lars", "lamb"):
        assert tensorflow[name][-1] < tensorflow[name][0]
        np.testing.assert_allclose(jax[name], tensorflow[name], rtol=2e-3)
