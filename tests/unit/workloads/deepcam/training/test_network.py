"""The network: its official size layer by layer, and details that are easy to get wrong."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from unit.workloads.deepcam.training.deepcam_plans import SEEDS, make_batch, make_plan, make_workload, needs_bf16

from hpcai.workloads.deepcam.training.convolutions import Convolution, SeparableConvolution, TransposedConvolution
from hpcai.workloads.deepcam.training.network import apply_pooling
from hpcai.workloads.deepcam.training.parts import MinMaxScaling, Parts


@pytest.fixture(scope="module")
def official() -> keras.Model:
    return make_workload(official=True).build_model(SEEDS)


@pytest.fixture(scope="module")
def small() -> keras.Model:
    return make_workload().build_model(SEEDS)


def count(model: keras.Model, *names: str) -> int:
    layers = [layer for layer in model.layers if layer.name.startswith(names)]
    assert layers
    return sum(int(np.prod(variable.shape)) for layer in layers for variable in layer.trainable_variables)


def test_official_network_has_the_published_parameters(official: keras.Model) -> None:
    assert sum(int(np.prod(variable.shape)) for variable in official.trainable_variables) == 56_454_720
    middle = [f"block{number}_" for number in range(4, 20)]
    found = [count(official, *names) for names in (
        ["stem"], ["block1_"], ["block2_"], ["block3_"], middle, ["block20_"], ["exit"], ["aspp"], ["pooling"],
        ["merge"], ["low_level"], ["decoder"],
    )]  # fmt: skip
    assert found == [
        23_232, 52_800, 203_904, 1_452_480, 25_823_616, 3_097_376, 7_124_992, 14_682_112, 524_800,
        328_192, 6_240, 3_134_976,
    ]  # fmt: skip


def test_official_network_has_the_published_shapes(official: keras.Model) -> None:
    shapes = {
        "stem2_relu": (384, 576, 64), "block1_relu": (192, 288, 128), "block2_relu": (96, 144, 256),
        "block3_relu": (48, 72, 728), "block19_relu": (48, 72, 728), "block20_add": (48, 72, 1024),
        "exit3_relu": (48, 72, 2048), "aspp18_relu": (48, 72, 256), "pooling_tile": (48, 72, 256),
        "pyramid": (48, 72, 1280), "merge_relu": (48, 72, 256), "low_level_relu": (192, 288, 48),
        "decoder_up2_relu": (192, 288, 256), "decoder_concat": (192, 288, 304), "decoder3": (192, 288, 256),
        "decoder_up3_relu": (384, 576, 256), "decoder_up4": (768, 1152, 3),
    }  # fmt: skip
    assert {name: official.get_layer(name).output.shape[1:] for name in shapes} == shapes
    assert "block21_add" not in {layer.name for layer in official.layers}


def measured(model: keras.Model) -> dict[str, int]:
    """Multiply-adds of each layer from its kernels and the shapes of its tensors."""
    found = {}
    for layer in model.layers:
        if isinstance(layer, Convolution):
            found[layer.name] = int(np.prod(layer.kernel.shape)) * int(np.prod(layer.output.shape[1:3]))
        if isinstance(layer, TransposedConvolution):
            found[layer.name] = int(np.prod(layer.kernel.shape)) * int(np.prod(layer.input.shape[1:3]))
        if isinstance(layer, SeparableConvolution):
            for part in ("depthwise", "pointwise"):
                size = int(np.prod(getattr(layer, part).shape))
                found[f"{layer.name}_{part}"] = size * int(np.prod(layer.output.shape[1:3]))
    return found


def test_official_work(official: keras.Model) -> None:
    layers = make_workload(official=True).layers()
    assert sum(layer.forward_mac for layer in layers) == pytest.approx(327.7e9, rel=0.005)
    assert {layer.name: layer.forward_mac for layer in layers} == measured(official)
    assert [layer.name for layer in layers if not layer.needs_input_gradient] == ["stem1"]


def test_work_of_another_size(small: keras.Model) -> None:
    assert {layer.name: layer.forward_mac for layer in make_workload().layers()} == measured(small)


def test_a_block_ends_with_a_strided_convolution_without_normalisation(small: keras.Model) -> None:
    names = [layer.name for layer in small.layers if layer.name.startswith("block2_")]
    assert "block2_separable2_norm" in names
    assert "block2_separable2_relu" not in names
    assert "block2_separable3_norm" not in names
    assert small.get_layer("block2_separable3").form.stride == 2
    assert small.get_layer("block2_add").input[0] is small.get_layer("block2_separable3").output
    assert small.get_layer("block2_add").input[1] is small.get_layer("block2_skip_norm").output


def test_a_middle_block_adds_its_input(small: keras.Model) -> None:
    assert small.get_layer("block4_add").input[1] is small.get_layer("block3_relu").output
    assert "block4_skip" not in {layer.name for layer in small.layers}


def test_the_last_block_has_a_convolution_without_normalisation_and_no_relu(small: keras.Model) -> None:
    assert small.get_layer("block5_add").input[0] is small.get_layer("block5_separable3").output
    assert small.get_layer("exit1").input is small.get_layer("block5_add").output


def test_the_low_level_features_have_seen_the_relu_in_place(small: keras.Model) -> None:
    assert small.get_layer("low_level").input is small.get_layer("block1_relu").output
    assert small.get_layer("block2_separable1").input is small.get_layer("block1_relu").output


def test_the_mean_of_the_frame_is_repeated_in_each_pixel() -> None:
    plan = make_plan()
    parts = Parts(plan, "float32", 1)
    inputs = keras.Input((2, 3, 5), batch_size=2)
    model = keras.Model(inputs, apply_pooling(parts, plan.benchmark.model, inputs))
    values = np.random.default_rng(1).normal(size=(2, 2, 3, 5)).astype(np.float32)
    affine = model.get_layer("pooling_affine")
    scale, shift = np.array([1, -2, 3, 0.5], np.float32), np.array([0.1, 0.2, -0.3, 1], np.float32)
    affine.set_weights([scale, shift])
    kernel = model.get_layer("pooling").kernel.numpy()[0, 0]
    expected = np.maximum(values.mean((1, 2)) @ kernel * scale + shift, 0)
    outputs = model(values).numpy()
    assert outputs.shape == (2, 2, 3, 4)
    np.testing.assert_allclose(outputs, np.broadcast_to(expected[:, None, None], outputs.shape), rtol=1e-5, atol=1e-6)


def test_channels_are_scaled_to_0_and_1_in_float32() -> None:
    lowest, highest = [101_000.0, 0.0], [101_004.0, 3e-6]
    pixels = np.array([[[[101_000.0, 3e-6], [101_001.0, 1.5e-6]]]], np.float32)
    scaled = MinMaxScaling(lowest, highest)(pixels)
    assert scaled.dtype == tf.float32
    np.testing.assert_allclose(scaled, [[[[0, 1], [0.25, 0.5]]]], atol=1e-6)


def test_weights_depend_on_the_seed_alone() -> None:
    workload = make_workload()
    models = [workload.build_model(seeds) for seeds in (SEEDS, SEEDS, type(SEEDS)(9, 2, 3))]
    kernels = [[weight.numpy() for weight in model.trainable_variables if weight.shape.rank == 4] for model in models]
    seen = set()
    for one, two, three in zip(*kernels, strict=True):
        np.testing.assert_array_equal(one, two)
        assert (one != three).all()
        seen.add(float(one.flat[0]))
    assert len(seen) == len(kernels[0])


@pytest.mark.parametrize("precision", ["fp32", pytest.param("bf16", marks=needs_bf16)])
def test_every_variable_has_a_finite_gradient(precision: str) -> None:
    workload = make_workload(point={"precision": precision})
    model = workload.build_model(SEEDS)
    assert {str(variable.dtype) for variable in model.variables} == {"float32"}
    assert model.output.dtype == "float32"
    compute = {layer.compute_dtype for layer in model.layers if isinstance(layer, Convolution)}
    assert compute == {"float32" if precision == "fp32" else "bfloat16"}
    batch = tuple(tf.constant(part) for part in make_batch(workload))
    with tf.GradientTape() as tape:
        loss = workload.loss(model, batch, tf.zeros(2, tf.int32))
    assert loss.dtype == tf.float32
    gradients = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
    assert all(bool(tf.reduce_all(tf.math.is_finite(gradient))) for gradient in gradients)
    assert {gradient.dtype for gradient in gradients} == {tf.float32}
