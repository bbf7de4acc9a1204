import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from unit.mlperf_hpc.analysis.made_runs import made_round, made_run, made_submission, span

from hpcai.mlperf_hpc.analysis.columns import PRINCIPAL_COLUMNS
from hpcai.mlperf_hpc.analysis.round_tables import principal_axes, principal_table
from hpcai.mlperf_hpc.analysis.tables import result_table, run_table

POINTS = arrays.arrays(np.float64, (2, 6), elements=st.floats(0.1, 1000))


def test_runs_that_differ_in_epochs_only_lie_along_the_epochs() -> None:
    axes = principal_axes(np.array([10.0, 20.0, 40.0]), np.array([2.0, 2.0, 2.0]))
    assert (axes.axis1_epochs, axes.axis1_rate, axes.variance1_ratio) == (1, 0, 1)
    assert axes.std1_log10 == pytest.approx(math.log10(2))
    assert (axes.std2_log10, axes.centre_epochs) == (0, pytest.approx(20))
    assert math.isnan(axes.correlation_ratio)


def test_same_number_of_epochs_leaves_throughput_as_the_only_direction() -> None:
    axes = principal_axes(np.array([24.0] * 3), np.array([1.0, 2.0, 4.0]))
    assert (axes.axis1_epochs, axes.axis1_rate, axes.axis2_epochs, axes.axis2_rate) == (0, 1, 1, 0)
    assert (axes.std2_log10, axes.variance1_ratio) == (0, 1)
    assert math.isnan(axes.correlation_ratio)


def test_rate_in_proportion_to_epochs_lies_on_the_diagonal() -> None:
    epochs = np.array([10.0, 20.0, 30.0])
    axes = principal_axes(epochs, 3 * epochs)
    assert axes.axis1_epochs == pytest.approx(axes.axis1_rate) == pytest.approx(math.sqrt(0.5))
    assert axes.correlation_ratio == pytest.approx(1)


@given(POINTS)
def test_axes_are_orthogonal_and_keep_the_variance(points) -> None:
    axes = principal_axes(points[0], points[1])
    logs = np.log10(points)
    assert axes.std1_log10 >= axes.std2_log10 >= 0
    assert axes.axis1_epochs >= 0
    assert axes.axis2_epochs >= 0
    assert axes.axis1_epochs * axes.axis2_epochs + axes.axis1_rate * axes.axis2_rate == pytest.approx(0, abs=1e-9)
    total = logs.var(axis=1, ddof=1).sum()
    assert axes.std1_log10**2 + axes.std2_log10**2 == pytest.approx(total, rel=1e-9, abs=1e-15)
    assert math.isnan(axes.correlation_ratio) or abs(axes.correlation_ratio) <= 1 + 1e-9


@given(POINTS, st.floats(0.1, 100))
def test_faster_clock_moves_the_centre_only(points, factor) -> None:
    one, other = principal_axes(points[0], points[1]), principal_axes(points[0], factor * points[1])
    assert other.centre_epoch_rate_per_s == pytest.approx(factor * one.centre_epoch_rate_per_s)
    assert other.std1_log10 == pytest.approx(one.std1_log10, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("epochs", "rates"), [([], []), ([3.0], [1.0]), ([3.0, math.nan], [1.0, 1.0])])
def test_too_few_or_unknown_runs_have_no_axes(epochs, rates) -> None:
    axes = principal_axes(np.array(epochs), np.array(rates))
    assert axes.runs == len(epochs)
    assert math.isnan(axes.std1_log10)
    assert math.isnan(axes.centre_epochs)


def test_table_takes_the_kept_runs_of_each_result() -> None:
    submission = made_submission([made_run(n, run=span(0, 100 + n)) for n in range(5)])
    runs = run_table([made_round(submission)])
    table = principal_table(runs, result_table(runs))
    assert tuple(table.columns) == PRINCIPAL_COLUMNS
    assert table[["submission", "label", "runs", "centre_epochs"]].to_numpy().tolist() == [
        ["ORG/machine", "ORG machine", 3, pytest.approx(4)]
    ]
