"""Split measured kernel times into training, validation and test cases."""

import hashlib
import zlib
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hpcai.core.errors import ConfigError
from hpcai.predict.kernels.cases import KERNELS

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
TIME, SHORTEST = "cpu_time_s", "cpu_time_min_s"
"""Median and shortest of the repetitions of a case [s]."""
TEST_RATIO = VALIDATION_RATIO = 0.2
"""80/20 for the test, then 80/20 of the rest for validation: Barrachina et al. (2023), section 3."""
LEAST_SAMPLES = 25
"""With fewer there would be less than five test cases, so no regressor is fitted."""


@dataclass(frozen=True)
class KernelSamples:
    """The usable cases of one kernel, and their roles.

    Attributes
    ----------
    sizes
        One column per input of the kernel, shape (cases, inputs).
    times_s
        Measured times, shape (cases,).
    training, validation, test
        Positions of the cases.
    n_unusable
        Rows of the table without a time, and duplicates of a case.
    """

    kernel: str
    sizes: pd.DataFrame
    times_s: Floats
    training: Positions
    validation: Positions
    test: Positions
    n_unusable: int

    @property
    def fitted(self) -> Positions:
        """Positions of all cases available to a fit: training and validation."""
        return np.concatenate([self.training, self.validation])


def select_samples(times: pd.DataFrame, kernel: str, seed: int) -> KernelSamples:
    """Choose the cases of a kernel with a time, and split them at random.

    A case measured twice counts once (the first), because it could otherwise be both trained and tested. A case with a
    repetition of zero time was below the resolution of the measurement and is not used.

    Parameters
    ----------
    times
        Table ``kernel_times``.
    kernel
        A name of `hpcai.predict.kernels.cases.KERNELS`.
    seed
        Seed of the split; each kernel has its own stream.

    Returns
    -------
    KernelSamples
        64 % training, 16 % validation, 20 % test.
    """
    names = list(KERNELS[kernel].inputs)
    rows = times[times["kernel"] == kernel]
    resolved = (rows[TIME] > 0) & (rows[SHORTEST] > 0)
    usable = rows[resolved & (rows[names] > 0).all(axis=1)].drop_duplicates(names)
    order = np.random.default_rng([seed, zlib.crc32(kernel.encode())]).permutation(len(usable))
    n_test = round(TEST_RATIO * len(usable))
    n_validation = round(VALIDATION_RATIO * (len(usable) - n_test))
    test, validation, training = np.split(order, [n_test, n_test + n_validation])
    return KernelSamples(
        kernel=kernel,
        sizes=usable[names].astype(float).reset_index(drop=True),
        times_s=usable[TIME].to_numpy(dtype=float),
        training=training,
        validation=validation,
        test=test,
        n_unusable=len(rows) - len(usable),
    )


def hash_samples(samples: KernelSamples) -> str:
    """Return the SHA-256 of the sizes and times of all usable cases, in the order of the table."""
    table = samples.sizes.assign(time=samples.times_s).to_numpy(dtype="<f8")
    return hashlib.sha256(np.ascontiguousarray(table).tobytes()).hexdigest()


def check_times(times: pd.DataFrame) -> None:
    """Refuse a table that lacks columns of its kernels, or has unknown kernels.

    Raises
    ------
    ConfigError
        Names what is missing and what is known.
    """
    if not {"kernel", TIME, SHORTEST} <= set(times):
        found = ", ".join(map(str, times))
        raise ConfigError(f"kernel times: expected the columns kernel, {TIME} and {SHORTEST}, found {found}")
    unknown = sorted(set(times["kernel"]) - set(KERNELS))
    if unknown:
        raise ConfigError(f"kernel times: unknown kernel {', '.join(unknown)}; known are {', '.join(KERNELS)}")
    needed = {name for kernel in set(times["kernel"]) for name in KERNELS[kernel].inputs}
    missing = sorted(needed - set(times))
    if missing:
        raise ConfigError(f"kernel times: columns {', '.join(missing)} are missing, its kernels have these sizes")
