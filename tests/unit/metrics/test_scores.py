"""Scores of single runs of all outcomes, checked by hand against the record."""

import math
from dataclasses import asdict

import pytest
from unit.record_factory import make_benchmark, make_provenance, make_record

from hpcai.metrics.scores import reaches, score_run, time_parts, time_shares
from hpcai.metrics.validity import invalid_reasons, judge_runs, label_result


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
    epoch_s = (record.train_s + record.evaluation_s) / len(training.epochs)
    assert score.staging_epoch_ratio == pytest.approx(training.staging.staging_s / epoch_s)
    assert score.staging_compression_ratio == 5.5
    assert score.overhead_s == pytest.approx(record.overhead_s)


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


def test_parts_that_contradict_the_wall_time_are_not_shown() -> None:
    assert math.isnan(time_parts(make_record(record={"launch_s": 1000.0})).rest_s)


def test_error_must_be_positive_and_accuracy_may_be_higher() -> None:
    assert not reaches(0.0, 0.3, higher_is_better=False)
    assert not reaches(math.nan, 0.3, higher_is_better=False)
    assert not reaches(None, 0.3, higher_is_better=True)
    assert reaches(0.3, 0.3, higher_is_better=False)
    assert reaches(0.9, 0.8, higher_is_better=True)


def test_result_on_generated_data_is_labelled() -> None:
    label = label_result(invalid_reasons(make_record()))
    assert label.startswith("not a valid MLPerf HPC result: generated data, target 0.3 is not the official one")


def test_official_settings_leave_no_reason() -> None:
    data = {"dataset": "full", "source": "download", "archive": "full", "edge": 128}
    counts = {"train_samples": 524288, "validation_samples": 65536}
    benchmark = make_benchmark(data={**data, **counts}, target={"value": 0.124, "official": True})
    facts = {"data_source": "downloaded", "provenance": make_provenance(page_cache="dropped")}
    record = make_record("failed", benchmark=benchmark, seed=None, record=facts)
    assert invalid_reasons(record) == ()
    assert "nothing in the records" in label_result(())


@pytest.mark.parametrize(
    ("n_ok", "n", "words"),
    [
        (0, 4, "no valid result: none of 4 runs converged"),
        (2, 4, "no valid result: 2 of 4 runs failed to converge, at most one may be dropped"),
        (1, 2, "no valid result: 1 of 2 runs failed to converge, too few to drop one"),
        (9, 10, "9 of 10 runs converged; the failed one is dropped as the slowest"),
        (4, 4, "all 4 runs converged; too few runs (4 of 10 that the rules ask for)"),
        (1, 1, "the only run converged; too few runs (1 of 10"),
        (12, 12, "all 12 runs converged; more runs than the 10"),
    ],
)
def test_verdict(n_ok: int, n: int, words: str) -> None:
    assert judge_runs(n_ok, n, 10).startswith(words)
