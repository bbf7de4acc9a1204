"""Scores of single runs of all outcomes, checked by hand against the record."""

import math
from dataclasses import asdict

import pytest
from unit.record_factory import make_image_benchmark, make_record

from hpcai.metrics.scores.of_run import reaches, score_run, time_parts, time_shares
from hpcai.records.run import RunRecord


def test_converged_run() -> None:
    record = make_record(ranks_per_node=2)
    score, training = score_run(record), record.training
    assert training is not None
    assert score.time_to_train_s == training.run_s
    assert score.epochs_to_target == len(training.epochs)
    samples, seconds = sum(e.samples for e in training.epochs), sum(e.train_s for e in training.epochs)
    assert score.train_rate_samples_per_s == pytest.approx(samples / seconds)
    assert score.evaluation_rate_samples_per_s == pytest.approx(64 * len(training.epochs) / record.evaluation_s)
    assert score.staging_read_rate_bytes_per_s == pytest.approx(20e6 / training.staging.staging_s)
    assert score.staging_write_rate_bytes_per_s == pytest.approx(110e6 / training.staging.staging_s)
    epoch_s = (record.train_s + record.evaluation_s) / len(training.epochs)
    assert score.staging_epoch_ratio == pytest.approx(training.staging.staging_s / epoch_s)
    assert score.staging_compression_ratio == 5.5
    assert score.overhead_s == pytest.approx(record.overhead_s)


def test_median_step_is_that_of_all_steps_and_not_of_the_epochs_medians() -> None:
    training = make_record().training
    assert training is not None
    changed = training.model_copy(update={"step_time_median_s": 0.125})
    assert score_run(make_record(record={"training": changed})).step_time_median_s == 0.125
    earlier = training.model_copy(update={"step_time_median_s": None})
    assert math.isnan(score_run(make_record(record={"training": earlier})).step_time_median_s)


def test_throughput_is_total_over_total() -> None:
    record = make_record()
    rates = [epoch.samples / epoch.train_s for epoch in record.epochs]
    assert score_run(record).train_rate_samples_per_s < sum(rates) / len(rates)


@pytest.mark.parametrize("outcome", ["not_converged", "diverged"])
def test_run_that_missed_the_target_has_no_time_to_train(outcome: str) -> None:
    score = score_run(make_record(outcome))
    assert math.isnan(score.time_to_train_s)
    assert math.isnan(score.epochs_to_target)
    assert score.train_rate_samples_per_s > 0


@pytest.mark.parametrize("outcome", ["failed", "timed_out"])
def test_breakdown_earns_no_number(outcome: str) -> None:
    record = make_record(outcome)
    assert all(math.isnan(value) for value in asdict(score_run(record)).values())
    assert all(math.isnan(value) for value in asdict(time_shares(time_parts(record))).values())


def test_diverged_run_names_its_best_finite_quality() -> None:
    assert math.isfinite(score_run(make_record("diverged")).best_quality)


def with_qualities(record: RunRecord, qualities: list[float]) -> RunRecord:
    """Return the record with these qualities of its last epochs, and no others."""
    training = record.training
    assert training is not None
    epochs = [
        epoch.model_copy(update={"quality": quality})
        for epoch, quality in zip(training.epochs[-len(qualities) :], qualities, strict=True)
    ]
    return record.model_copy(update={"training": training.model_copy(update={"epochs": tuple(epochs)})})


@pytest.mark.parametrize(("accuracy", "best"), [(False, 0.3), (True, 0.7)], ids=["an error", "an accuracy"])
def test_the_best_quality_is_the_lowest_error_or_the_highest_accuracy(accuracy: bool, best: float) -> None:
    plan = {"benchmark": make_image_benchmark()} if accuracy else {}
    score = score_run(with_qualities(make_record("not_converged", **plan), [0.5, 0.3, 0.7, 0.4]))
    assert (score.best_quality, score.last_quality) == (best, 0.4)


def test_the_last_quality_of_a_diverged_run_is_its_last_finite_one() -> None:
    score = score_run(with_qualities(make_record("diverged"), [0.3, 0.5, math.nan]))
    assert (score.best_quality, score.last_quality) == (0.3, 0.5)
    none_at_all = score_run(with_qualities(make_record("diverged"), [math.nan, math.nan]))
    assert math.isnan(none_at_all.best_quality)
    assert math.isnan(none_at_all.last_quality)


def test_no_staging_is_not_zero_bytes_per_second() -> None:
    record = make_record()
    staging = record.training.staging.model_copy(update={"place": "none", "staging_s": 0.0, "compression_ratio": None})
    training = record.training.model_copy(update={"staging": staging})
    score = score_run(make_record(record={"training": training}))
    assert math.isnan(score.staging_read_rate_bytes_per_s)
    assert math.isnan(score.staging_epoch_ratio)


@pytest.mark.parametrize("launch_s", [1.0, None])
def test_parts_add_up_to_the_wall_time(launch_s: float | None) -> None:
    record = make_record(record={"launch_s": launch_s})
    parts, shares = asdict(time_parts(record)), asdict(time_shares(time_parts(record)))
    assert sum(value for value in parts.values() if not math.isnan(value)) == pytest.approx(record.wall_s)
    assert sum(value for value in shares.values() if not math.isnan(value)) == pytest.approx(1)
    assert math.isnan(shares["launch_ratio"]) == (launch_s is None)


def test_caching_is_a_part_of_its_own() -> None:
    plain = make_record()
    cached = make_record(record={"training": plain.training.model_copy(update={"cache_s": 2.0})})
    before, after = time_parts(plain), time_parts(cached)
    assert math.isnan(before.cache_s)
    assert (after.cache_s, after.rest_s) == (2.0, pytest.approx(before.rest_s - 2.0))
    assert sum(value for value in asdict(time_shares(after)).values()) == pytest.approx(1)


def test_parts_that_contradict_the_wall_time_are_not_shown() -> None:
    assert math.isnan(time_parts(make_record(record={"launch_s": 1000.0})).rest_s)


@pytest.mark.parametrize(("covered_ratio", "is_shown"), [(1.005, True), (1.02, False)])
def test_parts_may_overlap_by_a_hundredth_of_the_wall_time(covered_ratio: float, is_shown: bool) -> None:
    plain = make_record()
    launch_s = 1.0 + time_parts(plain).rest_s + (covered_ratio - 1) * plain.wall_s
    parts = time_parts(make_record(record={"launch_s": launch_s}))
    assert (parts.launch_s == launch_s, parts.rest_s == 0.0) == (is_shown, is_shown)


def test_error_must_be_positive_and_accuracy_may_be_higher() -> None:
    assert not reaches(0.0, 0.3, higher_is_better=False)
    assert not reaches(math.nan, 0.3, higher_is_better=False)
    assert not reaches(None, 0.3, higher_is_better=True)
    assert reaches(0.3, 0.3, higher_is_better=False)
    assert reaches(0.9, 0.8, higher_is_better=True)


def test_staging_to_a_folder_that_nodes_share_has_a_rate_as_well() -> None:
    record = make_record()
    staging = record.training.staging.model_copy(update={"place": "shared"})
    shared = make_record(record={"training": record.training.model_copy(update={"staging": staging})})
    assert score_run(shared) == score_run(record)
