"""Energy and mean power from samples: trapezoidal rule over time stamps per device, or differences of counters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import trapezoid

from hpcai.core.messages import Message

LONG_GAP = 5.0
"""A gap of this many usual intervals is reported: power is interpolated across it."""
SLOW_SENSOR_RATIO = 0.5
"""Fewer value changes per sample mean that the sensor is slower than the sampling."""
ALLOWED_DIFFERENCE_RATIO = 0.05
"""Relative difference between counter and integrated power from which it is reported."""

NO_SAMPLES = Message("energy.no_samples", "not measured: no samples")
OF_DEVICE = Message("energy.of_device", "{device}: {reason}")
COUNTER_RESET = Message("energy.counter_reset", "the energy counter was reset or does not cover the window")
COUNTER_DIFFERS = Message(
    "energy.counter_differs",
    "the counter says {counted:.4g} J, integrated power {integrated:.4g} J",
)
NO_VALUE = Message("energy.no_value", "not measured: no sample with a value in the window")
BETWEEN_SAMPLES = Message("energy.between_samples", "no sample in the window: interpolated between those around it")
NO_TIME_STAMPS = Message("energy.no_time_stamps", "no time stamps: no energy from power, no mean power")
FEW_SAMPLES = Message("energy.few_samples", "not measured: fewer than two samples in the window")
A_GAP = Message("energy.a_gap", "longest gap {longest_s:.3g} s against {usual_s:.3g} s usually: interpolated")
SLOW_SENSOR = Message(
    "energy.slow_sensor",
    "{changes} changes of value in {samples} samples: the sensor is slower than the sampling",
)
PARTLY_COVERED = Message(
    "energy.partly_covered",
    "samples cover {covered_s:.4g} of {wanted_s:.4g} s of the window: energy of that part only",
)

_NAN = float("nan")


@dataclass(frozen=True)
class PowerSummary:
    """Energy of all devices over one window.

    Attributes
    ----------
    instrument
        Instrument: ``nvml``, ``rapl``, ``slurm`` ...
    energy_j, mean_power_w
        Sums over devices [J, W]; NaN if not measured.
    duration_s
        Time covered by samples inside the window [s], for the device with the longest coverage.
    samples
        Samples with a value, all devices together.
    longest_gap_s
        Longest time between two samples of one device [s].
    value_changes
        Number of value changes of a sensor, all devices together.
    reasons
        Why numbers are missing or doubtful.
    """

    instrument: str
    energy_j: float
    mean_power_w: float
    duration_s: float
    samples: int
    longest_gap_s: float
    value_changes: int
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Device:
    energy_j: float
    duration_s: float
    samples: int
    longest_gap_s: float
    value_changes: int
    reasons: tuple[str, ...]


def integrate_power(
    times_s: ArrayLike, powers_w: ArrayLike, window: tuple[float, float] | None = None
) -> tuple[float, float]:
    """Return energy [J] and the time covered [s] by the trapezoidal rule.

    Parameters
    ----------
    times_s, powers_w
        Samples in order of time [s, W]; samples without power are ignored.
    window
        Start and stop [s]: power is interpolated at both, never extrapolated beyond the first and last sample.

    Returns
    -------
    tuple
        NaN and 0 if fewer than two samples, or no part of the window, are covered.
    """
    times, powers = _clip(times_s, powers_w, window)
    if len(times) < 2:
        return _NAN, 0.0
    return float(trapezoid(powers, times)), float(times[-1] - times[0])


def count_energy(
    times_s: ArrayLike, energies_j: ArrayLike, window: tuple[float, float] | None = None
) -> tuple[float, float]:
    """Return energy [J] and the time covered [s] from a counter corrected for wraps.

    The counter is interpolated at the ends of the window. Without time stamps (all NaN), the ends are the first and the
    last value, and the time is NaN. A decreasing counter was reset; then there is no energy.
    """
    times, energies = np.asarray(times_s, dtype=float), np.asarray(energies_j, dtype=float)
    if window is None and len(times) and np.isnan(times).all():
        energies, times = energies[np.isfinite(energies)], np.full(1, _NAN)
    else:
        times, energies = _clip(times, energies, window)
    if len(energies) < 2 or (np.diff(energies) < 0).any():
        return _NAN, 0.0
    return float(energies[-1] - energies[0]), float(times[-1] - times[0])


def longest_gap(times_s: ArrayLike) -> float:
    """Return the longest time between two samples [s]; NaN if there are fewer than two."""
    steps = np.diff(np.asarray(times_s, dtype=float))
    return float(steps.max()) if len(steps) else _NAN


def count_value_changes(values: ArrayLike) -> int:
    """Return how often a value differs from the previous one: a slow sensor repeats itself."""
    return int(np.count_nonzero(np.diff(np.asarray(values, dtype=float))))


def power_summary(
    samples: pd.DataFrame, instrument: str, window: tuple[float, float] | None = None, reasons: Sequence[str] = ()
) -> PowerSummary:
    """Return energy and mean power of all devices.

    Parameters
    ----------
    samples
        ``time_s, device, power_w, energy_j``; rows with ``overlaps`` True (their energy is contained in another
        device's) are not added. A counter (``energy_j``) takes precedence over integrated power.
    instrument
        Name of the instrument.
    window
        Start and stop on the axis of ``time_s`` [s].
    reasons
        Known restrictions, for example from the reader.

    Returns
    -------
    PowerSummary
        Without time stamps there is no energy from power, and no mean power at all.
    """
    if "overlaps" in samples:
        samples = samples[~samples["overlaps"].astype(bool)]
    devices = {str(name): _summarise(own, window) for name, own in samples.groupby("device", sort=True)}
    if not devices:
        return PowerSummary(instrument, _NAN, _NAN, _NAN, 0, _NAN, 0, (*reasons, NO_SAMPLES()))
    known = list(devices.values())
    missing = any(math.isnan(device.energy_j) for device in known)
    powers = [device.energy_j / device.duration_s if device.duration_s > 0 else _NAN for device in known]
    sentences = [
        sentence if len(devices) == 1 else OF_DEVICE(device=name, reason=sentence)
        for name, device in devices.items()
        for sentence in device.reasons
    ]
    return PowerSummary(
        instrument=instrument,
        energy_j=_NAN if missing else sum(device.energy_j for device in known),
        mean_power_w=_NAN if missing else sum(powers),
        duration_s=float(np.max([device.duration_s for device in known])),
        samples=sum(device.samples for device in known),
        longest_gap_s=float(np.max([device.longest_gap_s for device in known])),
        value_changes=sum(device.value_changes for device in known),
        reasons=(*reasons, *sentences),
    )


def _summarise(own: pd.DataFrame, window: tuple[float, float] | None) -> _Device:
    own = own if own["time_s"].isna().all() else own.dropna(subset="time_s").sort_values("time_s", kind="stable")
    times, powers, energies = (own[name].to_numpy(dtype=float) for name in ("time_s", "power_w", "energy_j"))
    integrated_j, integrated_s = integrate_power(times, powers, window)
    counted_j, counted_s = count_energy(times, energies, window)
    by_counter = not math.isnan(counted_j)
    energy_j, duration_s = (counted_j, counted_s) if by_counter else (integrated_j, integrated_s)
    values = energies if by_counter else powers
    seen = _inside(times, values, window)
    sentences = [
        *_doubts(times[seen], values[seen], energy_j),
        *_missing_ends(times[np.isfinite(values)], window, duration_s),
    ]
    if np.isfinite(energies).sum() > 1 and not by_counter:
        sentences.append(COUNTER_RESET())
    if by_counter and abs(integrated_j - counted_j) > ALLOWED_DIFFERENCE_RATIO * counted_j:
        sentences.append(COUNTER_DIFFERS(counted=counted_j, integrated=integrated_j))
    count = int(np.count_nonzero(seen))
    gap_s = longest_gap(times[seen])
    return _Device(energy_j, duration_s, count, gap_s, count_value_changes(values[seen]), tuple(sentences))


def _clip(times_s: ArrayLike, values: ArrayLike, window: tuple[float, float] | None) -> tuple[NDArray[np.float64], ...]:
    """Return the samples inside the window, with interpolated ones at its ends."""
    times, measured = np.asarray(times_s, dtype=float), np.asarray(values, dtype=float)
    known = np.isfinite(times) & np.isfinite(measured)
    times, measured = times[known], measured[known]
    if window is None or len(times) == 0:
        return times, measured
    start, stop = max(window[0], times[0]), min(window[1], times[-1])
    if not start < stop:
        return times[:0], measured[:0]
    inside = (times > start) & (times < stop)
    ends = np.interp([start, stop], times, measured)
    return np.r_[start, times[inside], stop], np.r_[ends[0], measured[inside], ends[1]]


def _inside(
    times: NDArray[np.float64], values: NDArray[np.float64], window: tuple[float, float] | None
) -> NDArray[np.bool_]:
    known = np.isfinite(values)
    return known if window is None else known & (times >= window[0]) & (times <= window[1])


def _doubts(times: NDArray[np.float64], values: NDArray[np.float64], energy_j: float) -> list[str]:
    if len(values) == 0:
        return [NO_VALUE() if math.isnan(energy_j) else BETWEEN_SAMPLES()]
    if np.isnan(times).any():
        return [NO_TIME_STAMPS()]
    if math.isnan(energy_j):
        return [FEW_SAMPLES()]
    steps = np.diff(times)
    sentences: list[str] = []
    if len(steps) and steps.max() > LONG_GAP * np.median(steps):
        sentences.append(A_GAP(longest_s=float(steps.max()), usual_s=float(np.median(steps))))
    changes = count_value_changes(values)
    if len(steps) and changes < SLOW_SENSOR_RATIO * len(steps):
        sentences.append(SLOW_SENSOR(changes=changes, samples=len(values)))
    return sentences


def _missing_ends(times: NDArray[np.float64], window: tuple[float, float] | None, covered_s: float) -> list[str]:
    if window is None or len(times) == 0 or np.isnan(times).all():
        return []
    wanted_s = window[1] - window[0]
    if covered_s >= wanted_s * (1 - 1e-9):
        return []
    return [PARTLY_COVERED(covered_s=covered_s, wanted_s=wanted_s)]
