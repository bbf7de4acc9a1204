"""The command ``hpcai mlperf check``: whether a log, result, package or repository would stand."""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.files import write_asked_json
from hpcai.mlperf_hpc.benchmarks import BENCHMARKS
from hpcai.mlperf_hpc.compliance.choose import NO_RULES

if TYPE_CHECKING:
    from hpcai.mlperf_hpc.compliance.model import Finding
    from hpcai.mlperf_hpc.compliance.submission_check import SubmissionVerdict
    from hpcai.mlperf_hpc.compliance.verdict import PackageVerdict

DOES_NOT_COMPLY = 2
SHOWN_PLACES = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Judge a log, a folder of logs, an organisation's folder, a repository of results or an archive by the rules "
        "of the package mlperf_logging. Exit status: 0 it complies, 1 bad input, 2 it does not comply."
    )
    parser.add_argument("source", type=Path, help="what to judge; it is only read")
    parser.add_argument("--rule-set", metavar="VERSION", help="1.0.0, 2.0.0 or 3.0.0; found by itself if not given")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the whole verdict as JSON")
    parser.add_argument("--warnings", action="store_true", help="print warnings as well; they decide nothing")
    parser.add_argument("--all", action="store_true", help="print every finding on a line of its own, ungrouped")


def run(arguments: argparse.Namespace) -> int:
    """Judge a source and print the verdict; return 0 if it complies, otherwise 2.

    Raises
    ------
    HpcaiError
        If the source cannot be read, or there is no such rule set.
    """
    from hpcai.mlperf_hpc.compliance.verdict import judge

    verdict = judge(arguments.source, arguments.rule_set)
    if arguments.json is not None:
        write_asked_json(arguments.json, verdict.to_json())
    for line in describe_verdict(verdict, warnings=arguments.warnings, ungrouped=arguments.all):
        print(line)
    return 0 if verdict.complies else DOES_NOT_COMPLY


def describe_verdict(verdict: "PackageVerdict", *, warnings: bool, ungrouped: bool) -> Iterator[str]:
    """Yield the verdict for people: its sum, the package's answers, each result, and what was found.

    Parameters
    ----------
    warnings
        Whether warnings are told, not only counted.
    ungrouped
        Whether each finding has a line of its own.
    """
    word = "complies" if verdict.complies else "does not comply"
    yield f"{verdict.source}: {word}; rule set {verdict.rule_set}: {verdict.reason}; {verdict.checker}"
    if verdict.reason.endswith(NO_RULES):
        other = ", ".join(facts.title for facts in BENCHMARKS.values() if facts.first_round_datasets)
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
    """Yield a group with its first message, or each of the few."""
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
    """Return file and line of a finding, as editors and terminals understand them."""
    return finding.source if finding.line is None else f"{finding.source}:{finding.line}"
