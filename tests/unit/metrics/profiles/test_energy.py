"""Energy from samples: trapezoids, counters, windows, gaps."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcai.metrics.profiles import energy
from hpcai.metrics.profiles.energy import (
    count_energy,
    count_value_changes,
    integrate_power,
    longest_gap,
    power_summary,
)

NAN = math.nan


def samples(times, powers, device="a", energies=None):
    energies = [NAN] * len(times) if energies is None else energies
    return pd.DataFrame({"time_s": times, "device": device, "power_w": powers, "energy_j": energies})


def test_trapezoids_over_uneven_times():
    assert integrate_power([0, 1, 4], [10, 20, 20]) == (15 + 60, 4)
    assert integrate_power([0, 1, 2], [10, NAN, 30]) == (40, 2)


def test_windows_interpolate_and_never_continue():
    times, powers = [0, 10, 20], [0, 100, 100]
    assert integrate_power(times, powers, (5, 15)) == ((50 + 100) / 2 * 5 + 500, 10)
    assert integrate_power(times, powers, (-5, 10)) == (500, 10)
    energy_j, covered_s = integrate_power(times, powers, (30, 40))
    assert math.isnan(energy_j)
    assert covered_s == 0


@given(
    st.lists(st.tuples(st.floats(0.01, 10), st.floats(0, 500)), min_size=3, max_size=30),
    st.floats(0.05, 0.95),
)
def test_two_windows_make_the_whole(pairs, part):
    times = np.cumsum([step for step, _ in pairs])
    powers = [power for _, power in pairs]
    middle = times[0] + part * (times[-1] - times[0])
    whole = integrate_power(times, powers)[0]
    parts = [integrate_power(times, powers, window)[0] for window in ((times[0], middle), (middle, times[-1]))]
    assert sum(parts) == pytest.approx(whole)


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=30), st.floats(0.1, 1000))
def test_constant_power_is_power_times_time(steps, power):
    times = np.cumsum([0.0, *steps])
    assert integrate_power(times, np.full(len(times), power))[0] == pytest.approx(power * times[-1])


def test_counters():
    assert count_energy([0, 10, 20], [5, 105, 305]) == (300, 20)
    assert count_energy([0, 10, 20], [5, 105, 305], (5, 15)) == (205 - 55, 10)
    assert math.isnan(count_energy([0, 10, 20], [5, 105, 50])[0])
    assert count_energy([NAN, NAN], [5, 8])[0] == 3


def test_gaps_and_changes():
    assert longest_gap([0, 1, 5, 6]) == 4
    assert math.isnan(longest_gap([3]))
    assert count_value_changes([1, 1, 2, 2, 1]) == 2


def test_devices_are_integrated_apart_and_then_added():
    both = pd.concat([samples([0.0, 2.0], [100, 102], "a"), samples([0.1, 2.1], [50, 52], "b")])
    summary = power_summary(both.sort_values("time_s"), "nvml")
    assert summary.energy_j == pytest.approx(202 + 102)
    assert summary.mean_power_w == pytest.approx(101 + 51)
    assert (summary.duration_s, summary.samples, summary.value_changes) == (2.0, 4, 2)
    assert summary.reasons == ()


def test_a_device_without_values_leaves_no_sum():
    both = pd.concat([samples([0, 1, 2], [100, 101, 102], "a"), samples([0, 1, 2], [NAN] * 3, "b")])
    summary = power_summary(both, "nvml", reasons=("known",))
    assert math.isnan(summary.energy_j)
    assert summary.reasons == ("known", energy.OF_DEVICE(device="b", reason=energy.NO_VALUE()))


def test_no_samples_and_one_sample_are_not_measured():
    assert power_summary(samples([], []), "nvml").reasons == (energy.NO_SAMPLES(),)
    one = power_summary(samples([1.0], [100]), "nvml")
    assert math.isnan(one.energy_j)
    assert math.isnan(one.mean_power_w)
    assert one.reasons == (energy.FEW_SAMPLES(),)


def test_without_time_stamps_there_is_no_energy():
    summary = power_summary(samples([NAN, NAN], [100, 101]), "nvml")
    assert math.isnan(summary.energy_j)
    assert summary.reasons == (energy.NO_TIME_STAMPS(),)


def test_gaps_slow_sensors_and_windows_beyond_the_samples_are_said():
    times = [*range(10), 30, 31]
    summary = power_summary(samples(times, [100.0] * 12), "nvml", window=(-1, 31))
    assert summary.energy_j == pytest.approx(3100)
    assert summary.longest_gap_s == 21
    assert summary.reasons == (
        energy.A_GAP(longest_s=21, usual_s=1),
        energy.SLOW_SENSOR(changes=0, samples=12),
        energy.PARTLY_COVERED(covered_s=31, wanted_s=32),
    )


def test_a_window_between_two_samples_is_said():
    summary = power_summary(samples([0, 10], [100, 101]), "nvml", window=(4, 5))
    assert summary.energy_j == pytest.approx(100.45)
    assert (summary.samples, summary.duration_s) == (0, 1)
    assert summary.reasons == (energy.BETWEEN_SAMPLES(),)


def test_a_counter_goes_before_power_and_both_are_compared():
    summary = power_summary(samples([0, 1, 2], [100, 101, 100], energies=[7, 130, 257]), "nvml")
    assert summary.energy_j == 250
    assert summary.mean_power_w == 125
    assert summary.reasons == (energy.COUNTER_DIFFERS(counted=250, integrated=201),)
    reset = power_summary(samples([0, 1, 2], [100, 101, 100], energies=[7, 130, 3]), "nvml")
    assert reset.energy_j == 201
    assert reset.reasons == (energy.COUNTER_RESET(),)


def test_overlapping_devices_are_not_added():
    package, core = samples([0, 1], [100, 101], "package"), samples([0, 1], [60, 61], "core")
    both = pd.concat([package.assign(overlaps=False), core.assign(overlaps=True)])
    assert power_summary(both, "rapl").energy_j == pytest.approx(100.5)
