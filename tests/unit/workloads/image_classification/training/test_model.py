"""The network: published size, the reference's padding, and one step at full width."""

from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray
from unit.workloads.image_classification.training.image_plans import image_plan, official_plan

from hpcai.training.workload import Streams
from hpcai.workloads.image_classification.training.model import layer_work
from hpcai.workloads.image_classification.training.workload import ImageClassification

SEEDS = Streams(weights=1, order=2, dropout=3)
Array = NDArray[np.float64]


def build(**changes: dict[str, Any]) -> keras.Model:
    return ImageClassification(image_plan(**changes)).build_model(SEEDS)


@pytest.fixture(scope="module")
def official() -> keras.Model:
    return ImageClassification(official_plan(global_batch=2)).build_model(SEEDS)


def test_official_network_has_the_published_parameters_and_stages(official: keras.Model) -> None:
    assert len(official.trainable_variables) == 161
    assert sum(np.prod(variable.shape) for variable in official.trainable_variables) == 25_559_081
    assert official.output_shape == (2, 1001)
    ends = [
        "stem_norm",
        "stem_pool",
        "stage1_block3_relu",
        "stage2_block4_relu",
        "stage3_block6_relu",
        "stage4_block3_relu",
    ]
    shapes = [tuple(official.get_layer(name).output.shape[1:]) for name in ends]
    assert shapes == [(112, 112, 64), (56, 56, 64), (56, 56, 256), (28, 28, 512), (14, 14, 1024), (7, 7, 2048)]


def test_official_work_is_the_published_one_and_follows_the_layers(official: keras.Model) -> None:
    workload = ImageClassification(official_plan())
    layers = workload.layers()
    assert sum(layer.forward_mac for layer in layers) / 1e9 == pytest.approx(4.089, abs=0.0005)
    assert [layer.name for layer in layers if not layer.needs_input_gradient] == ["stem"]
    for layer in layers:
        built = official.get_layer(layer.name)
        positions = np.prod(built.output.shape[1:-1], dtype=int)
        assert layer.forward_mac == positions * np.prod(built.kernel.shape), layer.name
    assert len(layers) == sum(variable.path.endswith("kernel") for variable in official.trainable_variables)


def test_work_of_odd_edges_follows_the_layers() -> None:
    plan = image_plan(data={"crop": 36}, model={"blocks": [2, 1, 1]})
    model = ImageClassification(plan).build_model(SEEDS)
    for layer in layer_work(plan.benchmark.model, 36, 9):
        built = model.get_layer(layer.name)
        assert layer.forward_mac == np.prod(built.output.shape[1:-1], dtype=int) * np.prod(built.kernel.shape)


def convolve(values: Array, kernel: Array, stride: int) -> Array:
    """Convolution with (k - 1) / 2 zeros on all four sides, term by term."""
    size = kernel.shape[0]
    pad = (size - 1) // 2
    padded = np.pad(values, [(0, 0), (pad, pad), (pad, pad), (0, 0)])
    edge = (padded.shape[1] - size) // stride + 1
    result = np.zeros((len(values), edge, edge, kernel.shape[3]))
    for row in range(size):
        for column in range(size):
            part = padded[:, row : row + stride * edge : stride, column : column + stride * edge : stride]
            result += part[:, :edge, :edge] @ kernel[row, column]
    return result


def pool(values: Array) -> Array:
    """Maximum over 3x3 at every second pixel; TensorFlow's SAME pads an even edge at its end, an odd one twice."""
    edge = -(-values.shape[1] // 2)
    missing = 2 * (edge - 1) + 3 - values.shape[1]
    pad = (missing // 2, missing - missing // 2)
    padded = np.pad(values, [(0, 0), pad, pad, (0, 0)], constant_values=-np.inf)
    windows = [
        padded[:, i : i + 2 * edge : 2, j : j + 2 * edge : 2][:, :edge, :edge] for i in range(3) for j in range(3)
    ]
    return np.max(windows, axis=0)


class ByHand:
    """The network as the reference describes it, in NumPy, with the weights of a model."""

    def __init__(self, model: keras.Model) -> None:
        self._weights = {variable.path: variable.numpy().astype(np.float64) for variable in model.weights}

    def unit(self, values: Array, name: str, stride: int = 1) -> Array:
        norm = {key: self._weights[f"{name}_norm/{key}"] for key in ("gamma", "beta", "moving_mean", "moving_variance")}
        result = convolve(values, self._weights[f"{name}/kernel"], stride)
        return norm["gamma"] * (result - norm["moving_mean"]) / np.sqrt(norm["moving_variance"] + 1e-5) + norm["beta"]

    def bottleneck(self, values: Array, name: str, stride: int, *, projected: bool) -> Array:
        shortcut = self.unit(values, f"{name}_shortcut", stride) if projected else values
        inner = np.maximum(self.unit(values, f"{name}_reduce"), 0)
        inner = np.maximum(self.unit(inner, f"{name}_middle", stride), 0)
        return np.maximum(shortcut + self.unit(inner, f"{name}_expand"), 0)

    def logits(self, pixels: Array) -> Array:
        values = (pixels - [123.68, 116.78, 103.94]) / 255
        values = pool(np.maximum(self.unit(values, "stem", 2), 0))
        values = self.bottleneck(values, "stage1_block1", 1, projected=True)
        values = self.bottleneck(values, "stage1_block2", 1, projected=False)
        values = self.bottleneck(values, "stage2_block1", 2, projected=True)
        values = self.bottleneck(values, "stage3_block1", 2, projected=True)
        return values.mean(axis=(1, 2)) @ self._weights["classes/kernel"] + self._weights["classes/bias"]


@pytest.mark.parametrize("crop", [32, 36, 40])
def test_forward_pass_is_the_reference_s_with_its_padding(crop: int) -> None:
    data, model_settings = {"crop": crop}, {"stem_filters": 4, "blocks": [2, 1, 1]}
    model = build(data=data, model=model_settings, recipe={"global_batch": 2})
    rng = np.random.default_rng(5)
    # Scales, shifts and statistics that do nothing would hide a layer in the wrong place.
    for variable in model.weights:
        if not variable.path.endswith("kernel"):
            variable.assign(rng.uniform(0.5, 1.5, variable.shape))
    pixels = rng.uniform(0, 255, (2, crop, crop, 3))
    np.testing.assert_allclose(model(pixels.astype(np.float32)), ByHand(model).logits(pixels), rtol=2e-4, atol=1e-4)


def test_a_stride_of_two_sits_on_the_middle_convolution() -> None:
    model = build()
    strides = {layer.name: layer.strides for layer in model.layers if isinstance(layer, keras.layers.Conv2D)}
    strided = {name for name, stride in strides.items() if stride == (2, 2)}
    assert strided == {"stem"} | {f"stage{n}_block1_{part}" for n in (2, 3, 4) for part in ("middle", "shortcut")}


def test_weights_are_drawn_as_the_reference_says() -> None:
    model = build(model={"stem_filters": 32})
    for variable in model.trainable_variables:
        values, name = variable.numpy(), variable.path
        if name.endswith("kernel"):
            fan_out = np.prod(values.shape[:2]) * values.shape[3] if values.ndim == 4 else values.shape[1]
            expected = np.sqrt(2 / fan_out)
            assert values.std() == pytest.approx(expected, rel=0.15), name
            # Drawn from a normal distribution truncated at two of its standard deviations.
            assert np.abs(values).max() < 2.3 * expected
        else:
            assert (values == (1 if name.endswith("gamma") else 0)).all(), name


def test_weights_depend_on_the_seed_alone() -> None:
    workload = ImageClassification(image_plan())
    first, second, other = (
        workload.build_model(seeds).get_weights() for seeds in (SEEDS, SEEDS, replace(SEEDS, weights=9))
    )
    for one, two, three in zip(first, second, other, strict=True):
        np.testing.assert_array_equal(one, two)
        if one.ndim > 1:
            assert (one != three).mean() > 0.9
    kernels = [weight for weight in first if weight.shape == (1, 1, 32, 8)]
    assert all((kernel != kernels[0]).any() for kernel in kernels[1:])


def test_moving_statistics_keep_nine_tenths() -> None:
    model = build()
    pixels = np.random.default_rng(1).uniform(0, 255, (8, 32, 32, 3)).astype(np.float32)
    values = model.get_layer("normalised")(pixels)
    for name in ("stem_pad", "stem"):
        values = model.get_layer(name)(values)
    model(pixels, training=True)
    mean = model.get_layer("stem_norm").moving_mean.numpy()
    np.testing.assert_allclose(mean, 0.1 * tf.reduce_mean(values, [0, 1, 2]), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("precision", "inner"), [("fp32", "float32"), ("bf16", "bfloat16"), ("fp16", "float16")])
def test_precision_is_that_of_the_plan_and_leaves_variables_and_logits_alone(precision: str, inner: str) -> None:
    before = keras.config.dtype_policy().name
    model = build(point={"precision": precision})
    assert keras.config.dtype_policy().name == before
    assert {variable.dtype for variable in model.weights} == {"float32"}
    assert model.get_layer("stage4_block1_middle").output.dtype == inner
    assert model.get_layer("classes").output.dtype == inner
    assert model.output.dtype == "float32"


def test_another_layout_of_the_pixels_is_refused() -> None:
    model = build()
    with pytest.raises(ValueError, match=r"expected shape=\(None, 32, 32, 3\), found shape=\(8, 3, 32, 32\)"):
        model(np.zeros((8, 3, 32, 32), np.float32))


@pytest.mark.slow
def test_a_step_at_full_size_is_finite(official: keras.Model) -> None:
    workload, model = ImageClassification(official_plan(global_batch=2)), official
    pixels = tf.constant(np.random.default_rng(2).uniform(0, 255, (2, 224, 224, 3)), tf.float32)

    @tf.function
    def step() -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            loss = workload.loss(model, (pixels, tf.constant([0, 999])), tf.constant([1, 2]))
        return loss, tape.gradient(loss, [variable.value for variable in model.trainable_variables])

    loss, gradients = step()
    assert np.isfinite(loss)
    assert len(gradients) == 161
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    assert all(np.any(gradient) for gradient in gradients)
