"""Learning-rate schedules as pure functions of the epoch."""

from collections.abc import Sequence
from typing import Literal

Scaling = Literal["linear", "sqrt", "none"]


def scaled_rate(base: float, global_batch: int, base_batch: int, scaling: Scaling) -> float:
    """Return the peak learning rate for a global batch.

    ``linear``: base x global_batch / base_batch; ``sqrt``: base x sqrt(global_batch / base_batch)
    (MLPerf HPC reference, cosmoflow/utils/optimizers.py).
    """
    power = {"linear": 1.0, "sqrt": 0.5, "none": 0.0}[scaling]
    return float(base * (global_batch / base_batch) ** power)


def warmup_and_decay(
    epoch: int, base: float, peak: float, warmup_epochs: int, decays: Sequence[tuple[int, float]]
) -> float:
    """Return the learning rate of an epoch.

    Linear warm-up from ``base`` to ``peak``, then multipliers of the peak, which do not accumulate
    (MLPerf HPC reference, cosmoflow/utils/optimizers.py).

    Parameters
    ----------
    epoch
        Number of the epoch, from 0.
    base, peak
        Learning rates before and after the warm-up.
    warmup_epochs
        Epoch e below it uses base + e (peak - base) / warmup_epochs.
    decays
        Pairs (boundary, multiplier) with growing boundaries: the last boundary < epoch applies. As in the reference,
        the comparison is strict, so a boundary of 32 first applies in epoch 33.
    """
    if epoch < warmup_epochs:
        return _warming_rate(epoch, base, peak, warmup_epochs)
    factors = [factor for boundary, factor in decays if boundary < epoch]
    return peak * (factors[-1] if factors else 1.0)


def warmup_and_line(epoch: int, base: float, peak: float, warmup_epochs: int, epochs: int) -> float:
    """Return the learning rate of an epoch: the warm-up of `warmup_and_decay`, then a straight line from the peak to 0.

    Parameters
    ----------
    epoch
        Number of the epoch, from 0.
    base, peak, warmup_epochs
        As of `warmup_and_decay`.
    epochs
        Number of epochs after which the line reaches 0; more than those of the warm-up.
    """
    if epoch < warmup_epochs:
        return _warming_rate(epoch, base, peak, warmup_epochs)
    return peak * max(0, epochs - epoch) / (epochs - warmup_epochs)


def _warming_rate(epoch: int, base: float, peak: float, warmup_epochs: int) -> float:
    return base + epoch * (peak - base) / warmup_epochs
