"""Outputs and gradients of pooled convolutions, by blocks and by XLA's own operations: `pooled_program.py FILE`.

Keras chooses its backend at import, so JAX needs a process of its own.
"""

import os
import sys

os.environ.update(KERAS_BACKEND="jax", TF_CPP_MIN_LOG_LEVEL="2")

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import keras
import numpy as np
from numpy.typing import NDArray

from hpcai.workloads.cosmoflow.pooled import FirstMaximum3D, PooledConv3D

FILTERS = 6
RANDOM = np.random.default_rng(5)
Values = NDArray[np.float32]


def few(*shape: int) -> Values:
    """Return few different integers: sums are exact in any order, and blocks have several largest voxels."""
    return RANDOM.integers(-2, 3, shape).astype(np.float32)


def outcome(network: Callable[..., jax.Array], given: Sequence[Values], factors: Values) -> list[jax.Array]:
    """Return the outputs of a network and the gradients of their sum, weighted by factors."""

    def total(*given: jax.Array) -> tuple[jax.Array, jax.Array]:
        outputs = network(*given).astype("float32")
        return jnp.sum(outputs * factors), outputs

    step = jax.jit(jax.value_and_grad(total, argnums=range(len(given)), has_aux=True))
    (_, outputs), gradients = step(*map(jnp.asarray, given))
    return [outputs, *gradients]


def by_layer(layer: keras.Layer, inputs: Values) -> Callable[..., jax.Array]:
    """Return a layer as a function of inputs and weights, once its shapes have been compared."""
    assert layer(inputs).shape == layer.compute_output_shape(inputs.shape)
    return lambda inputs, *weights: layer.stateless_call(weights, [], inputs)[0]


def pool(values: jax.Array) -> jax.Array:
    edges = (1, 2, 2, 2, 1)
    return jax.lax.reduce_window(values, -jnp.inf, jax.lax.max, edges, edges, "VALID")


def convolution(values: jax.Array, kernel: jax.Array) -> jax.Array:
    order = ("NDHWC", "DHWIO", "NDHWC")
    return jax.lax.conv_general_dilated(values, kernel, (1, 1, 1), "SAME", dimension_numbers=order)


def main() -> None:
    """Save outcomes, two by two."""
    inputs, found = few(2, 8, 4, 6, 3), {}
    for kind in ("float32", "bfloat16"):
        factors = few(2, 4, 2, 3, 3)
        ours = outcome(by_layer(FirstMaximum3D(dtype=kind), inputs), [inputs], factors)
        found[f"pool {kind}"] = (ours, outcome(pool, [inputs], factors))
    for taps in (2, 3):
        layer = PooledConv3D(FILTERS, taps, padding="same", use_bias=False, dtype="float32")
        factors, given = few(2, 4, 2, 3, FILTERS), [inputs, few(taps, taps, taps, 3, FILTERS)]
        ours = outcome(by_layer(layer, inputs), given, factors)
        found[f"convolution {taps}"] = (ours, outcome(lambda *two: pool(convolution(*two)), given, factors))
    arrays = {}
    for name, pair in found.items():
        for who, values in zip(("ours", "theirs"), pair, strict=True):
            arrays.update({f"{name} {number} {who}": np.asarray(one) for number, one in enumerate(values)})
    np.savez(sys.argv[1], **arrays)


main()
