"""Test against the reference convergence points (RCP): a submission may not converge faster than the reference.

Points and statistics come from ``mlperf_logging.rcp_checker``. Its command writes ``scaling.json`` into the checked
folder, so we call it as a library and write nothing (benchmarks.md 10).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from mlperf_logging.rcp_checker.rcp_checker import RCP_Checker

from hpcai.parsers.mllog import BrokenLine, Mllog, MllogEvent

RULE = "rcp_checker"
NOT_CONVERGED_EPOCHS = 1e9
"""Number of epochs that the package assigns to a run without success: more than any other."""
_WORDS = ("global_batch_size", "submission_benchmark", "eval_error", "eval_accuracy", "run_stop")


@dataclass(frozen=True, slots=True)
class Convergence:
    """Input of the RCP test from one log.

    Attributes
    ----------
    source
        The log.
    epochs
        Epochs to converge: ``epoch_num`` of the last quality before a successful run_stop; 1e9 without success.
    converged
        Whether run_stop reports success.
    batch_samples
        Global batch; -1 if it is not logged.
    benchmark
        As logged; None if it is not.
    error, error_line
        Why the package raises an exception on this log; blank if it does not.
    """

    source: str
    epochs: float
    converged: bool
    batch_samples: Any
    benchmark: Any
    error: str = ""
    error_line: int | None = None


@dataclass(frozen=True)
class ConvergenceResult:
    """Outcome of the RCP test of one result.

    Attributes
    ----------
    passed
        Whether the package would report the test as passed.
    reference
        Comparison of the batch: with its own point ("found"), between two points ("interpolated"), with the smallest
        point ("smaller_batch"), none because no point is as large ("missing"), or none for another reason
        ("none").
    message
        One sentence.
    bypassed
        Whether it passed only because of a ``package_checker_params`` file.
    stops
        Whether the package raises an exception.
    batch_samples, epochs, mean_epochs, reference_mean_epochs, smallest_mean_epochs
        Global batch, sorted epochs of the runs, their olympic mean, the reference's mean, and the smallest accepted
        mean; None where unavailable.
    scaling_factor
        Factor of the score, at least 1; None if the test gives no result.
    """

    passed: bool
    reference: Literal["found", "interpolated", "smaller_batch", "missing", "none"]
    message: str
    bypassed: bool = False
    stops: bool = False
    batch_samples: Any = None
    epochs: tuple[float, ...] = ()
    mean_epochs: float | None = None
    reference_mean_epochs: float | None = None
    smallest_mean_epochs: float | None = None
    scaling_factor: float | None = None


def read_convergence(log: Mllog, source: str) -> Convergence:
    """Return the input of the RCP test from a log. Like the package, it matches words anywhere in a line, not keys."""
    found = Convergence(source, NOT_CONVERGED_EPOCHS, False, -1, None)
    epochs: Any = None
    batch, benchmark, converged, final = found.batch_samples, found.benchmark, False, NOT_CONVERGED_EPOCHS
    for line in _lines(log):
        words = line.text
        if not any(word in words for word in _WORDS):
            continue
        try:
            event = _event(line)
            batch = event.value if "global_batch_size" in words else batch
            benchmark = event.value if "submission_benchmark" in words else benchmark
            if "eval_error" in words or "eval_accuracy" in words:
                epochs = round(event.metadata["epoch_num"], 3)
            if "run_stop" in words and event.key == "run_stop":
                converged = event.metadata["status"] == "success"
                final = _known(epochs) if converged else NOT_CONVERGED_EPOCHS
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            message = f"the line needs a readable batch, epoch_num or status: {type(error).__name__} {error}"
            return Convergence(source, NOT_CONVERGED_EPOCHS, False, batch, benchmark, message, line.line)
    return Convergence(source, final, converged, batch, benchmark)


def judge_convergence(runs: Sequence[Convergence], rule_set: str, *, bypass: bool = False) -> ConvergenceResult:
    """Compare the epochs of a result with the reference convergence points.

    Parameters
    ----------
    runs
        All runs of one result of the closed division.
    rule_set
        Such as "3.0.0"; each set has its own points.
    bypass
        Whether a failure passes, subject to committee review.

    Notes
    -----
    Olympic mean of the submission against the smallest accepted mean of a one-sided pooled t-test at 0.05
    (mlperf_logging.rcp_checker; MLPerf HPC rules, RCP; benchmarks.md 10).
    """
    problem = _inconsistency(runs)
    if problem:
        return _stop(problem)
    batch, benchmark = runs[0].batch_samples, runs[0].benchmark
    if batch == -1:
        return ConvergenceResult(False, "none", "no log has a global_batch_size, expected one in each")
    epochs = tuple(sorted(run.epochs for run in runs))
    if sum(not run.converged for run in runs) > 1:
        message = f"{sum(not run.converged for run in runs)} runs did not converge, expected at most one"
        return ConvergenceResult(False, "none", message, batch_samples=batch, epochs=epochs)
    try:
        checker = _checker(rule_set, benchmark)
    except (KeyError, OSError) as error:
        return _stop(f"rule set {rule_set} has no reference points of this benchmark ({error})")
    return _compare(checker, batch, epochs, bypass=bypass)


def _compare(checker: RCP_Checker, batch: float, epochs: tuple[float, ...], *, bypass: bool) -> ConvergenceResult:
    reference, point = _point(checker, batch)
    mean = float(np.mean(epochs[1:-1])) if len(epochs) > 2 else math.nan
    if point is None:
        message = f"no reference point has a batch as large as {batch}; submit one"
        return _bypassed(ConvergenceResult(False, reference, message, False, False, batch, epochs, mean), bypass=bypass)
    expected, smallest = float(point["RCP Mean"]), float(point["RCP Mean"] / point["Max Speedup"])
    passed = mean >= smallest
    if reference == "smaller_batch" and not passed:
        reference = "missing"
    unit = "samples" if checker.benchmark == "openfold" else "epochs"
    found = f"no mean of {len(epochs)} logs without the extremes" if math.isnan(mean) else f"mean of {mean:.4g} {unit}"
    comparison = f"{found}, reference {expected:.4g}, at least {smallest:.4g} accepted"
    words = {"found": "at this batch", "interpolated": "between two batches", "smaller_batch": "at a larger batch"}
    message = f"{comparison} ({words.get(reference, 'no reference point has a batch as small; submit one')})"
    factor = max(1.0, expected / mean) if mean else None
    result = ConvergenceResult(
        passed, reference, message, False, False, batch, epochs, mean, expected, smallest, factor if passed else None
    )
    return _bypassed(result, bypass=bypass)


def _point(
    checker: RCP_Checker, batch: float
) -> tuple[Literal["found", "interpolated", "smaller_batch", "missing"], Mapping[str, Any] | None]:
    """Return how a batch is compared, and the point to compare with; the package uses pruned points by default."""
    points = {point["BS"]: point for point in checker.pruned_rcp_data.values()}
    if batch in points:
        return "found", points[batch]
    below, above = [size for size in points if size < batch], [size for size in points if size > batch]
    if below and above:
        interpolate = checker._create_interp_rcp
        return "interpolated", interpolate(batch, points[max(below)], points[min(above)])[1]
    return ("smaller_batch", points[min(above)]) if above else ("missing", None)


@cache
def _checker(rule_set: str, benchmark: str) -> RCP_Checker:
    return RCP_Checker("hpc", rule_set, benchmark, verbose=False)


def _bypassed(result: ConvergenceResult, *, bypass: bool) -> ConvergenceResult:
    if result.passed or not bypass:
        return result
    fields = {name: getattr(result, name) for name in result.__dataclass_fields__}
    message = f"{result.message}; passes by rcp-bypass, for the committee to review"
    return ConvergenceResult(**{**fields, "passed": True, "bypassed": True, "message": message})


def _inconsistency(runs: Sequence[Convergence]) -> str:
    """Return why the package stops before comparing anything; blank if it does not."""
    unread = next((run for run in runs if run.error), None)
    if unread is not None:
        return f"{unread.source}:{unread.error_line}: {unread.error}"
    batches, benchmarks = {str(run.batch_samples) for run in runs}, {str(run.benchmark) for run in runs}
    if len(batches) != 1 or not isinstance(runs[0].batch_samples, int | float):
        return f"the logs have the batches {', '.join(sorted(batches)) or 'none'}, expected one number in all"
    if len(benchmarks) != 1 or not isinstance(runs[0].benchmark, str):
        return f"the logs name the benchmarks {', '.join(sorted(benchmarks))}, expected one in all"
    return ""


def _stop(message: str) -> ConvergenceResult:
    return ConvergenceResult(False, "none", f"{message}; the package stops here", stops=True)


def _known(epochs: float | None) -> float:
    if epochs is None:
        raise ValueError("run_stop says success, but no quality was logged before")
    return float(epochs)


def _lines(log: Mllog) -> Iterable[MllogEvent | BrokenLine]:
    if not log.broken:
        return log.events
    return sorted((*log.events, *log.broken), key=lambda line: line.line)


def _event(line: MllogEvent | BrokenLine) -> MllogEvent:
    if isinstance(line, BrokenLine):
        raise ValueError(line.error)
    return line
