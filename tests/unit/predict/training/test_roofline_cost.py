"""Times of layers by the roofline: golden values, and the pitfalls of the source's public library."""

import math

import numpy as np
import pytest

from hpcai.predict.training.layers import Layer
from hpcai.predict.training.networks import build_network
from hpcai.predict.training.roofline_cost import PASSES, count_work, time_layers

PEAK, MEMORY = 19.5e12, 1555e9
FIRST = Layer("first", "convolution", (8, 8, 3), (8, 8, 16), (3, 3), (1, 1), needs_input_gradient=False)
SECOND = Layer("second", "convolution", (8, 8, 16), (4, 4, 32), (3, 3), (2, 2))
POINTWISE = Layer("pointwise", "convolution", (8, 8, 16), (8, 8, 32), (1, 1), (1, 1))
DENSE = Layer("dense", "dense", (64,), (10,))


def _time(layer, cost_model="gemm", batch=32, peak=PEAK, memory=MEMORY):
    return time_layers(count_work((layer,), cost_model), batch, peak, memory)


def _gemm(m, n, k, peak=PEAK, memory=MEMORY):
    """Return the time [s] of a product of matrices in single precision by the roofline."""
    return max(2 * m * n * k / peak, 4 * (m * n + m * k + n * k) / memory)


def test_golden_matrix_products():
    for inputs, extents, time_s in ((3, (64, 131072, 27), 3.068625e-5), (64, (64, 131072, 576), 4.955731e-4)):
        layer = Layer("c", "convolution", (32, 32, inputs), (32, 32, 64), (3, 3), (1, 1))
        assert _gemm(*extents) == pytest.approx(time_s, rel=1e-6)
        assert _time(layer, batch=128).forward_s[0] == pytest.approx(time_s, rel=1e-6)
        # The first is bound by memory and the second by operations.
        free = {"peak": math.inf} if inputs == 3 else {"memory": math.inf}
        assert _gemm(*extents) == _gemm(*extents, **free)
        assert _time(layer, batch=128).forward_s[0] == _time(layer, batch=128, **free).forward_s[0]


def test_convolutions_are_the_matrix_products_of_the_table():
    times = _time(SECOND)
    assert times.forward_s[0] == pytest.approx(_gemm(32, 32 * 16, 16 * 9), rel=1e-12)
    assert times.weight_gradient_s[0] == pytest.approx(_gemm(32, 16 * 9, 32 * 16), rel=1e-12)
    assert times.input_gradient_s[0] == pytest.approx(_gemm(16 * 9, 32 * 16, 32), rel=1e-12)


def test_dense_layers_are_the_matrix_products_of_the_table():
    times = _time(DENSE)
    assert times.forward_s[0] == pytest.approx(_gemm(10, 32, 64), rel=1e-12)
    assert times.weight_gradient_s[0] == pytest.approx(_gemm(10, 64, 32), rel=1e-12)
    assert times.input_gradient_s[0] == pytest.approx(_gemm(64, 32, 10), rel=1e-12)


def test_a_dense_layer_at_positions_has_as_many_rows_as_batch_and_positions():
    assert _time(Layer("p", "dense", (100, 64), (100, 10)), batch=2).forward_s == _time(DENSE, batch=200).forward_s


def test_three_axes_count_positions_and_taps_of_all():
    times = _time(Layer("3d", "convolution", (4, 4, 4, 8), (2, 2, 2, 16), (3, 3, 3), (2, 2, 2)))
    assert times.forward_s[0] == pytest.approx(_gemm(16, 32 * 8, 8 * 27), rel=1e-12)


def test_depthwise_is_one_product_for_each_channel():
    times = _time(Layer("dw", "depthwise", (8, 8, 6), (8, 8, 12), (3, 3)))
    assert times.forward_s[0] == pytest.approx(6 * _gemm(2, 32 * 64, 9), rel=1e-12)
    assert times.weight_gradient_s[0] == pytest.approx(6 * _gemm(2, 9, 32 * 64), rel=1e-12)


@pytest.mark.parametrize("cost_model", ["gemm", "im2col"])
def test_a_transposed_convolution_swaps_forward_pass_and_input_gradient(cost_model):
    down = _time(SECOND, cost_model)
    up = _time(Layer("up", "convolution", (4, 4, 32), (8, 8, 16), (3, 3), (2, 2)), cost_model)
    assert up.forward_s == down.input_gradient_s
    assert up.input_gradient_s == down.forward_s
    assert up.weight_gradient_s == down.weight_gradient_s


def test_patches_cost_time_although_they_have_no_operations():
    patches_s = 4 * 32 * (8 * 8 * 16 + 16 * 9 * 16) / MEMORY
    plain, patched = _time(SECOND), _time(SECOND, "im2col")
    assert patched.forward_s - plain.forward_s == pytest.approx(patches_s, rel=1e-9)
    # Summing up patches belongs to the input gradient where there is one.
    assert patched.input_gradient_s - plain.input_gradient_s == pytest.approx(patches_s, rel=1e-9)
    assert patched.weight_gradient_s == plain.weight_gradient_s


def test_pointwise_convolutions_need_no_patches_but_strided_ones_do():
    assert _time(POINTWISE, "im2col").forward_s == _time(POINTWISE).forward_s
    strided = Layer("strided", "convolution", (8, 8, 16), (4, 4, 32), (1, 1), (2, 2))
    assert _time(strided, "im2col").forward_s > _time(strided).forward_s


@pytest.mark.parametrize("cost_model", ["gemm", "im2col", "full"])
def test_the_first_layer_has_a_weight_gradient_and_no_input_gradient(cost_model):
    for layer in (FIRST, Layer("first dense", "dense", (64,), (10,), needs_input_gradient=False)):
        times = _time(layer, cost_model)
        assert times.input_gradient_s == 0
        assert times.weight_gradient_s > 0


@pytest.mark.parametrize("kind", sorted(PASSES))
def test_element_wise_layers_pass_at_memory_speed_in_the_full_model_only(kind):
    times = _time(Layer("e", kind, (8, 8, 16), (4, 4, 16)), "full")
    (forward, backward), sizes = PASSES[kind], (8 * 8 * 16, 4 * 4 * 16)
    assert times.elementwise_forward_s == pytest.approx(4 * 32 * np.dot(forward, sizes) / MEMORY)
    assert times.elementwise_backward_s == pytest.approx(4 * 32 * np.dot(backward, sizes) / MEMORY)
    for cost_model in ("gemm", "im2col"):
        plain = _time(Layer("e", kind, (8, 8, 16), (4, 4, 16)), cost_model)
        assert plain.all_forward_s == plain.all_backward_s == 0


def test_the_assumed_passes():
    assert PASSES["batch_norm"] == ((3, 0), (5, 0))
    assert PASSES["relu"] == ((2, 0), (3, 0))
    assert PASSES["max_pool"] == PASSES["average_pool"] == ((1, 1), (1, 1))
    assert PASSES["add"] == ((3, 0), (2, 0))
    assert PASSES["concat"] == ((0, 2), (0, 2))


def test_other_layers_cost_nothing():
    times = _time(Layer("o", "other", (64,), (64,), parameters=10), "full")
    assert times.all_forward_s == times.all_backward_s == 0


def test_repeated_layers_take_as_much_longer():
    thrice = Layer("s", "convolution", (8, 8, 16), (4, 4, 32), (3, 3), (2, 2), repeats=3)
    assert _time(thrice, "im2col").forward_s == pytest.approx(3 * _time(SECOND, "im2col").forward_s)


def test_many_scenarios_are_those_one_by_one():
    work = count_work(build_network("resnet50", "cifar10").layers, "full")
    batches, peaks, memories = np.array([1, 8, 128]), np.array([[1e12], [2e13]]), np.array([[5e11], [1e12]])
    together = time_layers(work, batches, peaks, memories)
    for row in range(2):
        for column in range(3):
            alone = time_layers(work, batches[column], peaks[row, 0], memories[row, 0])
            for name in ("forward_s", "input_gradient_s", "weight_gradient_s", "elementwise_backward_s"):
                assert np.array_equal(getattr(together, name)[row, column], getattr(alone, name))
