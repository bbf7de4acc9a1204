"""The device's current speed: a short matrix product before and after the timed part of a run."""

import statistics
import time
from typing import Literal

import keras
from keras import ops

EDGE = {"cpu": 512, "gpu": 4096}
"""Matrix orders: large enough for a meaningful rate, small enough to repeat often: 0.27 and 137 GFLOP each."""
PROBE_S = 0.1


def probe_rate(device: Literal["cpu", "gpu"]) -> float:
    """Return the median rate of an fp32 product of square matrices over a tenth of a second [FLOP/s].

    It is not a ceiling (see ``hpcai.machine.ceilings``); repeated probes show whether a machine became slower.
    """
    edge = EDGE[device]
    matrix = ops.ones((edge, edge), "float32")
    _multiply(matrix)
    rates: list[float] = []
    end_s = time.monotonic() + PROBE_S
    while not rates or time.monotonic() < end_s:
        started_s = time.monotonic()
        _multiply(matrix)
        rates.append(2.0 * edge**3 / (time.monotonic() - started_s))
    return statistics.median(rates)


def _multiply(matrix: keras.KerasTensor) -> None:
    float(ops.matmul(matrix, matrix)[0, 0])  # waits for the device
