"""FLOPS and VFLOPS of HPC AI500 V2.0: the rate of a training, and that rate weighted by the attained quality."""

import math


def run_rate(samples_per_s_per_process: float, processes: float, flop_per_sample: float) -> float:
    """Return the FLOPS of a run [FLOP/s].

    Parameters
    ----------
    samples_per_s_per_process
        Throughput of one process [1/s], the N of the paper.
    processes
        Number of processes, its R.
    flop_per_sample
        Work of one sample [FLOP], its C: the paper profiles a sample of the dataset.

    Returns
    -------
    float
        ``N R C`` (HPC AI500 V2.0, 8.2); NaN where an input is NaN.

    Raises
    ------
    ValueError
        If an input is negative, or there is no process.
    """
    _refuse_negative(
        samples_per_s_per_process=samples_per_s_per_process, processes=processes, flop_per_sample=flop_per_sample
    )
    _refuse_not_positive(processes=processes)
    return samples_per_s_per_process * processes * flop_per_sample


def training_work(samples: float, epochs: float, flop_per_sample: float) -> float:
    """Return the work of a training [FLOP, a count].

    Parameters
    ----------
    samples
        Training samples of an epoch.
    epochs
        Number of epochs.
    flop_per_sample
        Work of one sample [FLOP].

    Returns
    -------
    float
        ``samples * epochs * flop_per_sample``; divided by a training time it is the FLOPS of that training.

    Raises
    ------
    ValueError
        If an input is negative.
    """
    _refuse_negative(samples=samples, epochs=epochs, flop_per_sample=flop_per_sample)
    return samples * epochs * flop_per_sample


def quality_coefficient(quality: float, target: float, exponent: float) -> float:
    """Return the factor by which the attained quality changes the FLOPS.

    Parameters
    ----------
    quality
        Quality at the end of the training, where higher is better [the unit of the target].
    target
        Quality that the suite requires.
    exponent
        The suite's n: 5 for image classification, 10 for extreme weather analytics.

    Returns
    -------
    float
        ``(quality / target) ** exponent`` (HPC AI500 V2.0, 5.4.1, "penalty coefficient"): more than 1 for a quality
        above its target; NaN where an input is NaN.

    Raises
    ------
    ValueError
        If the quality is negative, or target or exponent are not positive.
    """
    _refuse_negative(quality=quality)
    _refuse_not_positive(target=target, exponent=exponent)
    if math.isnan(exponent):  # 1 ** NaN is 1
        return math.nan
    return float((quality / target) ** exponent)


def compute_vflops(
    rate_flop_per_s: float, quality: float, target: float, exponent: float, *, capped: bool = False
) -> float:
    """Return the VFLOPS of a run [FLOP/s].

    Parameters
    ----------
    rate_flop_per_s
        FLOPS of the run [FLOP/s].
    quality, target, exponent
        As for `quality_coefficient`.
    capped
        Count a quality above its target as the target. The paper does not: its VFLOPS may exceed the FLOPS.

    Returns
    -------
    float
        ``FLOPS * (quality / target) ** exponent`` (HPC AI500 V2.0, 5.4.1); NaN where an input is NaN.

    Raises
    ------
    ValueError
        If rate or quality is negative, or target or exponent are not positive.
    """
    _refuse_negative(rate_flop_per_s=rate_flop_per_s)
    coefficient = quality_coefficient(quality, target, exponent)
    # min() returns whichever comes first next to NaN.
    return rate_flop_per_s * (1.0 if capped and coefficient > 1 else coefficient)


def implied_quality(rate_flop_per_s: float, vflops_flop_per_s: float, target: float, exponent: float) -> float:
    """Return the quality implied by FLOPS and VFLOPS: a check of published numbers, never an attained accuracy.

    Parameters
    ----------
    rate_flop_per_s, vflops_flop_per_s
        FLOPS and uncapped VFLOPS [FLOP/s].
    target, exponent
        As for `quality_coefficient`.

    Returns
    -------
    float
        ``target * (VFLOPS / FLOPS) ** (1 / exponent)`` [the unit of the target]; NaN where an input is NaN.

    Raises
    ------
    ValueError
        If VFLOPS is negative, or FLOPS, target or exponent are not positive.
    """
    _refuse_negative(vflops_flop_per_s=vflops_flop_per_s)
    _refuse_not_positive(rate_flop_per_s=rate_flop_per_s, target=target, exponent=exponent)
    if math.isnan(exponent):
        return math.nan
    return float(target * (vflops_flop_per_s / rate_flop_per_s) ** (1 / exponent))


def _refuse_negative(**values: float) -> None:
    for name, value in values.items():
        if value < 0 or math.isinf(value):
            raise ValueError(f"{name} = {value}, expected a finite number that is not negative")


def _refuse_not_positive(**values: float) -> None:
    for name, value in values.items():
        if value <= 0 or math.isinf(value):
            raise ValueError(f"{name} = {value}, expected a finite number above 0")
