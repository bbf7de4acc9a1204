"""The workload: samples, losses, gradients, rows of the metric, and logged values."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from unit.refusals import refused
from unit.workloads.extreme_weather.training.detector_plans import STATISTICS, detector, detector_batch, detector_plan

from hpcai.core.errors import TrainingError
from hpcai.training.workload import Streams
from hpcai.workloads.extreme_weather.data.sample import encode_frame
from hpcai.workloads.extreme_weather.training.model import kernels
from hpcai.workloads.extreme_weather.training.workload import NO_STATISTICS, ExtremeWeather

SEEDS = Streams(weights=3, order=1, dropout=2)


def step(workload: ExtremeWeather, model: Any, batch: tuple[Any, ...], seed: int = 5) -> tuple[float, list[Any]]:
    variables = [variable.value for variable in model.trainable_variables]
    with tf.GradientTape() as tape:
        loss = workload.loss(model, tuple(tf.constant(part) for part in batch), tf.constant([seed, 1]))
    assert loss.dtype == tf.float32
    return float(loss), tape.gradient(loss, variables)


def test_a_sample_there_and_back() -> None:
    workload = detector()
    images, boxes, _ = detector_batch(workload)
    record = encode_frame(images[0], boxes[0], 197_900_001)
    image, rows, identity = workload.parse(tf.constant(record), tf.constant([1, 2]))
    assert (image.numpy() == images[0]).all()
    assert (rows.numpy() == boxes[0]).all()
    assert int(identity) == 197_900_001
    for part, spec in zip((image, rows, identity), workload.batch_spec(), strict=True):
        assert part.shape == spec.shape[1:]
        assert part.dtype == spec.dtype


def test_batches_are_micro_batches() -> None:
    plan = {"ranks": 2, "point": {"accumulation": 2}}
    assert [spec.shape[0] for spec in ExtremeWeather(detector_plan(**plan)).batch_spec()] == [1, 1, 1]


def test_images_are_normalised_with_channels_last() -> None:
    workload = detector()
    channels = np.arange(16.0)[None, :, None, None]
    images = np.broadcast_to(channels + 3 * (channels + 1), (4, 16, 64, 64)).astype(np.float32)
    prepared = workload._prepared(tf.constant(images))
    assert prepared.shape == (4, 64, 64, 16)
    np.testing.assert_allclose(prepared, 3.0, rtol=1e-5)


@pytest.mark.parametrize("statistics", [None, {"mean": (0.0,) * 16}, {"mean": (0.0,), "standard_deviation": (1.0,)}])
def test_missing_statistics(statistics: dict[str, tuple[float, ...]] | None) -> None:
    workload = ExtremeWeather(detector_plan(), statistics)
    with refused(TrainingError, NO_STATISTICS, place="statistics of extreme_weather_mini", expected=16):
        workload.build_model(SEEDS)


def test_gradients_reach_all_weights() -> None:
    # Four levels of anchors, because the regions here are too small for the coarsest map.
    workload = detector(model={"anchors": {"sizes": [8.0, 16.0, 24.0, 32.0], "batch": 32}})
    model = workload.build_model(SEEDS)
    loss, gradients = step(workload, model, detector_batch(workload))
    assert np.isfinite(loss)
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        assert gradient is not None, variable.path
        assert np.isfinite(gradient).all(), variable.path
        assert np.abs(gradient).max() > 0, variable.path


def test_a_batch_without_events() -> None:
    workload = detector()
    model = workload.build_model(SEEDS)
    images, boxes, identities = detector_batch(workload)
    loss, gradients = step(workload, model, (images, np.full_like(boxes, -1), identities))
    assert np.isfinite(loss)
    assert all(gradient is not None and np.isfinite(gradient).all() for gradient in gradients)


def test_the_loss_at_the_start() -> None:
    """Small initial scores: objectness ln 2 per anchor, classes ln 5, deltas 0; and the decay."""
    workload = detector()
    model = workload.build_model(SEEDS)
    images, boxes, identities = detector_batch(workload)
    loss, _ = step(workload, model, (images, np.full_like(boxes, -1), identities))
    decay = 1e-4 * sum(float((kernel.numpy() ** 2).sum()) / 2 for kernel in kernels(model))
    assert loss - decay == pytest.approx(np.log(2) + np.log(5), rel=0.1)


def test_the_seed_decides_on_the_sample() -> None:
    workload = detector()
    model = workload.build_model(SEEDS)
    losses = [step(workload, model, detector_batch(workload), seed)[0] for seed in (1, 1, 2)]
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision(precision: str) -> None:
    workload = detector(point={"precision": precision})
    model = workload.build_model(SEEDS)
    loss, gradients = step(workload, model, detector_batch(workload))
    assert np.isfinite(loss)
    assert all(gradient is not None for gradient in gradients)


def test_rows_of_the_metric() -> None:
    workload = detector(model={"detections": {"score": 0.0, "per_image": 10}})
    model = workload.build_model(SEEDS)
    images, boxes, identities = detector_batch(workload)
    images[3] = np.nan  # padding may hold anything
    batch = tuple(tf.constant(part) for part in (images, boxes, identities))
    rows = workload.evaluate(model, batch, tf.constant([1.0, 1.0, 1.0, 0.0])).numpy()
    assert rows.dtype == np.float64
    assert rows.shape == (4 * (10 + 15), 9)
    assert np.isfinite(rows).all()
    assert rows[:, 0].sum() == 3
    assert (rows[75:] == 0).all()
    truths = rows[rows[:, 2] == 2]
    assert truths[:, [1, 3, 5, 6, 7, 8]].tolist() == [
        [197_900_000, 1, 10, 12, 30, 28],
        [197_900_000, 3, 30, 30, 60, 62],
        [197_900_001, 1, 10, 12, 30, 28],
        [197_900_002, 1, 10, 12, 30, 28],
    ]
    detections = rows[rows[:, 2] == 1]
    assert len(detections) > 0
    assert set(detections[:, 1]) <= {197_900_000, 197_900_001, 197_900_002}
    assert detections[:, 5:7].min() >= 0
    assert detections[:, 7:].max() <= 64
    assert 0 <= workload.quality(rows) < 1


def test_quality_of_true_boxes_as_detections() -> None:
    truths = np.array([[1, 7, 2, 0, 0, 1, 2, 11, 12], [0, 7, 2, 3, 0, 30, 30, 40, 50], [1, 8, 2, 0, 0, 5, 5, 9, 9]])
    detections = truths.copy()
    detections[:, [0, 2]] = [0, 1]
    detections[:, 4] = [0.9, 0.8, 0.7]
    empty = np.zeros((5, 9))
    workload = detector()
    assert workload.quality(np.concatenate([truths, detections, empty])) == 1
    assert workload.quality(np.concatenate([truths, detections[:1], empty])) == pytest.approx(0.25)


def test_learning_rate_follows_the_steps_of_the_plan() -> None:
    workload = detector(recipe={"decay_points": [0.5]})
    # 16 samples in batches of 4, 2 epochs: 8 steps; 4 images have half the rate of 8.
    expected = [0.005 / 3, 0.005 * 2 / 3, 0.005, 0.005, *[0.0005] * 4]
    assert [workload.learning_rate(number) for number in range(8)] == pytest.approx(expected)


def test_what_is_logged() -> None:
    parameters = detector().hyperparameters()
    assert parameters["opt_name"] == "sgd"
    assert parameters["opt_base_learning_rate"] == pytest.approx(0.005)
    assert parameters["opt_weight_decay"] == 1e-4
    assert detector().layers()


@pytest.mark.slow
def test_one_step_at_the_official_size() -> None:
    """Forward and backward of one image of 768 x 1152 at full width."""
    plan = detector_plan("config/benchmarks/extreme_weather.yaml", ranks=64)
    workload = ExtremeWeather(plan, STATISTICS)
    model = workload.build_model(SEEDS)
    batch = detector_batch(workload)
    batch[1][0, 0] = [100, 200, 400, 500, 1]

    @tf.function(autograph=False)
    def compiled() -> tuple[tf.Tensor, tf.Tensor]:
        variables = [variable.value for variable in model.trainable_variables]
        with tf.GradientTape() as tape:
            loss = workload.loss(model, tuple(tf.constant(part) for part in batch), tf.constant([5, 1]))
        return loss, tf.linalg.global_norm(tape.gradient(loss, variables))

    loss, norm = compiled()
    assert np.isfinite(float(loss))
    assert 0 < float(norm) < np.inf
