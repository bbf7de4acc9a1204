"""Bit-exact transfer of numbers in half precision."""

import itertools
import os
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.training.training_plans import make_plan

from hpcai.training import collective
from hpcai.training.collective import in_own_slot, mean_of_slots, split_backwards

NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False)
FLUSHED = float(np.finfo(np.float32).tiny)
"""Smallest number; TensorFlow rounds smaller ones to 0."""


def exchanged(ranks: np.ndarray) -> Any:
    """Return the mean over ranks (n, k), which all add their slots to a half-precision sum."""
    parts = [in_own_slot(tf.constant(own), rank, len(ranks)) for rank, own in enumerate(ranks)]
    assert {part.dtype for part in parts} == {tf.float16}
    return mean_of_slots(tf.add_n(parts)).numpy()


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 5).flatmap(lambda count: st.lists(st.tuples(NUMBERS, NUMBERS), min_size=count, max_size=count)))
def test_every_finite_number_arrives_exactly(rows: list[tuple[float, float]]) -> None:
    ranks = np.array(rows, np.float32)
    expected = ranks.astype(np.float64).mean(axis=0).astype(np.float32)
    np.testing.assert_allclose(exchanged(ranks), expected, rtol=0, atol=FLUSHED)


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ([[3.4e38], [3.4e38]], 3.4e38),
        ([[2e-38], [2e-38]], 2e-38),
        ([[-7.0], [np.inf]], np.inf),
        ([[1.0], [np.nan]], np.nan),
    ],
)
def test_a_loss_beyond_half_precision_keeps_its_value(ranks: list[list[float]], expected: float) -> None:
    np.testing.assert_array_equal(exchanged(np.array(ranks, np.float32)), np.float32(expected))


def test_more_ranks_than_half_precision_counts_are_told_apart() -> None:
    ranks = np.random.default_rng(5).normal(size=(3000, 1)).astype(np.float32)
    assert exchanged(ranks) == ranks.astype(np.float64).mean().astype(np.float32)


@pytest.mark.parametrize(
    ("sizes", "groups", "expected"),
    [
        ([1, 1, 1, 1], 1, [[0, 1, 2, 3]]),
        ([1, 1, 1, 1], 2, [[2, 3], [0, 1]]),
        ([8, 1, 1, 1], 2, [[1, 2, 3], [0]]),
        ([1, 1, 1, 8], 3, [[3], [2], [0, 1]]),
        ([1, 8], 2, [[1], [0]]),
        ([5, 5], 7, [[1], [0]]),
        ([0, 0, 4], 1, [[0, 1, 2]]),
    ],
)
def test_messages_hold_all_gradients_once_the_last_layers_first(sizes, groups, expected):
    assert split_backwards(sizes, groups) == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40), st.integers(1, 10))
def test_as_many_messages_as_asked_for_and_none_empty(sizes, groups):
    parts = split_backwards(sizes, groups)
    assert len(parts) == min(groups, len(sizes))
    assert sorted(place for part in parts for place in part) == list(range(len(sizes)))
    for earlier, later in itertools.pairwise(parts):
        assert min(earlier) > max(later)


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        ("default", {}),
        ("ring", {"NCCL_ALGO": "Ring"}),
        ("tree", {"NCCL_ALGO": "Tree"}),
        ("hierarchical", {"HOROVOD_HIERARCHICAL_ALLREDUCE": "1"}),
    ],
)
def test_the_topology_is_told_before_the_ranks_meet(
    monkeypatch: pytest.MonkeyPatch, topology: str, expected: dict[str, str]
) -> None:
    names = ("NCCL_ALGO", "HOROVOD_HIERARCHICAL_ALLREDUCE")
    for name in names:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    seen = []

    class Engine:
        def start(self, point: Any) -> str:
            seen.append({name: os.environ[name] for name in names if name in os.environ})
            return "ranks"

    monkeypatch.setattr(collective, "import_module", lambda _: SimpleNamespace(COLLECTIVES=Engine))
    monkeypatch.setattr(collective, "_joined", [])
    assert collective.start(make_plan(point={"allreduce_topology": topology}).point) == "ranks"
    assert seen == [expected]
