"""A verdict on a log, result, package or repository, as text."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from hpcai.mlperf_hpc.benchmarks import OWN
from hpcai.mlperf_hpc.compliance.choose import NO_RULES
from hpcai.workloads.registry import title_of

if TYPE_CHECKING:
    from hpcai.mlperf_hpc.compliance.model import Finding
    from hpcai.mlperf_hpc.compliance.submission_check import SubmissionVerdict
    from hpcai.mlperf_hpc.compliance.verdict import PackageVerdict

SHOWN_PLACES = 3


def describe_verdict(verdict: "PackageVerdict", *, warnings: bool, ungrouped: bool) -> Iterator[str]:
    """Yield the verdict as text: its summary, the package's answers, each result, and the findings.

    Parameters
    ----------
    warnings
        Whether to list warnings instead of only counting them.
    ungrouped
        Whether each finding gets its own line.
    """
    word = "complies" if verdict.complies else "does not comply"
    yield f"{verdict.source}: {word}; rule set {verdict.rule_set}: {verdict.reason}; {verdict.checker}"
    if verdict.reason.endswith(NO_RULES):
        other = ", ".join(title_of(name) for name, facts in OWN.items() if facts.first_round_datasets)
        yield f"  indicative only: v0.7 had other rules, and other data than the reference points have ({other})"
    for name, answer in verdict.package_answers.items():
        yield f"  {name}: the package checker {_ANSWERS[answer]}"
    for submission in verdict.submissions:
        yield from _describe_submission(submission)
    found = list(verdict.all_findings())
    title = "failures of logs that may fail" if verdict.complies else "failures"
    yield from _section(title, [one for one in found if one.failed], ungrouped=ungrouped)
    warned = [one for one in found if not one.failed]
    if warnings:
        yield from _section("warnings, which decide nothing", warned, ungrouped=ungrouped)
    elif warned:
        yield f"warnings, which decide nothing: {len(warned)} (--warnings shows them)"
    for reason in verdict.not_checked:
        yield f"not checked: {reason}"


_ANSWERS = {
    "no errors": "finds no errors",
    "errors": "finds errors",
    "stops": "stops with an exception, without a verdict",
    "no logs": "finds no errors, because it looks at no logs outside of folders strong and weak",
}


def _describe_submission(one: "SubmissionVerdict") -> Iterator[str]:
    word = "accepted" if one.accepted else "not accepted"
    least = "at least " if one.scaling == "weak" else ""
    runs = f"{one.complying} of {one.runs} logs comply, {least}{one.runs_by_rule} wanted"
    yield f"  {one.folder}: {word} ({one.benchmark}, {one.scaling}, {one.division or 'no division'}; {runs})"
    if one.convergence is not None:
        word = "passes" if one.convergence.passed else "fails"
        yield f"    convergence {word}: {one.convergence.message}"


def _section(title: str, findings: list["Finding"], *, ungrouped: bool) -> Iterator[str]:
    if not findings:
        return
    yield f"{title}: {len(findings)}"
    if ungrouped:
        yield from (f"  {place_of(one)} [{one.rule}] {one.message}" for one in findings)
        return
    groups: dict[tuple[str, str], list[Finding]] = {}
    for one in findings:
        groups.setdefault((one.rule, one.key), []).append(one)
    for (rule, _), members in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield from _group(rule, members)


def _group(rule: str, members: list["Finding"]) -> Iterator[str]:
    """Yield a group with its first message, or each finding if there are few."""
    if len(members) == 1:
        yield f"  {place_of(members[0])} [{rule}] {members[0].message}"
        return
    yield f"  {len(members)} x [{rule}] such as: {members[0].message}"
    yield f"      {_places(members)}"


def _places(members: Iterable["Finding"]) -> str:
    places = list(dict.fromkeys(place_of(one) for one in members))
    more = f" and {len(places) - SHOWN_PLACES} more (--all)" if len(places) > SHOWN_PLACES else ""
    return ", ".join(places[:SHOWN_PLACES]) + more


def place_of(finding: "Finding") -> str:
    """Return file and line of a finding in the format that editors and terminals recognise."""
    return finding.source if finding.line is None else f"{finding.source}:{finding.line}"
