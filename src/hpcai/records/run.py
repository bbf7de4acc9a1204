"""The run record: the only interface between measurement and analysis.

The ranks write reports (:class:`RankReport` each, :class:`TrainingReport` by rank 0). The supervisor combines them with
its own observations into a :class:`RunRecord`, the only file that later stages read. Times are in seconds of the
monotonic clock, sizes in bytes; ``None`` means "not measured".
"""

import math
from typing import Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from hpcai.config.runs import ProfileKind, RunPlan
from hpcai.core.disturbance import Disturbance, Quietness, is_disturbed
from hpcai.core.messages import Message
from hpcai.core.stalls import Stalls
from hpcai.records.input_reads import Epoch, InputSizes, InputSource, Passes, RankReads, judge_input
from hpcai.rules.verdict import RunFacts, Verdict

RAW_IF_MEASURED = Message("run.raw_if_measured", "raw files if and only if something was measured")
SCHEMA_VERSION: Literal[1] = 1
Outcome = Literal["converged", "not_converged", "diverged", "failed", "timed_out"]
FINISHED: tuple[Outcome, ...] = ("converged", "not_converged", "diverged")
"""Outcomes of a training that ran to its own end; the others are failures."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")


class Placement(_Part):
    """Placement of one rank."""

    rank: int = Field(ge=0)
    local_rank: int = Field(ge=0)
    node_index: int = Field(ge=0)
    hostname: str
    device: str
    accelerator: str = Field(default="", description="In the notation of CUDA_VISIBLE_DEVICES; blank on processors.")
    accelerator_uuid: str = Field(default="", description="UUID of the GPU or MIG instance; blank: none, or not known.")
    cores: tuple[int, ...] = Field(description="Cores that the rank was allowed to use.")
    threads: int = Field(ge=1)


class RankReport(_Part):
    """A rank's report about itself."""

    placement: Placement
    peak_memory_bytes: int = Field(ge=0, description="Largest resident set.")
    cpu_time_s: float = Field(ge=0)
    read_bytes: int | None = Field(default=None, ge=0, description="Read from storage, excluding page-cache hits.")
    written_bytes: int | None = Field(default=None, ge=0)
    staging_read_bytes: int = Field(default=0, ge=0)
    staging_s: float = Field(default=0.0, ge=0)
    reads: RankReads | None = Field(default=None, description="None: not recorded (earlier versions).")
    page_faults_per_step: float | None = Field(
        default=None, ge=0, description="Minor page faults, median over epochs; None: not recorded (earlier versions)."
    )
    quietness: Quietness | None = Field(default=None, description="None: not measured.")
    weights_sha256: str = Field(description="Digest of all weights after training: equal on all ranks.")


class EpochRecord(_Part):
    """One epoch; training and evaluation times do not overlap."""

    epoch: int = Field(ge=1)
    steps: int = Field(ge=0)
    samples: int = Field(ge=0, description="Training samples of all ranks.")
    train_s: float = Field(ge=0)
    evaluation_s: float | None = Field(default=None, ge=0, description="None: no evaluation after this epoch.")
    evaluation_samples: int | None = None
    learning_rate: float
    train_loss: float
    quality: float | None = None
    step_time_median_s: float | None = None
    step_time_p95_s: float | None = None
    step_time_max_s: float | None = None
    skipped_steps: int | None = Field(
        default=None,
        ge=0,
        description=(
            "Steps that gradient skipping or the loss scaling of fp16 left out; None: the plan has neither, or an "
            "earlier version trained in fp16."
        ),
    )


class StagingRecord(_Part):
    """Staging as a whole: bytes over all ranks, time of the slowest."""

    place: Literal["node_local", "shared", "none"] = Field(
        description="shared: several nodes saw the same scratch folder, and each unpacked its part into it."
    )
    partition: Literal["whole", "split"]
    on_clock: bool
    files: int = Field(ge=0)
    packed_bytes: int = Field(ge=0, description="Read from shared storage.")
    content_bytes: int = Field(ge=0, description="Written to the scratch folders.")
    staging_s: float = Field(ge=0)
    compression_ratio: float | None = Field(default=None, description="content_bytes / packed_bytes.")


class TrainingReport(_Part):
    """Rank 0's report about the whole training."""

    outcome: Literal["converged", "not_converged", "diverged"]
    reason: str
    seed: int
    parameters: int
    quality_metric: str
    quality_unit: str = Field(default="", description="Blank: a ratio, or a number in units of its own.")
    quality_target: float
    higher_is_better: bool
    init_s: float = Field(ge=0, description="init_start to init_stop: model, first compilation, broadcast.")
    import_s: float = Field(ge=0, description="Start of the interpreter's main module to init_start.")
    started_monotonic_s: float = Field(description="Monotonic clock at the start of rank 0's main module.")
    run_s: float = Field(ge=0, description="run_start to run_stop.")
    step_time_median_s: float | None = Field(
        default=None, ge=0, description="Median of all steps of all epochs; None: not recorded (earlier versions)."
    )
    longest_gap_s: float | None = Field(
        default=None,
        ge=0,
        description="Longest time between two progress reports of rank 0 from run_start to run_stop.",
    )
    stalls: Stalls | None = Field(default=None, description="Among steps and evaluations; None: too few to tell.")
    cache_s: float | None = Field(
        default=None, ge=0, description="Reading into caches, between run_start and the first step; None: no caches."
    )
    staging: StagingRecord
    input: InputSizes | None = Field(default=None, description="None: not recorded (earlier versions).")
    epochs: tuple[EpochRecord, ...]


class Artefact(_Part):
    """One raw file of a run, relative to the run's raw folder."""

    path: str
    bytes: int = Field(ge=0)
    sha256: str


class InstrumentFacts(_Part):
    """The tool of a profiled run, written to its raw folder before the run starts."""

    tool: str
    raw: tuple[str, ...] = Field(description="Patterns of the files that it leaves behind; the first must match.")
    compute_capability: str = ""
    missing: str = Field(default="", description="What the tool cannot tell on this machine, and why.")


class Capture(_Part):
    """One profile of one point: the raw files from a tool, or the reason why there are none."""

    profile: ProfileKind
    run_id: str
    tool: str
    status: Literal["measured", "not_measured"]
    reason: str = Field(description="Why nothing was measured; blank if it was.")
    raw: tuple[Artefact, ...] = Field(default=(), description="Relative to the folder of the capture.")
    compute_capability: str = Field(default="", description="Of the accelerator; blank on processors.")
    missing: str = Field(default="", description="What the tool cannot tell on this machine, and why.")

    @model_validator(mode="after")
    def _measured_or_why_not(self) -> "Capture":
        _check(bool(self.raw) == (self.status == "measured"), RAW_IF_MEASURED())
        _check(bool(self.reason) != (self.status == "measured"), "a reason if and only if nothing was measured")
        return self


class Attempt(_Part):
    """An attempt at a run that failed, or was interrupted or disturbed from outside: recorded, but not a result."""

    attempt: str
    outcome: Outcome | Literal["interrupted", "disturbed"]
    reason: str
    started_utc: str | None = Field(default=None, description="None: not known.")
    ended_utc: str | None = Field(default=None, description="None: not known, as when its supervisor vanished.")
    host: str | None = Field(default=None, description="Node of its supervisor; None: not known.")
    slurm_job: str | None = Field(default=None, description="None: none, or not known.")
    epochs: int | None = Field(default=None, ge=0, description="Epochs that were completed; None: not known.")


class AcceptanceNote(_Part):
    """The acceptance of its nodes that a run relied on."""

    file: str
    sha256: str
    ended_utc: str
    age_s: float = Field(description="When the run started.")


class Provenance(_Part):
    """Origin of the numbers; every value was collected by the program."""

    commit: str | None
    dirty: bool | None = Field(description="Whether tracked files differed from the commit.")
    lock_sha256: str | None
    command: tuple[str, ...]
    environment: dict[str, str]
    software: dict[str, str]
    machine_facts: dict[str, str | int | float | None]
    data_digest: str
    pack_digest: str | None
    page_cache: Literal["dropped", "not_permitted", "kept"] = Field(
        description="dropped: all of the run's data was dropped before it; kept: not all of it, or not on all nodes."
    )
    acceptance: AcceptanceNote | None = Field(
        default=None, description="The acceptance of the nodes that the study required; None: it required none."
    )

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omit an acceptance that was not required, so that records stay as before this key existed."""
        fields: dict[str, object] = write(self)
        if self.acceptance is None:
            fields.pop("acceptance", None)
        return fields


class RunRecord(_Part):
    """One run: its settings, its outcome, its times, and its raw files."""

    schema_version: Literal[1] = SCHEMA_VERSION
    run_id: str
    method: Literal["measured"] = "measured"
    plan: RunPlan
    plan_digest: str
    data_source: Literal["generated", "downloaded", "existing"]
    attempt: str
    earlier_attempts: tuple[Attempt, ...] = ()
    started_utc: str
    outcome: Outcome
    reason: str
    wall_s: float = Field(ge=0, description="Start of the launcher to its end, as seen by the supervisor.")
    launch_s: float | None = Field(
        default=None,
        description="Start of the launcher to the start of rank 0; None: unknown, as when they ran on different nodes.",
    )
    exit_status: int | None = None
    training: TrainingReport | None = Field(description="None: the ranks did not finish.")
    partial_epochs: tuple[EpochRecord, ...] = Field(default=(), description="Epochs of a failed run.")
    ranks: tuple[RankReport, ...] = ()
    disturbance: tuple[Disturbance, ...] = Field(
        default=(), description="Use of each node by others from run_start to run_stop; empty: not measured."
    )
    artefacts: tuple[Artefact, ...] = ()
    provenance: Provenance
    verdicts: tuple[Verdict, ...] = Field(
        default=(), description="Verdict of the suite's rules, one for each level or division; empty: not judged."
    )

    @property
    def facts(self) -> RunFacts:
        """Observed facts for the rules, besides the settings."""
        qualities = [epoch.quality for epoch in self.epochs if epoch.quality is not None]
        return RunFacts(
            data_source=self.data_source,
            page_cache=self.provenance.page_cache,
            parameters=self.training.parameters if self.training else None,
            init_s=self.training.init_s if self.training else None,
            outcome=self.outcome,
            epochs=len(self.epochs),
            quality=qualities[-1] if qualities else None,
        )

    @property
    def epochs(self) -> tuple[EpochRecord, ...]:
        """The completed epochs."""
        return self.training.epochs if self.training else self.partial_epochs

    @property
    def is_disturbed(self) -> bool:
        """Whether others took more of a node than the study's limit while the run was timed."""
        return is_disturbed(self.disturbance, self.plan.limits.disturbance)

    @property
    def is_stalled(self) -> bool:
        """Whether the times include a pause: a step or an evaluation far longer than its neighbours."""
        return bool(self.training and self.training.stalls and self.training.stalls.count)

    @property
    def time_to_train_s(self) -> float | None:
        """run_start to run_stop of a converged run; None for any other outcome."""
        return self.training.run_s if self.training and self.outcome == "converged" else None

    @property
    def train_s(self) -> float | None:
        """Sum of the epochs' training times [s]; None if the training did not finish."""
        return math.fsum(epoch.train_s for epoch in self.training.epochs) if self.training else None

    @property
    def evaluation_s(self) -> float | None:
        """Sum of the epochs' evaluation times [s]; None if the training did not finish."""
        return math.fsum(epoch.evaluation_s or 0.0 for epoch in self.training.epochs) if self.training else None

    @property
    def input_source(self) -> InputSource:
        """Where the input came from: storage, or a cache; all unknown if the run did not finish."""
        report, reads = self.training, [rank.reads for rank in self.ranks if rank.reads is not None]
        if report is None or report.input is None or len(reads) < len(self.ranks):
            return InputSource()
        epochs = [Epoch(one.samples, one.evaluation_s is not None) for one in report.epochs]
        samples = self.plan.benchmark.data.train_samples
        return judge_input(report.input, reads, Passes(epochs, samples, report.staging.packed_bytes))

    @property
    def overhead_s(self) -> float | None:
        """Wall time outside staging, training and evaluation [s]."""
        if self.training is None or self.train_s is None or self.evaluation_s is None:
            return None
        return self.wall_s - self.training.staging.staging_s - self.train_s - self.evaluation_s

    @field_validator("verdicts")
    @classmethod
    def _instances_are_timed(cls, verdicts: tuple[Verdict, ...], info: ValidationInfo) -> tuple[Verdict, ...]:
        """Drop the finding of earlier versions that an instance of a weak-scaling group was profiled."""
        plan = info.data.get("plan")
        is_weak = plan is not None and plan.kind == "weak"
        return tuple(verdict.without("timed") for verdict in verdicts) if is_weak else verdicts

    @model_validator(mode="after")
    def _tells_one_story(self) -> "RunRecord":
        _check(self.plan_digest == self.plan.digest, "plan_digest is not the digest of plan")
        _check(self.run_id == self.plan.run_id, "run_id is not the one of plan")
        suites = {verdict.suite for verdict in self.verdicts}
        _check(suites <= {self.plan.benchmark.suite}, "a verdict of another suite than the benchmark's")
        finished = self.outcome in FINISHED
        _check(not finished or self.training is not None, f"outcome {self.outcome} without a training report")
        if not finished or self.training is None:
            return self
        report = self.training
        _check(report.outcome == self.outcome, "outcome differs from the training report's")
        _check(len(self.ranks) == self.plan.point.ranks, "not one report per rank")
        numbers = [epoch.epoch for epoch in report.epochs]
        _check(numbers == list(range(1, len(numbers) + 1)), "epochs are not 1, 2, 3, ...")
        parts = (self.train_s or 0.0) + (self.evaluation_s or 0.0)
        _check(parts <= report.run_s * 1.001 + 0.01, "training and evaluation take longer than the run")
        _check(report.run_s <= self.wall_s + 0.01, "the run takes longer than its launcher")
        reached = any(
            reaches(epoch.quality, report.quality_target, higher_is_better=report.higher_is_better)
            for epoch in report.epochs
        )
        _check(self.outcome != "converged" or reached, "converged, but no epoch reached the target")
        return self


def _check(condition: bool, sentence: str) -> None:
    if not condition:
        raise ValueError(sentence)


def reaches(quality: float | None, target: float, *, higher_is_better: bool) -> bool:
    """Return whether a quality meets the target; an error metric must also be positive."""
    if quality is None or not math.isfinite(quality):
        return False
    return quality >= target if higher_is_better else 0 < quality <= target
