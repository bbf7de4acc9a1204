"""All checks of a written tree: the official package checker, our own verdict, the rules, and what is private."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from hpcai.mlperf_hpc.compliance.model import Finding, Severity
from hpcai.mlperf_hpc.compliance.verdict import PackageVerdict, judge
from hpcai.mlperf_hpc.rounds.tree import PRUNED
from hpcai.mlperf_hpc.submission.model import Problem, Result, Submission
from hpcai.mlperf_hpc.submission.own_checks import (
    GENERATED,
    broken_rules,
    check_runs,
    few_runs,
    is_generated,
)
from hpcai.mlperf_hpc.submission.package_check import CheckerText, check_package
from hpcai.mlperf_hpc.submission.private import find_private
from hpcai.mlperf_hpc.submission.tree import result_folder

PACKAGE = "package_checker"
SAMPLES = ("train_samples", "eval_samples")
_REPOSITORY = "repo_checker"
_LOGS_NAMED = 3


def check_tree(submission: Submission, results: Path, tree: Path) -> tuple[CheckerText, list[Problem]]:
    """Check a written tree.

    Parameters
    ----------
    submission
        What was written.
    results
        Results folder that it was made from.
    tree
        Folder above that of the organisation; the package checker adds ``scaling.json`` where it scales a result.

    Returns
    -------
    tuple
        What the package checker said, and all problems.
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
    """Return the folders whose logs do not comply for nothing but numbers of samples that generated data have."""
    return frozenset(
        one.folder
        for one in verdict.submissions
        if one.folder in places
        and is_generated(places[one.folder])
        and {finding.key for log in one.logs for finding in log.failures} <= set(SAMPLES)
    )


def _say_package(package: CheckerText, places: Mapping[str, Result], foreseen: frozenset[str]) -> Iterator[Problem]:
    """Yield the package checker's errors; its warnings are about single logs, of which our verdict tells more."""
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
    """Say so if our own verdict and the package checker do not end alike."""
    answer = verdict.package_answers.get(submission.folder)
    if answer is not None and (answer == "no errors") != package.passes:
        message = f"our own verdict foresaw `{answer}` of the package checker, which is an error of ours: report it"
        yield Problem("warning", "compliance", submission.folder, message)


def _say_verdict(verdict: PackageVerdict, places: Mapping[str, Result], foreseen: frozenset[str]) -> Iterator[Problem]:
    """Yield what our own verdict found, logs of a folder with equal findings together.

    What is wrong with a single log is a warning where the result stands without it: one of a result may fail under
    olympic scoring, and pruned instances are not counted.
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
    """Return whether a warning is about a blank field (an open point), or a setting that the rules' check names."""
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
