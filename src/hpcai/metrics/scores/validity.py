"""Validity of a result: the verdicts in the records, and the number of runs that the rules require."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcai.config.benchmark import Suite
from hpcai.core.messages import Message
from hpcai.metrics.statistics.summaries import FEWEST_TO_DROP
from hpcai.rules.table import ResultRules, rules_of
from hpcai.rules.verdict import Verdict

if TYPE_CHECKING:
    from hpcai.records.run import RunRecord

REASON_MARK = "; "
LEVEL_MARK = ", "
NOT_JUDGED = "not judged"
NEVER_JUDGED = Message("validity.never_judged", "never judged by the rules")
VALID = Message("validity.valid", "the records show no deviation from the rules of {suite}")
NOT_VALID = Message("validity.not_valid", "not a valid {suite} result: {reasons}")
TOO_FEW = Message("validity.too_few", "too few {word}s ({counted} of {by_rule} that the rules require)")
NONE_FINISHED = Message("validity.none_finished", "none of {n} {word}s completed training")
NONE_CONVERGED = Message("validity.none_converged", "none of {n} {word}s converged")
TOO_MANY_FAILED = Message(
    "validity.too_many_failed",
    "{failed} of {n} {word}s failed to converge, at most {allowed} may be dropped",
)
ONE_TOO_FEW = Message("validity.one_too_few", "{failed} of {n} {word}s failed to converge, too few to drop one")
NO_RESULT = Message("validity.no_result", "no valid result: {reason}")
SOME_CONVERGED = Message(
    "validity.some_converged",
    "{converged} of {n} {word}s converged; the failed one is dropped as the slowest",
)
ALL_CONVERGED = Message("validity.all_converged", "all {n} {word}s converged")
ONLY_CONVERGED = Message("validity.only_converged", "the only {word} converged")
TRIALS = Message("validity.trials", "{finished} of {n} {word}s completed training, {converged} reached the target")
TRIALS_BROKE = Message(
    "validity.trials_broke",
    "{finished} of {n} {word}s completed training, {converged} reached the target; the {broken} that failed do not "
    "count",
)


@dataclass(frozen=True)
class RunCounts:
    """Outcomes of the runs of one scale: reached the target, completed training without it, all."""

    converged: int
    missed: int
    total: int

    @property
    def finished(self) -> int:
        """Runs that completed training."""
        return self.converged + self.missed


def judged_verdict(record: "RunRecord") -> Verdict | None:
    """Return the verdict behind a run's label; None if the run was never judged.

    A run of MLPerf HPC is judged by the division of its study's submission; one of HPC AI500 V2.0 by the strictest
    level without a deviation, or else by the last, the free level.
    """
    declared = record.plan.submission.division
    for verdict in record.verdicts:
        if verdict.level == declared or (verdict.suite == "hpc_ai500" and verdict.valid):
            return verdict
    return record.verdicts[-1] if record.verdicts else None


def invalid_reasons(record: "RunRecord") -> tuple[str, ...]:
    """Return why a valid result cannot contain a run; empty if the run does not deviate.

    A missed target or a failure is not among the reasons: the rules count such runs, see `judge_runs`.
    """
    verdict = judged_verdict(record)
    if verdict is None:
        return (NEVER_JUDGED(),)
    return tuple(finding.sentence for finding in verdict.deviations if not finding.counted)


def result_flags(record: "RunRecord") -> tuple[str, ...]:
    """Return what is allowed but must be disclosed with the result."""
    verdict = judged_verdict(record)
    return tuple(finding.sentence for finding in verdict.flags) if verdict else ()


def valid_for(record: "RunRecord") -> str:
    """Return the levels or divisions at which a run is valid, as one cell of a table."""
    if not record.verdicts:
        return NOT_JUDGED
    names = rules_of(record.plan.benchmark.suite).levels
    return LEVEL_MARK.join(names[verdict.level] for verdict in record.verdicts if verdict.valid) or "none"


def join_reasons(reasons: Sequence[str]) -> str:
    """Return the reasons as one cell of a table."""
    return REASON_MARK.join(reasons)


def common_levels(cells: Iterable[object]) -> str:
    """Return the levels or divisions common to all cells of the column ``valid_for``."""
    first, *others = [str(cell).split(LEVEL_MARK) for cell in cells] or [[]]
    return LEVEL_MARK.join(name for name in first if all(name in other for other in others)) or "none"


def split_reasons(cells: Iterable[object]) -> list[str]:
    """Return the distinct reasons in cells of a table, in their order."""
    return list(dict.fromkeys(reason for cell in cells for reason in str(cell).split(REASON_MARK) if reason))


def label_result(suite: Suite, reasons: Sequence[str]) -> str:
    """Return the label of a result of a suite."""
    title = rules_of(suite).title
    if not reasons:
        return VALID(suite=title)
    return NOT_VALID(suite=title, reasons=", ".join(reasons))


def judge_runs(counts: RunCounts, rules: ResultRules, runs_by_rule: int) -> str:
    """Return the objections of the rules to the number of runs and of failures.

    Parameters
    ----------
    counts
        Outcomes of the runs that make the result: with more runs than the rules count, those of the window.
    rules
        Which runs the suite counts.
    runs_by_rule
        Number of runs that the rules require.
    """
    sentences = [_about_failures(counts, rules) if rules.counts == "all" else _about_trials(counts, rules)]
    few = too_few(counts, rules, runs_by_rule)
    if few:
        sentences.append(few)
    return "; ".join(sentences)


def counted_runs(counts: RunCounts, rules: ResultRules) -> int:
    """Return how many of the runs count under the rules."""
    return counts.total if rules.counts == "all" else counts.finished


def too_few(counts: RunCounts, rules: ResultRules, runs_by_rule: int) -> str:
    """Return the objection that the runs are too few for a result; blank if they are not."""
    counted = counted_runs(counts, rules)
    if counted >= runs_by_rule:
        return ""
    return TOO_FEW(word=rules.word, counted=counted, by_rule=runs_by_rule)


def no_result(counts: RunCounts, rules: ResultRules) -> str:
    """Return why the outcomes of the runs give no result at all; blank if they give one."""
    n, word = counts.total, rules.word
    if rules.counts == "finished":
        return "" if counts.finished else NONE_FINISHED(n=n, word=word)
    failed = n - counts.converged
    if not counts.converged:
        return NONE_CONVERGED(n=n, word=word)
    if failed > rules.failures_allowed:
        return TOO_MANY_FAILED(failed=failed, n=n, word=word, allowed=_count(rules.failures_allowed))
    if failed and n < FEWEST_TO_DROP:
        return ONE_TOO_FEW(failed=failed, n=n, word=word)
    return ""


def _about_failures(counts: RunCounts, rules: ResultRules) -> str:
    """Return one sentence for suites that count failed runs."""
    n_ok, n, word = counts.converged, counts.total, rules.word
    nothing = no_result(counts, rules)
    if nothing:
        return NO_RESULT(reason=nothing)
    if n_ok < n:
        return SOME_CONVERGED(converged=n_ok, n=n, word=word)
    return ALL_CONVERGED(n=n, word=word) if n > 1 else ONLY_CONVERGED(word=word)


def _about_trials(counts: RunCounts, rules: ResultRules) -> str:
    """Return one sentence for suites that count runs with completed training, whatever their quality."""
    n, word, finished = counts.total, rules.word, counts.finished
    nothing = no_result(counts, rules)
    if nothing:
        return NO_RESULT(reason=nothing)
    facts = {"finished": finished, "n": n, "word": word, "converged": counts.converged}
    return TRIALS_BROKE(**facts, broken=n - finished) if finished < n else TRIALS(**facts)


def _count(number: int) -> str:
    return {0: "none", 1: "one"}.get(number, str(number))
