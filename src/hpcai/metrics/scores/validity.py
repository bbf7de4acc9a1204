"""What makes a result not a valid one: the verdicts in the records, and the number of runs that the rules ask for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hpcai.config.benchmark import Suite
from hpcai.metrics.statistics.summaries import FEWEST_TO_DROP
from hpcai.records.run import RunRecord
from hpcai.rules.table import ResultRules, rules_of
from hpcai.rules.verdict import Verdict

REASON_MARK = "; "
LEVEL_MARK = ", "
NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class RunCounts:
    """How the runs of one scale ended: reached the target, trained to their end without it, all."""

    converged: int
    missed: int
    total: int

    @property
    def finished(self) -> int:
        """Runs that trained to their end."""
        return self.converged + self.missed


def judged_verdict(record: RunRecord) -> Verdict | None:
    """Return the verdict that a run's label goes by; None if the run was never judged.

    A run of MLPerf HPC is judged by the division that its study submits to, one of HPC AI500 V2.0 by the strictest
    level at which nothing deviates, or else by the last, the free one.
    """
    declared = record.plan.submission.division
    for verdict in record.verdicts:
        if verdict.level == declared or (verdict.suite == "hpc_ai500" and verdict.valid):
            return verdict
    return record.verdicts[-1] if record.verdicts else None


def invalid_reasons(record: RunRecord) -> tuple[str, ...]:
    """Return why no valid result can contain a run; empty if nothing speaks against it.

    A run that missed its target or broke down is not among the reasons: the rules count such runs, see `judge_runs`.
    """
    verdict = judged_verdict(record)
    if verdict is None:
        return ("never judged by the rules",)
    return tuple(finding.sentence for finding in verdict.deviations if not finding.counted)


def result_flags(record: RunRecord) -> tuple[str, ...]:
    """Return what is permitted, but has to be named beside the result."""
    verdict = judged_verdict(record)
    return tuple(finding.sentence for finding in verdict.flags) if verdict else ()


def valid_for(record: RunRecord) -> str:
    """Return the levels or divisions at which nothing speaks against a run, as one cell of a table."""
    if not record.verdicts:
        return NOT_JUDGED
    names = rules_of(record.plan.benchmark.suite).levels
    return LEVEL_MARK.join(names[verdict.level] for verdict in record.verdicts if verdict.valid) or "none"


def join_reasons(reasons: Sequence[str]) -> str:
    """Return the reasons as one cell of a table."""
    return REASON_MARK.join(reasons)


def common_levels(cells: Iterable[object]) -> str:
    """Return the levels or divisions that all cells of the column ``valid_for`` name."""
    first, *others = [str(cell).split(LEVEL_MARK) for cell in cells] or [[]]
    return LEVEL_MARK.join(name for name in first if all(name in other for other in others)) or "none"


def split_reasons(cells: Iterable[object]) -> list[str]:
    """Return the different reasons in cells of a table, in their order."""
    return list(dict.fromkeys(reason for cell in cells for reason in str(cell).split(REASON_MARK) if reason))


def label_result(suite: Suite, reasons: Sequence[str]) -> str:
    """Return the label that goes with a result of a suite."""
    title = rules_of(suite).title
    if not reasons:
        return f"nothing in the records speaks against a valid {title} result"
    return f"not a valid {title} result: {', '.join(reasons)}"


def judge_runs(counts: RunCounts, rules: ResultRules, runs_by_rule: int) -> str:
    """Return what the rules say about the number of runs and of failures.

    Parameters
    ----------
    counts
        How the runs ended.
    rules
        Which runs count in the suite.
    runs_by_rule
        Number of runs that the rules ask for.
    """
    sentences = [_about_failures(counts, rules) if rules.counts == "all" else _about_trials(counts, rules)]
    few = too_few(counts, rules, runs_by_rule)
    if few:
        sentences.append(few)
    if counts.total > runs_by_rule and rules.more == "window":
        sentences.append(f"more {rules.word}s than the {runs_by_rule} that the rules count")
    return "; ".join(sentences)


def counted_runs(counts: RunCounts, rules: ResultRules) -> int:
    """Return how many of the runs the rules count."""
    return counts.total if rules.counts == "all" else counts.finished


def too_few(counts: RunCounts, rules: ResultRules, runs_by_rule: int) -> str:
    """Return that the runs are too few for a result; empty if they are not."""
    counted = counted_runs(counts, rules)
    if counted >= runs_by_rule:
        return ""
    return f"too few {rules.word}s ({counted} of {runs_by_rule} that the rules ask for)"


def no_result(counts: RunCounts, rules: ResultRules) -> str:
    """Return why the outcomes of the runs leave no result at all; empty if they leave one."""
    n, word = counts.total, rules.word
    if rules.counts == "finished":
        return "" if counts.finished else f"none of {n} {word}s trained to its end"
    failed = n - counts.converged
    if not counts.converged:
        return f"none of {n} {word}s converged"
    if failed > rules.failures_allowed:
        return f"{failed} of {n} {word}s failed to converge, at most {_count(rules.failures_allowed)} may be dropped"
    if failed and n < FEWEST_TO_DROP:
        return f"{failed} of {n} {word}s failed to converge, too few to drop one"
    return ""


def _about_failures(counts: RunCounts, rules: ResultRules) -> str:
    """One sentence where failed runs count."""
    n_ok, n, word = counts.converged, counts.total, rules.word
    nothing = no_result(counts, rules)
    if nothing:
        return f"no valid result: {nothing}"
    if n_ok < n:
        return f"{n_ok} of {n} {word}s converged; the failed one is dropped as the slowest"
    return f"all {n} {word}s converged" if n > 1 else f"the only {word} converged"


def _about_trials(counts: RunCounts, rules: ResultRules) -> str:
    """One sentence where the runs that trained to their end count, whatever quality they reached."""
    n, word, finished = counts.total, rules.word, counts.finished
    nothing = no_result(counts, rules)
    if nothing:
        return f"no valid result: {nothing}"
    broken = f"; the {n - finished} that broke down count for nothing" if finished < n else ""
    return f"{finished} of {n} {word}s trained to their end, {counts.converged} reached the target{broken}"


def _count(number: int) -> str:
    return {0: "none", 1: "one"}.get(number, str(number))
