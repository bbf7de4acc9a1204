"""Times, epochs and throughputs of one run, from the paired intervals of its log."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from hpcai.core.messages import Message
from hpcai.mlperf_hpc.rounds.model import LARGEST_COUNT, LoggedRun, Span

NO_STEPS = Message("run_quantities.no_steps", "no throughput by steps: no step_num at the last epoch_stop")
NO_STAGING = Message("run_quantities.no_staging", "no staging time: no staging keys in the log")

NAN = math.nan


@dataclass(frozen=True, slots=True)
class RunQuantities:
    """Quantities derived from one log (mlperf_logs.md 6); NaN where unavailable, with the cause in ``reasons``.

    Times of several intervals are the length of their union, so overlaps count once. Without overlap, as in all logs of
    v0.7, this is the sum of their lengths.

    Attributes
    ----------
    run_s
        T_run = run_stop - run_start: the time to solution.
    staging_s, staging_in_run_s
        T_staging = staging_stop - staging_start, and its part on the clock: from rules 3.0 on, staging may precede
        run_start.
    epochs
        n, the epochs to solution: number of paired epoch intervals. Where epoch numbers count samples (OpenFold), it is
        samples trained / train_samples, so that an epoch always means one pass over the data.
    epochs_s
        T_epochs: the compute time.
    evaluations, evaluation_s, evaluation_alone_s
        Number of paired evaluations, T_eval, and its part without concurrent training.
    train_s
        T_train: time in epochs, excluding evaluations inside them. Evaluations outside epochs do not reduce it, and
        neither does one concurrent with training: it carries the number of an earlier epoch than the running one.
    extra_s
        T_extra: time of the run outside staging, epochs and evaluations.
    epoch_s, epoch_rate_per_s
        T_epochs / n, and n / T_epochs.
    train_rate_samples_per_s
        n * train_samples / T_train.
    train_rate_by_steps_samples_per_s
        Last logged step * global batch / T_train: correct if the last epoch is cut short at the target.
    evaluation_rate_samples_per_s
        evaluations * eval_samples / T_eval.
    combined_rate_samples_per_s
        (n * train_samples + evaluations * eval_samples) / T_epochs.
    reasons
        Why a value is missing, or was obtained in an unusual way.
    """

    init_s: float
    run_s: float
    staging_s: float
    staging_in_run_s: float
    epochs: float
    epochs_s: float
    evaluation_s: float
    evaluation_alone_s: float
    evaluations: int
    train_s: float
    extra_s: float
    epoch_s: float
    epoch_rate_per_s: float
    train_rate_samples_per_s: float
    train_rate_by_steps_samples_per_s: float
    evaluation_rate_samples_per_s: float
    combined_rate_samples_per_s: float
    reasons: tuple[str, ...] = field(default=())


def quantities_of(run: LoggedRun) -> RunQuantities:
    """Compute all quantities of one run."""
    reasons: list[str] = []
    train_samples = _setting(run, "train_samples", reasons)
    if run.untimed:
        return _untimed(run, train_samples, reasons)
    evaluation_samples = _setting(run, "eval_samples", reasons)
    epochs = _count_epochs(run, train_samples, reasons)
    epochs_s = _covered_s(run.epochs, "epoch", reasons)
    evaluation_s = _covered_s(run.evaluations, "evaluation", reasons)
    evaluations = len(run.evaluations)
    training = _training(run, reasons)
    train_s = _length_ms(training) / 1000 if run.epochs else NAN
    staging_s, staging_in_run_s = _stage(run, reasons)
    return RunQuantities(
        init_s=NAN if run.init_s is None else run.init_s,
        run_s=_run_s(run, reasons),
        staging_s=staging_s,
        staging_in_run_s=staging_in_run_s,
        epochs=epochs,
        epochs_s=epochs_s,
        evaluation_s=evaluation_s,
        evaluation_alone_s=_outside_s(run.evaluations, training) if run.evaluations else NAN,
        evaluations=evaluations,
        train_s=train_s,
        extra_s=_extra_s(run),
        epoch_s=divide(epochs_s, epochs),
        epoch_rate_per_s=divide(epochs, epochs_s),
        train_rate_samples_per_s=divide(epochs * train_samples, train_s),
        train_rate_by_steps_samples_per_s=divide(_samples_by_steps(run, reasons), train_s),
        evaluation_rate_samples_per_s=divide(evaluations * evaluation_samples, evaluation_s),
        combined_rate_samples_per_s=divide(epochs * train_samples + evaluations * evaluation_samples, epochs_s),
        reasons=tuple(reasons),
    )


def _untimed(run: LoggedRun, train_samples: float, reasons: list[str]) -> RunQuantities:
    """Return the number of epochs and evaluations of a run with invalid times, and nothing else."""
    nothing: dict[str, Any] = {one.name: NAN for one in fields(RunQuantities)}
    counts = {"epochs": _count_epochs(run, train_samples, reasons), "evaluations": len(run.evaluations)}
    return RunQuantities(**{**nothing, **counts, "reasons": (run.untimed, *reasons)})


def divide(amount: float, by: float) -> float:
    """Return a quotient; NaN where division is impossible."""
    return amount / by if by > 0 else NAN


def count_of(run: LoggedRun, key: str) -> int | None:
    """Return a logged count; None if it is missing or cannot be a count."""
    value = run.number_of(key)
    return int(value) if value is not None and value.is_integer() and 0 <= value <= LARGEST_COUNT else None


def interval_samples(run: LoggedRun) -> float | None:
    """Return the samples of one epoch interval where epoch numbers count samples; else None.

    Epoch numbers count samples if they rise by one whole multiple of the global batch per interval, starting with it
    (OpenFold: 5760, 11520, ... at batch 144).
    """
    batch = count_of(run, "global_batch_size")
    numbers = [span.epoch for span in run.epochs]
    if not batch or batch < 2 or not numbers or any(number is None for number in numbers):
        return None
    first = numbers[0] or 0.0
    rises = [(number or 0.0) - first * place for place, number in enumerate(numbers, start=1)]
    return first if batch <= first <= LARGEST_COUNT and first % batch == 0 and not any(rises) else None


def _count_epochs(run: LoggedRun, train_samples: float, reasons: list[str]) -> float:
    """Return the epochs to solution, in passes over the training data."""
    if not run.epochs:
        return NAN
    samples = interval_samples(run)
    if samples is None:
        return float(run.epochs_in_blocks)
    reasons.append(f"epoch numbers count samples: epochs are {samples:.0f} x intervals / train_samples")
    return divide(len(run.epochs) * samples, train_samples)


def _samples_by_steps(run: LoggedRun, reasons: list[str]) -> float:
    steps = run.epochs[-1].steps if run.epochs else None
    batch = count_of(run, "global_batch_size")
    if steps is None or batch is None or steps > LARGEST_COUNT:
        reasons.append(NO_STEPS())
        return NAN
    return steps * batch


def _run_s(run: LoggedRun, reasons: list[str]) -> float:
    if run.run is None:
        reasons.append("no time to solution: run_start or run_stop is missing")
        return NAN
    return run.run.duration_s


def _stage(run: LoggedRun, reasons: list[str]) -> tuple[float, float]:
    """Return T_staging, and its part on the clock [s]."""
    if run.staging is None:
        reasons.append(NO_STAGING())
        return NAN, NAN
    if run.run is None:
        return run.staging.duration_s, NAN
    return run.staging.duration_s, run.staging.duration_s - _outside_s((run.staging,), (run.run,))


def _extra_s(run: LoggedRun) -> float:
    if run.run is None:
        return NAN
    known = [*([run.staging] if run.staging else []), *run.epochs, *run.evaluations]
    return _outside_s((run.run,), known)


def _training(run: LoggedRun, reasons: list[str]) -> list[Span]:
    """Return the epochs, each without the evaluations that interrupt its training."""
    spans: list[Span] = []
    beside = False
    for epoch in run.epochs:
        inside = [span for span in run.evaluations if span.start_ms < epoch.stop_ms and span.stop_ms > epoch.start_ms]
        own = [span for span in inside if not _is_earlier(span, epoch)]
        beside = beside or len(own) < len(inside)
        spans += _without(epoch, own)
    if beside:
        reasons.append("evaluations of earlier epochs run beside training: they do not reduce train_s")
    return spans


def _is_earlier(evaluation: Span, epoch: Span) -> bool:
    return evaluation.epoch is not None and epoch.epoch is not None and evaluation.epoch < epoch.epoch


def _without(epoch: Span, evaluations: Sequence[Span]) -> list[Span]:
    """Return the parts of an epoch outside evaluations."""
    merged = _merge(evaluations)
    begins = [epoch.start_ms, *(stop for _, stop in merged)]
    stops = [*(start for start, _ in merged), epoch.stop_ms]
    return [Span(begin, stop) for begin, stop in zip(begins, stops, strict=True) if stop > begin]


def _setting(run: LoggedRun, key: str, reasons: list[str]) -> float:
    value = count_of(run, key)
    if value is None:
        reasons.append(f"no {key} in the log that is a count")
    return NAN if value is None else value


def _covered_s(spans: Sequence[Span], what: str, reasons: list[str]) -> float:
    """Return the length of the union [s]; NaN without intervals."""
    if not spans:
        reasons.append(f"no paired {what} intervals in the log")
        return NAN
    return _length_ms(spans) / 1000


def _length_ms(spans: Sequence[Span]) -> float:
    """Return the length of the union [ms]; exact, because logged times are whole milliseconds."""
    return sum(stop - start for start, stop in _merge(spans))


def _outside_s(spans: Sequence[Span], others: Sequence[Span]) -> float:
    """Return the length of the intervals outside the others [s]."""
    return (_length_ms([*spans, *others]) - _length_ms(others)) / 1000


def _merge(spans: Sequence[Span]) -> list[tuple[float, float]]:
    """Return the unions of overlapping intervals [ms]; a log has too few for arrays to pay off."""
    merged: list[tuple[float, float]] = []
    for start, stop in sorted((span.start_ms, span.stop_ms) for span in spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged
