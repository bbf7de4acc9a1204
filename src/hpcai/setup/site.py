"""What is written for a machine: every value with the command it came from, or a gap with what to look up."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Value:
    """One value of a file; None is not known.

    ``gap`` says what is open, also where there is a value to begin with.
    """

    value: str | int | None
    source: str = ""
    gap: str = ""


@dataclass(frozen=True)
class MachineValues:
    """The machine file."""

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
    """What was found besides: modules, MPI."""


@dataclass(frozen=True)
class ProfileValues:
    """The profile for Slurm."""

    partition: Value
    account: Value
    qos: Value
    constraint: Value
    mem_mb: Value
    runtime: Value
    """Minutes, of downloads and packing."""
    jobs: Value
    status_command: Value
    machine_runtime: Value
    """Minutes, of what is measured of the machine; None: the workflow's own limit fits."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Site:
    """All that the files of a study are filled with."""

    machine: MachineValues
    run_s: Value
    profile: ProfileValues | None = None
    asked: tuple[tuple[str, str], ...] = field(default=())
    """Commands that gave no answer, with the reason."""
