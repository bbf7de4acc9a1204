"""Measures a weak-scaling group: M instances of one plan at the same time, each watched as any other run is."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hpcai.config.load import read_plan
from hpcai.config.runs import RunPlan
from hpcai.core.errors import ConfigError
from hpcai.core.machine_lock import machine_to_itself
from hpcai.core.messages import Message, at
from hpcai.launchers.ranks import Ranks
from hpcai.launchers.registry import launch_command
from hpcai.measure import publish
from hpcai.measure.allocation_use import write_allocation
from hpcai.measure.attempts import (
    attempt_folder,
    attempt_name,
    earlier_attempts,
    kept,
    open_attempt,
    set_aside,
    why_repeat,
)
from hpcai.measure.claim import claimed
from hpcai.measure.container import contained
from hpcai.measure.interruption import ended_by_signals
from hpcai.measure.modules import require_modules
from hpcai.measure.nodes import clean_nodes, prepare_nodes
from hpcai.measure.progress import Progress, say
from hpcai.measure.recording import disturbance_while_timed, record_attempt
from hpcai.measure.room import require_room
from hpcai.measure.supervise import (
    Guard,
    Inputs,
    PageCache,
    collect_provenance,
    data_files,
    data_folders,
    page_cache_of,
    rank_program,
    read_data,
    refuse_other_data,
    results_written,
    scratch_folder,
    shared_scratch,
)
from hpcai.measure.watch import ATTEMPT_VARIABLE, Ending, watch
from hpcai.measure.weak_group import SHARE, describe_group
from hpcai.measure.weak_shares import share_machine, sharing_of
from hpcai.records.run import Attempt, RunRecord, write_json, write_sealed
from hpcai.records.weak import GROUP, InstanceShare, WeakGroup

OTHER_PLANS = Message(
    "weak.other_plans", "found {found}; expected the plans of all instances of one weak-scaling group"
)


@dataclass(frozen=True)
class GroupInputs:
    """The files that a group starts from: the plans of all instances, and the data that they share."""

    plans: tuple[Path, ...]
    manifest: Path
    pack: Path | None


@dataclass(frozen=True)
class _Instance:
    """One instance that is about to start."""

    plan: RunPlan
    folder: Path
    attempt: Path
    share: InstanceShare
    earlier: tuple[Attempt, ...]

    @property
    def scratch(self) -> Path:
        """Node-local folder of its own: instances stage their data side by side."""
        return scratch_folder(self.plan, self.attempt.name)

    @property
    def ranks(self) -> Ranks:
        """Its ranks, on its own part of the machine."""
        return Ranks.of(self.plan, self.share.nodes)


def measure_weak(inputs: GroupInputs, folder: Path, launcher: str) -> WeakGroup:
    """Measure a weak-scaling group and publish its instances and its record in ``folder``.

    An instance that breaks down is a result; the others go on. A whole group is only published again. One in which an
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
    name = first.run_id.rsplit("/", 1)[0]
    with ended_by_signals(name) as signals, results_written(folder), claimed(folder, partial(say, first)) as claim:
        records, guard = publish.published_group(folder, plans), Guard(claim, signals)
        if records is None:
            while records is None:
                records = _measure_together(plans, inputs, folder, launcher, guard)
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


def _measure_together(
    plans: list[RunPlan], inputs: GroupInputs, folder: Path, launcher: str, guard: Guard
) -> tuple[RunRecord, ...] | None:
    """Measure all instances once and publish them; None if they were disturbed, and are to be repeated."""
    first, data = plans[0], Inputs(inputs.plans[0], inputs.manifest, inputs.pack)
    group = first.run_id.rsplit("/", 1)[0]
    manifest, pack = read_data(inputs.manifest, inputs.pack)
    shares = share_machine(first, launcher)
    name = attempt_name()
    scratch = scratch_folder(first, name)
    with kept([_attempt_of(plan, folder, name) for plan in plans], guard.signals):
        instances = [_open(plan, share, folder, name) for plan, share in zip(plans, shares, strict=True)]
        silent: list[str] = []
        with ExitStack() as cleaning:
            for instance in instances:
                write_allocation(instance.attempt)
                cleaning.callback(_clean, launcher, instance, scratch, silent)
            cleaning.callback(guard.signals.hold_back)
            with machine_to_itself(partial(say, first)):
                together = Ranks(group, sharing_of(first).nodes_needed, 1, 1)
                nodes = prepare_nodes(launcher, together, scratch, data_files(data, manifest, pack))
                require_room(first, pack, [instance.ranks for instance in instances], nodes, scratch.parent)
                page_cache = page_cache_of(first, pack, nodes.page_cache)
                folders = data_folders(data, manifest, pack)
                told = shared_scratch(nodes)
                commands = [_command(instance, data, launcher, page_cache, folders, told) for instance in instances]
                started_utc = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                endings = _watch_together(instances, commands, guard)
        guard.require_nodes(endings, silent)
        # Only now: what digests and compares files would disturb the instances that still train.
        facts = {"data_source": manifest.source, "started_utc": started_utc}
        shared = collect_provenance(first, [], manifest, pack, page_cache)
        origins = [shared.model_copy(update={"command": tuple(command)}) for command in commands]
        records = [
            record_attempt(instance.plan, instance.attempt, ending, origin, facts)
            for instance, ending, origin in zip(instances, endings, origins, strict=True)
        ]
        guard.claim.confirm()
        pairs = list(zip(instances, _without_companions(records), strict=True))
        reason = why_repeat([record for _, record in pairs], instances[0].folder)
        if not reason:
            return tuple(_publish(instance, record) for instance, record in pairs)
        for instance, record in pairs:
            set_aside(instance.attempt, record, reason)
    say(first, f"measured again: {reason}")
    guard.signals.go_on()
    return None


def _without_companions(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the records with what others took of their nodes: other instances of the group are no others."""
    alone = []
    for record in records:
        companions = [rank for other in records if other is not record for rank in other.ranks]
        found = disturbance_while_timed(record.ranks, companions)
        alone.append(record.model_copy(update={"disturbance": found}))
    return alone


def _clean(launcher: str, instance: _Instance, group: Path, silent: list[str]) -> None:
    """Clean the nodes of an instance, also of what its group made there, and add those that do not answer."""
    silent += clean_nodes(launcher, instance.ranks, instance.scratch, instance.attempt.name, group)


def _attempt_of(plan: RunPlan, folder: Path, name: str) -> Path:
    """Return the folder of an instance's attempt; all of a group have names with one beginning."""
    return attempt_folder(folder / f"i{plan.repetition}", f"{name}-i{plan.repetition}")


def _command(
    instance: _Instance, data: Inputs, launcher: str, page_cache: PageCache, folders: Sequence[Path], told: list[str]
) -> list[str]:
    """Return the command line of an instance, and write down what it has of the machine."""
    write_json(instance.share, instance.attempt / SHARE)
    program = [*rank_program(data, instance.attempt, instance.scratch, page_cache, "none"), *told]
    inside = contained(program, instance.plan.machine.software, [*folders, instance.scratch.parent])
    return launch_command(launcher, instance.ranks, inside)


def _publish(instance: _Instance, record: RunRecord) -> RunRecord:
    whole = record.model_copy(update={"earlier_attempts": instance.earlier})
    publish.publish(instance.attempt, instance.folder, whole)
    say(instance.plan, f"{record.outcome.replace('_', ' ')} after {record.wall_s:.1f} s: {record.reason}")
    return whole


def _open(plan: RunPlan, share: InstanceShare, folder: Path, name: str) -> _Instance:
    """Open the attempt of one instance."""
    own = folder / f"i{plan.repetition}"
    attempt, seeded = open_attempt(own, plan, _attempt_of(plan, folder, name).name)
    return _Instance(seeded, own, attempt, share, earlier_attempts(own))


def _watch_together(instances: Sequence[_Instance], commands: Sequence[list[str]], guard: Guard) -> list[Ending]:
    """Start all instances at once and watch each in a thread of its own: what ends one holds up no other."""
    interrupted = threading.Event()
    with ThreadPoolExecutor(len(instances)) as pool:
        futures = [
            pool.submit(_watch_one, instance, command, guard, interrupted)
            for instance, command in zip(instances, commands, strict=True)
        ]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            # Also when this process is interrupted: no launcher may go on without its supervisor.
            interrupted.set()
    for future in done:
        future.result()
    endings = [future.result() for future in futures]
    attempts = [instance.attempt for instance in instances]
    guard.require_job(dict(zip(attempts, endings, strict=True)))
    return endings


def _watch_one(instance: _Instance, command: list[str], guard: Guard, interrupted: threading.Event) -> Ending:
    plan, attempt, nodes = instance.plan, instance.attempt, instance.share.nodes
    progress = Progress(plan, attempt / "epochs.jsonl")

    def poll() -> None:
        if interrupted.is_set():
            raise InterruptedError(f"{plan.run_id}: ended, because its group was interrupted")
        progress()

    where = ", ".join(f"{node.host} (cores {','.join(map(str, node.cores)) or 'of Slurm'})" for node in nodes)
    say(plan, f"starts with seed {plan.seed} on {plan.point.ranks} ranks of {where}; output: {attempt / 'output.log'}")
    return watch(command, attempt, plan.limits, {ATTEMPT_VARIABLE: attempt.name}, guard.around(poll))
