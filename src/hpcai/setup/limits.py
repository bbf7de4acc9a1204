"""Maximum job time and account: limits of partition, association and QOS."""

from collections.abc import Sequence
from dataclasses import dataclass

from hpcai.setup.ask import Answers, fact_of
from hpcai.setup.partition import Partition, allowed_accounts, find_associations
from hpcai.setup.site import Value
from hpcai.setup.slurm_answers import (
    Association,
    QosLimits,
    names_in,
    number_in,
    read_qos_limits,
    read_settings,
)
from hpcai.slurm.text import duration_in_seconds

LOOK_UP_ACCOUNTS = "sacctmgr show associations user=$USER format=account,partition,qos"


@dataclass(frozen=True)
class Limit:
    """Maximum job time [s] and what limits it; None: Slurm reports no limit."""

    time_s: float | None
    source: str


def find_account(answers: Answers, partition: Partition, wanted: str) -> tuple[Value, Association | None]:
    """Return the account for a partition, and its permissions there as far as Slurm reports them."""
    associations = find_associations(answers)
    allowed = allowed_accounts(associations, partition.name, partition.fields)
    if wanted:
        own = [one for one in allowed if one.account == wanted]
        gap = (
            f"you have no association with this partition for {wanted}: {LOOK_UP_ACCOUNTS}"
            if allowed and not own
            else ""
        )
        return Value(wanted, "--account", gap), next(iter(own), None)
    if not associations:
        return _without_associations(answers, partition), None
    command = answers["associations"].command
    names = list(dict.fromkeys(one.account for one in allowed))
    if not names:
        found = ", ".join(sorted({one.account for one in associations}))
        return Value(None, gap=f"none of your accounts ({found}) may use partition {partition.name}; request one"), None
    default = fact_of(answers, "user", str).strip()
    if len(names) == 1 or default in names:
        name = names[0] if len(names) == 1 else default
        source = command if len(names) == 1 else f"{answers['user'].command}; you have {', '.join(names)}"
        return Value(name, source), next(one for one in allowed if one.account == name)
    return Value(None, gap=f"which of your accounts to charge: {', '.join(names)} ({command})"), None


def _without_associations(answers: Answers, partition: Partition) -> Value:
    if names := names_in(partition.fields, "AllowAccounts"):
        return Value(None, gap=f"which account (--account): only {', '.join(names)} may use the partition")
    settings = fact_of(answers, "config", read_settings)
    kind, enforced = settings.get("accountingstoragetype", ""), settings.get("accountingstorageenforce", "")
    if kind in ("", "(null)", "accounting_storage/none"):
        return Value(None, source="scontrol show config: no accounting, no account is needed")
    if "associations" in enforced:
        return Value(None, gap=f"Slurm requires an account and sacctmgr lists none of yours: {LOOK_UP_ACCOUNTS}")
    return Value(None, source="sacctmgr lists no account of yours, and scontrol show config requires none")


def qos_of_jobs(association: Association) -> str:
    """Return the QOS of jobs that name none (Slurm's assoc_mgr_get_default_qos_info); blank: none is valid."""
    if association.default_qos or len(association.qos) == 1:
        return association.default_qos or association.qos[0]
    return "normal" if "normal" in association.qos or not association.qos else ""


def find_qos(answers: Answers, partition: Partition, association: Association | None) -> Value:
    """Return the QOS that a job must name; none if the default may use the partition."""
    allowed = names_in(partition.fields, "AllowQos")
    denied = names_in(partition.fields, "DenyQos") or ()
    if association is None or not association.qos or (allowed is None and not denied):
        asked = f"AllowQos={','.join(allowed)}: which of them is yours ({LOOK_UP_ACCOUNTS})" if allowed else ""
        return Value(None, gap=asked)
    names = [name for name in association.qos if (allowed is None or name in allowed) and name not in denied]
    default = qos_of_jobs(association)
    if default in names:
        return Value(None, source=f"your default, {default}, may use the partition")
    if len(names) == 1:
        return Value(names[0], f"scontrol show partition: AllowQos; {answers['associations'].command}")
    found = ", ".join(names) or "none"
    return Value(None, gap=f"a QOS that may use partition {partition.name}; of yours: {found}")


def find_limit(answers: Answers, partition: Partition, association: Association | None, qos: Value) -> Limit:
    """Return the shortest time limit that applies to a job."""
    limits = [(duration_in_seconds(partition.fields.get("MaxTime", "")), "MaxTime of the partition")]
    if association is not None:
        limits.append((association.wall_s, "MaxWall of your association"))
    limits += [
        (of.wall_s, f"MaxWall of QOS {name}") for name, of in _limits_of_qos(answers, partition, association, qos)
    ]
    return _shortest(limits)


def find_most_nodes(answers: Answers, partition: Partition, account: str) -> Value:
    """Return how many of a partition's nodes one job may use, and what limits it."""
    found = [(partition.nodes, f"sinfo: number of identical nodes of partition {partition.name} that are up")]
    if most := number_in(partition.fields, "MaxNodes"):
        found.append((most, f"scontrol show partition: MaxNodes={most}"))
    _, association = find_account(answers, partition, account)
    qos = find_qos(answers, partition, association)
    given = [] if association is None else [("MaxTRES of your association", association.most_of_job)]
    for name, of in _limits_of_qos(answers, partition, association, qos):
        given += [(f"MaxTRES of QOS {name}", of.most_of_job), (f"MaxTRESPU of QOS {name}", of.most_of_user)]
    shape = partition.shape
    units = {"node": 1, "cpu": shape.cores * shape.threads_per_core, "gres/gpu": shape.gpu_count}
    for whose, limits in given:
        for name, of_a_node in units.items():
            if name in limits and of_a_node:
                found.append((max(1, limits[name] // of_a_node), f"{whose}: {name}={limits[name]}"))
    return Value(*min(found, key=lambda one: one[0]), partition.gap)


def find_most_jobs(
    answers: Answers, partition: Partition, association: Association | None, qos: Value
) -> tuple[int, str] | None:
    """Return how many jobs Slurm accepts at a time, and what limits it; None: Slurm reports no limit."""
    found = [
        (most, f"{field} of QOS {name}")
        for name, of in _limits_of_qos(answers, partition, association, qos)
        for field, most in of.most_jobs.items()
    ]
    if association is not None and association.most_jobs is not None:
        found.append((association.most_jobs, "MaxSubmit of your association"))
    return min(found, default=None)


def _limits_of_qos(
    answers: Answers, partition: Partition, association: Association | None, qos: Value
) -> list[tuple[str, QosLimits]]:
    """Return the QOS limits of the partition and of the job, with a name for each."""
    by_name = fact_of(answers, "qos", read_qos_limits)
    names = {partition.fields.get("QoS", ""): "of the partition"}
    if association is not None:
        names[str(qos.value or qos_of_jobs(association))] = "of your jobs"
    return [(f"{name} {whose}", by_name[name]) for name, whose in names.items() if name in by_name]


def _shortest(limits: Sequence[tuple[float | None, str]]) -> Limit:
    known = [(time_s, source) for time_s, source in limits if time_s is not None]
    return Limit(*min(known)) if known else Limit(None, "no limit is set")
