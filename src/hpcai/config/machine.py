"""One machine file describes one machine: nodes, devices, peaks with their source, links and storage."""

import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    model_serializer,
    model_validator,
)

from hpcai.config.base import Count, Index, Name, SafePath, Settings, Text
from hpcai.core.errors import LaunchError
from hpcai.core.messages import Message, at
from hpcai.core.units import Bytes, BytesPerSecond, FlopPerSecond, Seconds, Watts

Precision = Literal["fp32", "tf32", "bf16", "fp16"]
Topology = Literal["star", "bus", "mesh", "ring", "tree"]
Efficiency = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]

ONE_RANK_EACH = Message(
    "machine.one_rank_each",
    "ranks_per_node is more than accelerators_per_node: one rank per accelerator at most, but with "
    "device.shared_by_ranks",
)
NOT_SET = Message(
    "machine.not_set",
    "found {text} with a variable that is not set on {host} ({variables}), expected one of the job's environment; "
    "set it, or write the value into the machine file",
)
NOT_ABSOLUTE = Message(
    "machine.not_absolute",
    "found {folder} on {host}, expected a folder that begins with /; correct it in the machine file",
)


class Peak(Settings):
    """Dense peak rate of one device in one precision."""

    rate_flop_per_s: FlopPerSecond
    source: Text = Field(min_length=1, description="Source of the number: a document with its date.")


class Link(Settings):
    """A link or a memory: the rate of one direction."""

    bandwidth_bytes_per_s: BytesPerSecond
    latency_s: Seconds | None = None
    source: Text = Field(min_length=1)


class Device(Settings):
    """Device of one rank: an accelerator, or a share of the processor's cores."""

    kind: Literal["cpu", "gpu"]
    model: Text = ""
    memory_bytes: Bytes | None = None
    memory_link: Link | None = None
    peaks: dict[Precision, Peak] = Field(default={}, description="Per precision; empty = not declared.")
    shared_by_ranks: bool = Field(
        default=False,
        description="Whether several ranks may compute on one accelerator; the plan in each record says so.",
    )

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omit the permission to share if it is not given, so that plans stay as before this key existed."""
        fields: dict[str, object] = write(self)
        if not self.shared_by_ranks:
            fields.pop("shared_by_ranks", None)
        return fields


class Links(Settings):
    """Links between devices; undeclared if absent."""

    intra_node: Link | None = None
    network: Link | None = None


class DeclaredPower(Settings):
    """Power of one node while it trains, for machines whose power cannot be measured."""

    node_power_w: Watts
    source: Text = Field(min_length=1, description="Source of the number: a document or a meter, with its date.")


class Storage(Settings):
    """Locations of data."""

    node_local: SafePath = Field(
        description=(
            "Scratch folder on each node, e.g. ${TMPDIR}. Nodes that share one stage to separate subfolders, and "
            "the record says so."
        )
    )
    shared: Text = Field(default="", description="File system of the results and datasets.")


RedfishAddress = Annotated[str, StringConstraints(pattern=r"^(https?://[A-Za-z0-9_.{}:/-]{1,500}(#[/A-Za-z0-9]*)?)?$")]
"""No user, password or query: an address is shown in reports."""


class Profilers(Settings):
    """Tools for profiled runs; missing tools are reported as not measured."""

    kernels: Literal["auto", "tensorflow", "nvprof", "nsys", "rocprofv3"] = Field(
        default="auto",
        description="Kernel times. auto: TensorFlow's own profiler on processors; on accelerators nvprof below "
        "compute capability 8.0, Nsight Systems above. AMD's accelerators: rocprofv3.",
    )
    counters: Literal["auto", "nvprof", "ncu", "perf", "likwid"] = Field(
        default="auto",
        description="Hardware counters. auto: perf on processors, or LIKWID where perf may not count memory "
        "traffic; on accelerators nvprof below compute capability 7.5, "
        "Nsight Compute above.",
    )
    darshan_library: SafePath | None = Field(
        default=None, description="libdarshan.so; blank: searched in the environment's modules and library paths."
    )
    redfish: RedfishAddress = Field(
        default="",
        description="Address of a node's power by Redfish: its Power or EnvironmentMetrics. {host} is the node's short "
        "name; #/PowerControl/0 chooses among several. Name and password are those of ~/.netrc. Blank: not asked.",
    )

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omit what is blank: plans stay as they were before there was this key."""
        fields: dict[str, object] = write(self)
        if not self.redfish:
            fields.pop("redfish", None)
        return fields


ModuleName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./+:@=-]{0,199}$")]
"""A module as shown by ``module list``. Snakemake inserts it into shell text: no blanks, quotes or variables."""

FORGETTING = ("--cleanenv", "-e", "--containall", "-C")
"""Options that hide environment variables from an image, which ranks need to find each other."""


def _passes_variables(option: str) -> str:
    if option in FORGETTING:
        raise ValueError("an option that passes all environment variables, because ranks find each other through them")
    return option


ContainerOption = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_./${}+=,:@%-]{1,1000}$"), AfterValidator(_passes_variables)
]
"""One word of a command line; ``${VARIABLE}`` is replaced on the machine that uses it."""


class Software(Settings):
    """Software of the computing jobs, in addition to this environment."""

    modules: tuple[ModuleName, ...] = Field(
        default=(),
        description=(
            "Environment modules, named as `module list` shows them. Snakemake loads them in compute jobs if the "
            "profile sets `software-deployment-method: env-modules`; all other modules are unloaded first."
        ),
    )
    container: SafePath | None = Field(
        default=None,
        description=(
            "Container image of the ranks: a .sif file or an unpacked folder. An address is not allowed: run "
            "`apptainer pull` once instead of having each rank download the image."
        ),
    )
    container_command: Literal["apptainer", "singularity"] = "apptainer"
    container_options: tuple[ContainerOption, ...] = Field(
        default=(), description="Additional arguments of `exec`, for example --nv, or --bind and a folder."
    )

    @model_validator(mode="after")
    def _options_of_an_image(self) -> "Software":
        if self.container_options and self.container is None:
            raise ValueError("container_options without a container")
        return self


class HplEfficiencies(Settings):
    """Efficiencies of HPL relative to the peaks and the network."""

    blas_ratio: Efficiency = Field(description="Efficiency of the library, on both processors and accelerators.")
    processor_ratio: Efficiency
    accelerator_ratio: Efficiency
    network_ratio: Efficiency
    source: Text = Field(min_length=1)


CommandWord = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_./${}+=,:@%-]{1,1000}$")]
"""One word of a command; ``${VARIABLE}`` is replaced on the machine that uses it."""


HplSource = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_./${}+=,:@%-]{0,1000}$")]
"""A path, in which ``${VARIABLE}`` is replaced on the machine that uses it, or an address."""
HPL_2_3_SHA256 = "32c5c17d22330e6f2337b681aded51637fb6008d3f0eb7c277b163fadd612830"
"""Of hpl-2.3.tar.gz by its authors (netlib.org/benchmark/hpl), as Spack and EasyBuild pin it."""


class HplMachine(Settings):
    """How to run HPL, and inputs of its model besides nodes, accelerators and `links.network`; undeclared if absent."""

    processor_peak: Peak | None = Field(default=None, description="fp64, all processors of one node.")
    accelerator_peak: Peak | None = Field(default=None, description="fp64, one accelerator.")
    host_link: Link | None = Field(default=None, description="Between processors and accelerators, one direction.")
    topology: Topology | None = None
    efficiencies: HplEfficiencies | None = None
    command: tuple[CommandWord, ...] = Field(
        default=(),
        description="How a site's HPL is started, a word each, with {processes} for their number. "
        "It finds HPL.dat in its folder. Blank: hpl.source, or Debian's hpcc.",
    )
    source: HplSource = Field(
        default="",
        description="HPL's own source to compile if there is no command: a path to hpl-2.3.tar.gz, or its address. "
        "Blank: nothing is compiled.",
    )
    source_sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] = Field(
        default=HPL_2_3_SHA256, description="Checksum of hpl.source; by default that of the authors' HPL 2.3."
    )
    outputs: tuple[SafePath, ...] = Field(
        default=(),
        description="Outputs of HPL or HPL-MxP that were made here by other means, for the machine's table.",
    )

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Leave out what is blank: plans stay as they were before there were these keys."""
        fields: dict[str, object] = write(self)
        blank = [key for key in ("command", "outputs", "source") if not getattr(self, key)]
        for key in (*blank, *([] if self.source else ["source_sha256"])):
            fields.pop(key, None)
        return fields


class Machine(Settings):
    """One machine file."""

    name: Name
    title: Text
    nodes: Count
    cores_per_node: Count
    memory_bytes: Bytes
    accelerators_per_node: Index = 0
    ranks_per_node: Count = Field(description="Maximum number of ranks per node, one per device.")
    cores_per_rank: Count = Field(description="Cores per rank, the same at every scale.")
    device: Device
    links: Links = Links()
    power: DeclaredPower | None = Field(
        default=None, description="For scores per watt if no power was measured; absent = not declared."
    )
    storage: Storage
    profilers: Profilers = Profilers()
    software: Software | None = Field(default=None, description="Environment modules and image; absent = neither.")
    hpl: HplMachine | None = Field(default=None, description="For predictions of HPL; absent = not declared.")

    @property
    def modules(self) -> tuple[str, ...]:
        """Environment modules of the computing jobs."""
        return self.software.modules if self.software else ()

    def accelerators_of(self, nodes: int, ranks: int) -> int:
        """Return the accelerators that ranks on some nodes use: one each, but no more than the nodes have."""
        return min(ranks, nodes * self.accelerators_per_node)

    def devices_of(self, nodes: int, ranks: int) -> int:
        """Return the devices that ranks on some nodes use: accelerators, or each rank's share of a processor."""
        return self.accelerators_of(nodes, ranks) if self.accelerators_per_node else ranks

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omit software and HPL if not given, so that plans stay as before these keys existed."""
        fields: dict[str, object] = write(self)
        for key in ("software", "hpl"):
            if getattr(self, key) is None:
                fields.pop(key, None)
        return fields

    @model_validator(mode="after")
    def _ranks_fit(self) -> "Machine":
        if self.ranks_per_node * self.cores_per_rank > self.cores_per_node:
            raise ValueError(
                f"ranks_per_node x cores_per_rank = {self.ranks_per_node * self.cores_per_rank} "
                f"is more than cores_per_node = {self.cores_per_node}"
            )
        if (self.device.kind == "gpu") != (self.accelerators_per_node > 0):
            raise ValueError("device.kind 'gpu' needs accelerators_per_node > 0, and 'cpu' needs 0")
        more_ranks = self.ranks_per_node > self.accelerators_per_node
        if self.device.kind == "gpu" and more_ranks and not self.device.shared_by_ranks:
            raise ValueError(ONE_RANK_EACH())
        return self


def scratch_path(node_local: str) -> str:
    """Return the scratch folder of a machine file, for this user on this node.

    ``${UID}`` is the user's id, which shells do not export, and ``${TMPDIR}`` defaults to /tmp (as in POSIX); any other
    unset variable is left unchanged, because a login node need not have those of a job.
    """
    known = {"TMPDIR": "/tmp", **os.environ, "UID": str(os.getuid())}  # noqa: S108  POSIX's default
    return Template(node_local).safe_substitute(known)


def require_scratch(node_local: str) -> Path:
    """Return the scratch folder as :func:`scratch_path` does, before anything is written there.

    Raises
    ------
    LaunchError
        If a variable is not set on this node, or the path is relative: data would go below the working folder, which is
        on shared storage.
    """
    key = "storage.node_local"
    folder = require_set(key, node_local, scratch_path(node_local))
    if not folder.startswith("/"):
        raise LaunchError(at(key, NOT_ABSOLUTE(folder=folder or "nothing", host=this_node())))
    return Path(folder)


def require_set(key: str, text: str, expanded: str) -> str:
    """Return a value of a machine file with its variables replaced; refuse it if some are not set on this node.

    Parameters
    ----------
    key
        Key of the machine file, for the message.
    text, expanded
        The value in the file, and with all variables replaced that are set.

    Raises
    ------
    LaunchError
        If a variable is left.
    """
    if "$" in expanded:
        left = ", ".join(re.findall(r"\$\{?(\w+)", expanded)) or "$"
        raise LaunchError(at(key, NOT_SET(text=text, host=this_node(), variables=left)))
    return expanded


def this_node(environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of this node as known to Slurm, as far as possible."""
    return environment.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
