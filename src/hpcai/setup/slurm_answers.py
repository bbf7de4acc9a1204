"""Parse the output of Slurm's commands on partitions, nodes, settings and accounts: Slurm 20 to 25."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hpcai.setup.ask import ASSOCIATION_FIELDS, QOS_FIELDS, SINFO_FIELDS, SUBMIT_FIELDS
from hpcai.slurm.text import duration_in_seconds

_KEY = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z/]*)=")
_SETTING = re.compile(r"^([A-Za-z][\w/]*)\s*=\s*(.*?)\s*$", re.MULTILINE)
_GPU = re.compile(r"gpu:(?:(?P<type>[^:,()]+):)?(?P<count>\d+)")
_UNUSABLE = re.compile(r"down|drain|fail|unk|inval|err|fut|maint|block", re.IGNORECASE)
_NOTHING = {"", "(null)", "N/A", "NONE", "UNLIMITED", "INFINITE"}
MOST_SOCKETS = 8
"""Sockets of the largest nodes that are common."""


@dataclass(frozen=True)
class Shape:
    """Hardware of a node; all nodes of one shape are alike."""

    sockets: int
    cores_per_socket: int
    threads_per_core: int
    memory_mib: int
    disk_mib: int
    gpus: tuple[tuple[str, int], ...]
    """Type (blank if the site gives none) and number."""
    features: frozenset[str]

    @property
    def cores(self) -> int:
        """Cores of a node, counting one hardware thread each."""
        return self.sockets * self.cores_per_socket

    @property
    def is_flat(self) -> bool:
        """Whether only the number of CPUs is known: each, perhaps a hardware thread, then counts as a socket."""
        return self.cores_per_socket == 1 and self.sockets > MOST_SOCKETS

    @property
    def gpu_count(self) -> int:
        """Accelerators of a node."""
        return sum(count for _, count in self.gpus)


@dataclass(frozen=True)
class NodeGroup:
    """Nodes of one shape and one state in a partition."""

    partition: str
    nodes: int
    is_usable: bool
    shape: Shape


@dataclass(frozen=True)
class Association:
    """One of a user's associations: an account on a cluster, perhaps for one partition only."""

    cluster: str
    account: str
    partition: str
    qos: tuple[str, ...]
    default_qos: str
    wall_s: float | None
    most_jobs: int | None
    most_of_job: Mapping[str, int]
    """Limits per job by resource: ``node``, ``cpu``, ``gres/gpu``."""


@dataclass(frozen=True)
class QosLimits:
    """Limits that a QOS sets for a job, and for all jobs of a user or an account."""

    wall_s: float | None
    most_of_job: Mapping[str, int]
    most_of_user: Mapping[str, int]
    """Limits of all jobs of a user together, by resource; one job cannot have more."""
    most_jobs: Mapping[str, int]
    """Limits of the number of jobs, by the name of the field (`ask.SUBMIT_FIELDS`)."""


def read_sinfo(text: str) -> tuple[NodeGroup, ...]:
    """Return the groups of nodes from sinfo's output in `ask.SINFO_FIELDS`; other lines are ignored."""
    groups = []
    for line in text.splitlines():
        fields = line.strip().split("|")
        if len(fields) != len(SINFO_FIELDS):
            continue
        partition, up, nodes, state, *hardware, gres, features = fields
        numbers = [re.match(r"\d+", number.strip()) for number in (nodes, *hardware)]
        if None in numbers:
            continue
        count, sockets, cores, threads, memory, disk = (int(number[0]) for number in numbers if number)
        shape = Shape(sockets, cores, threads, memory, disk, read_gpus(gres), frozenset(_names(features)))
        usable = up.strip() == "up" and not _UNUSABLE.match(state) and not state.strip().endswith("*")
        groups.append(NodeGroup(partition.strip().removesuffix("*"), count, usable, shape))
    return tuple(groups)


def read_gpus(gres: str) -> tuple[tuple[str, int], ...]:
    """Return types and numbers of accelerators in a gres, such as ``gpu:a100:4(S:0-1),nvme:1``."""
    parts = re.split(r",(?![^(]*\))", gres)
    found = [_GPU.match(part.strip()) for part in parts]
    return tuple(sorted((match["type"] or "", int(match["count"])) for match in found if match))


def read_records(text: str, key: str) -> dict[str, dict[str, str]]:
    """Return the records of ``scontrol show ... --oneliner`` by name.

    Values may contain blanks (OS, Reason). The first occurrence of a key counts: any text may follow Reason.
    """
    records = {}
    for line in text.splitlines():
        places = [*_KEY.finditer(line)]
        ends = [*(place.start() for place in places[1:]), len(line)][: len(places)]
        fields: dict[str, str] = {}
        for place, end in zip(places, ends, strict=True):
            fields.setdefault(place[1], line[place.end() : end].strip())
        if fields.get(key):
            records[fields[key]] = fields
    return records


def read_partitions(text: str) -> dict[str, dict[str, str]]:
    """Return the fields of all partitions by name."""
    return read_records(text, "PartitionName")


def read_nodes(text: str) -> dict[str, dict[str, str]]:
    """Return the fields of all nodes by name."""
    return read_records(text, "NodeName")


def read_settings(text: str) -> dict[str, str]:
    """Return the settings of ``scontrol show config``, with lower-case keys because their case varies by version."""
    return {name.lower(): value for name, value in _SETTING.findall(text)}


def read_associations(text: str) -> tuple[Association, ...]:
    """Return a user's associations from sacctmgr's output in `ask.ASSOCIATION_FIELDS`; other lines are ignored."""
    found = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")][: len(ASSOCIATION_FIELDS)]
        if len(fields) != len(ASSOCIATION_FIELDS) or not fields[1]:
            continue
        cluster, account, partition, qos, default, wall, most, tres = fields
        jobs = int(most) if most.isdecimal() else None
        limits = (duration_in_seconds(wall), jobs, read_tres(tres))
        found.append(Association(cluster, account, partition, _names(qos), default, *limits))
    return tuple(found)


def read_qos_limits(text: str) -> dict[str, QosLimits]:
    """Return the limits of each QOS from sacctmgr's output in `ask.QOS_FIELDS`; other lines are ignored."""
    limits = {}
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")][: len(QOS_FIELDS)]
        if len(fields) == len(QOS_FIELDS):
            name, wall, of_job, of_user, *jobs = fields
            most_jobs = {key: int(most) for key, most in zip(SUBMIT_FIELDS, jobs, strict=True) if most.isdecimal()}
            limits[name] = QosLimits(duration_in_seconds(wall), read_tres(of_job), read_tres(of_user), most_jobs)
    return limits


def read_tres(text: str) -> dict[str, int]:
    """Return counted resources by name (``cpu=256,gres/gpu=8,node=4``); those with units are ignored."""
    pairs = (part.partition("=") for part in text.split(","))
    return {name.strip(): int(count) for name, _, count in pairs if count.strip().isdecimal()}


def read_mpi_types(text: str) -> tuple[str, ...]:
    """Return srun's MPI plug-in types (``srun --mpi=list``)."""
    words = re.findall(r"\b(?:pmix(?:_v\d)?|pmi2|cray_shasta|openmpi|none)\b", text)
    return tuple(dict.fromkeys(words))


def names_in(fields: Mapping[str, str], key: str) -> tuple[str, ...] | None:
    """Return the names in a list such as AllowAccounts; None if there is no list (``ALL``)."""
    value = fields.get(key, "ALL")
    return None if value in _NOTHING | {"ALL"} else _names(value)


def number_in(fields: Mapping[str, str], key: str) -> int | None:
    """Return a limit of a record; None if there is none."""
    value = fields.get(key, "")
    return int(value) if value.isdecimal() else None


def _names(text: str) -> tuple[str, ...]:
    return () if text.strip() in _NOTHING else tuple(part.strip() for part in text.split(",") if part.strip())
