"""Convolutions against sums of products."""

import numpy as np
import pytest
import tensorflow as tf

from hpcai.training.backend import FEWEST_STRIDED_INPUTS, convolve


@pytest.mark.parametrize("inputs", [1, 4, FEWEST_STRIDED_INPUTS - 1, FEWEST_STRIDED_INPUTS])
def test_gradients_of_strided_pointwise_convolutions(inputs: int) -> None:
    random = np.random.default_rng(inputs)
    values = random.standard_normal((4, 13, 12, inputs)).astype("float32")
    kernel = random.standard_normal((1, 1, inputs, 10)).astype("float32")
    above = random.standard_normal((4, 7, 6, 10)).astype("float32")

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def compute(given: tf.Tensor, weights: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            tape.watch([given, weights])
            found = convolve(given, weights, stride=2)
        return found, tape.gradient(found, [given, weights], above)

    found, (of_values, of_kernel) = compute(tf.constant(values), tf.constant(kernel))
    taken = values[:, ::2, ::2].astype(float)
    np.testing.assert_allclose(found, np.einsum("bhwi,io->bhwo", taken, kernel[0, 0]), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(of_kernel[0, 0], np.einsum("bhwi,bhwo->io", taken, above), rtol=1e-4, atol=1e-4)
    expected = np.zeros(values.shape)
    expected[:, ::2, ::2] = np.einsum("bhwo,io->bhwi", above, kernel[0, 0])
    np.testing.assert_allclose(of_values, expected, rtol=1e-4, atol=1e-4)
