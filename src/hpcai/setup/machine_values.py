"""Values of a machine file: for a partition's nodes, or for this host if there is no Slurm."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from hpcai.setup.ask import Answers, fact_of
from hpcai.setup.host_answers import (
    Processor,
    read_df,
    read_lscpu,
    read_memory_mib,
    read_mpi_modules,
    read_nvidia_smi,
    read_ports,
)
from hpcai.setup.limits import find_most_nodes
from hpcai.setup.partition import Partition
from hpcai.setup.site import MachineValues, Value
from hpcai.setup.slurm_answers import Shape, number_in, read_mpi_types, read_nodes, read_settings

Where = Literal["login", "job", "alone"]
"""This host: any of a Slurm cluster, such as a login node; in a job on a node to measure on; or without Slurm."""
SCRATCH = "hpcai-scratch-${UID}"
ANYWHERE = f"${{TMPDIR}}/{SCRATCH}"
MANY_MODULES = 8
NO_NODES = "node-local disk (your centre's documentation: local scratch, $TMPDIR in jobs); /tmp until you change it"
NO_LAYOUT = (
    "sockets, cores and threads of a node: not configured in Slurm; `slurmd -C` on a node tells them, and "
    "ranks_per_node and cores_per_rank follow"
)
NO_MEMORY = (
    "memory of a node: not configured in Slurm (RealMemory); run `free` on a node, and if Slurm then rejects what jobs "
    "request, set `mem_mb: 0` for their rules in set-resources of the profile"
)


@dataclass(frozen=True)
class _Kept:
    """Resources that a node reserves for itself and gives to no job."""

    cores: int
    memory_mib: int


def values_of_partition(answers: Answers, partition: Partition, where: Where, account: str = "") -> MachineValues:
    """Return the machine file for a partition's nodes; processor and accelerators only if this host is one of them."""
    shape, settings = partition.shape, fact_of(answers, "config", read_settings)
    kept = _kept(answers, partition)
    cores = _cores(partition, kept)
    gpus = _gpus(answers, shape, where)
    ranks, per_rank = _shares(int(cores.value or 1), shape)
    cluster = plain_name(settings.get("clustername", ""), "cluster")
    return MachineValues(
        name=plain_name(f"{cluster}_{partition.name}", "cluster"),
        title=f"Partition {partition.name} of {settings.get('clustername', 'a Slurm cluster')}",
        nodes=find_most_nodes(answers, partition, account),
        cores_per_node=cores,
        memory_bytes=_memory(partition, settings, kept),
        ranks_per_node=ranks,
        cores_per_rank=per_rank,
        node_local=_node_local(answers, shape, settings, where),
        shared=_shared(answers),
        network=_network(answers, where),
        notes=tuple(_notes(answers)),
        **gpus,
    )


def values_of_host(answers: Answers, hostname: str) -> MachineValues:
    """Return the machine file for this host alone; unreported values are gaps with a default that runs anywhere."""
    processor = fact_of(answers, "lscpu", read_lscpu)
    found = processor or Processor("", 1, 1, None)
    cores = Value(found.cores, f"lscpu: {found.sockets} sockets, {found.cores} cores; one thread of each")
    if processor is None:
        cores = Value(1, gap="cores of this machine: not reported by lscpu")
    memory_mib = fact_of(answers, "memory", read_memory_mib)
    memory = Value(f"{memory_mib} MiB", "MemTotal of /proc/meminfo")
    if memory_mib is None:
        memory = Value("1 GiB", gap="memory of this machine: not in /proc/meminfo")
    accelerators = fact_of(answers, "gpus", read_nvidia_smi)
    gpus = (("", len(accelerators)),) if accelerators else ()
    shape = Shape(found.sockets, found.cores // found.sockets, 1, 0, 0, gpus, frozenset())
    ranks, per_rank = _shares(found.cores, shape)
    return MachineValues(
        name=plain_name(hostname, "machine"),
        title=f"This machine, {hostname}",
        nodes=Value(1, "no Slurm here: one node"),
        cores_per_node=cores,
        memory_bytes=memory,
        ranks_per_node=ranks,
        cores_per_rank=per_rank,
        node_local=_node_local(answers, shape, {}, "alone"),
        shared=replace(_shared(answers), gap=""),
        notes=tuple(_notes(answers)),
        **_gpus(answers, shape, "alone"),
    )


def values_of_any() -> MachineValues:
    """Return a machine file that fits every machine: two cores."""
    chosen = "chosen: every machine has it"
    return MachineValues(
        name="two_cores",
        title="Two cores of this machine",
        nodes=Value(1, chosen),
        cores_per_node=Value(2, chosen),
        memory_bytes=Value("4 GiB", chosen),
        ranks_per_node=Value(2, "one rank for each core"),
        cores_per_rank=Value(1),
        node_local=Value(ANYWHERE),
        shared=Value("the working directory"),
        model=Value("one core"),
    )


def _kept(answers: Answers, partition: Partition) -> _Kept:
    """Return the largest reservation of any node of the chosen shape (CoreSpecCount, CPUEfctv, MemSpecLimit)."""
    kept = _Kept(0, 0)
    shape = partition.shape
    for node in filter(partition.has_node, fact_of(answers, "nodes", read_nodes).values()):
        total = number_in(node, "CPUTot") or shape.cores
        free = number_in(node, "CPUEfctv") or total
        special = number_in(node, "CoreSpecCount") or 0
        by_cpus = shape.cores - free // max(1, total // shape.cores)
        kept = _Kept(max(kept.cores, special, by_cpus), max(kept.memory_mib, number_in(node, "MemSpecLimit") or 0))
    return kept


def _cores(partition: Partition, kept: _Kept) -> Value:
    shape = partition.shape
    source = f"sinfo %X x %Y: {shape.sockets} sockets x {shape.cores_per_socket} cores; one thread of each"
    cores = shape.cores - kept.cores
    if kept.cores:
        source += f"; minus {kept.cores} that Slurm reserves (scontrol show node: CoreSpecCount, CPUEfctv)"
    gaps = [NO_LAYOUT] if shape.is_flat else []
    most = number_in(partition.fields, "MaxCPUsPerNode")
    if most is not None and most < shape.cores * shape.threads_per_core:
        cores, source = min(cores, most // shape.threads_per_core), f"scontrol show partition: MaxCPUsPerNode={most}"
        gaps.append(
            f"the partition gives a job at most {most} CPUs of a node: whether it accepts whole-node jobs (--exclusive)"
        )
    return Value(cores, source, "; ".join(gaps))


def _memory(partition: Partition, settings: Mapping[str, str], kept: _Kept) -> Value:
    real = partition.shape.memory_mib - kept.memory_mib
    source = f"sinfo %m: {partition.shape.memory_mib} MiB"
    if kept.memory_mib:
        source += f", less MemSpecLimit={kept.memory_mib} of scontrol show node"
    limits, cpus = {real: source}, partition.shape.cores * partition.shape.threads_per_core
    of_cluster = {key: settings.get(key.lower(), "") for key in ("MaxMemPerNode", "MaxMemPerCPU")}
    for place, fields in (("partition", partition.fields), ("config", of_cluster)):
        if most := number_in(fields, "MaxMemPerNode"):
            limits.setdefault(most, f"scontrol show {place}: MaxMemPerNode={most}")
        if per_cpu := number_in(fields, "MaxMemPerCPU"):
            limits.setdefault(per_cpu * cpus, f"scontrol show {place}: MaxMemPerCPU={per_cpu}, of {cpus} CPUs")
    least = min(limits)
    if least <= 1:  # Slurm's default for RealMemory is 1
        return Value("1 GiB", gap=NO_MEMORY)
    return Value(f"{least} MiB", limits[least])


def _shares(cores: int, shape: Shape) -> tuple[Value, Value]:
    """Choose ranks per node and cores per rank: one rank per accelerator, otherwise per socket."""
    sockets = 1 if shape.is_flat else shape.sockets
    if shape.gpu_count:
        ranks, why = min(shape.gpu_count, cores), "chosen: one rank for each accelerator"
    elif 1 < sockets <= cores:
        ranks, why = sockets, "chosen: one rank for each socket"
    else:
        ranks, why = min(2, cores), "chosen: two ranks, to have a second scale to compare"
    return Value(ranks, why), Value(cores // ranks, "the node's cores in equal parts")


def _gpus(answers: Answers, shape: Shape, where: Where) -> dict[str, Value]:
    """Return the values about a rank's device."""
    if not shape.gpu_count:
        processor = fact_of(answers, "lscpu", read_lscpu)
        if where != "login" and processor and processor.model:
            return {"model": Value(f"cores of {processor.model}", "lscpu")}
        return {"model": Value(None, gap="model of the processors: `lscpu` on such a node")}
    by_slurm = ", ".join(f"{count} x {kind}" if kind else str(count) for kind, count in shape.gpus)
    source = "nvidia-smi" if where == "alone" else f"sinfo %G: {by_slurm}"
    types = [kind for kind, _ in shape.gpus if kind]
    gap = "which accelerators a run should use: one node has several types" if len(types) > 1 else ""
    values = {"accelerators_per_node": Value(shape.gpu_count, source, gap)}
    found = fact_of(answers, "gpus", read_nvidia_smi) if where != "login" else ()
    models = {one.model for one in found}
    if len(models) == 1:
        memory = found[0].memory_mib
        size = Value(f"{memory} MiB", "nvidia-smi") if memory else Value(None, gap="`nvidia-smi` reports no memory")
        return values | {"model": Value(found[0].model, "nvidia-smi"), "device_memory": size}
    ask = "`nvidia-smi --query-gpu=name,memory.total --format=csv` on such a node"
    model = (
        Value(types[0], "type of the gres in sinfo %G", f"full name of the accelerator: {ask}")
        if len(types) == 1
        else Value(None, gap=f"name of the accelerator: {ask}")
    )
    return values | {"model": model, "device_memory": Value(None, gap=f"memory of one accelerator: {ask}")}


def _node_local(answers: Answers, shape: Shape, settings: Mapping[str, str], where: Where) -> Value:
    if where != "login":
        disks = [disk for disk in fact_of(answers, "disks", read_df)[1:] if disk.place == "local"]
        if disks:
            best = max(disks, key=lambda disk: disk.available_bytes)
            source = f"df: {best.kind} at {best.target}, {best.available_bytes >> 30} GiB free"
            return Value(f"{_below(best.target)}/{SCRATCH}", source)
    place = settings.get("tmpfs", "")
    if shape.disk_mib and re.fullmatch(r"/[\w./-]+", place):
        source = f"scontrol show config: TmpFS={place}; sinfo %d: {shape.disk_mib} MiB"
        return Value(f"{place.rstrip('/')}/{SCRATCH}", source)
    return Value(ANYWHERE, gap=NO_NODES)


def _below(target: str) -> str:
    # The root file system is written to below /tmp.
    return "/tmp" if target == "/" else target.rstrip("/")  # noqa: S108  the kernel reports it as a disk


def _shared(answers: Answers) -> Value:
    disks = fact_of(answers, "disks", read_df)
    if not disks:
        return Value("the working directory", gap="the file system of the study: not reported by df")
    disk = disks[0]
    gap = "" if disk.place == "shared" else "whether all nodes see this folder: its file system is not a shared one"
    return Value(f"{disk.kind} at {disk.target}", "df", gap)


def _network(answers: Answers, where: Where) -> Value:
    ask = "`ibstat` on a node, or your centre's documentation"
    ports = fact_of(answers, "network", read_ports)
    listed = "; ".join(f"{name}: {rate}" for name, rate in ports)
    if where != "job" or len(ports) != 1:
        return Value(None, gap=f"rate of one direction: {ask}" + (f"; ports of this host: {listed}" if listed else ""))
    match = re.match(r"(\d+(?:\.\d+)?) Gb/sec", ports[0][1])
    if not match:
        return Value(None, gap=f"rate of one direction: {ask}")
    return Value(
        f"{match[1]} Gbit/s", f"/sys/class/infiniband of a node: {listed}; as reported by the port, not measured"
    )


def _notes(answers: Answers) -> Iterator[str]:
    modules = fact_of(answers, "modules", read_mpi_modules)
    if modules:
        more = f" and {len(modules) - MANY_MODULES} more" if len(modules) > MANY_MODULES else ""
        yield f"MPI modules in module avail: {', '.join(modules[:MANY_MODULES])}{more}"
    version = fact_of(answers, "mpirun", str).splitlines()
    if version:
        yield f"mpirun --version: {version[0]}"
    types = fact_of(answers, "mpi_types", read_mpi_types)
    if types:
        yield f"srun --mpi=list: {', '.join(types)}"


def plain_name(text: str, otherwise: str) -> str:
    """Turn any text into a name that is valid in files and labels."""
    plain = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    return (plain if plain[:1].isalpha() else f"{otherwise}_{plain}".rstrip("_"))[:40].rstrip("_")


def renamed(values: MachineValues, name: str) -> MachineValues:
    """Return the values under another name."""
    return replace(values, name=plain_name(name, "machine")) if name else values
