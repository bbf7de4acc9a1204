"""What a check of MLPerf HPC files finds, and what it concludes."""

from dataclasses import dataclass
from typing import Literal

RULE_SETS = ("1.0.0", "2.0.0", "3.0.0")
"""The HPC rule sets that the package ``mlperf_logging`` knows."""

Severity = Literal["failure", "warning"]
"""A failure decides the verdict; a warning does not, because the package's checker would not fail for it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found.

    Attributes
    ----------
    source
        File or folder, relative to the root of what is checked.
    line
        Line of the file, from 1; None where no line is meant, such as for a missing key.
    key
        Key of the log, field of the system file, or name of the check.
    rule
        Rule file, key and expression of the package, or section of the rules.
    message
        What was found and what is expected.
    severity
        Whether the verdict depends on it.
    stops
        Whether the package's checker ends here with an exception, without a verdict.
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
    """Whether one log complies with a rule set, and all that was found, in the order of its lines."""

    source: str
    rule_set: str
    complies: bool
    findings: tuple[Finding, ...]

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The findings because of which it does not comply."""
        return tuple(finding for finding in self.findings if finding.failed)
