"""Scores of one run: time to train, throughput, shares of the wall time, staging; NaN if not measured."""

import math
from dataclasses import dataclass, fields

from hpcai.metrics.cells import divide, number_or_nan
from hpcai.records.run import FINISHED, RunRecord, TrainingReport, reaches

OVERLAP_ALLOWED = 0.01
"""Parts are timed by several processes; beyond this share of the wall time they contradict each other."""

_NAN = float("nan")


@dataclass(frozen=True)
class TimeParts:
    """Parts of the wall time of one run [s]; they add up to the wall time."""

    launch_s: float = _NAN
    import_s: float = _NAN
    init_s: float = _NAN
    staging_s: float = _NAN
    cache_s: float = _NAN
    training_s: float = _NAN
    evaluation_s: float = _NAN
    rest_s: float = _NAN


@dataclass(frozen=True)
class TimeShares:
    """Shares of the wall time of one run; the measured ones add up to 1."""

    launch_ratio: float = _NAN
    import_ratio: float = _NAN
    init_ratio: float = _NAN
    staging_ratio: float = _NAN
    cache_ratio: float = _NAN
    training_ratio: float = _NAN
    evaluation_ratio: float = _NAN
    rest_ratio: float = _NAN


@dataclass(frozen=True)
class RunScore:
    """Scores of one run; NaN where its outcome allows none."""

    time_to_train_s: float = _NAN
    run_s: float = _NAN
    epochs_to_target: float = _NAN
    best_quality: float = _NAN
    last_quality: float = _NAN
    train_rate_samples_per_s: float = _NAN
    evaluation_rate_samples_per_s: float = _NAN
    epoch_s: float = _NAN
    step_time_median_s: float = _NAN
    staging_read_rate_bytes_per_s: float = _NAN
    staging_write_rate_bytes_per_s: float = _NAN
    staging_epoch_ratio: float = _NAN
    staging_compression_ratio: float = _NAN
    overhead_s: float = _NAN


def score_run(record: RunRecord) -> RunScore:
    """Return the scores of one run.

    Parameters
    ----------
    record
        A run of any outcome. A run that failed or timed out has no score.

    Returns
    -------
    RunScore
        Times [s], rates [samples/s, bytes/s] and ratios. Rates are totals over totals: ``train_rate = sum(samples) /
        sum(train_s)`` over all epochs, not the mean of the epochs' rates. ``staging_epoch_ratio = T_staging /
        T_epoch`` with ``T_epoch = (train_s + evaluation_s) / epochs`` (MLPerf HPC, SC21 workshop paper, Table V).
        ``overhead_s = wall_s - staging_s - train_s - evaluation_s``.
    """
    report = record.training
    if record.outcome not in FINISHED or report is None:
        return RunScore()
    epochs, staging = report.epochs, report.staging
    evaluated = [epoch for epoch in epochs if epoch.evaluation_s is not None and epoch.evaluation_samples is not None]
    train_s, evaluation_s = number_or_nan(record.train_s), number_or_nan(record.evaluation_s)
    epoch_s = divide(train_s + evaluation_s, len(epochs))
    qualities = [epoch.quality for epoch in epochs if epoch.quality is not None and math.isfinite(epoch.quality)]
    best = max if report.higher_is_better else min
    staged_s = staging.staging_s if staging.place != "none" else 0.0
    return RunScore(
        time_to_train_s=number_or_nan(record.time_to_train_s),
        run_s=report.run_s,
        epochs_to_target=_epochs_to_target(report) if record.outcome == "converged" else _NAN,
        best_quality=best(qualities, default=_NAN),
        last_quality=qualities[-1] if qualities else _NAN,
        train_rate_samples_per_s=divide(sum(epoch.samples for epoch in epochs), train_s),
        evaluation_rate_samples_per_s=divide(
            sum(epoch.evaluation_samples or 0 for epoch in evaluated),
            math.fsum(epoch.evaluation_s or 0.0 for epoch in evaluated),
        ),
        epoch_s=epoch_s,
        step_time_median_s=number_or_nan(report.step_time_median_s),
        staging_read_rate_bytes_per_s=divide(staging.packed_bytes, staged_s),
        staging_write_rate_bytes_per_s=divide(staging.content_bytes, staged_s),
        staging_epoch_ratio=divide(staged_s, epoch_s) if staged_s else _NAN,
        staging_compression_ratio=number_or_nan(staging.compression_ratio),
        overhead_s=number_or_nan(record.overhead_s),
    )


def time_parts(record: RunRecord) -> TimeParts:
    """Return the parts of a run's wall time [s].

    ``rest = wall - launch - import - init - staging - caching - training - evaluation``. If the launch was not
    measured, the rest includes it. All parts are NaN for a failed run, or if the parts contradict the wall time.
    """
    report = record.training
    if record.outcome not in FINISHED or report is None:
        return TimeParts()
    known = (
        number_or_nan(record.launch_s),
        report.import_s,
        report.init_s,
        report.staging.staging_s,
        number_or_nan(report.cache_s),
        number_or_nan(record.train_s),
        number_or_nan(record.evaluation_s),
    )
    covered = math.fsum(part for part in known if not math.isnan(part))
    if covered > record.wall_s * (1 + OVERLAP_ALLOWED):
        return TimeParts()
    return TimeParts(*known, rest_s=max(record.wall_s - covered, 0.0))


def time_shares(parts: TimeParts) -> TimeShares:
    """Return the parts as shares of their sum, the wall time."""
    times = [getattr(parts, field.name) for field in fields(parts)]
    total = math.fsum(time for time in times if not math.isnan(time))
    return TimeShares(*(divide(time, total) for time in times))


def _epochs_to_target(report: TrainingReport) -> float:
    """Return the number of the first epoch whose evaluation reached the target."""
    for epoch in report.epochs:
        if reaches(epoch.quality, report.quality_target, higher_is_better=report.higher_is_better):
            return float(epoch.epoch)
    return _NAN
