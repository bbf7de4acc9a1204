"""Tables of kernel times that follow a known function, for tests of fits."""

import numpy as np
import pandas as pd

from hpcai.predict.kernels.cases import INPUTS, KERNELS, sample_cases


def true_time_s(kernel: str, cases: pd.DataFrame) -> np.ndarray:
    """Return a start-up time, and operations or traffic, whichever takes longer: neither baseline can be exact."""
    chosen = KERNELS[kernel]
    flop, moved = np.asarray(chosen.work_flop(cases), float), np.asarray(chosen.moved_bytes(cases), float)
    return 3e-6 + np.maximum(flop / 4e10, moved / 8e9) + np.maximum(moved - 1e6, 0) / 5e9


def make_times(kernel: str, count: int, noise_ratio: float = 0.0) -> pd.DataFrame:
    """Return table ``kernel_times`` for random cases of a kernel."""
    cases = sample_cases(kernel, count, seed=1)
    chosen = KERNELS[kernel]
    noise = np.exp(noise_ratio * np.random.default_rng(2).standard_normal(count))
    times = true_time_s(kernel, cases) * noise
    table = cases.assign(
        kernel=kernel,
        work_flop=chosen.work_flop(cases),
        moved_bytes=chosen.moved_bytes(cases),
        cpu_time_s=times,
        cpu_time_min_s=times,
        repetitions=3,
        reason="",
    )
    columns = ["kernel", *INPUTS, "work_flop", "moved_bytes", "cpu_time_s", "cpu_time_min_s", "repetitions", "reason"]
    return table.reindex(columns=columns)
