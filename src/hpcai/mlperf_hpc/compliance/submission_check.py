"""Verdict on one result: number of runs, complying logs, seeds, convergence, hyper-parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from mlperf_logging.benchmark_meta import get_result_file_counts

from hpcai.mlperf_hpc.compliance.convergence import RULE as CONVERGENCE_RULE
from hpcai.mlperf_hpc.compliance.convergence import (
    Convergence,
    ConvergenceResult,
    judge_convergence,
    read_convergence,
)
from hpcai.mlperf_hpc.compliance.hyper_parameters import check_settings, read_settings
from hpcai.mlperf_hpc.compliance.model import Finding, LogVerdict
from hpcai.mlperf_hpc.compliance.seeds import LoggedSeeds, check_seeds, read_seeds
from hpcai.parsers.mllog import Mllog, MllogEvent

RULE = "package_checker"
FAILURES_ALLOWED = 1
"""One log may fail: olympic scoring drops it (package_checker, check_training_result_files)."""


@dataclass(frozen=True)
class Remains:
    """The parts of a log that later checks need: seeds, convergence, first lines of settings, logged division."""

    seeds: LoggedSeeds
    convergence: Convergence
    settings: Mapping[str, MllogEvent]
    division: str
    benchmark: str


@dataclass(frozen=True)
class Evidence:
    """Verdict and remains of one log."""

    verdict: LogVerdict
    remains: Remains


def read_remains(source: str, log: Mllog) -> Remains:
    """Return the parts of a log that a package check keeps."""
    return Remains(
        read_seeds(log, source),
        read_convergence(log, source),
        read_settings(log),
        _first(log, "submission_division"),
        _first(log, "submission_benchmark"),
    )


def _first(log: Mllog, key: str) -> str:
    return next((str(event.value) for event in log.by_key.get(key, ())), "")


@dataclass(frozen=True)
class Facts:
    """Facts about a result from tree and system file.

    ``division`` comes from the system file or, without one, from the logs; ``power_errors`` are the names of logs with
    invalid power files; ``scaling_factor`` comes from the folder's ``scaling.json``.
    """

    folder: str
    org: str
    system: str
    benchmark: str
    scaling: str
    division: str
    skip_seeds: bool = False
    skip_convergence: bool = False
    power_errors: frozenset[str] = frozenset()
    scaling_factor: float | None = None
    findings: tuple[Finding, ...] = field(default=())


@dataclass(frozen=True)
class SubmissionVerdict:
    """Whether a result would be accepted, and all findings.

    Attributes
    ----------
    folder, org, system, benchmark, scaling, division
        Identity of the result.
    runs, runs_by_rule
        Number of logs found and required (a minimum for weak scaling).
    complying
        Number of logs that comply.
    accepted
        Whether the package would find no error: enough runs, at most one that does not comply, valid seeds, and
        convergence that is not too fast.
    logs, pruned
        Verdicts of the logs; those of ``pruned_results`` do not affect the verdict.
    convergence
        The RCP test; None in the open division, which has none.
    findings
        Findings on the result as a whole or on several logs, and warnings.
    """

    folder: str
    org: str
    system: str
    benchmark: str
    scaling: str
    division: str
    runs: int
    runs_by_rule: int
    complying: int
    accepted: bool
    logs: tuple[LogVerdict, ...]
    pruned: tuple[LogVerdict, ...]
    convergence: ConvergenceResult | None
    findings: tuple[Finding, ...]

    @property
    def stops(self) -> bool:
        """Whether the package would raise an exception instead of giving a verdict."""
        found = [*self.findings, *(finding for log in self.logs for finding in log.findings)]
        return any(finding.stops for finding in found)


def runs_by_rule() -> Mapping[str, int]:
    """Return the number of runs that a result of each benchmark needs, according to the package."""
    counts: Mapping[str, int] = get_result_file_counts("hpc")
    return counts


def judge_submission(
    facts: Facts, logs: Sequence[Evidence], pruned: Sequence[Evidence], rule_set: str
) -> SubmissionVerdict:
    """Judge one result as the package checker does.

    Parameters
    ----------
    facts
        Facts from tree and system file.
    logs, pruned
        Evidence in the order of names.
    rule_set
        Such as "3.0.0".
    """
    needed = runs_by_rule()[facts.benchmark]
    findings = [*facts.findings, *_count_runs(facts, len(logs), needed), *_count_failures(facts, logs)]
    convergence = None
    if facts.division == "closed":
        if not facts.skip_seeds:
            findings += check_seeds([log.remains.seeds for log in logs])
        runs = [log.remains.convergence for log in logs]
        convergence = judge_convergence(runs, rule_set, bypass=facts.skip_convergence)
        findings += _say_convergence(facts, convergence)
    for log in (*logs, *pruned):
        findings += _look_closer(facts, log)
    findings += _say_pruned(pruned)
    return SubmissionVerdict(
        facts.folder,
        facts.org,
        facts.system,
        facts.benchmark,
        facts.scaling,
        facts.division,
        len(logs),
        needed,
        sum(log.verdict.complies for log in logs),
        not any(finding.failed for finding in findings),
        tuple(log.verdict for log in logs),
        tuple(log.verdict for log in pruned),
        convergence,
        tuple(findings),
    )


def _count_runs(facts: Facts, found: int, needed: int) -> list[Finding]:
    weak = facts.scaling == "weak"
    if found == needed or (weak and found > needed):
        return []
    wanted = f"at least {needed}" if weak else f"exactly {needed}"
    message = f"found {found} logs named result_N.txt, expected {wanted}"
    return [Finding(facts.folder, None, "runs", f"{RULE}: number of runs", message)]


def _count_failures(facts: Facts, logs: Sequence[Evidence]) -> list[Finding]:
    """Accept one log that does not comply, unless the package stops at it."""
    failed = {PurePosixPath(log.verdict.source).stem for log in logs if not log.verdict.complies}
    names = sorted(failed | facts.power_errors)
    stopping = [log.verdict.source for log in logs if any(finding.stops for finding in log.verdict.findings)]
    if not names:
        return []
    accepted = len(names) <= FAILURES_ALLOWED and not stopping
    words = f"{len(names)} of {len(logs)} logs do not comply ({', '.join(names)})"
    reason = f"; the package stops at {stopping[0]}" if stopping else ""
    message = f"{words}, at most {FAILURES_ALLOWED} is accepted under olympic scoring{reason}"
    return [
        Finding(facts.folder, None, "logs", f"{RULE}: complying logs", message, "warning" if accepted else "failure")
    ]


def _say_convergence(facts: Facts, result: ConvergenceResult) -> list[Finding]:
    findings = []
    if not result.passed:
        findings.append(
            Finding(facts.folder, None, "convergence", CONVERGENCE_RULE, result.message, stops=result.stops)
        )
    elif result.bypassed:
        findings.append(Finding(facts.folder, None, "convergence", CONVERGENCE_RULE, result.message, "warning"))
    expected = result.scaling_factor or 1.0
    there = facts.scaling_factor
    if result.scaling_factor is not None and abs((there or 1.0) - expected) > 1e-9:
        found = "no scaling.json" if there is None else f"scaling.json with {there:.6g}"
        message = f"found {found}, the epochs of the logs give the factor {expected:.6g}"
        findings.append(Finding(facts.folder, None, "scaling_factor", CONVERGENCE_RULE, message, "warning"))
    return findings


def _look_closer(facts: Facts, log: Evidence) -> list[Finding]:
    """Return findings on one log that the package does not check: division, benchmark, and the rules' tables."""
    verdict, remains = log.verdict, log.remains
    findings = [
        Finding(verdict.source, None, f"submission_{name}", f"MLPerf HPC rules, {name}", message, "warning")
        for name, logged, placed in (
            ("division", remains.division, facts.division),
            ("benchmark", remains.benchmark, facts.benchmark),
        )
        if logged and placed and logged != placed
        for message in (f"the log says {logged}, the {_home(name)} {placed}",)
    ]
    checked = frozenset(finding.key for finding in verdict.failures)
    return findings + check_settings(
        remains.settings,
        source=verdict.source,
        benchmark=facts.benchmark,
        division=facts.division,
        checked=checked,
    )


def _home(name: str) -> str:
    return "system file" if name == "division" else "folder"


def _say_pruned(pruned: Sequence[Evidence]) -> list[Finding]:
    return [
        Finding(
            log.verdict.source,
            None,
            "pruned_results",
            "MLPerf HPC rules, weak scaling: pruned results",
            "the pruned log does not comply, which the rules demand and the package does not look at",
            "warning",
        )
        for log in pruned
        if not log.verdict.complies
    ]
