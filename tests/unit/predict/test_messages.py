"""Messages of gradients, counted from the sizes of tensors."""

import pytest

from hpcai.predict.messages import Gradients, count_messages, fuse_tensors
from hpcai.training.collective import split_backwards

COSMOFLOW = (2000, 16, 6912, 16, 55296, 16, 6912, 64, 4096, 32, 64, 4, 16, 4)
"""Tensors like those of a small network: a few hold most numbers."""


@pytest.mark.parametrize(
    ("fusion_bytes", "messages"), [(1e9, 1), (4.0, len(COSMOFLOW)), (4096.0, 10), (None, 1), (4 * 55296.0, 3)]
)
def test_no_tensor_is_divided(fusion_bytes, messages):
    assert count_messages(COSMOFLOW, fusion_bytes) == messages


@pytest.mark.parametrize("groups", [1, 4, 14, 16, 64])
def test_groups_are_counted_as_training_forms_them(groups):
    assert count_messages(COSMOFLOW, None, groups) == len(split_backwards(COSMOFLOW, groups))


def test_tensors_keep_their_order_and_long_ones_travel_alone():
    assert fuse_tensors([3.0, 4.0, 9.0, 1.0, 1.0], 7.0) == [(3.0, 4.0), (9.0,), (1.0, 1.0)]
    assert fuse_tensors([3.0, 4.0], float("nan")) == [(3.0, 4.0)]


def test_without_sizes_one_message_is_all_that_is_known():
    found = Gradients(100)
    assert [found.count_messages(*asked) for asked in ((None, 1), (400.0, 1), (399.0, 1), (None, 2))] == [
        1,
        1,
        None,
        None,
    ]
