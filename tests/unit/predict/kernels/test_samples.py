"""No case is used for both training and testing; cases without a time are counted but not used."""

import numpy as np
import pandas as pd
from unit.predict.kernels.kernel_time_tables import make_times

from hpcai.predict.kernels.samples import select_samples


def test_the_split_is_64_16_20_and_each_case_serves_once():
    samples = select_samples(make_times("relu_forward", 1000), "relu_forward", seed=1)
    assert (len(samples.training), len(samples.validation), len(samples.test)) == (640, 160, 200)
    assert sorted(np.concatenate([samples.training, samples.validation, samples.test])) == list(range(1000))
    assert set(samples.fitted) == set(samples.training) | set(samples.validation)


def test_failed_and_repeated_cases_are_left_out_and_counted():
    times = make_times("relu_forward", 100)
    times.loc[3, "cpu_time_s"] = np.nan
    times.loc[5, "cpu_time_s"] = 0.0
    times.loc[7, "cpu_time_min_s"] = -1e-7
    twice = times.loc[[10]].assign(cpu_time_s=1.0)
    other = make_times("sgd", 10)
    samples = select_samples(pd.concat([times, twice, other], ignore_index=True), "relu_forward", seed=1)
    assert len(samples.sizes) == 97
    assert samples.n_unusable == 4
    assert 1.0 not in samples.times_s


def test_kernels_of_one_seed_are_split_differently():
    relu, bias = (select_samples(make_times(name, 100), name, seed=1) for name in ("relu_forward", "bias_forward"))
    assert list(relu.test) != list(bias.test)
