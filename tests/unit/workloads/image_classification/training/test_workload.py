"""Recipe, loss and quality of image classification."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from unit.workloads.image_classification.data.image_files import record
from unit.workloads.image_classification.training.image_plans import image_plan, official_plan

from hpcai.training.registry import workload_of
from hpcai.training.workload import Streams
from hpcai.workloads.image_classification.data.record import encode_record
from hpcai.workloads.image_classification.training.workload import ImageClassification

SEEDS = Streams(weights=1, order=2, dropout=3)
NO_SEED = tf.constant([0, 0])


class Fixed:
    """A model that returns the same logits for any input."""

    def __init__(self, logits: Any, weights: tuple[Any, ...] = ()) -> None:
        self._logits = tf.constant(logits, tf.float32)
        self.trainable_variables = [keras.Variable(weight) for weight in weights]

    def __call__(self, pixels: Any, training: bool) -> tf.Tensor:
        return self._logits


def test_the_registry_knows_it() -> None:
    assert isinstance(workload_of(image_plan()), ImageClassification)


def test_golden_learning_rates() -> None:
    workload = ImageClassification(official_plan(global_batch=8192))
    assert workload.plan.epoch_steps == 156
    assert workload.peak_rate == pytest.approx(8.192)
    assert workload.learning_rate(0) == 0
    assert workload.learning_rate(624) == pytest.approx(8.192 / 2)
    assert workload.learning_rate(1247) == pytest.approx(8.185, abs=5e-4)
    assert workload.learning_rate(1248) == pytest.approx(8.033, abs=5e-4)
    assert workload.learning_rate(1248) / 8.192 == pytest.approx(0.981, abs=5e-4)
    assert workload.learning_rate(90 * 156) == pytest.approx(0, abs=1e-12)
    rates = [workload.learning_rate(step) for step in range(1248, 90 * 156)]
    assert rates == sorted(rates, reverse=True)


def test_learning_rate_in_steps() -> None:
    workload = ImageClassification(official_plan(schedule="step"))
    epoch = workload.plan.epoch_steps
    assert epoch == 1_281_167 // 256
    expected = {8: 0.256, 30: 0.256, 31: 0.0256, 60: 0.0256, 61: 0.00256, 81: 0.000256}
    for number, rate in expected.items():
        assert workload.learning_rate(number * epoch) == pytest.approx(rate)
    assert workload.learning_rate(30 * epoch + 1) == pytest.approx(0.0256)


def test_the_peak_grows_with_the_global_batch_and_not_with_the_ranks() -> None:
    rates = [ImageClassification(image_plan(ranks=n, recipe={"base_learning_rate": 0.1})).peak_rate for n in (1, 2)]
    assert rates == [pytest.approx(0.1)] * 2
    assert ImageClassification(image_plan(point={"global_batch": 16})).peak_rate == pytest.approx(0.512)


def test_no_warm_up() -> None:
    workload = ImageClassification(image_plan(recipe={"warmup_epochs": 0}))
    assert workload.learning_rate(0) == pytest.approx(workload.peak_rate)


def test_loss_is_the_smoothed_cross_entropy_plus_half_the_squares_of_all_variables() -> None:
    logits = np.random.default_rng(0).normal(size=(2, 9))
    weights = (np.array([1.0, 2.0], np.float32), np.array(3.0, np.float32))
    workload = ImageClassification(image_plan(recipe={"weight_decay": 0.01}))
    loss = workload.loss(Fixed(logits, weights), (None, tf.constant([0, 7])), NO_SEED)  # type: ignore[arg-type]
    log_softmax = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    targets = np.full((2, 9), 0.1 / 9)
    targets[0, 0] += 0.9
    targets[1, 7] += 0.9
    expected = -(targets * log_softmax).sum(axis=1).mean() + 0.01 * (1 + 4 + 9) / 2
    assert loss.dtype == tf.float32
    assert float(loss) == pytest.approx(expected, rel=1e-6)


def gradients(workload: ImageClassification, model: Any) -> list[Any]:
    rng = np.random.default_rng(4)
    pixels = tf.constant(rng.uniform(0, 255, (8, 32, 32, 3)), tf.float32)
    batch = (pixels, tf.constant(rng.integers(0, 8, 8), tf.int32))
    with tf.GradientTape() as tape:
        loss = workload.loss(model, batch, NO_SEED)
    return list(tape.gradient(loss, [variable.value for variable in model.trainable_variables]))


def test_decay_pulls_at_every_variable_those_of_batch_norm_too() -> None:
    plain, decayed = (ImageClassification(image_plan(recipe={"weight_decay": decay})) for decay in (0.0, 0.5))
    model = plain.build_model(SEEDS)
    for variable in model.trainable_variables:
        variable.assign(variable.value + 0.25)
    pairs = zip(gradients(plain, model), gradients(decayed, model), model.trainable_variables, strict=True)
    for without, with_decay, variable in pairs:
        np.testing.assert_allclose(with_decay - without, 0.5 * variable.numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("precision", "least"), [("bf16", 0.9), ("fp16", 0.99)])
def test_narrow_types_give_gradients_near_those_of_float32(precision: str, least: float) -> None:
    # Statistics over few values, as deeper stages have them at this size, magnify every rounding.
    plans = (image_plan(model={"blocks": [1, 1]}, point={"precision": name}) for name in ("fp32", precision))
    wide, narrow = (ImageClassification(plan) for plan in plans)
    one, other = (
        np.concatenate([gradient.numpy().ravel() for gradient in gradients(workload, workload.build_model(SEEDS))])
        for workload in (wide, narrow)
    )
    assert one @ other / np.linalg.norm(one) / np.linalg.norm(other) > least


def test_optimizer_is_sgd_with_momentum() -> None:
    optimizer = ImageClassification(official_plan()).build_optimizer()
    variable = keras.Variable([1.0])
    optimizer.build([variable])
    optimizer.learning_rate.assign(0.1)
    velocity, expected = 0.0, 1.0
    for _ in range(3):
        optimizer.apply([tf.constant([2.0])], [variable])
        velocity = 0.875 * velocity - 0.1 * 2
        expected += velocity
        assert float(variable[0]) == pytest.approx(expected)


def rows(logits: Any, labels: list[int], weights: list[float]) -> Any:
    workload = ImageClassification(image_plan())
    batch = (None, tf.constant(labels, tf.int32))
    return workload.evaluate(Fixed(logits), batch, tf.constant(weights)).numpy()  # type: ignore[arg-type]


def test_quality_is_the_share_of_all_images_over_uneven_batches() -> None:
    best = np.eye(9)
    one = rows(best[[0, 1, 2]], [0, 1, 7], [1.0, 1.0, 1.0])
    other = rows(best[[3, 4, 5]], [3, 0, 5], [1.0, 0.0, 0.0])
    assert one.tolist() == [[3, 2]]
    assert other.tolist() == [[1, 1]]
    assert one.dtype == np.float64
    workload = ImageClassification(image_plan())
    assert workload.quality(np.concatenate([one, other])) == 0.75


def test_padding_does_not_count_whatever_it_holds() -> None:
    logits = np.eye(9)[[2, 0, 0]]
    logits[1:] = np.nan
    assert rows(logits, [2, 0, 0], [1.0, 0.0, 0.0]).tolist() == [[1, 1]]


def test_a_prediction_that_is_no_number_is_wrong() -> None:
    assert rows(np.full((2, 9), np.nan), [0, 0], [1.0, 1.0]).tolist() == [[2, 0]]
    infinite = np.zeros((1, 9))
    infinite[0, 3] = np.inf
    assert rows(infinite, [3], [1.0]).tolist() == [[1, 0]]


def test_samples_have_the_shapes_and_types_of_the_specification() -> None:
    workload = ImageClassification(image_plan())
    payload = tf.constant(encode_record(record(label=8)))
    for seed in (None, tf.constant([1, 2])):
        sample = workload.parse(payload, seed)
        for part, spec in zip(sample, workload.batch_spec(), strict=True):
            assert part.shape == spec.shape[1:]
            assert part.dtype == spec.dtype
        assert int(sample[1]) == 7
    assert [spec.shape[0] for spec in workload.batch_spec()] == [8, 8]
    halved = ImageClassification(image_plan(ranks=2, point={"accumulation": 2}))
    assert halved.batch_spec()[0].shape == (2, 32, 32, 3)


def test_the_pipeline_maps_records_without_running_them_one_by_one() -> None:
    workload = ImageClassification(image_plan())
    payloads = tf.constant([encode_record(record(label=label)) for label in range(1, 9)])
    seeds = tf.constant([[1, number] for number in range(8)])
    samples = tf.data.Dataset.from_tensor_slices((payloads, seeds)).map(workload.parse)
    (batch,) = workload.collate(samples, 8)
    assert [part.shape[0] for part in batch] == [8, 8, 8]
    assert batch[1].numpy().tolist() == list(range(8))


def test_logged_hyper_parameters() -> None:
    cosine = ImageClassification(official_plan(global_batch=8192)).hyperparameters()
    assert cosine == {
        "opt_name": "sgd",
        "sgd_opt_momentum": 0.875,
        "opt_base_learning_rate": pytest.approx(8.192),
        "opt_learning_rate_warmup_epochs": 8,
        "opt_weight_decay": 3.0517578125e-05,
        "label_smoothing": 0.1,
        "learning_rate_schedule": "cosine",
    }
    steps = ImageClassification(official_plan(schedule="step")).hyperparameters()
    assert steps["opt_learning_rate_decay_boundary_epochs"] == [30, 60, 80, 90]


def test_what_the_suite_says() -> None:
    workload = ImageClassification(image_plan())
    assert (workload.mlperf_name, workload.quality_key) == ("image_classification", "eval_accuracy")
    assert (workload.quality_metric, workload.higher_is_better) == ("top1_accuracy", True)


@pytest.mark.parametrize(("scaling", "factor"), [("linear", 4.0), ("sqrt", 2.0), ("none", 1.0)])
def test_how_the_rate_grows_with_the_batch(scaling: str, factor: float) -> None:
    workload = ImageClassification(image_plan(recipe={"scaling": scaling}, point={"global_batch": 32}))
    assert workload.peak_rate == pytest.approx(0.256 * factor)


@pytest.mark.parametrize("optimizer", ["lars", "lamb"])
def test_the_policies_have_no_penalty_in_the_loss(optimizer: str) -> None:
    logits = np.zeros((2, 9))
    recipe = {"optimizer": optimizer, "weight_decay": 0.5}
    workload = ImageClassification(image_plan(recipe=recipe))
    model = Fixed(logits, (np.array([1.0, 2.0], np.float32),))
    loss = workload.loss(model, (None, tf.constant([0, 7])), NO_SEED)  # type: ignore[arg-type]
    assert float(loss) == pytest.approx(np.log(9), rel=1e-6)
    assert workload.hyperparameters()["opt_name"] == optimizer
