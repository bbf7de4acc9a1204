"""What the rules of MLPerf HPC say about runs: how many, how many may fail, and what makes a result not a valid one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hpcai.metrics.statistics import FEWEST_TO_DROP
from hpcai.records import RunRecord


@dataclass(frozen=True)
class Rules:
    """What the rules fix for one workload."""

    runs: int
    parameters: int
    train_samples: int
    validation_samples: int


REASON_MARK = "; "

OFFICIAL = {"cosmoflow": Rules(runs=10, parameters=8_907_556, train_samples=524_288, validation_samples=65_536)}
"""MLPerf HPC v1.0 and later: training_rules for the runs, the reference implementation for the sizes."""


def invalid_reasons(record: RunRecord) -> tuple[str, ...]:
    """Return why a run can be no part of a valid MLPerf HPC result; empty if nothing speaks against it.

    What the record cannot tell (review, hardware availability, a changed source code) is not judged.
    """
    plan, benchmark = record.plan, record.plan.benchmark
    rules = OFFICIAL[benchmark.workload]
    parameters = record.training.parameters if record.training else rules.parameters
    checks = {
        "generated data": record.data_source == "generated",
        f"target {benchmark.target.value:g} is not the official one": not benchmark.target.official,
        f"model of {parameters:,} parameters instead of {rules.parameters:,}": parameters != rules.parameters,
        f"{benchmark.data.train_samples:,} training samples instead of {rules.train_samples:,}": (
            benchmark.data.train_samples != rules.train_samples
        ),
        f"{benchmark.data.validation_samples:,} validation samples instead of {rules.validation_samples:,}": (
            benchmark.data.validation_samples != rules.validation_samples
        ),
        "seeds derived from the study's, not from clock or entropy": plan.seed is not None and plan.seeds == "derived",
        "page cache not cleared before the run": record.provenance.page_cache != "dropped",
        "profiled, not timed": plan.kind != "timed",
    }
    return tuple(reason for reason, applies in checks.items() if applies)


def join_reasons(reasons: Sequence[str]) -> str:
    """Return the reasons as one cell of a table."""
    return REASON_MARK.join(reasons)


def split_reasons(cells: Iterable[object]) -> list[str]:
    """Return the different reasons in cells of a table, in their order."""
    return list(dict.fromkeys(reason for cell in cells for reason in str(cell).split(REASON_MARK) if reason))


def label_result(reasons: Sequence[str]) -> str:
    """Return the label that goes with a result."""
    if not reasons:
        return "nothing in the records speaks against a valid MLPerf HPC result"
    return f"not a valid MLPerf HPC result: {', '.join(reasons)}"


def judge_runs(n_ok: int, n: int, runs_by_rule: int) -> str:
    """Return what the rules say about the number of runs and of failures.

    Parameters
    ----------
    n_ok
        Runs that converged.
    n
        All runs, whatever their outcome.
    runs_by_rule
        Number of runs that the rules ask for.
    """
    failed = n - n_ok
    sentences = []
    if n_ok == 0:
        sentences.append(f"no valid result: none of {n} runs converged")
    elif failed >= 2:
        sentences.append(f"no valid result: {failed} of {n} runs failed to converge, at most one may be dropped")
    elif failed and n < FEWEST_TO_DROP:
        sentences.append(f"no valid result: {failed} of {n} runs failed to converge, too few to drop one")
    elif failed:
        sentences.append(f"{n_ok} of {n} runs converged; the failed one is dropped as the slowest")
    else:
        sentences.append(f"all {n} runs converged" if n > 1 else "the only run converged")
    if n < runs_by_rule:
        sentences.append(f"too few runs ({n} of {runs_by_rule} that the rules ask for)")
    if n > runs_by_rule:
        sentences.append(f"more runs than the {runs_by_rule} that the rules count")
    return "; ".join(sentences)
