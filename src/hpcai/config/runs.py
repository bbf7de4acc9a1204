"""The run table and the plan of each run: all settings of one training run, in one validated file."""

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from hpcai.catalogue.points import USUAL_ENGINE
from hpcai.catalogue.profiles import PROFILES
from hpcai.config.base import (
    AllreduceTopology,
    Compression,
    Count,
    Engine,
    EvaluationCache,
    Name,
    Seed,
    Settings,
    SpatialParts,
    TrainingCache,
)
from hpcai.config.machine import Links, Machine, Precision
from hpcai.config.study import Limits, RuleSet, Submission
from hpcai.config.workloads import Benchmark
from hpcai.core.same_object import SameObject
from hpcai.core.units import Bytes, Seconds

NUMBER_BYTES: dict[Precision, int] = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
"""Bytes of the numbers passed between layers; tf32 rounds only inside products."""
RunKind = Literal["timed", "profiled", "weak"]


def _known_kind(name: str) -> str:
    if name not in PROFILES:
        raise ValueError(f"found {name!r}, expected one of {', '.join(PROFILES)}")
    return name


ProfileKind = Annotated[str, AfterValidator(_known_kind)]
"""Purpose of profiled runs: one of the kinds declared by modules of ``profiles/``."""


UNWRITTEN = (
    *("engine", "spatial_parts", "gradient_groups"),
    *("allreduce_topology", "evaluation_batch", "evaluation_cache", "training_cache"),
)
"""Settings of a point that plans omit where they have their default."""


NOT_MEASURED_WITH = ("limits", "requires_acceptance_s", "seeds", "submission", "study")
"""Keys of a plan that do not affect the measurement."""


DECLARED: Mapping[str, Mapping[str, object]] = {
    "": {"nodes": 1, "links": Links(), "hpl": None},
    "device": {"model": "", "memory_bytes": None, "memory_link": None, "peaks": {}},
    "storage": {"shared": ""},
}
"""What a machine file declares and no run uses, by the part of the file; with each, what stands for nothing declared.

Digests hold it, and stay as they are: :meth:`RunPlan.with_declared` makes plans comparable.
"""


class Point(Settings):
    """One point of a study: a benchmark in a variant at a scale."""

    benchmark: Name
    variant: Name
    nodes: Count
    ranks_per_node: Count
    precision: Precision = "fp32"
    compression: Compression = Field(default="none", description="Gradient compression of the allreduce.")
    engine: Engine = Field(
        default=USUAL_ENGINE,
        description="Library that exchanges gradients between ranks: Horovod, TensorFlow's own collectives, or JAX.",
    )
    global_batch: Count | None = Field(default=None, description="Blank: the benchmark file's.")
    accumulation: Count = Field(default=1, description="Micro-batches whose gradients make one optimizer step.")
    batchnorm_group: Count = Field(default=1, description="Neighbouring ranks that share batch-norm statistics.")
    spatial_parts: SpatialParts = Field(
        default=1, description="Neighbouring ranks that share each sample, where the benchmark can cut its samples."
    )
    gradient_groups: Count = Field(
        default=1,
        description="Messages that the gradients travel in, those of the last layers first; each leaves when it is "
        "complete, while the backward pass goes on. 1: one message after the backward pass.",
    )
    fusion_bytes: Bytes | None = Field(
        default=None,
        description="Horovod fuses gradients up to this size; blank: all gradients are exchanged as one group.",
    )
    cycle_time_s: Seconds | None = Field(
        default=None, description="Interval at which Horovod checks for new gradients; blank: Horovod's default."
    )
    allreduce_topology: AllreduceTopology = Field(
        default="default",
        description="Way of the gradients between accelerators: ring or tree (NCCL, with the engines horovod and jax), "
        "or hierarchical (Horovod); default: the libraries choose.",
    )
    evaluation_batch: Count | None = Field(
        default=None, description="Samples that a rank evaluates at once; blank: as many as it trains on at once."
    )
    evaluation_cache: EvaluationCache = Field(
        default="none",
        description="Where each rank keeps its part of the validation set, decoded, from the start of the run.",
    )
    training_cache: TrainingCache = Field(
        default="none",
        description="Where each rank keeps the training samples that it may draw, as they were read, from the start of "
        "the run.",
    )

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omit default values, so that plans stay as before these keys existed."""
        fields: dict[str, object] = write(self)
        for name in UNWRITTEN:
            if getattr(self, name) == Point.model_fields[name].default:
                fields.pop(name, None)
        return fields

    @property
    def scale(self) -> str:
        """Nodes x ranks per node, as written in paths."""
        return f"n{self.nodes}x{self.ranks_per_node}"

    @property
    def link_name(self) -> str:
        """Name of its ranks' allreduce with its engine in file names; the usual engine is omitted."""
        return self.scale if self.engine == USUAL_ENGINE else f"{self.scale}_{self.engine}"

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.nodes * self.ranks_per_node

    @property
    def replicas(self) -> int:
        """Number of concurrent replicas of the model: each has its own samples, which its ranks may share."""
        return self.ranks // self.spatial_parts

    def run_id(self, kind: RunKind, repetition: int) -> str:
        """Return the path of a run of this point below results/runs (or results/profiles/PROFILE, or results/weak)."""
        letter = "i" if kind == "weak" else "r"
        return f"{self.benchmark}/{self.variant}/{self.scale}/{letter}{repetition}"


class RunRow(Point):
    """One row of the run table: a point measured `repeats` times."""

    repeats: Annotated[int, Field(ge=1, le=1000, strict=True)]


class WeakRow(Point):
    """One row of the table of weak-scaling groups: `instances` concurrent trainings of the point."""

    instances: Annotated[int, Field(ge=1, le=10000, strict=True)]


class RunPlan(Settings):
    """Everything that defines one run."""

    study: Name
    benchmark: Benchmark
    machine: Machine
    point: Point
    repetition: Annotated[int, Field(ge=1)]
    seed: Seed | None = Field(description="None: drawn from the system's entropy when the run starts.")
    seeds: Literal["derived", "entropy"] = Field(default="derived", description="Source of the seed.")
    kind: RunKind = Field(
        default="timed", description="weak: one instance of a weak-scaling group, whose number is `repetition`."
    )
    instances: Count | None = Field(
        default=None, description="Instances of the group, which train at the same time; None: no weak-scaling group."
    )
    profile: ProfileKind | None = Field(default=None, description="Purpose of a profiled run.")
    max_steps: Count | None = Field(default=None, description="Training steps after which a profiled run ends.")
    rule_set: RuleSet
    time_staging: bool
    limits: Limits
    requires_acceptance_s: Seconds | None = Field(
        default=None, description="Largest age of the acceptance that the run relies on; None: it needs none."
    )
    submission: Submission

    @property
    def run_id(self) -> str:
        """Path of the run below results/runs (or results/profiles/PROFILE, or results/weak)."""
        return self.point.run_id(self.kind, self.repetition)

    @model_validator(mode="after")
    def _instance_of_a_group(self) -> "RunPlan":
        if (self.kind == "weak") != (self.instances is not None):
            raise ValueError("instances: a number for kind 'weak', and for no other kind")
        if self.instances is not None and self.repetition > self.instances:
            raise ValueError(f"repetition {self.repetition} of {self.instances} instances")
        return self

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omit the number of instances and the acceptance if there is none: such plans stay as before these keys."""
        fields: dict[str, object] = write(self)
        for key in ("instances", "requires_acceptance_s"):
            if getattr(self, key) is None:
                fields.pop(key, None)
        return fields

    @property
    def global_batch(self) -> int:
        """Samples per optimizer step over all ranks."""
        return self.point.global_batch or self.benchmark.recipe.global_batch

    @property
    def accelerators_per_node(self) -> int:
        """Accelerators that the run uses per node, shared or not; none on processors."""
        return self.machine.accelerators_of(1, self.point.ranks_per_node)

    @property
    def local_batch(self) -> int:
        """Samples per optimizer step and replica; each of its ranks computes a part of every sample."""
        return self.global_batch // self.point.replicas

    @property
    def micro_batch(self) -> int:
        """Samples whose gradients a replica computes at once."""
        return self.local_batch // self.point.accumulation

    @property
    def evaluation_batch(self) -> int:
        """Samples that a replica evaluates at once."""
        return self.point.evaluation_batch or self.micro_batch

    @property
    def part_bytes(self) -> float:
        """Bytes of the rank that sends most, in a step to ranks that share its samples; 0 without sharing.

        Modelled from the shapes. Planes and rows travel to neighbours only, but TensorFlow's all-to-all sends as much
        to all.
        """
        point, others = self.point, self.point.spatial_parts - 1
        traffic = self.benchmark.part_traffic(point.spatial_parts)
        to_neighbours = others * traffic.to_each_at_most if point.engine == "tensorflow" else traffic.to_neighbours
        numbers = to_neighbours + others * traffic.to_each
        return NUMBER_BYTES[point.precision] * self.local_batch * numbers

    @property
    def epoch_steps(self) -> int:
        """Optimizer steps of an epoch."""
        samples = self.benchmark.data.train_samples
        return -(-samples // self.global_batch) if self.benchmark.remainder == "pad" else samples // self.global_batch

    @property
    def digest(self) -> str:
        """SHA-256 of everything that determines the measurement: plans with equal digests describe the same run.

        Submitter, limits and display names do not affect it.
        """
        own = self.model_dump(mode="json", exclude={*NOT_MEASURED_WITH, "benchmark", "machine"})
        # The location of a profiler only affects the run that it profiles.
        setting = PROFILES[self.profile].setting if self.profile else ""
        texts = {
            **{key: json.dumps(value, sort_keys=True) for key, value in own.items()},
            "benchmark": _benchmark_text(SameObject(self.benchmark)),
            "machine": _machine_text(SameObject(self.machine), setting),
        }
        # The text of json.dumps(..., sort_keys=True) for the whole plan.
        whole = ", ".join(f'"{key}": {texts[key]}' for key in sorted(texts))
        return hashlib.sha256(f"{{{whole}}}".encode()).hexdigest()

    def with_declared(self, machine: Machine | None) -> "RunPlan":
        """Return this plan with what another machine file declares and no run uses; None: nothing is declared.

        If its digest then equals that of a finished run with that machine file, it describes the same run.
        """
        other = _declaring(SameObject(self.machine), SameObject(machine))
        return self if other is self.machine else self.model_copy(update={"machine": other})


# Thousands of plans have the same benchmark and machine, whose text is most of the work of a digest.
@lru_cache(maxsize=64)
def _benchmark_text(benchmark: SameObject[Any]) -> str:
    fields = benchmark.held.model_dump(mode="json")
    fields.pop("title")
    return json.dumps(fields, sort_keys=True)


@lru_cache(maxsize=64)
def _machine_text(machine: SameObject[Machine], profiler_setting: str) -> str:
    fields = machine.held.model_dump(mode="json")
    fields.pop("title")
    # Declared power only enters a run's scores; software is recorded, like this environment's.
    fields.pop("power")
    fields.pop("software", None)
    fields["profilers"] = fields["profilers"].get(profiler_setting)
    # The owner of the scratch folder is irrelevant: a plan is the same with and without the user's id.
    storage = fields["storage"]
    storage["node_local"] = storage["node_local"].replace("-${UID}", "")
    return json.dumps(fields, sort_keys=True)


@lru_cache(maxsize=64)
def _declaring(machine: SameObject[Machine], other: SameObject[Machine | None]) -> Machine:
    """Return a machine with what another declares; itself if that is the same, so that its text stays in the cache."""
    own, told = machine.held, other.held
    parts = {name: getattr(own, name).model_copy(update=_declared(told, name)) for name in DECLARED if name}
    declaring = own.model_copy(update={**_declared(told, ""), **parts})
    return own if declaring == own else declaring


def _declared(machine: Machine | None, part: str) -> dict[str, object]:
    """Return what a part of a machine file declares."""
    if machine is None:
        return dict(DECLARED[part])
    holder = getattr(machine, part) if part else machine
    return {name: getattr(holder, name) for name in DECLARED[part]}


def engine_of_link(name: str) -> str:
    """Return the engine of :attr:`Point.link_name`."""
    return name.partition("_")[2] or USUAL_ENGINE


def derive_seed(study_seed: int, run_id: str) -> int:
    """Return a seed in [1, 2**31) that depends only on the study's seed and the run's name."""
    digest = hashlib.sha256(f"{study_seed}/{run_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % (2**31 - 1) + 1


def runs_at_each_batch(plans: "Mapping[str, RunPlan]") -> list[str]:
    """Return a run of each benchmark at each micro-batch that it trains whole samples with in single precision.

    A benchmark without such a run has its first one.

    Parameters
    ----------
    plans
        By run.
    """
    found: dict[tuple[str, int], str] = {}
    for run, plan in plans.items():
        if plan.point.precision == "fp32" and plan.point.spatial_parts == 1:
            found.setdefault((plan.point.benchmark, plan.micro_batch), run)
    first: dict[str, str] = {}
    for run, plan in plans.items():
        first.setdefault(plan.point.benchmark, run)
    others = [run for benchmark, run in first.items() if benchmark not in {name for name, _ in found}]
    chosen = {*found.values(), *others}
    return [run for run in plans if run in chosen]
