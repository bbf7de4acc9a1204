"""All checks of a written tree: the official package checker, our own verdict, the rules, and private data."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from hpcai.core.messages import Message, at
from hpcai.core.text import say_name
from hpcai.metrics.quietness import stall_remark
from hpcai.mlperf_hpc.compliance.model import Finding, Severity
from hpcai.mlperf_hpc.compliance.verdict import PackageVerdict, judge
from hpcai.mlperf_hpc.rounds.tree import PRUNED
from hpcai.mlperf_hpc.submission.model import SUITE, Problem, Result, Submission, SubmittedRun, SubmittedSystem
from hpcai.mlperf_hpc.submission.package_check import CheckerText, check_package
from hpcai.mlperf_hpc.submission.tree import result_folder
from hpcai.rules.table import rules_of
from hpcai.rules.verdict import Finding as BrokenRule

NO_LOG = Message("checks.no_log", "{run} left no log ({outcome}: {reason})")
TOO_FEW = Message("checks.too_few", "too few runs: {runs} of {needed} were measured")
OTHER_IN_LOGS = Message(
    "checks.other_in_logs", "the logs say {logged}, the tree {said}; set `submission` in the study file"
)
UNEVEN_NODES = Message(
    "checks.uneven_nodes",
    "found a group that used {used} accelerators of {nodes} nodes, expected as many on each: a system file has one "
    "number per node, so that T would be {told}; measure a group that fills its nodes",
)

GENERATED = "generated data"
SMALL = "a small edition of the benchmark, made for generated data"
_OF_DATA, _OF_EDITION = ("data",), ("model", "hyperparameters", "quality")
"""Topics of the rules that runs on generated data, and small editions of the benchmarks for them, cannot meet."""


def check_runs(submission: Submission) -> Iterator[Problem]:
    """Yield problems that follow from the records alone."""
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
        yield from _uneven_nodes(submission, system)


def is_generated(result: Result) -> bool:
    """Return whether the runs of a result trained on generated data."""
    return result.record.data_source == "generated"


def _is_strong(result: Result) -> bool:
    return result.scaling == "strong"


def few_runs(result: Result) -> str:
    """Return the reason why a result has too few runs."""
    return TOO_FEW(runs=len(result.runs), needed=result.by_rule)


def _lost_logs(runs: Sequence[SubmittedRun], place: str) -> Iterator[Problem]:
    for run in runs:
        if run.log is None:
            message = NO_LOG(run=run.source, outcome=say_name(run.record.outcome), reason=run.record.reason)
            yield Problem("failure", "logs", place, message)


def _odd_times(runs: Sequence[SubmittedRun], place: str) -> Iterator[Problem]:
    """Yield runs with invalid times: their logs contradict their records, or contain a pause."""
    for run in runs:
        if run.logged and run.logged.untimed:
            message = f"{run.source}: {run.logged.untimed}; the run counts as one that failed"
            yield Problem("failure", "logs", place, message)
        if remark := stall_remark(run.record):
            yield Problem("warning", "runs", place, f"{run.source} {remark}")


def broken_rules(result: Result) -> dict[str, list[BrokenRule]]:
    """Return the findings on each rule of the runs' division that settings or data break, by rule.

    A missed target is not among them, because a result may contain such a run.
    """
    division = result.record.plan.submission.division
    broken: dict[str, list[BrokenRule]] = {}
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
    """Yield contradictions between logs and tree; logs are not changed."""
    logs = [run.logged for run in (*result.runs, *result.pruned) if run.logged]
    for what, said, found in (
        ("organisation", submission.org, {log.org for log in logs}),
        ("division", submission.division, {log.division for log in logs}),
        ("benchmark", result.benchmark, {log.benchmark for log in logs}),
    ):
        other = sorted(found - {said})
        if other:
            message = at(str(what), OTHER_IN_LOGS(logged=", ".join(other), said=said))
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


def _uneven_nodes(submission: Submission, system: SubmittedSystem) -> Iterator[Problem]:
    """Yield a group whose T a system file cannot tell."""
    whole = system.whole
    if whole is not None and whole.accelerators % whole.nodes:
        told = whole.nodes * whole.accelerators_per_node
        message = UNEVEN_NODES(used=whole.accelerators, nodes=whole.nodes, told=told)
        yield Problem("failure", "rules", f"{submission.folder}/systems/{system.name}.json", message)


SHORTEST_HOST = 4
"""Shorter host names, such as `vm`, occur in ordinary text by chance."""
HOME = re.compile(rb"/(?:home|Users)/[A-Za-z0-9._-]+|/[r]oot/")
"""In brackets, so that this file, which a submission holds, has no such folder itself."""
_SHOWN = 3
Words = Mapping[str, re.Pattern[bytes]]


def find_private(tree: Path, submission: Submission, results: Path) -> Iterator[Problem]:
    """Yield the files that disclose details of the machine unnecessarily.

    Nothing is changed: logs must stay as written, so the owner decides.

    Parameters
    ----------
    tree
        Folder above that of the organisation.
    submission
        Its records name the hosts of the runs.
    results
        Results folder, whose own location must not be disclosed.
    """
    words = private_words(submission, results)
    for path in sorted(tree.rglob("*")):
        if path.is_file():
            yield from _in_content(path.read_bytes(), path.relative_to(tree).as_posix(), words)


def private_words(submission: Submission, results: Path) -> Words:
    """Return what must not be disclosed, by kind: home folders, hosts, and folders of this machine."""
    records = [record for system in submission.systems for record in system.records]
    hosts = {rank.placement.hostname for record in records for rank in record.ranks}
    hosts |= {str(record.provenance.machine_facts.get("hostname") or "") for record in records}
    places = {str(results.resolve().parent), str(Path.home()), str(Path.cwd())}
    return {
        "a home folder": HOME,
        "the name of a host": _any_of(host for host in hosts if len(host) >= SHORTEST_HOST),
        "a folder of this machine": _any_of(place for place in places if place.count(os.sep) > 1),
    }


def _any_of(words: Iterable[str]) -> re.Pattern[bytes]:
    choices = "|".join(re.escape(word) for word in sorted(words)) or r"(?!)"
    return re.compile(rf"(?<![A-Za-z0-9_-])(?:{choices})(?![A-Za-z0-9_-])".encode())


def _in_content(content: bytes, place: str, words: Words) -> Iterator[Problem]:
    for kind, pattern in words.items():
        found = sorted({match.decode(errors="replace") for match in pattern.findall(content)})
        if found:
            shown = ", ".join(found[:_SHOWN])
            yield Problem("failure", "hygiene", place, f"holds {kind} ({shown}); it was left unchanged, check it")


PACKAGE = "package_checker"
SAMPLES = ("train_samples", "eval_samples")
_REPOSITORY = "repo_checker"
_LOGS_NAMED = 3


def check_tree(submission: Submission, results: Path, tree: Path) -> tuple[CheckerText, list[Problem]]:
    """Check a written tree.

    Parameters
    ----------
    submission
        The submission as written.
    results
        Results folder of the submission's runs.
    tree
        Folder above that of the organisation; the package checker adds ``scaling.json`` where it scales a result.

    Returns
    -------
    tuple
        Output of the package checker, and all problems.
    """
    package = check_package(tree / submission.folder, submission.rule_set)
    places = {
        f"{result_folder(submission, system, result)}{part}": result
        for system in submission.systems
        for result in system.results
        for part in ("", f"/{PRUNED}")
    }
    verdict = judge(tree, submission.rule_set)
    foreseen = _foreseen(verdict, places)
    problems = [
        *_say_package(package, places, foreseen),
        *_compare_answers(submission, package, verdict),
        *_say_verdict(verdict, places, foreseen),
        *check_runs(submission),
        *find_private(tree, submission, results),
    ]
    return package, problems


def _foreseen(verdict: PackageVerdict, places: Mapping[str, Result]) -> frozenset[str]:
    """Return the folders whose logs fail only because generated data have other numbers of samples."""
    return frozenset(
        one.folder
        for one in verdict.submissions
        if one.folder in places
        and is_generated(places[one.folder])
        and {finding.key for log in one.logs for finding in log.failures} <= set(SAMPLES)
    )


def _say_package(package: CheckerText, places: Mapping[str, Result], foreseen: frozenset[str]) -> Iterator[Problem]:
    """Yield the package checker's errors; its warnings concern single logs, which our verdict covers in more detail."""
    errors = [remark for remark in package.remarks if remark.level == "ERROR"]
    for remark in errors:
        reason = _package_reason(places.get(remark.place), remark.text, remark.place in foreseen)
        yield Problem("failure", PACKAGE, remark.place, remark.text, reason)
    if not package.passes and not errors:
        yield Problem("failure", PACKAGE, "", package.conclusion)


def _package_reason(result: Result | None, text: str, foreseen: bool) -> str:
    if result is None:
        return ""
    if ("number of files" in text or text.startswith("Expected at least")) and len(result.runs) < result.by_rule:
        return few_runs(result)
    generated = ("RCP" in text and is_generated(result)) or (foreseen and "do not comply" in text)
    return GENERATED if generated else ""


def _compare_answers(submission: Submission, package: CheckerText, verdict: PackageVerdict) -> Iterator[Problem]:
    """Report a problem if our own verdict and the package checker disagree."""
    answer = verdict.package_answers.get(submission.folder)
    if answer is not None and (answer == "no errors") != package.passes:
        message = f"our own verdict foresaw `{answer}` of the package checker, which is an error of ours: report it"
        yield Problem("warning", "compliance", submission.folder, message)


def _say_verdict(verdict: PackageVerdict, places: Mapping[str, Result], foreseen: frozenset[str]) -> Iterator[Problem]:
    """Yield the findings of our own verdict; logs of a folder with equal findings are grouped.

    A problem of a single log is a warning if the result remains valid: one log may fail under olympic scoring, and
    pruned instances do not count.
    """
    groups: dict[tuple[str, Finding], list[PurePosixPath]] = {}
    decided = {
        one.folder for one in verdict.submissions for found in one.findings if found.failed and found.key == "logs"
    }
    for finding in verdict.all_findings():
        path = PurePosixPath(finding.source)
        in_log = path.parent.as_posix() in places
        place = path.parent.as_posix() if in_log else finding.source
        if not _is_said_elsewhere(finding, places.get(place)):
            alike = Finding(place, finding.line, finding.key, finding.rule, finding.message, finding.severity)
            groups.setdefault((place, alike), []).extend([path] if in_log else [])
    for (place, finding), logs in groups.items():
        result = places.get(place)
        decides = finding.failed and (not logs or place in decided)
        severity: Severity = "failure" if decides or finding.rule.startswith(_REPOSITORY) else "warning"
        reason = _verdict_reason(result, finding, place in foreseen) if result else ""
        message = f"{_names(logs, finding)}{finding.message} ({finding.rule})"
        yield Problem(severity, "compliance", place, message, reason)


def _is_said_elsewhere(finding: Finding, result: Result | None) -> bool:
    """Return whether another check covers a warning: a blank field (an open point), or a setting of the rules."""
    if finding.failed:
        return False
    told = {f"[{name}]" for name in broken_rules(result)} if result else set()
    return PurePosixPath(finding.source).parent.name == "systems" or any(finding.rule.endswith(name) for name in told)


def _names(logs: Iterable[PurePosixPath], finding: Finding) -> str:
    names = [path.stem for path in logs]
    more = f" and {len(names) - _LOGS_NAMED} more" if len(names) > _LOGS_NAMED else ""
    line = f", line {finding.line}" if finding.line is not None else ""
    return f"{', '.join(names[:_LOGS_NAMED])}{more}{line}: " if names else ""


def _verdict_reason(result: Result, finding: Finding, foreseen: bool) -> str:
    if finding.key == "runs" and len(result.runs) < result.by_rule:
        return few_runs(result)
    if not is_generated(result):
        return ""
    return GENERATED if finding.key in (*SAMPLES, "convergence") or (foreseen and finding.key == "logs") else ""
