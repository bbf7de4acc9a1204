"""Data model of a round: runs as logged, the systems they ran on, and submissions.

Published results and our own runs share these classes. Nothing is normalised silently: every irregularity and its
treatment is a :class:`Repair`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Scaling = Literal["strong", "weak", "weak_pruned"]
"""weak_pruned: instances under ``weak/BENCH/pruned_results``, which do not count but must comply."""
LARGEST_COUNT = 10**9
"""Upper bound for counts in files; the largest machine has 158,976 nodes, the largest data 2 M samples."""
Claim = Literal["success", "missing", "aborted", "incomplete"]
"""How a run ended according to its log: status success, no status, another status, or no run_stop at all."""


@dataclass(frozen=True, slots=True)
class Repair:
    """An irregularity of a file, and its treatment.

    Attributes
    ----------
    source
        File, relative to the round's root.
    place
        Line, key or field.
    kind
        A short name for the kind, such as ``epoch_without_stop``.
    found, done
        The irregularity found, and its treatment.
    """

    source: str
    place: str
    kind: str
    found: str
    done: str


class Span(NamedTuple):
    """A paired interval [ms since the Unix epoch], with data from its stop; a tuple, because a round has thousands.

    ``epoch`` is the logged epoch number (any origin, may be a fraction or a count of samples), ``steps`` the logged
    ``step_num`` of the stop; None where not logged.
    """

    start_ms: float
    stop_ms: float
    epoch: float | None = None
    steps: float | None = None

    @property
    def duration_s(self) -> float:
        """Length [s]; exact, because both ends are whole milliseconds."""
        return (self.stop_ms - self.start_ms) / 1000


class Score(NamedTuple):
    """One logged quality: ``eval_error`` or ``eval_accuracy``."""

    line: int
    time_ms: float
    value: float
    epoch: float | None


@dataclass(frozen=True)
class LoggedRun:
    """One training run as logged.

    Attributes
    ----------
    source, number
        File relative to the round's root, and N of ``result_N.txt``.
    org, division, benchmark, status, platform
        The submission keys as logged; blank where missing. The system file's division is authoritative.
    settings
        First value of every key logged as a point in time, except qualities: batch, samples, hyper-parameters.
    seeds
        All logged seeds.
    claim
        Claimed outcome of the run.
    init_s
        init_start (the first) to init_stop [s]; None where one is missing.
    run
        run_start to run_stop; None without both.
    staging
        staging_start to staging_stop; None without the keys.
    staging_before_run
        Whether staging began before run_start (allowed from 3.0 on); it is then not part of the run's time.
    epochs, evaluations
        Paired intervals in order of time. Blocks of epochs count as one entry per block, with their epochs in
        ``epochs_in_blocks``.
    epochs_in_blocks
        Number of epochs in the entries of ``epochs``; equal to their number where epochs are logged.
    scores
        Qualities in the order of the log, up to run_stop.
    quality_key
        ``eval_error`` or ``eval_accuracy``; blank without scores.
    repairs
        Irregularities of the log.
    logged_ms
        Time of the first event [ms since the Unix epoch]; None if no event has a time.
    untimed
        Why no time of the run counts, and ``run`` is None even if the run finished; blank if the times count.
    """

    source: str
    number: int
    org: str
    division: str
    benchmark: str
    status: str
    platform: str
    settings: Mapping[str, Any]
    seeds: tuple[Any, ...]
    claim: Claim
    init_s: float | None
    run: Span | None
    staging: Span | None
    staging_before_run: bool
    epochs: tuple[Span, ...]
    evaluations: tuple[Span, ...]
    epochs_in_blocks: int
    scores: tuple[Score, ...]
    quality_key: str
    repairs: tuple[Repair, ...]
    logged_ms: float | None = None
    untimed: str = ""

    def number_of(self, key: str) -> float | None:
        """Return a logged setting as a number; None if it is missing or not a number."""
        value = self.settings.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        try:
            return float(value)
        except OverflowError:  # JSON integers may have any length
            return None


@dataclass(frozen=True)
class System:
    """A machine as described in its system file.

    Attributes
    ----------
    source
        File, relative to the round's root; blank if there is none.
    name
        Base name of the file, shared by the folder of results; ``system_name`` in the file may differ.
    fields
        All fields of the file as written.
    division
        "closed", "open", or blank.
    nodes, processors_per_node, accelerators_per_node
        Whole numbers; None where the file has none.
    accelerator, processor
        Names of the models; blank where the file has none or a placeholder.
    all_accelerators
        Accelerators of all nodes, known where nodes have different numbers; None: as many on each node.
    """

    source: str
    name: str
    fields: Mapping[str, Any]
    division: str
    nodes: int | None
    processors_per_node: int | None
    accelerators_per_node: int | None
    accelerator: str
    processor: str
    all_accelerators: int | None = None

    @property
    def processors(self) -> int | None:
        """Processors of all nodes."""
        return self.nodes * self.processors_per_node if self.nodes and self.processors_per_node else None

    @property
    def accelerators(self) -> int | None:
        """Accelerators of all nodes; 0 without accelerators."""
        if self.all_accelerators is not None:
            return self.all_accelerators
        if self.nodes is None or self.accelerators_per_node is None:
            return None
        return self.nodes * self.accelerators_per_node

    @property
    def units(self) -> int | None:
        """Compute units: accelerators, or processors of a machine without accelerators (mlperf_logs.md 1)."""
        return self.accelerators or (None if self.accelerator and self.accelerators is None else self.processors)


@dataclass(frozen=True)
class Submission:
    """The logs of one benchmark on one system.

    Attributes
    ----------
    origin
        Name of the round or study.
    method
        "published" for imported logs, "measured" for own runs.
    org, system_name
        Folders of the tree.
    folder
        Folder of the logs, relative to the round's root.
    benchmark
        cosmoflow, deepcam, oc20, openfold: the folder's name.
    scaling
        strong or weak (runs of ``pruned_results`` are in ``pruned``).
    runs, pruned
        Runs, ordered by number.
    system
        None if no system file belongs to the folder.
    scaling_factor
        Factor from ``scaling.json`` (penalty of the RCP check); None without the file.
    """

    origin: str
    method: Literal["published", "measured"]
    org: str
    system_name: str
    folder: str
    benchmark: str
    scaling: Literal["strong", "weak"]
    runs: tuple[LoggedRun, ...]
    pruned: tuple[LoggedRun, ...]
    system: System | None
    scaling_factor: float | None

    @property
    def name(self) -> str:
        """``ORG/SYSTEM``."""
        return f"{self.org}/{self.system_name}"

    @property
    def identity(self) -> dict[str, str]:
        """Columns that identify the submission in all tables of rounds."""
        return {
            "origin": self.origin,
            "method": self.method,
            "submission": self.name,
            "org": self.org,
            "system": self.system_name,
            "benchmark": self.benchmark,
            "division": self.division,
        }

    @property
    def division(self) -> str:
        """Division from the system file, or else from the first log."""
        if self.system and self.system.division:
            return self.system.division
        return self.runs[0].division if self.runs else ""


@dataclass(frozen=True)
class Round:
    """One imported repository, archive or study.

    Attributes
    ----------
    name
        Such as "v0.7"; for a study, its name.
    source
        Folder or archive, as named by the user.
    layout
        "flat" (results/SYSTEM/BENCH, v0.7) or "scaled" (results/SYSTEM/{strong,weak}/BENCH, from v1.0 on).
    submissions
        Sorted by benchmark, organisation and system.
    systems
        All system files, including those without results.
    repairs
        Irregularities of the tree; each run has its own.
    sha256
        Digest of each log and system file of a folder, as read.
    power_logs
        Paths of the power logs in an archive.
    """

    name: str
    source: str
    layout: Literal["flat", "scaled"]
    submissions: tuple[Submission, ...]
    systems: tuple[System, ...]
    repairs: tuple[Repair, ...]
    sha256: Mapping[str, str] = field(default_factory=dict, repr=False)
    power_logs: tuple[str, ...] = ()
