"""Measure a weak-scaling group: M concurrent instances of one plan, each watched like any other run.

The stages are those of :mod:`hpcai.measure.supervise`. This module adds the specifics of a group: its instances share
the machine before any of them starts, and its record (:mod:`hpcai.measure.weak_group`) is built from theirs.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from hpcai.config.machine import Machine, this_node
from hpcai.config.plan_file import read_plan
from hpcai.config.runs import RunPlan
from hpcai.config.sharing import Sharing
from hpcai.core.errors import ConfigError, LaunchError
from hpcai.core.messages import Message, at
from hpcai.core.programs import last_words, say_ending
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
from hpcai.records.files import write_sealed
from hpcai.records.weak import GROUP, InstanceShare, NodeShare, WeakGroup
from hpcai.slurm.allocation import find_allocation
from hpcai.slurm.step import step_command

CORES_LIMIT_S = 120.0
"""For a node to tell its cores, while Slurm starts the step [s]."""
TELL_CORES = "import os; print(*sorted(os.sched_getaffinity(0)))"
OTHER_PLANS = Message(
    "weak.other_plans", "found {found}; expected the plans of all instances of one weak-scaling group"
)

TOO_FEW_CORES = Message(
    "weak.too_few_cores",
    "found {found} usable cores on {host}, expected {expected} for instances with separate cores "
    "(cores_per_rank {cores_per_rank}); give the job more cores, or lower the instances of the table or "
    "cores_per_rank of the machine file",
)
NO_CORES = Message(
    "weak.no_cores",
    "found no answer on the cores that a step of this job may use: it {ending}: {words}; start the group on a node of "
    "the job, or look at the node",
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

    A failed instance is a result; the others continue. A complete group is only republished. If an instance is missing
    or must be repeated, the whole group is repeated, because its instances must train at the same time. Previous
    measurements are kept with the attempts.

    Raises
    ------
    ConfigError
        If the plans are not those of all instances of one group.
    RunRefusedError
        If the group was measured with other settings or data, or was taken over by another process.
    RunInterruptedError
        If a signal ended it: nothing is published, and the attempts hold the reason.
    ResultsError
        If its folder cannot be written.
    LaunchError
        If the launcher is missing, or the instances cannot get separate resources.
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
    """Return one measurement of all instances; if data or resources are missing, nothing is opened."""
    first, name = plans[0], attempt_name()
    # Attempts of a group share a name prefix.
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
    """Return the resources of each instance of a group.

    With several nodes, all are assumed to equal the first: its cores apply to all, and so do the accelerators available
    here. If a batch system runs one job per instance, it chooses the cores, and they stay empty here.

    Parameters
    ----------
    plan
        Plan of any instance: plans of a group differ only in number and seed.
    launcher
        How the ranks are started.

    Raises
    ------
    LaunchError
        If there are fewer nodes, cores or accelerators than the instances need, or the first node does not answer.
    """
    group, sharing = _group_of(plan), sharing_of(plan)
    hosts = _hosts(group, launcher, sharing.nodes_needed)
    slurm_chooses = find_launcher(launcher).of_batch_system and find_allocation() is None
    cores = [] if slurm_chooses else _cores_of(hosts[0])
    if not slurm_chooses and len(cores) < sharing.cores_needed:
        raise LaunchError(
            at(
                group,
                TOO_FEW_CORES(
                    found=len(cores),
                    host=hosts[0],
                    expected=sharing.cores_needed,
                    cores_per_rank=plan.machine.cores_per_rank,
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
    """Return the names of the group's nodes: this one, or the first ones of Slurm's job."""
    allocation = find_allocation()
    if allocation is None and nodes == 1:
        return (this_node(),)
    if allocation is None:
        raise LaunchError(at(group, NEEDS_A_JOB(nodes=nodes, launcher=launcher)))
    if len(allocation.nodes) < nodes:
        raise LaunchError(at(group, TOO_FEW_NODES(found=len(allocation.nodes), expected=nodes)))
    return allocation.nodes[:nodes]


def _cores_of(host: str) -> list[int]:
    """Return the cores that a program on a node may use; the shell of `salloc` may be on none of the job's nodes."""
    if host == this_node():
        return sorted(os.sched_getaffinity(0))
    command = [*step_command([host], 1), "--mpi=none", "--input=none", sys.executable, "-c", TELL_CORES]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=CORES_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        ending = f"was ended after {CORES_LIMIT_S:g} s"
        raise LaunchError(at(host, NO_CORES(ending=ending, words="nothing was printed"))) from error
    if done.returncode:
        raise LaunchError(at(host, NO_CORES(ending=say_ending(done.returncode), words=last_words(done.stderr))))
    return [int(core) for core in done.stdout.split()]


def _accelerators(group: str, machine: Machine, sharing: Sharing) -> list[str]:
    """Return the accelerators available on a node, in the notation of CUDA_VISIBLE_DEVICES."""
    if machine.device.kind == "cpu":
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    found = list(map(str, range(machine.accelerators_per_node))) if visible is None else visible.split(",")
    needed = min(sharing.instances, sharing.per_block) * sharing.ranks_per_node
    if len(found) < needed:
        raise LaunchError(at(group, TOO_FEW_ACCELERATORS(found=", ".join(found), expected=needed)))
    return found
