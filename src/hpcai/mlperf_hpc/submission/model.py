"""Data model of a submission: own runs grouped into results, results into systems, open points and problems."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hpcai.core.errors import ConfigError
from hpcai.mlperf_hpc.benchmarks import name_of
from hpcai.mlperf_hpc.rounds.model import LoggedRun
from hpcai.records.run import RunRecord
from hpcai.records.weak import Extent
from hpcai.rules.table import rules_of

SUITE: Literal["mlperf_hpc"] = "mlperf_hpc"
IMPLEMENTATION = "hpcai"
"""Name of our implementation in the tree."""
Scaling = Literal["strong", "weak"]
_UNSAFE = re.compile(r"[^A-Za-z0-9+._-]+")


@dataclass(frozen=True)
class Request:
    """Options of the command line; empty means everything available.

    Attributes
    ----------
    results
        Results folder of a study.
    output
        Folder to write.
    org
        Submitting organisation; defaults to the study's ``submission.org``.
    system
        First part of the systems' names; defaults to the machine's name.
    benchmarks
        Benchmark files or folders of the tree, such as ``cosmoflow_tiny`` or ``oc20``.
    scales
        Such as ``n1x2``.
    rule_set
        1.0.0, 2.0.0 or 3.0.0; defaults to the study's rule set.
    """

    results: Path
    output: Path
    org: str | None = None
    system: str | None = None
    benchmarks: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()
    rule_set: str | None = None


def is_asked(request: Request, record: RunRecord) -> bool:
    """Return whether the benchmark and scale of a run were requested."""
    names = {record.plan.benchmark.name, name_of(record.plan.benchmark.workload)}
    return (not request.benchmarks or bool(names & set(request.benchmarks))) and (
        not request.scales or record.plan.point.scale in request.scales
    )


def safe_name(text: str) -> str:
    """Return a text as a name for the tree: without blanks, shell metacharacters, or a leading dot.

    Raises
    ------
    ConfigError
        If nothing remains.
    """
    name = _UNSAFE.sub("_", text).lstrip("._-").rstrip("_")
    if not name:
        raise ConfigError(f"name {text!r}: found no letter or digit in it, expected a name for a folder")
    return name


@dataclass(frozen=True)
class SubmittedRun:
    """One measured run with its MLPerf log; a run that failed early has none.

    ``source`` is its folder below the results, ``number`` the N of its folder.
    """

    record: RunRecord
    source: str
    number: int
    log: Path | None
    logged: LoggedRun | None


@dataclass(frozen=True)
class Result:
    """The runs of one benchmark at one scale.

    Attributes
    ----------
    benchmark
        Folder of the tree: cosmoflow, deepcam, oc20.
    scaling
        strong, or weak for concurrent instances.
    runs
        Submitted runs, in order of start.
    pruned
        Instances that do not count, but are submitted as well.
    measured
        Number of all runs at this scale.
    note
        How ``runs`` were chosen, or what they lack; blank if all were taken and there are as many as required.
    """

    benchmark: str
    scaling: Scaling
    runs: tuple[SubmittedRun, ...]
    pruned: tuple[SubmittedRun, ...]
    measured: int
    note: str

    @property
    def record(self) -> RunRecord:
        """Record of the first run, for facts shared by all runs of a result."""
        return (*self.runs, *self.pruned)[0].record

    @property
    def by_rule(self) -> int:
        """Number of runs that the rules count."""
        return rules_of(SUITE).results.runs_of(self.record.plan.benchmark.workload)


@dataclass(frozen=True)
class SubmittedSystem:
    """One file of ``systems/`` and the results below it.

    ``whole`` is what a weak-scaling group used; None for other runs, each of which used the whole system.
    """

    name: str
    results: tuple[Result, ...]
    nodes: int
    whole: Extent | None = None

    @property
    def accelerators_per_node(self) -> int:
        """Accelerators that the runs used on a node."""
        return self.whole.accelerators_per_node if self.whole else self.records[0].plan.accelerators_per_node

    @property
    def records(self) -> tuple[RunRecord, ...]:
        """Records of all runs."""
        return tuple(run.record for result in self.results for run in (*result.runs, *result.pruned))


@dataclass(frozen=True)
class Submission:
    """The complete submission.

    Attributes
    ----------
    org, folder
        The organisation, and its folder's name.
    division, status
        As declared in the study.
    rule_set
        Such as 3.0.0.
    systems
        Systems by name.
    skipped
        Skipped parts of the results folder, with reasons.
    """

    org: str
    folder: str
    division: str
    status: str
    rule_set: str
    systems: tuple[SubmittedSystem, ...]
    skipped: tuple[str, ...]


@dataclass(frozen=True, order=True)
class OpenPoint:
    """A field that the program cannot know and that the owner must fill in."""

    place: str
    field: str
    note: str


@dataclass(frozen=True, order=True)
class Problem:
    """A problem found by a check.

    Attributes
    ----------
    severity
        ``failure`` or ``warning``.
    check
        package_checker, compliance, rules, logs, code or hygiene.
    place
        File or folder of the tree.
    message
        What is wrong.
    reason
        Why such runs (for example on generated data) cannot avoid it; blank if it must be fixed.
    """

    severity: Literal["failure", "warning"]
    check: str
    place: str
    message: str
    reason: str = ""
