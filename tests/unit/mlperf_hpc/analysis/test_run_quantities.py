import math
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.mlperf_hpc.analysis.made_runs import made_run, span

from hpcai.mlperf_hpc.analysis.run_quantities import NO_STAGING, NO_STEPS, interval_samples, quantities_of

SECONDS = st.integers(0, 1000)
SPANS = st.lists(st.tuples(SECONDS, SECONDS).map(lambda ends: span(min(ends), max(ends))), max_size=8)


def test_quantities_of_a_plain_run() -> None:
    found = quantities_of(made_run())
    assert (found.run_s, found.staging_s, found.staging_in_run_s, found.init_s) == (100, 10, 10, 12)
    assert (found.epochs, found.epochs_s, found.epoch_s, found.epoch_rate_per_s) == (4, 80, 20, 0.05)
    assert (found.evaluations, found.evaluation_s, found.evaluation_alone_s) == (4, 20, 20)
    assert (found.train_s, found.extra_s) == (60, 10)
    assert found.train_rate_samples_per_s == 4 * 3000 / 60
    assert found.evaluation_rate_samples_per_s == 4 * 500 / 20
    assert found.combined_rate_samples_per_s == (3000 + 4 / 4 * 500) * 4 / 80
    assert math.isnan(found.train_rate_by_steps_samples_per_s)
    assert found.reasons == (NO_STEPS(),)


def test_last_step_counts_where_it_is_logged() -> None:
    run = made_run(epochs=(span(0, 50, 1, 40), span(50, 70, 2, 60)), evaluations=())
    assert quantities_of(run).train_rate_by_steps_samples_per_s == 60 * 64 / 70


def test_missing_staging_is_not_zero() -> None:
    found = quantities_of(made_run(staging=None))
    assert math.isnan(found.staging_s)
    assert math.isnan(found.staging_in_run_s)
    assert found.extra_s == 20
    assert NO_STAGING() in found.reasons


def test_staging_before_the_run_is_not_on_the_clock() -> None:
    found = quantities_of(made_run(staging=span(-30, 0), staging_before_run=True))
    assert (found.staging_s, found.staging_in_run_s, found.extra_s) == (30, 0, 20)
    across = quantities_of(made_run(staging=span(-30, 4), staging_before_run=True))
    assert (across.staging_s, across.staging_in_run_s, across.extra_s) == (34, 4, 16)


def test_evaluation_outside_epochs_takes_nothing_from_training_and_is_not_extra() -> None:
    found = quantities_of(made_run(evaluations=(span(92, 97),)))
    assert (found.train_s, found.evaluation_s, found.evaluation_alone_s, found.extra_s) == (80, 5, 5, 5)


def test_evaluation_across_the_end_of_an_epoch_takes_only_its_part_in_it() -> None:
    found = quantities_of(made_run(evaluations=(span(85, 95, 4),)))
    assert (found.train_s, found.evaluation_s, found.extra_s) == (75, 10, 5)


def test_overlapping_evaluations_count_once() -> None:
    found = quantities_of(made_run(evaluations=(span(20, 28), span(24, 30))))
    assert (found.evaluation_s, found.train_s, found.evaluations) == (10, 70, 2)


def test_overlapping_epochs_count_once() -> None:
    found = quantities_of(made_run(epochs=(span(10, 40, 1), span(30, 60, 2)), evaluations=()))
    assert (found.epochs_s, found.train_s) == (50, 50)


def test_evaluation_of_an_earlier_epoch_runs_beside_training() -> None:
    """Published logs of v3.0: other nodes evaluate while the next epoch is trained."""
    epochs = (span(0, 20, 1), span(20, 40, 2))
    found = quantities_of(made_run(epochs=epochs, evaluations=(span(20, 35, 1), span(40, 45, 2)), staging=None))
    assert (found.train_s, found.evaluation_s, found.evaluation_alone_s) == (40, 20, 5)
    assert found.extra_s == 55
    assert any("beside training" in reason for reason in found.reasons)


def test_evaluation_in_its_own_long_epoch_stops_only_that_one() -> None:
    """The epoch ends with its evaluation, and the next has begun: its training is training."""
    found = quantities_of(made_run(epochs=(span(0, 30, 1), span(20, 50, 2)), evaluations=(span(20, 30, 1),)))
    assert found.train_s == 50


def test_numbers_without_epoch_numbers_stop_training() -> None:
    assert quantities_of(made_run(evaluations=(span(20, 30), span(40, 50)))).train_s == 60


def test_epoch_numbers_that_count_samples() -> None:
    epochs = tuple(span(10 * place, 10 * place + 10, 640 * (place + 1)) for place in range(3))
    run = made_run(epochs=epochs, evaluations=(), settings={"train_samples": 3840, "global_batch_size": 64})
    found = quantities_of(run)
    assert interval_samples(run) == 640
    assert found.epochs == 0.5
    assert found.train_rate_samples_per_s == 3 * 640 / 30
    assert any("count samples" in reason for reason in found.reasons)


@pytest.mark.parametrize("numbers", [(1, 2, 3), (0, 1, 2), (64, 65, 66), (640, 1280, 1400), (None, None, None)])
def test_epoch_numbers_that_count_epochs(numbers) -> None:
    epochs = tuple(span(10 * place, 10 * place + 10, number) for place, number in enumerate(numbers))
    assert interval_samples(made_run(epochs=epochs)) is None


def test_blocks_count_with_their_epochs() -> None:
    found = quantities_of(made_run(epochs=(span(0, 40), span(40, 80)), epochs_in_blocks=8, evaluations=()))
    assert (found.epochs, found.epoch_s) == (8, 10)


def test_run_without_an_end_keeps_what_is_known() -> None:
    found = quantities_of(made_run(run=None))
    assert math.isnan(found.run_s)
    assert math.isnan(found.extra_s)
    assert found.train_s == 60
    assert any(reason.startswith("no time to solution") for reason in found.reasons)


def test_empty_log_gives_reasons_and_no_zero() -> None:
    bare = made_run(epochs=(), evaluations=(), epochs_in_blocks=0, staging=None, run=None, settings={}, init_s=None)
    found = quantities_of(bare)
    numbers = [field.name for field in fields(found) if field.name not in ("evaluations", "reasons")]
    assert [name for name in numbers if not math.isnan(getattr(found, name))] == []
    assert found.evaluations == 0
    assert len(found.reasons) >= 6


def test_evaluation_through_a_whole_epoch_leaves_no_training() -> None:
    found = quantities_of(made_run(epochs=(span(0, 10, 1),), evaluations=(span(0, 10, 1),)))
    assert found.train_s == 0
    assert math.isnan(found.train_rate_samples_per_s)


@given(SPANS, SPANS)
def test_times_are_never_negative_and_make_up_the_run(epochs, evaluations) -> None:
    run = made_run(run=span(0, 1000), staging=None, epochs=tuple(epochs), evaluations=tuple(evaluations))
    found = quantities_of(run)
    train_s = 0.0 if math.isnan(found.train_s) else found.train_s
    alone_s = 0.0 if math.isnan(found.evaluation_alone_s) else found.evaluation_alone_s
    assert min(train_s, alone_s, found.extra_s) >= 0
    assert train_s + alone_s + found.extra_s == pytest.approx(1000)
