"""Each baseline is exact for times of its own form, and sees no test case."""

import numpy as np
import pytest
from unit.predict.kernels.kernel_time_tables import make_times

from hpcai.predict.kernels.fit import estimate_log_linear, estimate_two_parameters
from hpcai.predict.kernels.samples import select_samples


def samples_of(kernel, time_of):
    times = make_times(kernel, 200)
    return select_samples(times.assign(cpu_time_s=time_of(times)), kernel, seed=1)


def test_log_linear_is_exact_for_products_of_powers():
    samples = samples_of("gemm_forward", lambda times: 2e-9 * times["m"] * times["n"] ** 0.5 * times["k"] ** 0.9)
    assert estimate_log_linear(samples) == pytest.approx(samples.times_s[samples.test], rel=1e-9)


@pytest.mark.parametrize(
    ("kernel", "amount"),
    [("gemm_forward", "work_flop"), ("conv2d_forward", "work_flop"), ("relu_backward", "moved_bytes")],
)
def test_two_parameters_are_exact_for_a_constant_and_a_rate(kernel, amount):
    samples = samples_of(kernel, lambda times: 5e-6 + times[amount] / 7e9)
    assert estimate_two_parameters(samples) == pytest.approx(samples.times_s[samples.test], rel=1e-9)


def test_the_constant_is_never_negative():
    samples = samples_of("sgd", lambda times: 1e-12 * times["parameters"] ** 1.5)
    assert (estimate_two_parameters(samples) >= 0).all()


def test_test_cases_do_not_change_the_fits():
    samples = samples_of("gemm_forward", lambda times: 1e-6 + times["work_flop"] / 3e10)
    before = estimate_log_linear(samples), estimate_two_parameters(samples)
    samples.times_s[samples.test] *= 10
    assert np.array_equal(before[0], estimate_log_linear(samples))
    assert np.array_equal(before[1], estimate_two_parameters(samples))
