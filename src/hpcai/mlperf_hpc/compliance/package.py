"""Structure of a package: what the package checker would find in an organisation's folder, and how it would end."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from mlperf_logging.benchmark_meta import get_allowed_benchmarks
from mlperf_logging.package_checker.power_checker import PowerChecker

from hpcai.mlperf_hpc.compliance.model import Finding
from hpcai.mlperf_hpc.compliance.submission_check import RULE, Evidence, Facts, SubmissionVerdict, judge_submission
from hpcai.mlperf_hpc.compliance.systems_check import check_system, read_fields
from hpcai.mlperf_hpc.rounds.index import SourceIndex
from hpcai.mlperf_hpc.rounds.tree import PARAMETERS, PRUNED, RESULT, SCALING_FILE, SCALINGS

SEEDS_BYPASS, CONVERGENCE_BYPASS = "seed-checker-bypass", "rcp-bypass"
EXPECTED = (PARAMETERS, SCALING_FILE)


@dataclass(frozen=True)
class OrganisationVerdict:
    """Verdict on one organisation's folder: its results, and findings outside any single result."""

    top: str
    submissions: tuple[SubmissionVerdict, ...]
    findings: tuple[Finding, ...]


def judge_organisation(
    top: str, name: str, index: SourceIndex, logs: Mapping[str, Evidence], factors: Mapping[str, float], rule_set: str
) -> OrganisationVerdict:
    """Judge the folder of one organisation.

    Parameters
    ----------
    top, name
        The folder ("." for the source itself), and the organisation's name.
    index
        Index of the source.
    logs
        Evidence of all logs by path.
    factors
        Factors of the ``scaling.json`` files, by folder.
    rule_set
        Such as "3.0.0".
    """
    package = _Package(top, name, index, logs, factors, rule_set)
    findings = package.check_systems()
    submissions: list[SubmissionVerdict] = []
    for system in index.folders_in(package.path("results")):
        for folder, scaling in package.result_folders(system):
            verdict, found = package.judge(system, folder, scaling)
            findings += found
            submissions += [verdict] if verdict else []
    return OrganisationVerdict(top, tuple(submissions), tuple(findings))


@dataclass(frozen=True)
class _Package:
    """One organisation's folder with everything read from it."""

    top: str
    name: str
    index: SourceIndex
    logs: Mapping[str, Evidence]
    factors: Mapping[str, float]
    rule_set: str

    def path(self, *parts: str) -> str:
        """Return a path below the organisation's folder."""
        return PurePosixPath(self.top, *parts).as_posix()

    def check_systems(self) -> list[Finding]:
        """Check all system files."""
        findings: list[Finding] = []
        for name in self.index.names_in(self.path("systems")):
            path = self.path("systems", name)
            if path in self.index.contents:
                findings += check_system(path, self.index.contents[path])
        return findings

    def result_folders(self, system: str) -> list[tuple[str, str]]:
        """Return a system's folders of logs: those that the package checks, or those of the v0.7 tree."""
        base = self.path("results", system)
        found: list[tuple[str, str]] = []
        for scaling in self.index.folders_in(base):
            folder = f"{base}/{scaling}"
            found += [(f"{folder}/{name}", scaling) for name in self.index.folders_in(folder)]
            if scaling not in SCALINGS and any(map(RESULT.fullmatch, self.index.names_in(folder))):
                found.append((folder, ""))
        return found

    def judge(self, system: str, folder: str, scaling: str) -> tuple[SubmissionVerdict | None, list[Finding]]:
        """Judge one folder of logs."""
        if scaling and scaling not in SCALINGS:
            message = f"found the folder {scaling}, expected strong or weak; the package stops here"
            return None, [Finding(folder, None, "scaling", f"{RULE}: folders", message, stops=True)]
        fields, findings = self.system_of(system)
        benchmark = PurePosixPath(folder).name
        if benchmark not in get_allowed_benchmarks("hpc", self.rule_set):
            message = f"{benchmark} is not a benchmark of rule set {self.rule_set}, the package passes over it"
            return None, [*findings, Finding(folder, None, "benchmark", f"{RULE}: benchmarks", message, "warning")]
        if not scaling:
            message = "the logs are in no folder strong or weak: the package checks none, they are treated as strong"
            findings.append(Finding(folder, None, "scaling", f"{RULE}: folders", message, "warning"))
        logs, pruned = self.evidence_in(folder), self.evidence_in(f"{folder}/{PRUNED}")
        facts = self.facts(system, folder, scaling, fields, findings)
        return judge_submission(facts, logs, pruned, self.rule_set), []

    def facts(
        self, system: str, folder: str, scaling: str, fields: Mapping[str, Any] | None, findings: list[Finding]
    ) -> Facts:
        """Collect the facts about a folder of logs from tree and system file."""
        seeds = self.bypasses(self.path("results", system), folder, SEEDS_BYPASS, findings)
        convergence = self.bypasses(self.path("results", system), folder, CONVERGENCE_BYPASS, findings)
        errors = self.power_errors(folder, findings)
        findings += self.other_files(folder) + self.unreadable_logs(folder)
        return Facts(
            folder,
            self.name,
            system,
            PurePosixPath(folder).name,
            scaling or "strong",
            str((fields or {}).get("division", "")),
            seeds,
            convergence,
            errors,
            self.factors.get(folder),
            tuple(findings),
        )

    def system_of(self, system: str) -> tuple[Mapping[str, Any] | None, list[Finding]]:
        """Return the fields of the system file that the package opens for a folder of results."""
        path = self.path("systems", f"{system}.json")
        content = self.index.contents.get(path)
        if content is None:
            message = f"no system file {path}, expected one for results/{system}; the package stops here"
            return None, [Finding(path, None, "system", f"{RULE}: system file", message, stops=True)]
        fields, findings = read_fields(path, content)
        if fields is not None and "division" not in fields:
            message = "the system file has no division; the package stops here"
            findings.append(Finding(path, None, "division", f"{RULE}: division", message, stops=True))
        return fields, findings

    def evidence_in(self, folder: str) -> list[Evidence]:
        """Return the logs of a folder in the order of their names, as text."""
        paths = [f"{folder}/{name}" for name in self.index.names_in(folder) if RESULT.fullmatch(name)]
        return [self.logs[path] for path in paths if path in self.logs]

    def other_files(self, folder: str) -> list[Finding]:
        """Warn of unexpected files in a folder of logs."""
        return [
            Finding(f"{folder}/{name}", None, "name", f"{RULE}: file names", f"{name} is not a result_N.txt", "warning")
            for name in self.index.names_in(folder)
            if not RESULT.fullmatch(name) and name not in EXPECTED and not name.startswith(".")
        ]

    def unreadable_logs(self, folder: str) -> list[Finding]:
        """Return entries that are named like a log but are not files: folders and broken links."""
        below = {path for path in self.index.folders if PurePosixPath(path).parent == PurePosixPath(folder)}
        named = {path for path in below if RESULT.fullmatch(PurePosixPath(path).name)}
        root = self.index.root
        links = [f"{folder}/{name}" for name in self.index.names_in(folder) if RESULT.fullmatch(name)]
        named |= {path for path in links if root is not None and not (root / path).exists()}
        message = "no file that can be read has this name of a log; the package stops here"
        return [Finding(path, None, "name", f"{RULE}: file names", message, stops=True) for path in sorted(named)]

    def bypasses(self, system: str, folder: str, word: str, findings: list[Finding]) -> bool:
        """Return whether a ``package_checker_params`` file disables a check.

        The package compares lines including their newline, so it only recognises a last line without newline.
        """
        for place in (system, folder):
            words = self.index.contents.get(f"{place}/{PARAMETERS}", b"").decode("utf-8", "replace")
            if word in words.splitlines(keepends=True):
                return True
            if word in words.splitlines():
                message = f"{word} is not understood by the package, which wants it as the last line without newline"
                findings.append(
                    Finding(f"{place}/{PARAMETERS}", None, word, f"{RULE}: {PARAMETERS}", message, "warning")
                )
        return False

    def power_errors(self, folder: str, findings: list[Finding]) -> frozenset[str]:
        """Return the names of logs with invalid power files, using the package's own check of a folder ``power``."""
        power = self.index.root / folder / "power" if self.index.root else Path()
        if self.index.root is None or not power.is_dir():
            return frozenset()
        logs = [str(self.index.root / log.verdict.source) for log in self.evidence_in(folder)]
        try:
            _, errors = PowerChecker(self.rule_set).check_power(str(power), logs)
        except Exception as error:
            message = f"power files that the package stops at: {type(error).__name__} {error}"
            findings.append(Finding(f"{folder}/power", None, "power", f"{RULE}: power", message, stops=True))
            return frozenset()
        findings += [
            Finding(
                f"{folder}/power", None, "power", f"{RULE}: power", f"the power files of {name} do not fit", "warning"
            )
            for name in sorted(errors)
        ]
        return frozenset(errors)
