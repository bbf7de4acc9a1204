"""Outputs and gradients of one step in double precision: `gradients_program.py BACKEND NETWORK FILE`.

All weights are drawn here, so that they are the same on both backends.
"""

import os
import sys

BACKEND, NETWORK, FILE = sys.argv[1:4]
os.environ.update(KERAS_BACKEND=BACKEND, JAX_ENABLE_X64="1", TF_CPP_MIN_LOG_LEVEL="2")

from collections.abc import Sequence  # noqa: E402
from typing import Any  # noqa: E402

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import ops  # noqa: E402
from keras.src.backend.jax import numpy as keras_numpy  # noqa: E402
from unit.workloads.deepcam.training import deepcam_plans  # noqa: E402
from unit.workloads.image_classification.training import image_plans  # noqa: E402

from hpcai.training import batch_norm  # noqa: E402
from hpcai.workloads.deepcam.training.network import apply_network  # noqa: E402
from hpcai.workloads.deepcam.training.parts import Parts  # noqa: E402
from hpcai.workloads.image_classification.training.model import ResNet  # noqa: E402


def mean(values: jax.Array, axis: Any = None, keepdims: bool = False) -> jax.Array:
    return jnp.mean(jnp.asarray(values), axis=axis, keepdims=keepdims)


batch_norm.is_tensorflow = lambda: False  # TensorFlow's fused operation has no double precision
keras_numpy.mean = mean  # Keras takes means in single precision


def network() -> keras.Model:
    """Return a small network of double precision behind what scales its inputs."""
    if NETWORK == "deepcam":
        plan = deepcam_plans.make_plan()
        inputs = keras.Input((32, 48, 16), batch_size=plan.micro_batch, dtype="float64")
        return keras.Model(inputs, apply_network(Parts(plan, "float64", 1), plan.benchmark.model, inputs))
    plan = image_plans.image_plan()
    whole = ResNet(plan, plan.benchmark.model, 1).build(32, 3, "float64")
    return keras.Model(whole.get_layer("normalised").output, whole.get_layer("classes").output)


def step(model: keras.Model, inputs: Any, mix: Any) -> tuple[Any, Sequence[Any], Sequence[Any]]:
    """Return the outputs, the gradients of sum(mix x outputs^2), and the moving statistics after the step."""
    trained, others = model.trainable_variables, model.non_trainable_variables
    if BACKEND == "tensorflow":
        # TensorFlow's own kernels for processors have no gradient of a dilated convolution in double precision.
        @tf.function(autograph=False, jit_compile=NETWORK == "deepcam")
        def compiled() -> tuple[tf.Tensor, list[tf.Tensor]]:
            with tf.GradientTape() as tape:
                outputs = model(inputs, training=True)
                total = ops.sum(ops.square(outputs) * mix)
            return outputs, tape.gradient(total, [one.value for one in trained])

        outputs, gradients = compiled()
        return outputs, gradients, [one.numpy() for one in others]

    def total_of(values: list[jax.Array]) -> tuple[jax.Array, tuple[jax.Array, list[jax.Array]]]:
        before = [*zip(trained, values, strict=True), *((one, one.value) for one in others)]
        with keras.StatelessScope(state_mapping=before) as scope:
            outputs = model(inputs, training=True)
        return ops.sum(ops.square(outputs) * mix), (outputs, [scope.get_current_value(one) for one in others])

    (_, (outputs, after)), gradients = jax.value_and_grad(total_of, has_aux=True)([one.value for one in trained])
    return outputs, gradients, after


def main() -> None:
    random, model = np.random.default_rng(9), network()
    for variable in model.weights:
        shape = variable.shape
        kernel = random.standard_normal(shape) * np.sqrt(2 / np.prod(shape[:-1])) if len(shape) > 1 else None
        variable.assign(random.uniform(0.5, 1.5, shape) if kernel is None else kernel)
    inputs, mix = (ops.convert_to_tensor(random.standard_normal(one.shape)) for one in (model.input, model.output))
    outputs, gradients, after = step(model, inputs, mix)
    np.savez(FILE, outputs, *gradients, *after)


main()
