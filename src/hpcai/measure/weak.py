"""Measures a weak-scaling group: M instances of one plan at the same time, each watched as any other run is.

The walk is that of :mod:`hpcai.measure.supervise`; here is what a group has of its own: its instances share the machine
before any of them starts, and its record (:mod:`hpcai.measure.weak_group`) is made from theirs.
"""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from hpcai.config.load import read_plan
from hpcai.config.machine import Machine, this_node
from hpcai.config.runs import RunPlan
from hpcai.config.sharing import Sharing
from hpcai.core.errors import ConfigError, LaunchError
from hpcai.core.messages import Message, at
from hpcai.launchers.ranks import Ranks
from hpcai.launchers.registry import find_launcher
from hpcai.measure import publish
from hpcai.measure.attempts import attempt_name
from hpcai.measure.claim import Guard, at_work
from hpcai.measure.container import require_modules, require_training
from hpcai.measure.inputs import Inputs, refuse_other_data
from hpcai.measure.progress import say
from hpcai.measure.supervise import Measurement, Run, Start, scratch_folder
from hpcai.measure.weak_group import describe_group
from hpcai.records.run import write_sealed
from hpcai.records.weak import GROUP, InstanceShare, NodeShare, WeakGroup
from hpcai.slurm.allocation import find_allocation

OTHER_PLANS = Message(
    "weak.other_plans", "found {found}; expected the plans of all instances of one weak-scaling group"
)

TOO_FEW_CORES = Message(
    "weak.too_few_cores",
    "found {found} usable cores on this node, expected {expected} for instances with cores of their own "
    "(cores_per_rank {cores_per_rank}); give the job more cores, or lower the instances of the table or "
    "cores_per_rank of the machine file",
)
NEEDS_A_JOB = Message(
    "weak.needs_a_job",
    "the instances need {nodes} nodes, which {launcher} finds inside a job of Slurm only; start the group there",
)
TOO_FEW_NODES = Message(
    "weak.too_few_nodes", "found {found} nodes in the job, expected {expected}; ask Slurm for more nodes"
)
TOO_FEW_ACCELERATORS = Message(
    "weak.too_few_accelerators",
    "found the accelerators {found} on this node, expected {expected} for instances with accelerators of their "
    "own; correct CUDA_VISIBLE_DEVICES or the job's request",
)


def measure_weak(inputs: Inputs, folder: Path, launcher: str) -> WeakGroup:
    """Measure a weak-scaling group and publish its instances and its record in ``folder``.

    An instance that fails is a result; the others go on. A whole group is only published again. One in which an
    instance is missing or to be tried again is repeated as a whole, for its instances have to train at the same time;
    what was measured before is kept with the attempts.

    Raises
    ------
    ConfigError
        If the plans are not those of all instances of one group.
    RunRefusedError
        If the group was measured with other settings or data, or was taken over by another process.
    RunInterruptedError
        If a signal ended it: nothing is published, and the attempts tell why.
    ResultsError
        If its folder cannot be written.
    LaunchError
        If the launcher does not exist, or the instances do not find resources of their own.
    """
    plans = _plans_of_group(inputs.plans)
    first = plans[0]
    require_modules(first.machine.modules)
    require_training(first, launcher)
    with at_work(_group_of(first), folder, partial(say, first)) as guard:
        records = publish.published_group(folder, plans)
        if records is None:
            while records is None:
                records = _measurement(plans, inputs, folder, Start(launcher), guard).make()
        else:
            say(first, f"group of {len(plans)} already measured: published again, not repeated")
            for record in records:
                refuse_other_data(record, inputs.manifest, folder)
                publish.republish(folder / f"i{record.plan.repetition}")
        group = describe_group(folder, records)
        write_sealed(group, folder / GROUP)
    say(first, f"group: {group.counted} of {group.instances} instances count")
    return group


def _plans_of_group(paths: Sequence[Path]) -> list[RunPlan]:
    plans = sorted((read_plan(path) for path in paths), key=lambda plan: plan.repetition)
    expected = [(plans[0].point, number, len(plans)) for number in range(1, len(plans) + 1)]
    found = [(plan.point, plan.repetition, plan.instances) for plan in plans]
    if found != expected:
        numbers = ", ".join(f"{plan.run_id} of {plan.instances}" for plan in plans)
        raise ConfigError(at("--plans", OTHER_PLANS(found=numbers)))
    return plans


def _measurement(plans: Sequence[RunPlan], inputs: Inputs, folder: Path, start: Start, guard: Guard) -> Measurement:
    """Return one measurement of all instances; where their data or resources are not there, nothing is opened."""
    first, name = plans[0], attempt_name()
    # The attempts of a group have names with one beginning.
    runs = tuple(
        Run(plan, folder / f"i{plan.repetition}", f"{name}-i{plan.repetition}", share)
        for plan, share in zip(plans, share_machine(first, start.launcher), strict=True)
    )
    ranks = Ranks(_group_of(first), sharing_of(first).nodes_needed, 1, 1)
    measurement = Measurement(runs, ranks, scratch_folder(first, name), inputs, start, guard)
    _ = measurement.data
    return measurement


def _group_of(plan: RunPlan) -> str:
    return plan.run_id.rsplit("/", 1)[0]


def sharing_of(plan: RunPlan) -> Sharing:
    """Return how the group of an instance shares the machine."""
    point = plan.point
    return Sharing.of(plan.machine, point.nodes, point.ranks_per_node, plan.instances or 1)


def share_machine(plan: RunPlan, launcher: str) -> tuple[InstanceShare, ...]:
    """Return what each instance of a group has for itself.

    On several nodes all are taken to be like this one: the cores and accelerators that may be used here stand for
    theirs. Where a batch system makes a job for each instance, it chooses their cores; they stay empty.

    Parameters
    ----------
    plan
        Of any instance: all of a group differ in number and seed alone.
    launcher
        How the ranks are started.

    Raises
    ------
    LaunchError
        If there are fewer nodes, cores or accelerators than the instances need.
    """
    group, sharing = _group_of(plan), sharing_of(plan)
    hosts = _hosts(group, launcher, sharing.nodes_needed)
    slurm_chooses = find_launcher(launcher).of_batch_system and find_allocation() is None
    cores = [] if slurm_chooses else sorted(os.sched_getaffinity(0))
    if not slurm_chooses and len(cores) < sharing.cores_needed:
        raise LaunchError(
            at(
                group,
                TOO_FEW_CORES(
                    found=len(cores), expected=sharing.cores_needed, cores_per_rank=plan.machine.cores_per_rank
                ),
            )
        )
    accelerators = _accelerators(group, plan.machine, sharing)
    return tuple(
        InstanceShare(
            instance=number,
            nodes=tuple(
                NodeShare(
                    host=host,
                    cores=sharing.cores_of(number, cores),
                    accelerators=sharing.accelerators_of(number, accelerators),
                )
                for host in sharing.hosts_of(number, hosts)
            ),
        )
        for number in range(1, sharing.instances + 1)
    )


def _hosts(group: str, launcher: str, nodes: int) -> tuple[str, ...]:
    """Return the names of the nodes that the group uses: this one, or the first of Slurm's job."""
    allocation = find_allocation()
    if allocation is None and nodes == 1:
        return (this_node(),)
    if allocation is None:
        raise LaunchError(at(group, NEEDS_A_JOB(nodes=nodes, launcher=launcher)))
    if len(allocation.nodes) < nodes:
        raise LaunchError(at(group, TOO_FEW_NODES(found=len(allocation.nodes), expected=nodes)))
    return allocation.nodes[:nodes]


def _accelerators(group: str, machine: Machine, sharing: Sharing) -> list[str]:
    """Return the accelerators that may be used on a node, as CUDA_VISIBLE_DEVICES names them."""
    if machine.device.kind == "cpu":
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    found = list(map(str, range(machine.accelerators_per_node))) if visible is None else visible.split(",")
    needed = min(sharing.instances, sharing.per_block) * sharing.ranks_per_node
    if len(found) < needed:
        raise LaunchError(at(group, TOO_FEW_ACCELERATORS(found=", ".join(found), expected=needed)))
    return found
