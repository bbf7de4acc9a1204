"""One machine file describes one machine: nodes, devices, peaks with their source, links and storage."""

from typing import Literal

from pydantic import Field, model_validator

from hpcai.config.base import Count, Index, Name, SafePath, Settings, Text
from hpcai.units import Bytes, BytesPerSecond, FlopPerSecond, Seconds, Watts

Precision = Literal["fp32", "bf16", "fp16"]


class Peak(Settings):
    """Dense peak rate of one device in one precision."""

    rate_flop_per_s: FlopPerSecond
    source: Text = Field(min_length=1, description="Where the number was read: a document with its date.")


class Link(Settings):
    """A link or a memory: what one direction of it can carry."""

    bandwidth_bytes_per_s: BytesPerSecond
    latency_s: Seconds | None = None
    source: Text = Field(min_length=1)


class Device(Settings):
    """What one rank computes on: an accelerator, or a share of the processor's cores."""

    kind: Literal["cpu", "gpu"]
    model: Text = ""
    memory_bytes: Bytes | None = None
    memory_link: Link | None = None
    peaks: dict[Precision, Peak] = Field(default={}, description="Per precision; empty = not declared.")


class Links(Settings):
    """Links between devices; absent = not declared."""

    intra_node: Link | None = None
    network: Link | None = None


class DeclaredPower(Settings):
    """Power of one node while it trains, for machines whose power cannot be measured."""

    node_power_w: Watts
    source: Text = Field(min_length=1, description="Where the number was read: a document or a meter, with its date.")


class Storage(Settings):
    """Where data lies."""

    node_local: SafePath = Field(description="Scratch folder on each node, e.g. ${TMPDIR}.")
    shared: Text = Field(default="", description="What the results and datasets lie on.")


class Profilers(Settings):
    """Which tools look into profiled runs; what is not there is reported as not measured."""

    kernels: Literal["auto", "tensorflow", "nvprof", "nsys"] = Field(
        default="auto",
        description="Times of kernels. auto: TensorFlow's own profiler on processors; on accelerators nvprof below "
        "compute capability 8.0, Nsight Systems above.",
    )
    counters: Literal["auto", "nvprof", "ncu", "perf"] = Field(
        default="auto",
        description="Hardware counters. auto: perf on processors; on accelerators nvprof below compute capability 7.5, "
        "Nsight Compute above.",
    )
    darshan_library: SafePath | None = Field(
        default=None, description="libdarshan.so; blank: looked for in the environment's modules and library paths."
    )


class Machine(Settings):
    """One machine file."""

    name: Name
    title: Text
    nodes: Count
    cores_per_node: Count
    memory_bytes: Bytes
    accelerators_per_node: Index = 0
    ranks_per_node: Count = Field(description="Most ranks that one node takes: its devices.")
    cores_per_rank: Count = Field(description="Cores that each rank may use, the same at every scale.")
    device: Device
    links: Links = Links()
    power: DeclaredPower | None = Field(
        default=None, description="For scores per watt where no power was measured; absent = not declared."
    )
    storage: Storage
    profilers: Profilers = Profilers()

    @model_validator(mode="after")
    def _ranks_fit(self) -> "Machine":
        if self.ranks_per_node * self.cores_per_rank > self.cores_per_node:
            raise ValueError(
                f"ranks_per_node x cores_per_rank = {self.ranks_per_node * self.cores_per_rank} "
                f"is more than cores_per_node = {self.cores_per_node}"
            )
        if (self.device.kind == "gpu") != (self.accelerators_per_node > 0):
            raise ValueError("device.kind 'gpu' needs accelerators_per_node > 0, and 'cpu' needs 0")
        if self.device.kind == "gpu" and self.ranks_per_node > self.accelerators_per_node:
            raise ValueError("ranks_per_node is more than accelerators_per_node: one rank per accelerator at most")
        return self
