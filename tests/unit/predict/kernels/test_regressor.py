"""A stored regressor gives times from sizes with NumPy alone, and reports sizes outside its training range."""

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError
from unit.predict.kernels.made_regressors import make_regressor

from hpcai.core.errors import ConfigError
from hpcai.predict.kernels.regressor import KernelRegressor, estimate_time_s, is_extrapolated


def by_hand(regressor, case):
    """Evaluate one case with plain Python numbers."""
    values = [(np.log(case[scale.name]) - scale.log_mean) / scale.log_deviation for scale in regressor.inputs]
    for layer in regressor.layers:
        columns = zip(*layer.weights, strict=True)
        sums = [
            sum(value * weight for value, weight in zip(values, column, strict=True)) + bias
            for column, bias in zip(columns, layer.biases, strict=True)
        ]
        values = sums if layer is regressor.layers[-1] else [max(0.0, total) for total in sums]
    return np.exp(values[0] * regressor.time_log_deviation + regressor.time_log_mean)


def test_estimates_are_those_of_the_network_by_hand():
    regressor = make_regressor("gemm_forward")
    cases = pd.DataFrame({"k": [3, 700], "m": [16, 90], "n": [1000, 20], "more": ["a", "b"]})
    expected = [by_hand(regressor, case) for case in cases.to_dict("records")]
    assert estimate_time_s(regressor, cases) == pytest.approx(expected, rel=1e-12)
    assert len(set(expected)) == 2


def test_many_cases_are_estimated_as_each_alone():
    regressor = make_regressor("relu_forward")
    cases = pd.DataFrame({"batch": [1, 8, 32], "edge": [2.5, 7, 56], "channels_in": [3, 64, 512]})
    together = estimate_time_s(regressor, cases)
    alone = [estimate_time_s(regressor, cases.iloc[[row]])[0] for row in range(3)]
    assert together == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize(("kernel", "parameters"), [("gemm_forward", 10_451), ("conv2d_forward", 10_601)])
def test_number_of_parameters_is_that_of_the_source(kernel, parameters):
    regressor = make_regressor(kernel)
    assert regressor.parameters == parameters == 50 * len(regressor.inputs) + 10_301


def test_stored_as_text_and_read_again_nothing_changes():
    regressor = make_regressor("sgd")
    again = KernelRegressor.model_validate_json(regressor.model_dump_json())
    sizes = {"parameters": np.array([20, 3e6])}
    assert (estimate_time_s(again, sizes) == estimate_time_s(regressor, sizes)).all()


def test_sizes_outside_the_training_cases_are_marked_and_estimated():
    regressor = make_regressor("relu_forward", smallest=2, largest=50)
    cases = {"batch": [2, 1.9, 8, 50 * (1 + 1e-12)], "edge": [50, 9, 9, 9], "channels_in": [3, 3, 51, 3]}
    assert list(is_extrapolated(regressor, cases)) == [False, True, True, False]
    assert np.isfinite(estimate_time_s(regressor, cases)).all()


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"m": [1], "n": [2]}, "k missing, expected m, n, k"),
        ({"m": [1, 1], "n": [2, 0], "k": [3, 3]}, "n of case 1 is 0, expected a positive number"),
        ({"m": [1], "n": [np.nan], "k": [3]}, "n of case 0 is nan"),
        ({"m": [np.inf], "n": [2], "k": [3]}, "m of case 0 is inf"),
    ],
)
def test_sizes_that_no_kernel_has_are_refused(sizes, words):
    with pytest.raises(ConfigError, match=words):
        estimate_time_s(make_regressor("gemm_forward"), sizes)


def test_layers_that_do_not_fit_are_refused():
    stored = make_regressor("sgd").model_dump()
    with pytest.raises(ValidationError, match=r"layer .* fit its 1 inputs"):
        KernelRegressor.model_validate({**stored, "layers": stored["layers"][1:]})
    with pytest.raises(ValidationError, match="ends in 50 numbers"):
        KernelRegressor.model_validate({**stored, "layers": stored["layers"][:-1]})
