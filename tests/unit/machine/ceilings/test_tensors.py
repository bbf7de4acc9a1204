"""Shared code of TensorFlow's methods; the processor plays the accelerator's queue."""

import numpy as np
import pytest

from hpcai.machine.ceilings import memory, tensors
from hpcai.machine.ceilings.gemm import products, square
from hpcai.machine.ceilings.memory import accelerator_streams
from hpcai.machine.ceilings.sampling import time_way
from hpcai.machine.ceilings.tensors import precisions_of, random_tensors, wait_for


class Result:
    """A tensor on an accelerator, whose numbers can be fetched."""

    device = "/job:localhost/replica:0/task:0/device:GPU:0"

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return np.full((3, 4), 7.0, np.float32)


def test_operands_are_made_when_they_are_needed_and_once():
    make = random_tensors([(2, 3), (3,)], "bf16")
    first = make()
    assert [list(one.shape) for one in first] == [[2, 3], [3]]
    assert {one.dtype.name for one in first} == {"bfloat16"}
    assert make() is first


def test_an_accelerator_is_waited_for_by_fetching_a_number():
    assert wait_for(Result()) == 7.0


def test_accelerators_multiply_through_tensorflow_alone_and_several_times_a_sample():
    (way,) = products(("tf32",), (square(32),), "gpu")
    sample = time_way(way, 1)
    assert (sample.backend, sample.precision) == ("tensorflow gpu", "tf32")
    assert sample.work == 10 * 2 * 32**3


def test_tf32_is_used_only_where_it_is_measured():
    import tensorflow as tf

    switch = tf.config.experimental.tensor_float_32_execution_enabled
    for precision, used in (("tf32", True), ("fp32", False)):
        products((precision,), (square(8),), "gpu")[0].run()
        assert switch() is used


@pytest.mark.parametrize(("capability", "found"), [((7, 0), False), ((8, 0), True), ((9, 0), True)])
def test_tf32_came_with_ampere(monkeypatch, capability, found):
    experimental = tensors.tf.config.experimental
    monkeypatch.setattr(tensors.tf.config, "list_physical_devices", lambda _kind: ["the first"])
    monkeypatch.setattr(experimental, "get_device_details", lambda _device: {"compute_capability": capability})
    assert ("tf32" in precisions_of("gpu")) is found
    assert "tf32" not in precisions_of("cpu")


def test_a_device_streams_through_its_memory():
    (way,) = accelerator_streams("gpu", 8 << 20)
    sample = time_way(way, 1)
    assert sample.kind == "memory"
    assert sample.unit == "B/s"
    assert sample.work == 10 * 2 * (8 << 20)
    assert memory.ARRAY_BYTES_GPU > 100 << 20
