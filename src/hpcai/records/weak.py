"""The record of a weak-scaling group: M instances of one benchmark that trained at the same time (MLPerf HPC rules).

The records of the instances are ordinary run records beside it, in ``i1/``, ``i2/``, ...; this one says what belongs
together, who had which part of the machine, and which instances count.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hpcai.core.messages import Message
from hpcai.records.run import Outcome

SAME_PART = Message("weak.same_part", "instances {first} and {second} both had {part} of {host}")

GROUP = "group.json"
Pruned = Literal["failed", "not_converged", "equal_seed"]
"""Why an instance does not count; its log is submitted all the same, below ``pruned_results``."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NodeShare(_Part):
    """What one instance has of one node for itself."""

    host: str
    cores: tuple[int, ...] = Field(description="Empty: the batch system chose them, and no rank reported.")
    accelerators: tuple[str, ...] = Field(
        default=(), description="As CUDA_VISIBLE_DEVICES names them; empty on processors."
    )


class InstanceShare(_Part):
    """What one instance has of the machine; written into its raw folder before it starts."""

    instance: int = Field(ge=1)
    nodes: tuple[NodeShare, ...] = Field(min_length=1)


class Extent(_Part):
    """A scale in the units that MLPerf HPC uses: nodes, or their accelerators where they have any."""

    nodes: int = Field(ge=1)
    ranks: int = Field(ge=1)
    accelerators: int = Field(ge=0, description="One for each rank, none on processors.")

    @property
    def units(self) -> int:
        """Accelerators, or nodes of a machine without: as the package's result summarizer counts instances."""
        return self.accelerators or self.nodes


class Instance(_Part):
    """One instance of a group."""

    number: int = Field(ge=1)
    run_id: str
    attempt: str
    seed: int
    outcome: Outcome
    reason: str
    pruned: Pruned | None = Field(description="None: it counts.")
    pruned_reason: str = Field(default="", description="Blank if it counts.")
    shares: tuple[NodeShare, ...]
    run_start_monotonic_s: float | None = Field(description="None: no run_start was logged.")
    run_stop_monotonic_s: float | None = Field(description="None: the training did not get to its end.")


class WeakGroup(_Part):
    """One weak-scaling group: M instances on scale S each, on a whole scale T, and which of them count."""

    schema_version: Literal[1] = 1
    method: Literal["measured"] = "measured"
    group: str = Field(description="Folder below results/weak: benchmark/variant/scale.")
    benchmark: str
    variant: str
    scale: str
    attempt: str = Field(description="Beginning of the names of the instances' attempts.")
    started_utc: str
    instances: int = Field(ge=1, description="M.")
    counted: int = Field(ge=0, description="M': instances that are not pruned.")
    instance_extent: Extent = Field(description="S, of each instance.")
    whole_extent: Extent = Field(description="T, of all instances together.")
    time_to_train_all_monotonic_s: float | None = Field(
        description="Last run_stop - first run_start over the counted instances, on the node's monotonic clock, for "
        "comparison with the logs' TTTa; None: no instance counts, or they are on nodes with clocks of their own."
    )
    results: tuple[Instance, ...] = Field(description="By number.")

    def counted_results(self) -> Iterator[Instance]:
        """Yield the instances that count."""
        return (instance for instance in self.results if instance.pruned is None)

    @model_validator(mode="after")
    def _tells_one_story(self) -> "WeakGroup":
        if [instance.number for instance in self.results] != list(range(1, self.instances + 1)):
            raise ValueError("results are not the instances 1, 2, 3, ...")
        if self.counted != len(list(self.counted_results())):
            raise ValueError("counted is not the number of instances without `pruned`")
        small, whole = self.instance_extent, self.whole_extent
        if not small.units <= whole.units <= self.instances * small.units:
            raise ValueError("S <= T <= M x S does not hold (MLPerf HPC rules, weak scaling)")
        if shared := shared_resources(self.results):
            raise ValueError(shared)
        return self


def shared_resources(instances: Iterable[Instance]) -> str:
    """Say which two instances had the same core or accelerator; blank if none had."""
    owners: dict[str, int] = {}
    for instance in instances:
        for share in instance.shares:
            parts = [f"core {core}" for core in share.cores]
            parts += [f"accelerator {accelerator}" for accelerator in share.accelerators]
            for part in parts:
                owner = owners.setdefault(f"{part} of {share.host}", instance.number)
                if owner != instance.number:
                    return SAME_PART(first=owner, second=instance.number, part=part, host=share.host)
    return ""
