"""Result of a reader: a tidy table, the share of the artefact that was read, and reasons for missing parts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from hpcai.core.errors import ParseError
from hpcai.core.messages import Message, at

NOTHING_READ = Message("reading.nothing_read", "found {found}, expected {tool}; {advice}")

Fact = str | int | float | bool | None


@dataclass(frozen=True)
class Reading:
    """A tidy table from one raw artefact.

    Attributes
    ----------
    table
        One row per record; column names end in units, numbers are SI.
    tool
        The tool that wrote the artefact, for example ``nvprof summary``.
    source
        The artefact.
    complete_records, seen_records
        Records in the table, and records of which at least a part was found in the artefact.
    reasons
        Why records are missing or doubtful, one sentence each; empty if the artefact is complete.
    facts
        Properties of the whole artefact: versions, devices, numbers of ranks.
    """

    table: pd.DataFrame
    tool: str
    source: Path
    complete_records: int
    seen_records: int
    reasons: tuple[str, ...] = ()
    facts: Mapping[str, Fact] = field(default_factory=dict)

    @property
    def coverage_ratio(self) -> float:
        """Records in the table over records seen; 1 if the artefact is complete."""
        return self.complete_records / self.seen_records if self.seen_records else 1.0

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing or doubtful."""
        return not self.reasons

    def summary(self) -> dict[str, Fact | list[str] | dict[str, Fact]]:
        """Return all but the table."""
        return {
            "tool": self.tool,
            "source": str(self.source),
            "coverage_ratio": self.coverage_ratio,
            "complete_records": self.complete_records,
            "seen_records": self.seen_records,
            "reasons": list(self.reasons),
            "facts": dict(self.facts),
        }


def nothing_read(source: Path, tool: str, found: str, advice: str) -> ParseError:
    """Return the error for an artefact without any record of a tool; it is never read as an empty table or 0.

    Parameters
    ----------
    source, tool
        The artefact, and the tool expected to have written it.
    found
        What the file looks like, or its message.
    advice
        What the user can do.
    """
    return ParseError(at(str(source), NOTHING_READ(found=found, tool=tool, advice=advice)))
