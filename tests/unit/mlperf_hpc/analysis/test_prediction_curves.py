"""The curves of epochs and epoch time recover unknown laws, and their intervals cover the true values."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.mlperf_hpc.analysis.prediction_points_factory import FAMILIES, SCALES, all_results, points_of, result

from hpcai.mlperf_hpc.analysis.curve_model import DRAWS, LEVEL_RATIO, Observations, fit_laws, interval_of
from hpcai.mlperf_hpc.analysis.epoch_curve import SLOPES, EpochCurve, fit_epochs, relative_errors
from hpcai.mlperf_hpc.analysis.throughput_curve import fit_epoch_time, fit_staging


def critical_ratio(curve: EpochCurve) -> float:
    """Return the posterior probability of the critical-batch law against the power law."""
    return float(curve.posterior.weights[:, len(SLOPES) :].sum())


def test_epochs_recover_a_power_of_the_batch() -> None:
    curve = fit_epochs(points_of(all_results()).usable)
    for batch in (64, 512, 2048):
        low, middle, high = interval_of(np.exp(curve.predict(batch, "OrgA1").draw(1)))
        assert middle == pytest.approx(result("A1", batch)["epochs"], rel=0.04)
        assert low < middle < high
    assert critical_ratio(curve) < 0.5


def test_epochs_recover_the_critical_batch() -> None:
    points = points_of(all_results()).usable
    law = 12 * (1 + points["global_batch_samples"] / 256)
    curve = fit_epochs(points.assign(epochs=law, epochs_std=0.0))
    assert critical_ratio(curve) > 0.9
    middle = interval_of(np.exp(curve.predict(2048, "OrgA1").draw(1)))[1]
    assert middle == pytest.approx(12 * (1 + 2048 / 256), rel=0.1)


def test_epoch_time_recovers_efficiency_and_levels() -> None:
    curve = fit_epoch_time(points_of(all_results()).usable)
    for family in FAMILIES:
        middle = interval_of(np.exp(curve.predict(512, 512, family, f"org{family.lower()} {family}").draw(2)))[1]
        assert middle == pytest.approx(result(family, 512)["epoch_s"], rel=0.05)


def test_one_scale_of_a_family_takes_the_efficiency_of_others_with_a_wider_interval() -> None:
    rows = [row for row in all_results() if not (row["system"].startswith("C3") and row["units"] > 64)]
    curve = fit_epoch_time(points_of(rows).usable)
    spans = {}
    for family in ("A1", "C3"):
        low, middle, high = interval_of(
            np.exp(curve.predict(1024, 1024, family, f"org{family.lower()} {family}").draw(2))
        )
        assert middle == pytest.approx(result(family, 1024)["epoch_s"], rel=0.15)
        spans[family] = high / low
    assert spans["C3"] > spans["A1"]


def test_model_parallelism_gains_less_than_its_units() -> None:
    """The part that sharing units do not divide is learnt from two results of the family that shared samples."""
    undivided = 0.4

    def part(times: float) -> float:
        return (1 - undivided) / times + undivided

    shared = [result("A1", 64 * times, batch=64) for times in (4, 16)]
    shared = [row | {"epoch_s": row["epoch_s"] * part(row["units"] / 64)} for row in shared]
    curve = fit_epoch_time(points_of([*all_results(), *shared]).usable)
    alone, eight = (interval_of(np.exp(curve.predict(units, 64, "A1", "orga1 A1").draw(2)))[1] for units in (64, 512))
    assert eight == pytest.approx(alone * part(8), rel=0.05)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_staging_recovers_constant_and_ideal(share: float) -> None:
    points = points_of(all_results()).usable
    curve = fit_staging(points.assign(staging_in_run_s=600 * points["units"].astype(float) ** -share))
    middle = interval_of(np.exp(curve.predict(256, "orga1 A1").draw(3)))[1]
    assert middle == pytest.approx(600 * 256**-share, rel=0.15)


def test_intervals_hold_as_often_as_they_say() -> None:
    """60 made-up rounds with scatter between families, machines and submissions; one further submission each."""
    inside = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        rows, levels = [], {family: random.normal(0, 0.15) for family in FAMILIES}
        for family in FAMILIES:
            rows += [result(family, units, noise=levels[family] + random.normal(0, 0.15)) for units in SCALES]
        curve = fit_epoch_time(points_of(rows).usable)
        truth = result("A1", 512, noise=levels["A1"] + random.normal(0, 0.15))["epoch_s"]
        low, _, high = interval_of(np.exp(curve.predict(512, 512, "A1", "orga1 A1").draw(2)))
        inside += low <= truth <= high
    assert inside / 60 > LEVEL_RATIO - 0.08


def test_one_point_alone_answers_with_the_prior() -> None:
    curve = fit_epochs(points_of([result("A1", 64)]).usable)
    low, middle, high = interval_of(np.exp(curve.predict(64, "other").draw(1)))
    assert middle == pytest.approx(50, rel=0.02)
    assert low < 40
    assert high > 60


@given(st.floats(64, 4096), st.floats(1.0, 4.0))
@settings(max_examples=15, deadline=None)
def test_epochs_never_fall_and_epoch_time_never_grows(batch: float, times: float) -> None:
    points = points_of(all_results()).usable
    epochs, time = fit_epochs(points), fit_epoch_time(points)
    small, large = (np.exp(epochs.predict(size, "").draw(1)) for size in (batch, batch * times))
    assert interval_of(large)[1] >= interval_of(small)[1] * (1 - 1e-9)
    few, many = (np.exp(time.predict(size, size, "A1", "").draw(2)) for size in (batch, batch * times))
    assert interval_of(many)[1] <= interval_of(few)[1] * (1 + 1e-9)


def test_run_to_run_spread_widens_the_interval() -> None:
    def width(deviation: float) -> float:
        points = points_of(all_results()).usable
        curve = fit_epochs(points.assign(epochs_std=deviation * points["epochs"]))
        low, _, high = interval_of(np.exp(curve.predict(512, "OrgA1").draw(1)))
        return high / low

    assert width(1.0) > 1.2 * width(0.0)


def test_weights_add_up_and_draws_repeat() -> None:
    observed = Observations(np.log([2.0, 3.0]), np.zeros(2), (("a", "b"),), (0.3, 0.3))
    posterior = fit_laws(observed, np.zeros((2, 3)), np.full(3, 1 / 3))
    assert posterior.weights.sum() == pytest.approx(1)
    mixture = posterior.predict(["c"], np.zeros(3))
    assert len(mixture.draw(1)) == DRAWS
    assert np.array_equal(mixture.draw(1), mixture.draw(1))
    assert not np.array_equal(mixture.draw(1), mixture.draw(2))
    assert math.exp(np.median(mixture.draw(1))) == pytest.approx(math.sqrt(6), rel=0.02)


def test_missing_spread_is_that_of_the_noisiest_other() -> None:
    frame = pd.DataFrame({"epochs": [10.0, 10.0, 10.0], "epochs_std": [1.0, 2.0, np.nan], "kept": [4, 4, 1]})
    assert relative_errors(frame, "epochs", "epochs_std") == pytest.approx([0.05, 0.1, 0.1])
    alone = frame.iloc[2:]
    assert relative_errors(alone, "epochs", "epochs_std") == pytest.approx([0.0])
