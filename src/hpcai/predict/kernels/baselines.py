"""What a regressor has to beat: a log-linear fit and a fit of two parameters, on the same split.

Both are fitted to the training and the validation cases, all that the regressor's training sees.
"""

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from hpcai.predict.kernels.cases import KERNELS
from hpcai.predict.kernels.samples import Floats, KernelSamples

COMPUTING = ("convolution", "gemm")
"""Families whose two-parameter fit is over flop; that of the others is over bytes."""


def estimate_log_linear(samples: KernelSamples) -> Floats:
    """Estimate the test cases by a product of powers of the sizes, fitted by least squares of the logarithm of time.

    Returns
    -------
    numpy.ndarray
        Times of the test cases [s].
    """
    design = np.column_stack([np.ones(len(samples.sizes)), np.log(samples.sizes.to_numpy())])
    logs = np.log(samples.times_s)
    coefficients, *_ = np.linalg.lstsq(design[samples.fitted], logs[samples.fitted], rcond=None)
    estimated: Floats = np.exp(design[samples.test] @ coefficients)
    return estimated


def estimate_two_parameters(samples: KernelSamples) -> Floats:
    """Estimate the test cases by a constant and a rate: a + flop/F, of element-wise kernels a + bytes/B.

    Both parameters are at least 0 and minimise the squared relative errors, since times span several decades.

    Returns
    -------
    numpy.ndarray
        Times of the test cases [s].
    """
    amounts = _amounts(samples.kernel, samples.sizes)
    design = np.column_stack([np.ones(len(amounts)), amounts])
    weighted = design / samples.times_s[:, None]
    # The amounts are up to 1e9 times the constant: columns of equal length keep the fit stable.
    lengths = np.linalg.norm(weighted[samples.fitted], axis=0)
    lengths[lengths == 0] = 1.0
    solution, _ = nnls(weighted[samples.fitted] / lengths, np.ones(len(samples.fitted)))
    estimated: Floats = design[samples.test] @ (solution / lengths)
    return estimated


def _amounts(kernel: str, sizes: pd.DataFrame) -> Floats:
    """Return the work [flop] or the traffic [B] of each case."""
    chosen = KERNELS[kernel]
    amounts = chosen.work_flop(sizes) if chosen.family in COMPUTING else chosen.moved_bytes(sizes)
    return np.asarray(amounts, dtype=float)
