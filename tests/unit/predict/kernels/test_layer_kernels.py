"""Each layer becomes the kernels that do its work."""

import math

import pytest

from hpcai.predict.kernels.cases import KERNELS
from hpcai.predict.kernels.layer_kernels import describe_approximations, list_kernel_calls
from hpcai.predict.training.layers import Layer, count_forward_flop
from hpcai.predict.training.networks import build_network


def convolution(**changes):
    given = {
        "name": "conv", "kind": "convolution", "input_shape": (28, 28, 64), "output_shape": (14, 14, 128),
        "kernel": (3, 3), "strides": (2, 2), "parameters": 9 * 64 * 128 + 128, "bias": True,
    }  # fmt: skip
    return Layer(**{**given, **changes})


def kernels_of(layer, batch=4):
    return {(call.stage, call.kernel): call for call in list_kernel_calls(layer, batch)}


def test_a_convolution_runs_three_kernels_of_equal_sizes_its_bias_and_two_updates():
    calls = list_kernel_calls(convolution(), 4)
    sizes = {"batch": 4, "edge": 28, "channels_in": 64, "channels_out": 128, "kernel_edge": 3, "stride": 2}
    image = {"batch": 4, "edge": 14, "channels_in": 128}
    assert [(call.stage, call.kernel, call.sizes) for call in calls] == [
        ("forward", "conv2d_forward", pytest.approx(sizes)),
        ("forward", "bias_forward", image),
        ("input gradient", "conv2d_input_gradient", pytest.approx(sizes)),
        ("weight gradient", "conv2d_weight_gradient", pytest.approx(sizes)),
        ("weight gradient", "bias_backward", image),
        ("update", "sgd", {"parameters": 9 * 64 * 128}),
        ("update", "sgd", {"parameters": 128}),
    ]


def test_what_sees_the_data_needs_no_input_gradient():
    first = kernels_of(convolution(needs_input_gradient=False))
    assert "input gradient" not in {stage for stage, _ in first}
    relu = Layer("relu", "relu", (8, 8, 3), (8, 8, 3), needs_input_gradient=False)
    assert {stage for stage, _ in kernels_of(relu)} == {"forward"}
    norm = Layer("norm", "batch_norm", (8, 8, 3), (8, 8, 3), parameters=6, needs_input_gradient=False)
    assert ("element-wise backward", "batch_norm_backward") in kernels_of(norm)


def test_dense_layers_have_the_shapes_of_the_source_and_positions_count_as_samples():
    layer = Layer("dense", "dense", (50, 96), (50, 32), parameters=96 * 32)
    calls = kernels_of(layer, batch=8)
    assert calls["forward", "gemm_forward"].sizes == {"m": 32, "n": 400, "k": 96}
    assert calls["input gradient", "gemm_input_gradient"].sizes == {"m": 96, "n": 400, "k": 32}
    assert calls["weight gradient", "gemm_weight_gradient"].sizes == {"m": 32, "n": 96, "k": 400}


def test_a_transposed_convolution_is_its_mirror_image():
    layer = Layer(
        "up", "convolution", (14, 14, 128), (28, 28, 64), kernel=(2, 2), strides=(2, 2), parameters=4 * 64 * 128
    )
    calls = kernels_of(layer)
    sizes = {"batch": 4, "edge": 28, "channels_in": 64, "channels_out": 128, "kernel_edge": 2, "stride": 2}
    assert calls["forward", "conv2d_input_gradient"].sizes == pytest.approx(sizes)
    assert calls["input gradient", "conv2d_forward"].sizes == pytest.approx(sizes)
    work = KERNELS["conv2d_input_gradient"].work_flop(calls["forward", "conv2d_input_gradient"].sizes)
    assert work == pytest.approx(4 * count_forward_flop(layer))


@pytest.mark.parametrize(
    "layer",
    [
        convolution(),
        convolution(input_shape=(30, 30, 64), output_shape=(28, 28, 32), strides=(1, 1)),
        convolution(kernel=(5, 1), strides=(), output_shape=(28, 28, 128)),
        Layer("volume", "convolution", (16, 16, 16, 4), (8, 8, 8, 32), kernel=(3, 3, 3), strides=(2, 2, 2)),
        Layer("dense", "dense", (50, 96), (50, 32)),
    ],
)
def test_the_forward_kernels_do_the_work_of_the_layer(layer):
    call = list_kernel_calls(layer, 4)[0]
    assert call.stage == "forward"
    assert KERNELS[call.kernel].work_flop(call.sizes) == pytest.approx(4 * count_forward_flop(layer), rel=1e-6)


def test_shapes_that_are_not_square_enter_with_their_area_and_say_so():
    layer = Layer("relu", "relu", (768, 1152, 16), (768, 1152, 16))
    [forward, _] = list_kernel_calls(layer, 2)
    assert forward.sizes["edge"] == pytest.approx(math.sqrt(768 * 1152))
    assert any("not square" in text for text in describe_approximations(layer))
    assert describe_approximations(convolution()) == ()


def test_layers_after_dense_ones_have_an_edge_of_one():
    [forward, backward] = list_kernel_calls(Layer("relu", "relu", (512,), (512,)), 8)
    assert forward.sizes == backward.sizes == {"batch": 8, "edge": 1, "channels_in": 512}


def test_pools_of_other_windows_say_so():
    other = Layer("pool", "max_pool", (28, 28, 8), (14, 14, 8), kernel=(3, 3), strides=(2, 2))
    assert any("2 x 2" in text for text in describe_approximations(other))


@pytest.mark.parametrize(
    "layer",
    [
        Layer("dw", "depthwise", (28, 28, 64), (28, 28, 64), kernel=(3, 3)),
        Layer("add", "add", (28, 28, 64), (28, 28, 64)),
        Layer("join", "concat", (28, 28, 64), (28, 28, 64)),
        Layer("line", "convolution", (28, 64), (28, 64), kernel=(3,), strides=(1,)),
        Layer("other", "other", (28, 64), (28, 64)),
    ],
)
def test_layers_without_a_kernel_have_none(layer):
    assert list_kernel_calls(layer, 4) == ()


def test_every_kernel_of_a_network_is_known_and_has_its_sizes():
    for name in ("vgg11", "resnet50", "densenet121"):
        for layer in build_network(name, "imagenet").layers:
            for call in list_kernel_calls(layer, 2):
                assert set(call.sizes) == set(KERNELS[call.kernel].inputs)


def test_updates_are_all_parameters_with_a_gradient():
    network = build_network("resnet50", "cifar10")
    updates = [call for layer in network.layers for call in list_kernel_calls(layer, 2) if call.stage == "update"]
    assert sum(call.sizes["parameters"] * call.count for call in updates) == 23_520_842
    # 53 convolutions, 53 x 2 of batch normalisation, one dense layer with its bias.
    assert len(updates) == 53 + 106 + 2
