"""Accuracy of the regressors on unseen cases, compared with two baselines.

Errors follow Barrachina et al. (2023, doi 10.1007/s00607-021-00997-9, section 4): RE = (estimated - measured) /
measured, and the weighted error of a set, the sum of absolute errors over the sum of measured times.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.core.messages import Message
from hpcai.predict.errors_of_estimates import relative_errors, weighted_error_ratio
from hpcai.predict.kernels.regressor import EstimateErrors, Floats, KernelRegressor
from hpcai.predict.kernels.samples import LEAST_SAMPLES, KernelSamples

GOAL_RATIO = 0.20
"""Goal for the mean absolute relative error of a kernel on its test cases."""
MEDIAN_GOAL_RATIO = 0.12
"""Goal for the median of that error over the kernels."""
GAIN_GOAL_RATIO = 2.0
"""Goal for the error of the log-linear fit over that of the regressor."""
ACCURACY_COLUMNS = columns_of("kernel_accuracy")
GOAL_COLUMNS = columns_of("kernel_goals")
SOURCE = "kernel_times: test cases that no fit has seen"
TOO_FEW_CASES = Message("accuracy.too_few_cases", "{cases} cases have a time, {needed} are needed")
ERROR_COLUMNS = columns_of("kernel_errors")


@dataclass(frozen=True)
class KernelResult:
    """Test results of a kernel's regressor and the baselines; with too few cases there is no regressor.

    Attributes
    ----------
    estimated_s, log_linear_s, two_parameter_s
        Times of the test cases as estimated by the regressor and the baselines.
    """

    samples: KernelSamples
    regressor: KernelRegressor | None = None
    estimated_s: Floats | None = None
    log_linear_s: Floats | None = None
    two_parameter_s: Floats | None = None

    @property
    def measured_s(self) -> Floats:
        """Return the measured times of the test cases."""
        times: Floats = self.samples.times_s[self.samples.test]
        return times


def summarise_errors(estimated_s: Floats, measured_s: Floats) -> EstimateErrors:
    """Return mean and median absolute relative error, mean relative error, and weighted error of some cases."""
    relative = relative_errors(estimated_s, measured_s)
    return EstimateErrors(
        mape_ratio=np.abs(relative).mean(),
        median_ape_ratio=np.median(np.abs(relative)),
        bias_ratio=relative.mean(),
        weighted_error_ratio=weighted_error_ratio(estimated_s, measured_s),
    )


def collect_accuracy(results: Iterable[KernelResult]) -> pd.DataFrame:
    """Return table ``kernel_accuracy``: one row per kernel, ratios over its test cases.

    ``within_goal`` is true if the mean absolute relative error is at most 20 % and that of the log-linear fit is at
    twice as large or more; it is empty for a kernel without a regressor, whose `reason` explains why.
    """
    rows = [_accuracy_row(result) for result in results]
    return pd.DataFrame(rows, columns=list(ACCURACY_COLUMNS)).astype({"within_goal": "boolean"})


def collect_errors(results: Iterable[KernelResult]) -> pd.DataFrame:
    """Return table ``kernel_errors``: one row per test case and kernel, times in seconds."""
    parts = [
        pd.DataFrame(
            {
                "kernel": result.samples.kernel,
                "split": "test",
                "measured_s": result.measured_s,
                "estimated_s": result.estimated_s,
                "relative_error_ratio": relative_errors(result.estimated_s, result.measured_s),
            }
        )
        for result in results
        if result.estimated_s is not None
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(ERROR_COLUMNS))


def summarise_goals(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Return one row per goal of the regressors, with the number of kernels that meet it.

    Parameters
    ----------
    accuracy
        Table ``kernel_accuracy``.

    Returns
    -------
    pandas.DataFrame
        ``goal`` (the quantity), ``value_ratio`` (of the worst kernel, or the median), ``goal_ratio``,
        ``within_goal``, ``kernels``, ``kernels_within_goal``, ``worst_kernel``. Kernels without a regressor have no
        value and meet no goal; without kernels there are no rows.
    """
    if accuracy.empty:
        return pd.DataFrame(columns=list(GOAL_COLUMNS))
    errors = accuracy.set_index("kernel")["mape_ratio"].astype(float)
    gains = accuracy.set_index("kernel")["gain_ratio"].astype(float)
    small, similar, better = errors <= GOAL_RATIO, errors <= MEDIAN_GOAL_RATIO, gains >= GAIN_GOAL_RATIO
    median = errors.median()
    rows = [
        ("error of each kernel", errors.max(), GOAL_RATIO, bool(small.all()), small, _name(errors, largest=True)),
        ("median error", median, MEDIAN_GOAL_RATIO, bool(median <= MEDIAN_GOAL_RATIO), similar, ""),
        ("gain of each kernel", gains.min(), GAIN_GOAL_RATIO, bool(better.all()), better, _name(gains, largest=False)),
    ]
    return pd.DataFrame(
        [(*row[:4], len(accuracy), int(row[4].sum()), row[5], "modelled", "table kernel_accuracy") for row in rows],
        columns=list(GOAL_COLUMNS),
    )


def _name(values: pd.Series, *, largest: bool) -> str:
    """Return the kernel with the largest or smallest value; blank if there is none."""
    known = values.dropna()
    if known.empty:
        return ""
    return str(known.idxmax() if largest else known.idxmin())


def _accuracy_row(result: KernelResult) -> dict[str, Any]:
    samples, regressor = result.samples, result.regressor
    sizes = {
        "kernel": samples.kernel,
        "n": len(samples.sizes),
        "n_unusable": samples.n_unusable,
        "goal_ratio": GOAL_RATIO,
        "gain_goal_ratio": GAIN_GOAL_RATIO,
        "method": "modelled",
        "source": SOURCE,
    }
    if regressor is None or regressor.errors is None:
        return {**sizes, "reason": TOO_FEW_CASES(cases=len(samples.sizes), needed=LEAST_SAMPLES)}
    mape = regressor.errors.mape_ratio
    log_linear = _mape(result.log_linear_s, result.measured_s)
    gain = log_linear / mape
    return {
        **sizes,
        **regressor.errors.model_dump(),
        **{name: getattr(regressor, name) for name in ("n_training", "n_validation", "n_test", "epochs", "restarts")},
        "mape_log_linear_ratio": log_linear,
        "mape_two_parameter_ratio": _mape(result.two_parameter_s, result.measured_s),
        "gain_ratio": gain,
        "within_goal": bool(mape <= GOAL_RATIO and gain >= GAIN_GOAL_RATIO),
        "reason": "",
    }


def _mape(estimated_s: Floats | None, measured_s: Floats) -> float:
    return float("nan") if estimated_s is None else summarise_errors(estimated_s, measured_s).mape_ratio
