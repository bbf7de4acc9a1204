"""Channel statistics agree with NumPy, also where a plain sum of squares fails, and unusable ones are refused."""

import numpy as np
import pytest
from unit.refusals import refused

from hpcai.core.errors import DatasetError
from hpcai.workloads.extreme_weather.data.statistics import CONSTANT, channel_statistics, frame_moments


def frames(count: int) -> np.ndarray:
    offsets = np.linspace(0, 1e5, 16)[None, :, None, None]
    return (np.random.default_rng(3).normal(size=(count, 16, 8, 12)) + offsets).astype(np.float32)


@pytest.mark.parametrize("count", [1, 5])
def test_equal_to_numpy(count: int) -> None:
    images = frames(count)
    found = channel_statistics(map(frame_moments, images))
    wide = images.astype(np.float64)
    np.testing.assert_allclose(found["mean"], wide.mean(axis=(0, 2, 3)), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found["standard_deviation"], wide.std(axis=(0, 2, 3)), rtol=1e-10)


def test_constant_channel() -> None:
    images = frames(2)
    images[:, 1] = 101_325
    with refused(DatasetError, CONSTANT, place="statistics: channel PS", value=0.0):
        channel_statistics(map(frame_moments, images))


def test_no_frame() -> None:
    with pytest.raises(DatasetError, match="found no training frame"):
        channel_statistics(iter(()))
