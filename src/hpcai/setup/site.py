"""Values to write for a machine: each with its source command, or a gap with what to look up."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Value:
    """One value of a file; None: unknown.

    ``gap`` describes what is open, possibly next to a provisional value.
    """

    value: str | int | None
    source: str = ""
    gap: str = ""


@dataclass(frozen=True)
class MachineValues:
    """Values of the machine file."""

    name: str
    title: str
    nodes: Value
    cores_per_node: Value
    memory_bytes: Value
    ranks_per_node: Value
    cores_per_rank: Value
    node_local: Value
    shared: Value
    accelerators_per_node: Value = Value(0)
    model: Value = Value(None)
    device_memory: Value = Value(None)
    network: Value = Value(None)
    notes: tuple[str, ...] = ()
    """Other findings: modules, MPI."""


@dataclass(frozen=True)
class ProfileValues:
    """Values of the Slurm profile."""

    partition: Value
    account: Value
    qos: Value
    constraint: Value
    mem_mb: Value
    runtime: Value
    """For downloads and packing [min]."""
    jobs: Value
    status_command: Value
    machine_runtime: Value
    """For measuring the machine [min]; None: the workflow's own limit fits."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class StudyValues:
    """Time limits of the study file [s]."""

    run_s: Value
    acceptance_s: Value = Value(None)
    """None: the default fits."""


@dataclass(frozen=True)
class Site:
    """All values for the files of a study."""

    machine: MachineValues
    study: StudyValues
    profile: ProfileValues | None = None
    asked: tuple[tuple[str, str], ...] = field(default=())
    """Commands without an answer, with the reason."""
