"""What is wrong with own runs that no file of the tree tells: rules that their settings break, missing or odd logs."""

from collections.abc import Iterator, Sequence

from hpcai.metrics.quietness import stall_remark
from hpcai.mlperf_hpc.submission.model import SUITE, Problem, Result, Submission, SubmittedRun, SubmittedSystem
from hpcai.mlperf_hpc.submission.tree import result_folder
from hpcai.rules.table import rules_of
from hpcai.rules.verdict import Finding

GENERATED = "generated data"
SMALL = "a small edition of the benchmark, made for generated data"
_OF_DATA, _OF_EDITION = ("data",), ("model", "hyperparameters", "quality")
"""Topics of the rules that runs on generated data, and small editions of the benchmarks for them, cannot keep."""


def check_runs(submission: Submission) -> Iterator[Problem]:
    """Yield what is known from the records alone."""
    strong = {result.benchmark for system in submission.systems for result in system.results if _is_strong(result)}
    for system in submission.systems:
        for result in system.results:
            place = result_folder(submission, system, result)
            if result.note and len(result.runs) >= result.by_rule:
                yield Problem("warning", "runs", place, result.note)
            yield from _lost_logs((*result.runs, *result.pruned), place)
            yield from _odd_times((*result.runs, *result.pruned), place)
            yield from _say_rules(result, place)
            yield from _other_words(submission, result, place)
            if not _is_strong(result) and result.benchmark not in strong:
                message = "weak scaling without a time to train of the same benchmark (MLPerf HPC rules, weak scaling)"
                yield Problem("failure", "rules", place, message)
        yield from _mixed_software(submission, system)


def is_generated(result: Result) -> bool:
    """Return whether the runs of a result trained on generated data."""
    return result.record.data_source == "generated"


def _is_strong(result: Result) -> bool:
    return result.scaling == "strong"


def few_runs(result: Result) -> str:
    """Return the reason of a result with too few runs."""
    return f"too few runs: {len(result.runs)} of {result.by_rule} were measured"


def _lost_logs(runs: Sequence[SubmittedRun], place: str) -> Iterator[Problem]:
    for run in runs:
        if run.log is None:
            message = f"{run.source} left no log ({run.record.outcome.replace('_', ' ')}: {run.record.reason})"
            yield Problem("failure", "logs", place, message)


def _odd_times(runs: Sequence[SubmittedRun], place: str) -> Iterator[Problem]:
    """Yield the runs whose times do not count, because their logs are not timed as their records, or hold a pause."""
    for run in runs:
        if run.logged and run.logged.untimed:
            message = f"{run.source}: {run.logged.untimed}; the run counts as one that failed"
            yield Problem("failure", "logs", place, message)
        if remark := stall_remark(run.record):
            yield Problem("warning", "runs", place, f"{run.source} {remark}")


def broken_rules(result: Result) -> dict[str, list[Finding]]:
    """Return the findings on each rule of the runs' division that settings or data break, by rule.

    Whether a run missed its target is not among them, because a result may contain such a run.
    """
    division = result.record.plan.submission.division
    broken: dict[str, list[Finding]] = {}
    for run in (*result.runs, *result.pruned):
        for verdict in run.record.verdicts:
            if verdict.level == division:
                for finding in verdict.deviations:
                    if not finding.counted:
                        broken.setdefault(finding.rule, []).append(finding)
    return broken


def _say_rules(result: Result, place: str) -> Iterator[Problem]:
    runs = (*result.runs, *result.pruned)
    topics = {rule.id: rule.topic for rule in rules_of(SUITE).rules}
    for rule, findings in broken_rules(result).items():
        share = "" if len(findings) == len(runs) else f" in {len(findings)} of {len(runs)} runs"
        reason = _why_broken(result, topics.get(rule, ""))
        for sentence, section in dict.fromkeys((finding.sentence, finding.section) for finding in findings):
            yield Problem("failure", "rules", place, f"{sentence}{share} ({section})", reason)
    unjudged = sum(not run.record.verdicts for run in runs)
    if unjudged:
        yield Problem("warning", "rules", place, f"{unjudged} of {len(runs)} records hold no verdict on the rules")


def _why_broken(result: Result, topic: str) -> str:
    if not is_generated(result):
        return ""
    return GENERATED if topic in _OF_DATA else SMALL if topic in _OF_EDITION else ""


def _other_words(submission: Submission, result: Result, place: str) -> Iterator[Problem]:
    """Yield what the logs say otherwise than the tree; logs are not changed."""
    logs = [run.logged for run in (*result.runs, *result.pruned) if run.logged]
    for what, said, found in (
        ("organisation", submission.org, {log.org for log in logs}),
        ("division", submission.division, {log.division for log in logs}),
        ("benchmark", result.benchmark, {log.benchmark for log in logs}),
    ):
        other = sorted(found - {said})
        if other:
            message = f"{what}: the logs say {', '.join(other)}, the tree {said}; set `submission` in the study file"
            yield Problem("warning", "logs", place, message)


def _mixed_software(submission: Submission, system: SubmittedSystem) -> Iterator[Problem]:
    place = f"{submission.folder}/systems/{system.name}.json"
    versions: dict[str, set[str]] = {}
    for record in system.records:
        for name, version in record.provenance.software.items():
            versions.setdefault(name, set()).add(version)
    mixed = [f"{name} {' and '.join(sorted(found))}" for name, found in sorted(versions.items()) if len(found) > 1]
    if mixed:
        message = f"runs with different software: {', '.join(mixed)}; a result is of one system and framework"
        yield Problem("failure", "rules", place, f"{message} (MLPerf Training rules, 2.2)")
