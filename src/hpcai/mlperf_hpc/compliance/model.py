"""Findings and verdicts of checks on MLPerf HPC files."""

from dataclasses import dataclass
from typing import Literal

RULE_SETS = ("1.0.0", "2.0.0", "3.0.0")
"""The HPC rule sets of the package ``mlperf_logging``."""

Severity = Literal["failure", "warning"]
"""A failure decides the verdict; a warning does not, because the package's checker accepts it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of a check.

    Attributes
    ----------
    source
        File or folder, relative to the root of the check.
    line
        Line of the file, from 1; None if the finding has no line, such as a missing key.
    key
        Key of the log, field of the system file, or name of the check.
    rule
        Rule file, key and expression of the package, or section of the rules.
    message
        What was found and what was expected.
    severity
        Whether the verdict depends on it.
    stops
        Whether the package's checker raises an exception here and gives no verdict.
    """

    source: str
    line: int | None
    key: str
    rule: str
    message: str
    severity: Severity = "failure"
    stops: bool = False

    @property
    def failed(self) -> bool:
        """Whether the verdict depends on it."""
        return self.severity == "failure"


@dataclass(frozen=True)
class LogVerdict:
    """Whether one log complies with a rule set, and all findings in the order of its lines."""

    source: str
    rule_set: str
    complies: bool
    findings: tuple[Finding, ...]

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The findings that make it fail."""
        return tuple(finding for finding in self.findings if finding.failed)
