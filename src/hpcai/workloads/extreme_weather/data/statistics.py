"""Mean and standard deviation of each channel, over datasets of any size."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from hpcai.core.errors import DatasetError
from hpcai.core.messages import Message, at
from hpcai.workloads.extreme_weather.data.container import CHANNELS

CONSTANT = Message(
    "statistics.constant",
    "found the standard deviation {value} over the training years, expected a positive one; a constant channel "
    "cannot be normalised: get the dataset again",
)


def channel_statistics(images: Iterable[NDArray[np.float32]]) -> dict[str, tuple[float, ...]]:
    """Return ``mean`` and ``standard_deviation`` of the channels over all frames, one number each.

    Sums of squared deviations are merged frame by frame in float64. This stays accurate where a plain sum of squares
    fails, as with pressures of 1e5 Pa (Chan, Golub & LeVeque 1983, The American Statistician 37, 242).

    Parameters
    ----------
    images
        Frames (16, height, width), all of one size.

    Raises
    ------
    DatasetError
        If a channel is constant, so that it cannot be normalised, or there is no frame.
    """
    count = 0
    mean = np.zeros(len(CHANNELS))
    squares = np.zeros(len(CHANNELS))
    for image in images:
        values = image.reshape(len(CHANNELS), -1).astype(np.float64)
        frame_mean = values.mean(axis=1)
        added, total = values.shape[1], count + values.shape[1]
        difference = frame_mean - mean
        squares += ((values - frame_mean[:, None]) ** 2).sum(axis=1) + difference**2 * (count * added / total)
        mean += difference * (added / total)
        count = total
    if count == 0:
        raise DatasetError("statistics: found no training frame, expected at least one; correct train_samples")
    deviation = np.sqrt(squares / count)
    for name, value in zip(CHANNELS, deviation, strict=True):
        if not value > 0:
            raise DatasetError(at(f"statistics: channel {name}", CONSTANT(value=value)))
    return {"mean": tuple(mean.tolist()), "standard_deviation": tuple(deviation.tolist())}
