"""The record of a weak-scaling group: M instances of one benchmark trained concurrently (MLPerf HPC rules).

The instances have ordinary run records next to it, in ``i1/``, ``i2/``, ... This record adds which instances belong
together, their parts of the machine, and which of them count.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hpcai.core.messages import Message
from hpcai.records.run import Outcome

SAME_PART = Message("weak.same_part", "instances {first} and {second} both had {part} of {host}")

GROUP = "group.json"
Pruned = Literal["failed", "not_converged", "equal_seed"]
"""Why an instance does not count; its log is still submitted, below ``pruned_results``."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NodeShare(_Part):
    """Exclusive share of one node for one instance."""

    host: str
    cores: tuple[int, ...] = Field(description="Empty: the batch system chose them, and no rank reported.")
    accelerators: tuple[str, ...] = Field(
        default=(), description="As CUDA_VISIBLE_DEVICES names them; empty on processors."
    )


class InstanceShare(_Part):
    """Share of the machine for one instance, written to its raw folder before it starts."""

    instance: int = Field(ge=1)
    nodes: tuple[NodeShare, ...] = Field(min_length=1)


class Extent(_Part):
    """A scale in the units of MLPerf HPC: nodes, or their accelerators if there are any."""

    nodes: int = Field(ge=1)
    ranks: int = Field(ge=1)
    accelerators: int = Field(ge=0, description="One for each rank, none on processors.")

    @property
    def units(self) -> int:
        """Accelerators, or nodes of a machine without them, as in the package's result summarizer."""
        return self.accelerators or self.nodes

    @property
    def accelerators_per_node(self) -> int:
        """Accelerators of a node, rounded up where nodes have different numbers."""
        return -(-self.accelerators // self.nodes)


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
    run_stop_monotonic_s: float | None = Field(description="None: the training did not finish.")


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
    """Name two instances that shared a core or accelerator; blank if there are none."""
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
