"""Bytes that ranks sharing samples send in a step, compared with those that a real step exchanges."""

from typing import get_args

import numpy as np
import pytest
import tensorflow as tf
from unit.training.training_plans import make_plan
from unit.workloads.cosmoflow.parts import SEEDS, Group, group, workload

from hpcai.config.machine import Precision
from hpcai.config.runs import RunPlan

OFFICIAL = {"kernel": 3, "conv_layers": 5, "base_filters": 32, "dense": (128, 64)}


def plan(parts: int, **point: object) -> RunPlan:
    settings = {"spatial_parts": parts, **point}
    return make_plan(parts, data={"edge": 128}, model=OFFICIAL, recipe={"global_batch": 1}, point=settings)


def test_the_official_cube() -> None:
    """1.25 MB forward and 0.98 MB back for each neighbour (worked out by hand from the shapes), and the last planes."""
    gathered = 4**3 * 512 * 4 // 2
    assert plan(2).part_bytes == 1_245_184 + 983_040 + gathered
    assert plan(4).part_bytes == 2 * (1_245_184 + 983_040) + 3 * gathered // 2
    assert plan(4, precision="bf16").part_bytes == plan(4).part_bytes / 2
    assert plan(4, engine="jax").part_bytes == plan(4).part_bytes
    assert plan(4, engine="tensorflow").part_bytes > plan(4).part_bytes
    assert plan(1).part_bytes == 0


def test_the_official_cube_in_four_by_four() -> None:
    """A part in the middle has 32 planes of 32 rows: worked out by hand for each of the five convolutions."""
    inputs = [(128, 4), (64, 32), (32, 64), (16, 128), (8, 256)]
    ways = [1, 2, 2, 2, 2]
    planes = [edge // 4 * edge * channels for edge, channels in inputs]
    rows = [(edge // 4 + 2) * edge * channels for edge, channels in inputs]
    halos = sum(way * (2 * plane + 2 * row) for way, plane, row in zip(ways, planes, rows, strict=True))
    gathered = 15 * 4**3 * 512 // 16
    assert plan(16).part_bytes == 4 * (halos + gathered)
    assert plan(16, engine="tensorflow").part_bytes == 4 * (15 * halos // 2 + gathered)
    # Little more than half of what each of 4 parts sends.
    assert 0.55 < plan(16).part_bytes / plan(4).part_bytes < 0.6


@pytest.mark.parametrize("precision", get_args(Precision))
def test_numbers_of_every_precision_have_a_size(precision: str) -> None:
    """The tables of runs ask for it in each record, shared samples or not."""
    narrow = precision in {"bf16", "fp16"}
    assert plan(2, precision=precision).part_bytes == plan(2).part_bytes / (2 if narrow else 1)
    assert plan(1, precision=precision).part_bytes == 0


@pytest.mark.parametrize("case", [(2, 3, 2), (2, 2, 2), (4, 3, 2), (4, 2, 2), (4, 3, 3), (8, 2, 2)])
def test_a_step_hands_over_what_is_modelled(case: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    parts, kernel, conv_layers = case
    sent_bytes, by_tensorflow_bytes = np.zeros(parts), np.zeros(parts)
    exchange, gather = Group.group_exchange, Group.group_gather

    def counted_exchange(self: Group, rows: tf.Tensor, sent: list[int], received: list[int], name: str) -> tf.Tensor:
        sent_bytes[self._own.rank] += rows.numpy().nbytes
        row_bytes = rows.numpy().itemsize * int(np.prod(rows.shape[1:]))
        by_tensorflow_bytes[self._own.rank] += (parts - 1) * max(*sent, *received) * row_bytes
        return exchange(self, rows, sent, received, name)

    def counted_gather(self: Group, rows: tf.Tensor, name: str) -> tf.Tensor:
        for counted in (sent_bytes, by_tensorflow_bytes):
            counted[self._own.rank] += (parts - 1) * rows.numpy().nbytes
        return gather(self, rows, name)

    monkeypatch.setattr(Group, "group_exchange", counted_exchange)
    monkeypatch.setattr(Group, "group_gather", counted_gather)

    def step(_: int) -> None:
        task = workload(parts, kernel=kernel, conv_layers=conv_layers)
        model = task.build_model(SEEDS)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(tf.ones((4, *task.cube), tf.int16)))
        tape.gradient(loss, [variable.value for variable in model.trainable_variables])

    with group(parts) as ranks:
        ranks.run(step)
    plan = workload(parts, kernel=kernel, conv_layers=conv_layers).plan
    assert sent_bytes.max() == pytest.approx(plan.part_bytes)
    point = plan.point.model_copy(update={"engine": "tensorflow"})
    assert by_tensorflow_bytes == pytest.approx(plan.model_copy(update={"point": point}).part_bytes)  # of every rank
