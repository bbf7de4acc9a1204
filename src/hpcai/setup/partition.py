"""Choose the partition and the nodes to measure on; all nodes of a run must be alike."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpcai.core.errors import ConfigError
from hpcai.setup.ask import Answers, fact_of
from hpcai.setup.slurm_answers import (
    Association,
    NodeGroup,
    Shape,
    names_in,
    number_in,
    read_associations,
    read_partitions,
    read_settings,
    read_sinfo,
)


@dataclass(frozen=True)
class Partition:
    """A partition and its nodes to measure on."""

    name: str
    fields: Mapping[str, str]
    shape: Shape
    nodes: int
    """Usable nodes of this shape."""
    constraint: str
    """A feature common to all nodes of this shape and to no others in the partition; blank: none is needed."""
    gap: str
    """Why jobs may get unlike nodes; blank: they will not."""
    others: tuple[str, ...]
    """Other partitions available to this user."""

    def has_node(self, record: Mapping[str, str]) -> bool:
        """Whether a record of ``scontrol show node`` describes one of its nodes of this shape."""
        asked = {"RealMemory": self.shape.memory_mib, "Sockets": self.shape.sockets}
        alike = all(number_in(record, key) == number for key, number in asked.items())
        return alike and self.name in record.get("Partitions", "").split(",")


def choose_partition(answers: Answers, wanted: str = "") -> Partition | None:
    """Return the requested partition, else Slurm's default, or the largest one available; None without Slurm.

    Raises
    ------
    ConfigError
        If the requested partition does not exist, or none has usable nodes.
    """
    groups = fact_of(answers, "sinfo", read_sinfo)
    partitions = fact_of(answers, "partitions", read_partitions)
    if not groups:
        if wanted:
            raise ConfigError(f"--partition: found {wanted!r}, but sinfo reports no partitions here")
        return None
    usable = Counter[str]()
    for group in groups:
        usable[group.partition] += group.nodes if group.is_usable else 0
    if wanted and wanted not in usable:
        raise ConfigError(f"--partition: found {wanted!r}; sinfo has {', '.join(sorted(usable))}")
    open_to_user = [name for name in usable if usable[name] and not _obstacle(partitions.get(name, {}), answers)]
    name = wanted or _first_choice(open_to_user, partitions, usable)
    if not name:
        raise ConfigError(
            f"sinfo: found no partition with usable nodes for this user, among {', '.join(sorted(usable))}; specify "
            f"one (--partition), and ask your centre which one you may use"
        )
    own = [group for group in groups if group.partition == name]
    others = tuple(sorted(set(open_to_user) - {name}))
    return _with_nodes(name, partitions.get(name, {}), own, others)


def _first_choice(names: Sequence[str], partitions: Mapping[str, Mapping[str, str]], usable: Mapping[str, int]) -> str:
    default = [name for name in names if partitions.get(name, {}).get("Default") == "YES"]
    return (default or sorted(names, key=lambda name: (-usable[name], name)) or [""])[0]


def _obstacle(fields: Mapping[str, str], answers: Answers) -> str:
    """Return why Slurm forbids this user one-node jobs in a partition; blank if it reports no obstacle."""
    if fields.get("State", "UP") != "UP" or fields.get("RootOnly") == "YES":
        return "it accepts no jobs"
    if fields.get("ReqResv") == "YES":
        return "it needs a reservation"
    if (number_in(fields, "MinNodes") or 0) > 1:
        return "it accepts no one-node jobs"
    groups = names_in(fields, "AllowGroups")
    if groups is not None and not set(groups) & set(fact_of(answers, "groups", str).split()):
        return "it is for other groups"
    associations = find_associations(answers)
    name = fields.get("PartitionName", "")
    return "no account may use it" if associations and not allowed_accounts(associations, name, fields) else ""


def find_associations(answers: Answers) -> tuple[Association, ...]:
    """Return the user's associations on this cluster; clusters may share the database that answers."""
    # The database has cluster names in lower case (slurm.conf: ClusterName).
    cluster = fact_of(answers, "config", read_settings).get("clustername", "").lower()
    everywhere = fact_of(answers, "associations", read_associations)
    return tuple(one for one in everywhere if cluster in ("", one.cluster))


def allowed_accounts(
    associations: Sequence[Association], partition: str, fields: Mapping[str, str]
) -> tuple[Association, ...]:
    """Return the associations that may use a partition, by its account lists and their partition lists."""
    allowed, denied = names_in(fields, "AllowAccounts"), names_in(fields, "DenyAccounts") or ()
    return tuple(
        one
        for one in associations
        if one.partition in ("", partition)
        and (allowed is None or one.account in allowed)
        and one.account not in denied
    )


def _with_nodes(
    name: str, fields: Mapping[str, str], groups: Sequence[NodeGroup], others: tuple[str, ...]
) -> Partition:
    counts = Counter[Shape]()
    for group in groups:
        counts[group.shape] += group.nodes if group.is_usable else 0
    alike = _alike(counts)
    shape, nodes = max(alike.items(), key=lambda item: (item[1], item[0].gpu_count, item[0].memory_mib))
    if not nodes:
        raise ConfigError(f"partition {name}: sinfo shows no node that is up and not drained; choose another one")
    rest = [other for other in counts if _hardware(other) != _hardware(shape)]
    constraint = _separating(shape, rest)
    gap = "" if not rest or constraint else _unlike(shape, rest)
    return Partition(name, fields, shape, nodes, constraint, gap, others)


def _hardware(shape: Shape) -> tuple[object, ...]:
    """Return the properties that distinguish nodes for a measurement; features are only names."""
    return (shape.sockets, shape.cores_per_socket, shape.threads_per_core, shape.memory_mib, shape.gpus)


def _alike(counts: Mapping[Shape, int]) -> dict[Shape, int]:
    """Count nodes of equal hardware; keep the features and local disk common to all of them."""
    kinds: dict[tuple[object, ...], tuple[Shape, int]] = {}
    for shape, nodes in counts.items():
        known, number = kinds.get(_hardware(shape), (shape, 0))
        common = Shape(
            *(known.sockets, known.cores_per_socket, known.threads_per_core, known.memory_mib),
            min(known.disk_mib, shape.disk_mib), known.gpus, known.features & shape.features,
        )  # fmt: skip
        kinds[_hardware(shape)] = (common, number + nodes)
    return dict(kinds.values())


def _separating(shape: Shape, rest: Sequence[Shape]) -> str:
    taken = frozenset[str]().union(*(other.features for other in rest))
    return min(shape.features - taken, default="") if rest else ""


def _unlike(shape: Shape, rest: Sequence[Shape]) -> str:
    kinds = "; ".join(dict.fromkeys(_in_words(other) for other in (shape, *rest)))
    return (
        f"nodes of this partition differ ({kinds}) and no feature distinguishes them: specify nodes or another "
        "partition"
    )


def _in_words(shape: Shape) -> str:
    gpus = "".join(f" + {count} {kind or 'gpu'}" for kind, count in shape.gpus)
    return f"{shape.cores} cores, {shape.memory_mib} MiB{gpus}"
