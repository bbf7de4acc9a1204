"""DeepCAM as the training loop uses it: samples, steps, quality and logged values."""

import numpy as np
import pytest
import tensorflow as tf
from unit.refusals import refused
from unit.workloads.deepcam.training.deepcam_plans import (
    SEEDS,
    STATISTICS,
    make_batch,
    make_plan,
    make_workload,
    needs_bf16,
)

from hpcai.core.errors import TrainingError
from hpcai.data.example import encode_example
from hpcai.training.engine import Engine
from hpcai.workloads.deepcam.training import workload as module
from hpcai.workloads.deepcam.training.scores import intersections_over_unions
from hpcai.workloads.deepcam.training.workload import NO_BF16, NO_STATISTICS, DeepCam


def test_a_sample_is_read_as_it_was_written() -> None:
    workload = make_workload()
    data, labels = (part[0] for part in make_batch(workload))
    record = encode_example({"data": data.astype("<f4").tobytes(), "labels": labels.tobytes()})
    for seed in (None, tf.constant([1, 2])):
        read = workload.parse(tf.constant(record), seed)
        np.testing.assert_array_equal(read[0], data)
        np.testing.assert_array_equal(read[1], labels)
        for part, spec in zip(read, workload.batch_spec(), strict=True):
            assert (part.dtype, part.shape) == (spec.dtype, spec.shape[1:])


def test_a_sample_of_another_size_is_an_error() -> None:
    record = encode_example({"data": b"\0" * 400, "labels": b"\0" * 6})
    with pytest.raises(tf.errors.InvalidArgumentError, match="reshape"):
        make_workload().parse(tf.constant(record), None)


@pytest.mark.parametrize("statistics", [{}, {"minval": (0.0,) * 16}, {**STATISTICS, "maxval": (1.0,) * 4}])
def test_missing_statistics_are_named(statistics: dict) -> None:
    with refused(TrainingError, NO_STATISTICS, expected=16):
        DeepCam(make_plan(), statistics).build_model(SEEDS)


def test_bf16_without_avx512_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "lacks_avx512", lambda: True)
    make_workload(point={"precision": "fp32"}).build_model(SEEDS)
    with refused(TrainingError, NO_BF16):
        make_workload(point={"precision": "bf16"}).build_model(SEEDS)


@pytest.mark.parametrize(
    ("optimizer", "rate", "precision"),
    [("AdamW", 0.01, "fp32"), ("Adam", 0.01, "fp32"), pytest.param("LAMB", 0.05, "bf16", marks=needs_bf16)],
)
def test_a_few_steps_lower_the_loss(optimizer: str, rate: float, precision: str, single_rank: None) -> None:
    """LAMB in single precision: end_to_end/test_five.py."""
    recipe = {"optimizer": optimizer, "learning_rate": rate}
    workload = make_workload(recipe=recipe, point={"precision": precision})
    engine = Engine(workload, SEEDS)
    batch = tuple(tf.constant(part) for part in make_batch(workload))
    engine.set_learning_rate(workload.learning_rate(0))
    losses = [float(engine.train([batch])) for _ in range(25)]
    assert losses[-1] < 0.8 * losses[0]


def test_quality_is_the_mean_over_frames_of_uneven_batches() -> None:
    workload = make_workload()
    model = workload.build_model(SEEDS)
    data, labels = make_batch(make_workload(recipe={"global_batch": 3}))
    expected = intersections_over_unions(model(data, training=False), labels).numpy()
    first = workload.evaluate(model, (data[:2], labels[:2]), tf.ones(2))
    padded = np.concatenate([data[2:], np.full_like(data[2:], np.nan)]), np.concatenate([labels[2:]] * 2)
    second = workload.evaluate(model, padded, tf.constant([1.0, 0.0]))
    rows = np.concatenate([first.numpy(), second.numpy()])
    assert rows.shape == (2, 2)
    assert rows.dtype == np.float64
    assert rows[:, 0].tolist() == [2, 1]
    assert workload.quality(rows) == pytest.approx(expected.mean())


def test_a_frame_that_is_no_number_shows_in_the_quality() -> None:
    workload = make_workload()
    data, labels = make_batch(workload)
    data[0, 0, 0, 0] = np.nan
    rows = workload.evaluate(workload.build_model(SEEDS), (data, labels), tf.ones(2)).numpy()
    assert np.isnan(workload.quality(rows))


def test_learning_rates_follow_the_schedule() -> None:
    schedule = {"type": "multistep", "milestones": [4], "decay_rate": 0.5}
    workload = make_workload(recipe={"learning_rate": 1.0, "warmup_steps": 2, "schedule": schedule})
    assert [workload.learning_rate(step) for step in (0, 1, 5, 6)] == [0.5, 0.5, 0.5, 0.25]
    cosine = make_workload(recipe={"learning_rate": 1.0, "schedule": {"type": "cosine_annealing", "t_max": 4}})
    assert cosine.learning_rate(2) == pytest.approx(0.5)


def test_hyperparameters_are_those_that_the_checker_demands() -> None:
    found = make_workload(official=True, recipe={"global_batch": 8}, point={"accumulation": 4}).hyperparameters()
    assert found == {
        "opt_name": "LAMB",
        "opt_lr": 0.0055,
        "opt_betas": [0.9, 0.999],
        "opt_eps": 1e-6,
        "opt_weight_decay": 0.01,
        "opt_bias_correction": True,
        "opt_grad_averaging": True,
        "opt_max_grad_norm": 1.0,
        "scheduler_type": "multistep",
        "scheduler_milestones": [800],
        "scheduler_decay_rate": 0.1,
        "scheduler_lr_warmup_steps": 400,
        "scheduler_lr_warmup_factor": 1.0,
        "batchnorm_group_size": 1,
        "gradient_accumulation_frequency": 4,
    }


def test_hyperparameters_of_adam_and_cosine() -> None:
    schedule = {"type": "cosine_annealing", "t_max": 9000}
    found = make_workload(recipe={"optimizer": "AdamW", "schedule": schedule}).hyperparameters()
    assert found["opt_name"] == "AdamW"
    assert not {"opt_max_grad_norm", "opt_bias_correction", "scheduler_milestones"} & found.keys()
    assert (found["scheduler_type"], found["scheduler_t_max"], found["scheduler_eta_min"]) == (
        "cosine_annealing",
        9000,
        0.0,
    )


def test_names() -> None:
    assert (DeepCam.mlperf_name, DeepCam.quality_metric) == ("deepcam", "intersection_over_union")
    assert (DeepCam.quality_key, DeepCam.higher_is_better) == ("eval_accuracy", True)
