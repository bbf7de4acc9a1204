"""The verdict on a whole source: a log, a folder, an organisation, a repository or an archive."""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from hpcai.core.files import real_path
from hpcai.mlperf_hpc.compliance.checked_round import CheckedRound, check_round
from hpcai.mlperf_hpc.compliance.log_check import check_log
from hpcai.mlperf_hpc.compliance.model import Finding, LogVerdict
from hpcai.mlperf_hpc.compliance.package import OrganisationVerdict, judge_organisation
from hpcai.mlperf_hpc.compliance.rule_files import package_version
from hpcai.mlperf_hpc.compliance.submission_check import (
    Evidence,
    Facts,
    SubmissionVerdict,
    judge_submission,
    read_remains,
    runs_by_rule,
)
from hpcai.mlperf_hpc.rounds.index import SourceIndex
from hpcai.mlperf_hpc.rounds.model import Round, Submission
from hpcai.mlperf_hpc.rounds.selection import Entry
from hpcai.mlperf_hpc.rounds.texts import printable
from hpcai.parsers.mllog import parse_mllog

RULE = "repo_checker"
LARGEST_BYTES = 50 * 1024 * 1024


def check_hygiene(entries: Iterable[Entry]) -> list[Finding]:
    """Check all names, sizes and links below a folder.

    Returns
    -------
    list of Finding
        Warnings only, because the package checker ignores all of these.
    """
    return [
        Finding(printable(entry.path), None, name, f"{RULE}: {rule}", message, "warning")
        for entry in entries
        for name, rule, message in _look(entry)
    ]


def _look(entry: Entry) -> Iterator[tuple[str, str, str]]:
    name = PurePosixPath(entry.path).name
    if name.startswith(".") or " " in name:
        yield "name", "names", f"{name!r} has a blank or begins with a dot"
    if entry.leads_to:
        yield "link", "links", f"the link leads to {printable(entry.leads_to)}, which does not exist"
    elif entry.size_bytes > LARGEST_BYTES:
        size_mib = entry.size_bytes / 1024**2
        yield "size", "sizes", f"the file has {size_mib:.0f} MiB, expected at most 50 MiB"


PackageAnswer = Literal["no errors", "errors", "stops", "no logs"]
""""no logs" also means no errors, because the package checks no logs outside the folders strong and weak."""


@dataclass(frozen=True)
class PackageVerdict:
    """The verdict on a source.

    Attributes
    ----------
    source, name
        The source, and the name of the round.
    rule_set, reason
        The rule set, and the reason for its choice.
    checker
        Name and version of the package that provides the rules.
    complies
        Whether there is no failure.
    package_answers
        How the package's checker ends for each organisation: without errors, with errors, or with an exception.
        Empty where the source is not an organisation's folder.
    submissions
        Verdicts of the results; empty for a single log.
    logs
        Verdicts of logs outside any judged result, such as a single log.
    findings
        Findings on system files, tree and repository.
    not_checked
        What could not be checked, and why.
    """

    source: str
    name: str
    rule_set: str
    reason: str
    checker: str
    complies: bool
    package_answers: Mapping[str, PackageAnswer]
    submissions: tuple[SubmissionVerdict, ...]
    logs: tuple[LogVerdict, ...]
    findings: tuple[Finding, ...]
    not_checked: tuple[str, ...]

    def all_findings(self) -> Iterator[Finding]:
        """Yield the findings on tree, results and logs."""
        yield from self.findings
        for submission in self.submissions:
            yield from submission.findings
            for log in (*submission.logs, *submission.pruned):
                yield from log.findings
        for log in self.logs:
            yield from log.findings

    def to_json(self) -> dict[str, Any]:
        """Return the verdict for a JSON file; NaN and infinity become null."""
        return {name: _plain(value) for name, value in dataclasses.asdict(self).items()}


def judge(source: Path, rule_set: str | None = None) -> PackageVerdict:
    """Judge a log, a folder of logs, an organisation's folder, a repository of results, or an archive of one.

    Parameters
    ----------
    source
        What to judge; it is only read.
    rule_set
        Such as "3.0.0"; None to choose it automatically.

    Raises
    ------
    ConfigError
        If the rule set does not exist.
    ParseError
        If the source cannot be read or holds no log.
    """
    return judge_round(SourceIndex(source, entries=[]), rule_set)[0]


def judge_round(index: SourceIndex, rule_set: str | None = None) -> tuple[PackageVerdict, CheckedRound]:
    """Judge a source as :func:`judge` does, and return its round as well; each log is read once.

    Parameters
    ----------
    index
        Index of the source with ``entries``, whose logs were not read yet.
    rule_set
        Such as "3.0.0"; None to choose it automatically.
    """
    source = index.source
    checked, remains = check_round(index, read_remains, rule_set=rule_set)
    rules = checked.choice.rule_set
    logs = {path: Evidence(checked.verdicts[path], remains[path]) for path in remains}
    # The package counts these logs; a round does not.
    for path in index.unnumbered:
        log = parse_mllog(index.contents[path], path)
        logs[path] = Evidence(check_log(log, rules, source=path), read_remains(path, log))
    tops = index.organisations()
    names = _names(checked.round, tops, source)
    factors = {one.folder: one.scaling_factor for one in checked.round.submissions if one.scaling_factor is not None}
    parts = [judge_organisation(top, names[top], index, logs, factors, rules) for top in tops]
    loose = [] if tops or index.is_log else [_judge_loose(one, logs, rules) for one in checked.round.submissions]
    submissions = [submission for part in parts for submission in part.submissions] + [one for one in loose if one]
    judged = {log.source for submission in submissions for log in (*submission.logs, *submission.pruned)}
    rest = tuple(log.verdict for path, log in sorted(logs.items()) if path not in judged)
    found = [finding for part in parts for finding in part.findings]
    hygiene = check_hygiene(index.entries or [])
    failed = any(finding.failed for finding in found) or not all(one.accepted for one in submissions)
    verdict = PackageVerdict(
        source=str(source),
        name=checked.round.name,
        rule_set=rules,
        reason=checked.choice.reason,
        checker=package_version(),
        complies=not failed and (bool(submissions) or all(log.complies for log in rest)),
        package_answers={names[part.top]: _answer(part) for part in parts},
        submissions=tuple(submissions),
        logs=rest,
        findings=(*found, *hygiene),
        not_checked=_not_checked(index, tops),
    )
    return verdict, checked


def _names(found: Round, tops: list[str], source: Path) -> dict[str, str]:
    """Return the name of the organisation that each folder belongs to."""
    own = real_path(source).name
    known = {one.folder: one.org for one in found.submissions}
    names = {}
    for top in tops:
        orgs = {org for folder, org in known.items() if PurePosixPath(folder).is_relative_to(top)}
        names[top] = PurePosixPath(top).name or (orgs.pop() if len(orgs) == 1 else own)
    return names


def _judge_loose(one: Submission, logs: Mapping[str, Evidence], rule_set: str) -> SubmissionVerdict | None:
    """Judge a result outside any organisation's folder, from its logs alone."""
    if one.benchmark not in runs_by_rule():
        return None
    found = [logs[run.source] for run in sorted(one.runs, key=lambda run: run.source)]
    pruned = [logs[run.source] for run in sorted(one.pruned, key=lambda run: run.source)]
    facts = Facts(
        folder=one.folder,
        org=one.org,
        system=one.system_name,
        benchmark=one.benchmark,
        scaling=one.scaling,
        division=one.division,
        scaling_factor=one.scaling_factor,
    )
    return judge_submission(facts, found, pruned, rule_set)


def _answer(part: OrganisationVerdict) -> PackageAnswer:
    """Return how the package's checker ends; it checks no logs outside strong and weak."""
    flat = {finding.source for one in part.submissions for finding in one.findings if finding.key == "scaling"}
    seen = [one for one in part.submissions if one.folder not in flat]
    if any(finding.stops for finding in part.findings) or any(one.stops for one in seen):
        return "stops"
    if part.submissions and not seen and not any(finding.failed for finding in part.findings):
        return "no logs"
    failed = any(finding.failed for finding in part.findings) or not all(one.accepted for one in seen)
    return "errors" if failed else "no errors"


def _not_checked(index: SourceIndex, tops: list[str]) -> tuple[str, ...]:
    reasons = []
    if not tops:
        reasons.append("structure of the package and system files: the source is not an organisation's folder")
    if index.root is None:
        reasons.append("names, sizes and links of the repository: the source is not a folder")
    return tuple(reasons)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _plain(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
