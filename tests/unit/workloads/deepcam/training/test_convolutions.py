"""Convolutions against their definition, written out in NumPy as PyTorch documents them."""

import math

import numpy as np
import pytest
import tensorflow as tf
from unit.workloads.deepcam.training.deepcam_plans import needs_bf16

from hpcai.workloads.deepcam.training.convolutions import (
    Convolution,
    Kernel,
    SeparableConvolution,
    TransposedConvolution,
)
from hpcai.workloads.deepcam.training.initial import Start, he_normal, pytorch_default

START = Start(he_normal, 5)
RANDOM = np.random.default_rng(2)


def frames(channels: int, height: int = 6, width: int = 8) -> np.ndarray:
    return RANDOM.normal(size=(2, height, width, channels)).astype(np.float32)


def convolve(inputs: np.ndarray, kernel: np.ndarray, stride: int, padding: int, dilation: int) -> np.ndarray:
    """out[o] = sum over k of in[stride o - padding + dilation k] w[k] (torch.nn.Conv2d), channels last."""
    batch, height, width, _ = inputs.shape
    edge = kernel.shape[0]
    rows, columns = ((length + 2 * padding - dilation * (edge - 1) - 1) // stride + 1 for length in (height, width))
    outputs = np.zeros((batch, rows, columns, kernel.shape[3]))
    for row in range(rows):
        for column in range(columns):
            for i in range(edge):
                for j in range(edge):
                    y, x = stride * row - padding + dilation * i, stride * column - padding + dilation * j
                    if 0 <= y < height and 0 <= x < width:
                        outputs[:, row, column] += inputs[:, y, x] @ kernel[i, j]
    return outputs


def transpose(inputs: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """out[2 i - 1 + k] += in[i] w[k], 2n x 2m (torch.nn.ConvTranspose2d, stride 2, padding 1, output padding 1)."""
    batch, height, width, _ = inputs.shape
    outputs = np.zeros((batch, 2 * height, 2 * width, kernel.shape[2]))
    for row in range(height):
        for column in range(width):
            for i in range(3):
                for j in range(3):
                    y, x = 2 * row - 1 + i, 2 * column - 1 + j
                    if 0 <= y < 2 * height and 0 <= x < 2 * width:
                        outputs[:, y, x] += inputs[:, row, column] @ kernel[i, j].T
    return outputs


@pytest.mark.parametrize(
    "kernel",
    [Kernel(5), Kernel(5, stride=2), Kernel(5, 1), Kernel(5, 1, 2), Kernel(5, dilation=2), Kernel(5, dilation=6)],
)
def test_convolution(kernel: Kernel) -> None:
    inputs = frames(3)
    layer = Convolution(kernel, START)
    outputs = layer(inputs).numpy()
    padding = kernel.dilation * (kernel.edge // 2)
    expected = convolve(inputs, layer.kernel.numpy(), kernel.stride, padding, kernel.dilation)
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)
    assert outputs.shape == layer.compute_output_shape(inputs.shape)


def test_bias_is_added_to_each_pixel() -> None:
    inputs = frames(3)
    layer = Convolution(Kernel(5, 1), Start(pytorch_default, 5), bias=True)
    outputs = layer(inputs)
    expected = inputs @ layer.kernel.numpy()[0, 0] + layer.bias.numpy()
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)
    assert layer.bias.numpy().any()


@pytest.mark.parametrize("kernel", [Kernel(4), Kernel(4, stride=2), Kernel(4, dilation=2)])
def test_separable_convolution(kernel: Kernel) -> None:
    inputs = frames(3)
    layer = SeparableConvolution(kernel, START)
    outputs = layer(inputs).numpy()
    each = [
        convolve(
            inputs[..., [channel]],
            layer.depthwise.numpy()[:, :, [channel]],
            kernel.stride,
            kernel.dilation,
            kernel.dilation,
        )
        for channel in range(3)
    ]
    expected = np.concatenate(each, axis=-1) @ layer.pointwise.numpy()[0, 0]
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)
    assert len(layer.weights) == 2
    assert outputs.shape == layer.compute_output_shape(inputs.shape)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("mixed_bfloat16", 0.05)])
def test_transposed_convolution(dtype: str, tolerance: float) -> None:
    inputs = frames(3, 4, 5)
    layer = TransposedConvolution(2, START, dtype=dtype)
    outputs = tf.cast(layer(inputs), tf.float32).numpy()
    expected = transpose(inputs, layer.kernel.numpy())
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=tolerance * np.abs(expected).max())
    assert outputs.shape == layer.compute_output_shape(inputs.shape) == (2, 8, 10, 2)


def test_transposed_convolution_is_the_valid_one_without_its_first_row_and_column() -> None:
    inputs = frames(3, 4, 5)
    layer = TransposedConvolution(2, START)
    outputs = layer(inputs).numpy()
    valid = tf.nn.conv2d_transpose(inputs, layer.kernel.value, [2, 9, 11, 2], 2, "VALID")
    same = tf.nn.conv2d_transpose(inputs, layer.kernel.value, [2, 8, 10, 2], 2, "SAME")
    np.testing.assert_allclose(outputs, valid[:, 1:, 1:], rtol=1e-5, atol=1e-6)
    assert not np.allclose(outputs, same)


def test_same_padding_of_a_strided_convolution_would_be_another_one() -> None:
    inputs = frames(3)
    layer = Convolution(Kernel(5, stride=2), START)
    outputs = layer(inputs).numpy()
    assert not np.allclose(outputs, tf.nn.conv2d(inputs, layer.kernel.value, 2, "SAME"))


@pytest.mark.parametrize(
    ("form", "dtype"),
    [
        pytest.param(form, dtype, marks=[needs_bf16] if (form, dtype) == ("dilated", "mixed_bfloat16") else [])
        for form in ("strided", "dilated", "separable", "separable strided", "transposed")
        for dtype in ("float32", "mixed_bfloat16")
    ],
)
def test_gradients_are_the_slopes(form: str, dtype: str) -> None:
    """The loss is linear in inputs and kernels: its change along a direction is the gradient times the direction."""
    layers = {
        "strided": Convolution(Kernel(8, stride=2), START, dtype=dtype),
        "dilated": Convolution(Kernel(8, dilation=6), START, dtype=dtype),
        "separable": SeparableConvolution(Kernel(8, dilation=2), START, dtype=dtype),
        "separable strided": SeparableConvolution(Kernel(8, stride=2), START, dtype=dtype),
        "transposed": TransposedConvolution(8, START, dtype=dtype),
    }
    layer, inputs, direction = layers[form], tf.constant(frames(8, 8, 8)), tf.constant(frames(8, 8, 8))
    mix = tf.constant(RANDOM.normal(size=layer(inputs).shape).astype(np.float32))

    def total(values: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.cast(layer(values), tf.float32) * mix)

    weight = layer.weights[0]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = total(inputs)
    slopes, weight_slopes = tape.gradient(loss, [inputs, weight.value])
    tolerance = 1e-3 if dtype == "float32" else 0.05
    scale = float(tf.norm(slopes) * tf.norm(direction)) / math.sqrt(float(tf.size(slopes)))
    assert float(tf.reduce_sum(slopes * direction)) == pytest.approx(float(total(direction)), abs=4 * tolerance * scale)
    assert float(tf.reduce_sum(weight_slopes * weight.value)) == pytest.approx(
        float(loss), rel=tolerance, abs=tolerance * scale
    )
    assert weight_slopes.dtype == tf.float32


def test_initial_weights_have_the_reference_spread() -> None:
    inputs = np.zeros((1, 4, 4, 200), np.float32)
    separable, plain = SeparableConvolution(Kernel(150), START), Convolution(Kernel(150), START)
    separable(inputs)
    plain(inputs)
    # PyTorch counts one input per filter of a depthwise convolution.
    assert separable.depthwise.numpy().std() == pytest.approx(math.sqrt(2 / 9), rel=0.05)
    assert separable.pointwise.numpy().std() == pytest.approx(math.sqrt(2 / 200), rel=0.05)
    assert plain.kernel.numpy().std() == pytest.approx(math.sqrt(2 / 1800), rel=0.05)
    # Not truncated: some of 30,000 values lie beyond three standard deviations.
    assert np.abs(separable.pointwise.numpy()).max() > 3 * math.sqrt(2 / 200)


def test_default_initial_weights_are_uniform_within_the_root_of_the_fan_in() -> None:
    inputs = np.zeros((1, 4, 4, 200), np.float32)
    start = Start(pytorch_default, 5)
    plain, transposed = Convolution(Kernel(150, 1), start, bias=True), TransposedConvolution(3, start)
    plain(inputs)
    transposed(inputs)
    # PyTorch takes a transposed convolution's outputs for its inputs.
    for values, fan_in in ((plain.kernel, 200), (plain.bias, 200), (transposed.kernel, 27)):
        bound = 1 / math.sqrt(fan_in)
        assert 0.95 * bound < np.abs(values.numpy()).max() <= bound
        assert values.numpy().std() == pytest.approx(bound / math.sqrt(3), rel=0.1)
