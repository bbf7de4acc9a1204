"""Mean and standard deviation of each channel, over datasets of any size."""

from collections.abc import Iterable
from dataclasses import dataclass

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


@dataclass(frozen=True)
class FrameMoments:
    """Pixels of a frame, and of each channel the mean and the sum of squared deviations from it."""

    pixels: int
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]


def frame_moments(image: NDArray[np.float32]) -> FrameMoments:
    """Return the moments of one frame (16, height, width)."""
    mean, squares = np.zeros(len(image)), np.zeros(len(image))
    for channel, field in enumerate(image):  # all channels together take four times the frame's memory
        values = field.reshape(-1).astype(np.float64)
        mean[channel] = values.mean()
        values -= mean[channel]
        squares[channel] = np.square(values, out=values).sum()
    return FrameMoments(image[0].size, mean, squares)


def channel_statistics(frames: Iterable[FrameMoments]) -> dict[str, tuple[float, ...]]:
    """Return ``mean`` and ``standard_deviation`` of the channels over all frames, one number each.

    Sums of squared deviations are merged frame by frame in float64. This stays accurate where a plain sum of squares
    fails, as with pressures of 1e5 Pa (Chan, Golub & LeVeque 1983, The American Statistician 37, 242).

    Parameters
    ----------
    frames
        Their moments, in order.

    Raises
    ------
    DatasetError
        If a channel is constant, so that it cannot be normalised, or there is no frame.
    """
    count = 0
    mean = np.zeros(len(CHANNELS))
    squares = np.zeros(len(CHANNELS))
    for frame in frames:
        added, total = frame.pixels, count + frame.pixels
        difference = frame.mean - mean
        squares += frame.squares + difference**2 * (count * added / total)
        mean += difference * (added / total)
        count = total
    if count == 0:
        raise DatasetError("statistics: found no training frame, expected at least one; correct train_samples")
    deviation = np.sqrt(squares / count)
    for name, value in zip(CHANNELS, deviation, strict=True):
        if not value > 0:
            raise DatasetError(at(f"statistics: channel {name}", CONSTANT(value=value)))
    return {"mean": tuple(mean.tolist()), "standard_deviation": tuple(deviation.tolist())}
