"""Seeds of a result's runs: each run logs one, and no two runs log the same one from the same line of code.

The semantics are those of ``mlperf_logging.package_checker.seed_checker``, which applies to the closed division.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hpcai.core.messages import Message
from hpcai.mlperf_hpc.compliance.model import Finding
from hpcai.parsers.mllog import Mllog

USED_BEFORE = Message("seeds.used_before", "seed {seed} from {file}:{code_line} was used before, in {other}:{line}")

RULE = "package_checker.seed_checker"


@dataclass(frozen=True, slots=True)
class SeedRecord:
    """One logged seed: file and line of the code that logged it, the seed, and the line of the log."""

    file: Any
    code_line: Any
    seed: int
    line: int


@dataclass(frozen=True, slots=True)
class LoggedSeeds:
    """All seeds of a log; ``error`` gives, with its line, the reason why the package reads none of them."""

    source: str
    records: tuple[SeedRecord, ...]
    error: str = ""
    error_line: int | None = None


def read_seeds(log: Mllog, source: str) -> LoggedSeeds:
    """Return the seeds of a log as the package reads them: none if any line of the log is unreadable."""
    if log.broken:
        return LoggedSeeds(source, (), f"the line cannot be read: {log.broken[0].error}", log.broken[0].line)
    records = []
    for event in log.by_key.get("seed", ()):
        try:
            place = event.metadata["file"], event.metadata["lineno"]
            records.append(SeedRecord(*place, int(event.value), event.line))
            hash(place)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            message = (
                f"the seed needs `file` and `lineno` in its metadata and an integer: {type(error).__name__} {error}"
            )
            return LoggedSeeds(source, (), message, event.line)
    return LoggedSeeds(source, tuple(records))


def check_seeds(logs: Sequence[LoggedSeeds]) -> list[Finding]:
    """Compare the seeds of the runs of one result, in the order of their names.

    Returns
    -------
    list of Finding
        Failures: no seed, a seed that cannot be read, equal seeds (also within one log). Warnings: more than one seed.
    """
    findings: list[Finding] = []
    known: dict[tuple[Any, Any, int], tuple[str, int]] = {}
    for log in logs:
        if log.error:
            findings.append(Finding(log.source, log.error_line, "seed", RULE, log.error))
            continue
        if not log.records:
            findings.append(Finding(log.source, None, "seed", RULE, "the run logs no seed, expected one"))
        if len(log.records) > 1:
            message = f"the run logs {len(log.records)} seeds, expected one"
            findings.append(Finding(log.source, log.records[1].line, "seed", RULE, message, "warning"))
        for record in log.records:
            place = record.file, record.code_line, record.seed
            if place in known:
                other, line = known[place]
                message = USED_BEFORE(
                    seed=record.seed, file=record.file, code_line=record.code_line, other=other, line=line
                )
                findings.append(Finding(log.source, record.line, "seed", RULE, message))
            else:
                known[place] = log.source, record.line
    return findings
