"""Settings of a machine's acceptance: what is measured on every node, how often, and what a verdict demands."""

from collections.abc import Collection, Iterator
from typing import Annotated, Self

from pydantic import Field, model_validator

from hpcai.config.base import Count, Name, Settings
from hpcai.config.machine import Machine
from hpcai.core.messages import Message
from hpcai.core.units import Bytes, Seconds

LIMITS_ORDER = Message(
    "acceptance.limits_order",
    "broken_ratio must be above suspicious_ratio ({suspicious_ratio:g}), found {broken_ratio:g}",
)
Share = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]


class Acceptance(Settings):
    """How nodes are accepted (`snakemake acceptance`); the defaults suit a machine whose nodes share nothing."""

    nodes: Count | None = Field(default=None, description="Nodes to accept; blank: all of the machine file.")
    at_once: Count | None = Field(
        default=None,
        description="Nodes that are measured at the same time; blank: all. Fewer where nodes share a host or a power "
        "budget.",
    )
    passes: Annotated[int, Field(ge=3, le=100, strict=True)] = Field(
        default=6,
        description="Passes over nodes that take turns (fewer at once than there are), and over shared storage; each "
        "counts as one repetition.",
    )
    repeats: Annotated[int, Field(ge=3, le=100, strict=True)] = Field(
        default=7, description="Least number of timed repetitions of every measurement of a node alone."
    )
    precision_ratio: Share = Field(
        default=0.01,
        description="Repetitions go on until the standard error of their median is at most this share of it.",
    )
    measure_s: Seconds = Field(
        default=120.0, description="Longest time of one measurement's repetitions, whatever its precision."
    )
    window_s: Seconds = Field(
        default=0.5, description="Length of one repetition of matrix products; short ones hide a throttled processor."
    )
    file_bytes: Bytes = Field(default=256 * 2**20, description="Written and read per repetition in each storage place.")
    pair_rounds: Count = Field(
        default=8,
        description="Rounds of pairs; in a round, each node is in one pair. Nodes - 1 rounds measure all pairs.",
    )
    ring_nodes: Annotated[int, Field(ge=3, le=1024, strict=True)] = Field(
        default=4, description="Nodes of the rings that are measured at the same time, beside the ring of all nodes."
    )
    benchmark: Name | None = Field(default=None, description="Benchmark of the short training; blank: the first.")
    training_steps: Annotated[int, Field(ge=27, le=100_000, strict=True)] = Field(
        default=200, description="Steps of the short training on every node, and of that on all of them."
    )
    suspicious_ratio: Share = Field(default=0.03, description="Least loss that makes a subject suspicious.")
    broken_ratio: Share = Field(default=0.15, description="Least loss that makes a subject broken.")
    false_alarm_ratio: Share = Field(
        default=0.001, description="Probability that an acceptance of healthy nodes raises any alarm, by its tests."
    )
    assumed_spread_ratio: Share = Field(
        default=0.02,
        description="Assumed standard deviation between healthy nodes where fewer than sixteen are compared.",
    )
    limit_s: Seconds = Field(default=7200.0, description="Time limit of the whole acceptance.")

    @model_validator(mode="after")
    def _limits_in_order(self) -> Self:
        if self.broken_ratio <= self.suspicious_ratio:
            raise ValueError(LIMITS_ORDER(suspicious_ratio=self.suspicious_ratio, broken_ratio=self.broken_ratio))
        return self


def check_acceptance(
    settings: Acceptance, machine: Machine, benchmarks: Collection[str]
) -> Iterator[tuple[str, object, str]]:
    """Yield key, found value and allowed values for each setting that does not suit the study."""
    if settings.benchmark is not None and settings.benchmark not in benchmarks:
        yield "benchmark", settings.benchmark, f"one of the study: {', '.join(benchmarks)}"
    if settings.nodes is not None and settings.nodes > machine.nodes:
        yield "nodes", settings.nodes, f"at most {machine.nodes}, the nodes of {machine.name!r}"
