"""Exchanges with TensorFlow's collectives: which of them meet in one group."""

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from hpcai.training.collectives.base import Ranks
from hpcai.training.collectives.tensorflow import OWN_GROUP, TensorflowCollectives


@pytest.fixture
def exchanges(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """Group key and device of every exchange that is asked for; two ranks with equal values pretend to meet."""
    found: list[tuple[int, str]] = []

    def pretended(result: Callable[[tf.Tensor], tf.Tensor]) -> Callable[..., tf.Tensor]:
        def exchange(*, input: tf.Tensor, group_key: int, **_: object) -> tf.Tensor:  # noqa: A002  TensorFlow's name
            found.append((group_key, tf.identity(input).device))
            return result(input)

        return exchange

    monkeypatch.setattr(tf.raw_ops, "CollectiveReduceV2", pretended(lambda own: own + own))
    monkeypatch.setattr(tf.raw_ops, "CollectiveGatherV2", pretended(lambda own: tf.concat([own, own], axis=0)))
    monkeypatch.setattr(tf.raw_ops, "CollectiveAllToAllV2", pretended(tf.identity))
    return found


def second_of_two() -> TensorflowCollectives:
    collectives = TensorflowCollectives()
    collectives._ranks = Ranks(1, 2, 1, 2, 0, 1)
    collectives._group, collectives._group_size = OWN_GROUP, 2
    return collectives


def test_what_comes_from_numpy_meets_on_the_processors_in_a_group_of_its_own(exchanges) -> None:
    """TensorFlow ties a group to the type of its first devices, and accelerators exchange all else."""
    collectives, values = second_of_two(), tf.ones([2, 3])
    np.testing.assert_array_equal(collectives.gather(np.ones((1, 3)), "rows"), np.ones((2, 3)))
    on_hosts, exchanges[:] = list(exchanges), []
    collectives.reduce([values], "sum", "sum")
    collectives.reduce_each([values], "mean", "each")
    collectives.broadcast([tf.Variable(values)])
    collectives.group_mean(values, "mean")
    collectives.group_gather(values, "gather")
    collectives.group_exchange(values, [1, 1], [1, 1], "exchange")
    assert on_hosts
    assert all("CPU" in device for _, device in on_hosts)
    assert len(exchanges) == 6
    assert not any(device for _, device in exchanges)  # where the values are
    assert not {key for key, _ in on_hosts} & {key for key, _ in exchanges}


@pytest.mark.parametrize("precision", ["float32", "float16", "bfloat16"])
def test_tensorflow_has_operations_for_the_type_of_every_precision(precision: str) -> None:
    """Building a graph checks the types and needs no other rank."""
    collectives = second_of_two()

    def exchanged(values: tf.Tensor) -> list[tf.Tensor]:
        return [
            *collectives.reduce([values], "sum", "sum"),
            collectives.group_mean(values, "mean"),
            collectives.group_exchange(values, [1, 1], [1, 1], "exchange"),
            collectives.group_gather(values, "gather"),
        ]

    graph = tf.function(exchanged, autograph=False).get_concrete_function(tf.TensorSpec([2, 3], precision))
    assert [found.dtype for found in graph.structured_outputs] == [tf.as_dtype(precision)] * 4
    assert graph.structured_outputs[-1].shape == (4, 3)


def test_gathered_rows_keep_their_bits(exchanges) -> None:
    bits = np.array([[0x7FC1, 0x0001, 0x8000]], np.uint16)  # no number, the smallest, minus zero
    values = tf.bitcast(tf.constant(bits), tf.bfloat16)
    found = second_of_two().group_gather(values, "gather")
    np.testing.assert_array_equal(tf.bitcast(found, tf.uint16), np.concatenate([bits, bits]))
