"""Statistics of the channels over the training frames, as ``stats.h5`` holds them (reference, summarize_data.py)."""

from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from io import BytesIO
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from hpcai.core.errors import DatasetError
from hpcai.core.files import read_regular
from hpcai.workloads.deepcam.data.frame import CHANNELS, Frame, read_arrays

STATISTICS_FILE = "stats.h5"
_TOLERANCE = 1e-3
"""The reference sums in float32, so rounding can push means outside their bounds."""
_MAKE = "compute it over the training frames (the reference's summarize_data.py), or copy it again"

Values = NDArray[np.float64]


@dataclass(frozen=True)
class ChannelStatistics:
    """Content of ``stats.h5`` below ``climate``: the number of frames, and 16 numbers each."""

    count: int
    mean: Values
    sqmean: Values
    """Mean of the squares."""
    minval: Values
    maxval: Values


def summarise_frame(data: Frame) -> ChannelStatistics:
    """Return the statistics of one frame, (height, width, 16)."""
    values = data.astype(np.float64)
    over = (0, 1)
    return ChannelStatistics(1, values.mean(over), np.square(values).mean(over), values.min(over), values.max(over))


def merge_statistics(parts: Iterable[ChannelStatistics]) -> ChannelStatistics:
    """Return the combined statistics of several sets of frames."""
    found = list(parts)
    shares = np.array([part.count for part in found], np.float64)
    return ChannelStatistics(
        int(shares.sum()),
        np.average([part.mean for part in found], axis=0, weights=shares),
        np.average([part.sqmean for part in found], axis=0, weights=shares),
        np.min([part.minval for part in found], axis=0),
        np.max([part.maxval for part in found], axis=0),
    )


def encode_statistics(statistics: ChannelStatistics) -> bytes:
    """Return the bytes of a ``stats.h5``."""
    buffer = BytesIO()
    with h5py.File(buffer, "w") as file:
        file["climate/count"] = statistics.count
        for name in ("mean", "sqmean", "minval", "maxval"):
            file[f"climate/{name}"] = getattr(statistics, name).astype(np.float32)
    return buffer.getvalue()


def read_statistics(file: Path) -> ChannelStatistics:
    """Return the statistics of a ``stats.h5`` after a plausibility check.

    Raises
    ------
    DatasetError
        If it is missing, lacks a dataset, or holds wrong shapes, non-finite numbers, a maximum that is not above its
        minimum, or means outside of their bounds.
    """
    try:
        content = read_regular(file)
    except OSError as error:
        raise DatasetError(
            f"{file}: cannot be read ({error.strerror}), expected lowest and highest values of all channels, "
            f"by which they are scaled; {_MAKE}"
        ) from error
    names = [field.name for field in fields(ChannelStatistics)]
    count, *others = read_arrays(content, file, [f"climate/{name}" for name in names])
    if count.size != 1 or not np.issubdtype(count.dtype, np.integer) or int(count.item()) < 1:
        raise DatasetError(f"{file}: climate/count: found {count.tolist()}, expected one number of frames; {_MAKE}")
    for name, values in zip(names[1:], others, strict=True):
        _check_numbers(values, f"{file}: climate/{name}")
    statistics = ChannelStatistics(int(count.item()), *(values.astype(np.float64) for values in others))
    _check_order(statistics, file)
    return statistics


def _check_numbers(values: NDArray[np.generic], place: str) -> None:
    if values.shape != (len(CHANNELS),) or not np.issubdtype(values.dtype, np.floating):
        raise DatasetError(
            f"{place}: found {values.dtype} of shape {values.shape}, expected {len(CHANNELS)} floats; {_MAKE}"
        )
    if not np.isfinite(values).all():
        channel = int(np.argmin(np.isfinite(values)))
        raise DatasetError(f"{place}: found {values[channel]} for {CHANNELS[channel]}, expected numbers; {_MAKE}")


def _check_order(statistics: ChannelStatistics, file: Path) -> None:
    for channel, mean, square, low, high in zip(CHANNELS, *astuple(statistics)[1:], strict=True):
        if not low < high:
            raise DatasetError(
                f"{file}: {channel}: found maxval {high:g} and minval {low:g}, expected more than the minimum; {_MAKE}"
            )
        slack = _TOLERANCE * max(abs(low), abs(high))
        if not low - slack <= mean <= high + slack or square < mean**2 * (1 - _TOLERANCE) - slack**2:
            raise DatasetError(
                f"{file}: {channel}: found mean {mean:g} and sqmean {square:g}, expected a mean from {low:g} to "
                f"{high:g} and at least its square; {_MAKE}"
            )
