"""Regressors recover an unknown time function from their training cases."""

import numpy as np
import pandas as pd
import pytest
from unit.predict.kernels.kernel_time_tables import make_times, true_time_s

from hpcai.core.errors import ConfigError
from hpcai.predict.kernels import fit
from hpcai.predict.kernels.accuracy import TOO_FEW_CASES
from hpcai.predict.kernels.cases import sample_cases
from hpcai.predict.kernels.fit import fit_kernels
from hpcai.predict.kernels.regressor import KernelRegressor, estimate_time_s


@pytest.fixture(scope="module", autouse=True)
def two_restarts():
    """Choose among two starts: enough to choose, and half as long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit, "RESTARTS", 2)
        yield


@pytest.fixture(scope="module")
def times():
    few = make_times("copy", 12)
    return pd.concat([make_times("gemm_forward", 300), make_times("sgd", 100), few], ignore_index=True)


@pytest.fixture(scope="module")
def fitted(times):
    return fit_kernels(times, seed=3)


def test_a_fitted_regressor_knows_cases_that_are_in_no_table(fitted):
    regressors, _, _ = fitted
    cases = sample_cases("gemm_forward", 200, seed=99)
    errors = estimate_time_s(regressors["gemm_forward"], cases) / true_time_s("gemm_forward", cases) - 1
    assert np.abs(errors).mean() < 0.15


def test_the_table_of_errors_is_that_of_the_stored_regressor(fitted, times):
    regressors, accuracy, errors = fitted
    stored = {name: KernelRegressor.model_validate_json(one.model_dump_json()) for name, one in regressors.items()}
    own = times[times["kernel"] == "gemm_forward"]
    estimated = pd.Series(estimate_time_s(stored["gemm_forward"], own), index=own["cpu_time_s"].to_numpy())
    judged = errors[errors["kernel"] == "gemm_forward"]
    assert judged["estimated_s"].to_numpy() == pytest.approx(estimated.loc[judged["measured_s"]].to_numpy(), rel=1e-9)
    row = accuracy.set_index("kernel").loc["gemm_forward"]
    relative = judged["estimated_s"] / judged["measured_s"] - 1
    assert row["mape_ratio"] == pytest.approx(relative.abs().mean())
    assert row["bias_ratio"] == pytest.approx(relative.mean())
    difference = (judged["estimated_s"] - judged["measured_s"]).abs().sum()
    assert row["weighted_error_ratio"] == pytest.approx(difference / judged["measured_s"].sum())
    assert row["mape_ratio"] == stored["gemm_forward"].errors.mape_ratio


def test_it_beats_the_log_linear_fit(fitted):
    _, accuracy, _ = fitted
    gains = accuracy.set_index("kernel")["gain_ratio"]
    assert gains["gemm_forward"] > 2
    assert gains["sgd"] > 2


def test_numbers_of_cases_and_parameters(fitted):
    regressors, accuracy, errors = fitted
    row = accuracy.set_index("kernel").loc["gemm_forward"]
    assert list(row[["n", "n_training", "n_validation", "n_test"]]) == [300, 192, 48, 60]
    assert (errors["kernel"] == "gemm_forward").sum() == 60
    assert regressors["gemm_forward"].parameters == 10_451
    assert regressors["sgd"].parameters == 10_351


def test_a_kernel_with_too_few_cases_has_a_reason_and_no_regressor(fitted):
    regressors, accuracy, errors = fitted
    assert set(regressors) == {"gemm_forward", "sgd"}
    row = accuracy.set_index("kernel").loc["copy"]
    assert row["reason"] == TOO_FEW_CASES(cases=12, needed=25)
    assert pd.isna(row["mape_ratio"])
    assert pd.isna(row["within_goal"])
    assert "copy" not in set(errors["kernel"])


def test_the_same_seed_gives_the_same_regressors_whatever_else_is_fitted(fitted, times):
    regressors, _, _ = fitted
    again, _, _ = fit_kernels(times[times["kernel"] == "sgd"], seed=3)
    assert again["sgd"] == regressors["sgd"]


def test_other_data_and_seeds_give_others(fitted, times):
    regressors, _, _ = fitted
    changed = times[times["kernel"] == "sgd"].copy()
    changed.loc[changed.index[0], "cpu_time_s"] *= 1.001
    other, _, _ = fit_kernels(changed, seed=4)
    assert other["sgd"].data_sha256 != regressors["sgd"].data_sha256
    assert other["sgd"].layers != regressors["sgd"].layers


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda times: times.drop(columns="cpu_time_s"), "expected the columns kernel, cpu_time_s and cpu_time_min_s"),
        (lambda times: times.replace({"kernel": {"sgd": "sbd"}}), "unknown kernel sbd; known are conv2d_forward"),
        (lambda times: times.drop(columns=["m", "parameters"]), "columns m, parameters are missing"),
    ],
)
def test_tables_that_are_none_of_kernel_times_are_refused(times, change, words):
    with pytest.raises(ConfigError, match=words):
        fit_kernels(change(times), seed=1)


def test_without_a_measured_kernel_nothing_is_fitted():
    regressors, accuracy, errors = fit_kernels(pd.DataFrame(), 1)
    assert regressors == {}
    assert len(accuracy) == len(errors) == 0
    assert {"kernel", "mape_ratio", "reason"} <= set(accuracy)
