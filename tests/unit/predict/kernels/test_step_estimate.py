"""A step is the sum of its kernels; kernels without a regressor are left out and reported."""

import pytest
from unit.predict.kernels.made_regressors import make_constant_regressor

from hpcai.core.errors import ConfigError
from hpcai.metrics.scaling.model_limits import NOT_COVERED
from hpcai.predict.kernels.cases import KERNELS
from hpcai.predict.kernels.step_estimate import NO_STEP_WITH_PARAMETERS, add_overhead, estimate_step, fit_overhead
from hpcai.predict.training.layers import Layer, LayerList

CONVOLUTION = Layer(
    "conv", "convolution", (8, 8, 3), (8, 8, 4), kernel=(3, 3), parameters=112, bias=True, needs_input_gradient=False
)
RELU = Layer("relu", "relu", (8, 8, 4), (8, 8, 4), repeats=3)
DENSE = Layer("dense", "dense", (256,), (10,), parameters=2560)
ADD = Layer("add", "add", (8, 8, 4), (8, 8, 4))


def network(*layers, not_modelled=()):
    return LayerList(name="net", title="Net", layers=layers, source="made", not_modelled=not_modelled)


@pytest.fixture
def regressors():
    """The time of each kernel is a different power of two, so that a sum identifies its terms."""
    return {kernel: make_constant_regressor(kernel, 2.0**place) for place, kernel in enumerate(KERNELS)}


def seconds(*kernels):
    return sum(2.0 ** list(KERNELS).index(kernel) for kernel in kernels)


def test_each_stage_is_the_sum_of_its_kernels(regressors):
    estimate = estimate_step(network(CONVOLUTION, RELU, DENSE), 4, regressors)
    assert estimate.stage_s == {
        "forward": pytest.approx(
            seconds("conv2d_forward", "bias_forward", "gemm_forward", *["relu_forward"] * 3), rel=1e-9
        ),
        "input gradient": pytest.approx(seconds("gemm_input_gradient"), rel=1e-9),
        "weight gradient": pytest.approx(
            seconds("conv2d_weight_gradient", "bias_backward", "gemm_weight_gradient"), rel=1e-9
        ),
        "element-wise backward": pytest.approx(seconds(*["relu_backward"] * 3), rel=1e-9),
        "update": pytest.approx(seconds("sgd", "sgd", "sgd"), rel=1e-9),
    }
    assert estimate.step_s == pytest.approx(sum(estimate.stage_s.values()))
    assert estimate.covered_ratio == 1.0
    assert estimate.reason == ""
    assert estimate.not_covered == ()
    assert estimate.parameters == 2672


def test_what_has_no_kernel_is_left_out_and_lowers_the_covered_share(regressors):
    without = estimate_step(network(RELU), 4, regressors)
    with_add = estimate_step(network(RELU, ADD, not_modelled=("dropout",)), 4, regressors)
    assert with_add.step_s == pytest.approx(without.step_s)
    # In elements passed: ReLU 3 x (2 + 3), the addition 3 + 2.
    assert with_add.covered_ratio == pytest.approx(15 / 20)
    assert with_add.stage_covered_ratio["forward"] == pytest.approx(6 / 9)
    assert with_add.not_covered == ("add (add)", "dropout")


def test_a_missing_regressor_counts_as_not_covered(regressors):
    del regressors["conv2d_forward"]
    estimate = estimate_step(network(CONVOLUTION, DENSE), 4, regressors)
    convolved, multiplied = 4 * 2 * 9 * 3 * 4 * 64, 4 * 2 * 2560
    assert estimate.stage_covered_ratio["forward"] == pytest.approx(multiplied / (convolved + multiplied))
    assert estimate.not_covered == ("conv (convolution)",)
    assert estimate.stage_s["forward"] == pytest.approx(seconds("bias_forward", "gemm_forward"))


def test_layers_of_kind_other_are_named(regressors):
    other = Layer("norm", "other", (8, 8, 4), (8, 8, 4), parameters=100)
    assert estimate_step(network(RELU, other), 4, regressors).not_covered == ("norm (other)",)


def test_the_share_of_extrapolated_time(regressors):
    outside = make_constant_regressor("relu_forward", seconds("relu_forward"))
    scales = tuple(scale.model_copy(update={"largest": 2.0}) for scale in outside.inputs)
    regressors["relu_forward"] = outside.model_copy(update={"inputs": scales})
    estimate = estimate_step(network(RELU), 4, regressors)
    expected = seconds("relu_forward") / seconds("relu_forward", "relu_backward")
    assert estimate.extrapolated_ratio == pytest.approx(expected)


def test_a_network_without_any_regressor_is_zero_and_covers_nothing():
    estimate = estimate_step(network(CONVOLUTION, RELU), 4, {})
    assert estimate.step_s == 0
    assert estimate.covered_ratio == 0
    assert estimate.extrapolated_ratio != estimate.extrapolated_ratio
    assert NOT_COVERED.find_in(estimate.reason)["share"] == "0.000%"


def test_a_batch_of_nothing_is_refused(regressors):
    with pytest.raises(ConfigError, match="net: a batch of 0"):
        estimate_step(network(RELU), 0, regressors)


def test_the_overhead_is_recovered_and_names_its_steps(regressors):
    estimates = [estimate_step(network(CONVOLUTION, DENSE), batch, regressors) for batch in (4, 8)]
    measured = [estimate.step_s + 1.75e-3 * 2672 for estimate in estimates]
    overhead = fit_overhead(estimates, measured)
    assert overhead.per_parameter_s == pytest.approx(1.75e-3)
    assert overhead.fitted_on == "net batch 4, 8"
    assert add_overhead(estimates[0], overhead) == pytest.approx(measured[0])


def test_an_overhead_needs_parameters(regressors):
    with pytest.raises(ConfigError, match=NO_STEP_WITH_PARAMETERS.pattern):
        fit_overhead([estimate_step(network(RELU), 4, regressors)], [1.0])
