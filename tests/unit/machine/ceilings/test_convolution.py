"""Convolution rates."""

import numpy as np
import pytest

from hpcai.machine.ceilings.convolution import CONVOLUTIONS, DIRECTIONS, Convolution, convolutions, operation
from hpcai.machine.ceilings.sampling import time_way
from hpcai.metrics.roofline.samples_above import PADDED_RATIO

PLANE = Convolution(2, 2, 5, 3, 4, 6)
SPACE = Convolution(3, 1, 4, 3, 2, 3)


def test_work_counts_every_tap_of_the_padded_forward_pass():
    assert PLANE.work_flop == 2 * 2 * 5**2 * 3**2 * 4 * 6
    assert SPACE.work_flop == 2 * 1 * 4**3 * 3**3 * 2 * 3


@pytest.mark.parametrize("shape", [PLANE, SPACE])
def test_the_gradients_belong_to_the_forward_pass(shape):
    # <y, forward(x, w)> is linear in x and in w: the gradients are its derivatives.
    import tensorflow as tf

    random = np.random.default_rng(1)
    x, w, y = (
        tf.constant(random.standard_normal(size, np.float32))
        for size in (shape.input_shape, shape.kernel_shape, shape.output_shape)
    )
    forward, to_input, to_weights = (operation(shape, direction)[0] for direction in DIRECTIONS)
    product = float(tf.reduce_sum(y * forward(x, w)))
    assert float(tf.reduce_sum(x * to_input(w, y))) == pytest.approx(product, rel=1e-3)
    assert float(tf.reduce_sum(w * to_weights(x, y))) == pytest.approx(product, rel=1e-3)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_operands_have_the_shapes_that_the_operation_takes(direction):
    for shape in (PLANE, SPACE):
        compute, shapes = operation(shape, direction)
        assert compute(*(np.ones(size, np.float32) for size in shapes)) is not None


def test_every_direction_is_timed_in_every_precision():
    ways = convolutions(("fp32", "bf16"), (PLANE,))
    assert len({way.setting for way in ways}) == 3
    for way in ways:
        sample = time_way(way, 1)
        assert sample.kind == "convolution"
        assert sample.work == PLANE.work_flop
        assert sample.value > 0


def test_accelerators_get_larger_batches():
    assert convolutions(("fp32",), (PLANE,), "gpu")[0].work == 32 * PLANE.work_flop


def test_the_shape_that_onednn_gets_wrong_is_left_out():
    assert not [shape for shape in CONVOLUTIONS if shape.kernel == 3 and shape.edge == 2]


def test_the_zeros_that_may_be_skipped_are_within_the_tolerance_of_the_roofs():
    for shape in CONVOLUTIONS:
        taps = shape.kernel * shape.edge
        padded = 2 * sum(range(1, (shape.kernel - 1) // 2 + 1))
        useful = (1 - padded / taps) ** shape.dimensions
        assert shape.work_flop < 2e7 or 1 / useful <= 1 + PADDED_RATIO, shape


def test_the_first_of_a_family_is_the_least_work():
    for dimensions in (2, 3):
        work = [shape.work_flop for shape in CONVOLUTIONS if shape.dimensions == dimensions]
        assert work[0] == min(work)
        assert work[0] < 2e7  # 0.1 s at an emulated precision's 0.2 GFLOP/s
