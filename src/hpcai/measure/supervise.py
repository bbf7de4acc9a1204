"""Measure a run, or all instances of a weak-scaling group together; read this module from top to bottom.

:func:`measure` handles one run: claim it; republish it if it was measured before; otherwise measure until no external
disturbance remains. :mod:`hpcai.measure.weak` does the same for a group and :mod:`hpcai.measure.capture` with a tool
around the ranks. All use :class:`Measurement`, whose attempts go through these stages:

``open``
    First: create the attempts' folders, with their plans and the batch system's allocation.
``prepare``
    Before the ranks: clean and query nodes, drop data from memory, check room for staging, build commands (``Ready``).
``run_ranks``
    Start the ranks and watch them to their end (``Ended``).
``conclude``
    After the ranks: build and judge the records; publish them, or set them aside if other processes disturbed the
    nodes.
"""

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from hpcai.config.machine import require_scratch, this_node
from hpcai.config.plan_file import read_plan
from hpcai.config.runs import RunPlan
from hpcai.core.machine_lock import machine_to_itself
from hpcai.data.stage_folder import every_stage
from hpcai.launchers.ranks import Ranks, hosts_of
from hpcai.launchers.registry import launch_command
from hpcai.measure import attempts, publish
from hpcai.measure.allocation_use import write_allocation
from hpcai.measure.claim import Guard, at_work
from hpcai.measure.container import contained, require_modules, require_training
from hpcai.measure.inputs import Inputs, RunData, read_data, refuse_other_data
from hpcai.measure.nodes import NodesReport, PageCache, clean_nodes, prepare_nodes
from hpcai.measure.progress import Progress, say
from hpcai.measure.recording import collect_provenance, record_attempt, without_companions
from hpcai.measure.room import require_room
from hpcai.measure.watch import ATTEMPT_VARIABLE, Ending, watch
from hpcai.profiles.instrument import NO_INSTRUMENT, Instrument
from hpcai.records.acceptance import require_accepted
from hpcai.records.files import write_json
from hpcai.records.run import AcceptanceNote, Attempt, RunRecord
from hpcai.records.weak import InstanceShare


def measure(inputs: Inputs, folder: Path, launcher: str, instrument: Instrument = NO_INSTRUMENT) -> RunRecord:
    """Measure the run of a plan and publish its record in ``folder``; a finished run is only republished.

    A profiled run has an ``instrument`` around its ranks.

    Every outcome of the ranks ends in a record. Errors are limited to runs that are impossible or forbidden. If another
    process is at work on the run, wait for it and republish its result.

    Raises
    ------
    RunRefusedError
        If the run was measured with other settings, would repeat a seed, or was taken over by another process.
    RunInterruptedError
        If a signal ended it: nothing is published, and the attempt holds the reason.
    ResultsError
        If its folder cannot be written.
    LaunchError
        If the launcher, the machine's image or one of its modules is missing, or a variable of storage.node_local.
    DatasetError
        If its data or shards are missing or damaged, or its nodes lack room for them: no attempt counts, and no record
        is published.
    """
    (plan,) = map(read_plan, inputs.plans)
    require_modules(plan.machine.modules)
    require_training(plan, launcher)
    with at_work(plan.run_id, folder, partial(say, plan)) as guard:
        attempts.adopt_finished(folder, plan)
        published = publish.published(folder, plan)
        if published is not None:
            refuse_other_data(published, inputs.manifest, folder)
            words = f"{published.outcome}, attempt {published.attempt}"
            say(plan, f"already measured ({words}): published again, not repeated")
            publish.republish(folder)
            return published
        records = None
        while records is None:
            run = Run(plan, folder, attempts.attempt_name())
            records = Measurement((run,), run.ranks, run.scratch, inputs, Start(launcher, instrument), guard).make()
    return records[0]


@dataclass(frozen=True)
class Start:
    """How the ranks are started, and the tool that observes them."""

    launcher: str
    instrument: Instrument = NO_INSTRUMENT


@dataclass(frozen=True)
class Run:
    """One run of a measurement: alone on its nodes, or as an instance of a group on its share of them.

    Attributes
    ----------
    plan
        With the seed, once the attempt is open.
    folder
        Folder of its results.
    name
        Name of the attempt.
    share
        Share of the machine for an instance; None for a run that starts alone.
    earlier
        Previous attempts, known once this one is open.
    """

    plan: RunPlan
    folder: Path
    name: str
    share: InstanceShare | None = None
    earlier: tuple[Attempt, ...] = ()

    @property
    def attempt(self) -> Path:
        """Folder of the attempt, until it is published."""
        return attempts.attempt_folder(self.folder, self.name)

    @property
    def scratch(self) -> Path:
        """Its own node-local folder: instances stage their data separately."""
        return scratch_folder(self.plan, self.name)

    @property
    def ranks(self) -> Ranks:
        """Its ranks; for an instance, those on its part of the machine."""
        return Ranks.of(self.plan, self.share.nodes if self.share else ())


def scratch_folder(plan: RunPlan, attempt: str) -> Path:
    """Return the node-local folder of an attempt.

    Raises
    ------
    LaunchError
        If a variable of its place is not set here, or the place is relative.
    """
    return require_scratch(plan.machine.storage.node_local) / attempt


@dataclass(frozen=True)
class Ready:
    """State when the ranks can start: the opened runs, and a command line for each."""

    runs: tuple[Run, ...]
    page_cache: PageCache
    commands: tuple[list[str], ...]


@dataclass(frozen=True)
class Ended:
    """State when all ranks have ended: their start, and the ending of each launcher."""

    ready: Ready
    started_utc: str
    endings: tuple[Ending, ...]


@dataclass(frozen=True)
class Measurement:
    """One attempt at a run, or at all instances of a group at the same time.

    Attributes
    ----------
    runs
        Runs that start together.
    ranks
        All ranks together, on all nodes of the measurement.
    scratch
        Node-local folder of the whole measurement.
    inputs, start, guard
        The data, how ranks are started, and what may end them.
    """

    runs: tuple[Run, ...]
    ranks: Ranks
    scratch: Path
    inputs: Inputs
    start: Start
    guard: Guard

    @property
    def plan(self) -> RunPlan:
        """Plan of the run, or of the first instance: plans of a group differ only in number and seed."""
        return self.runs[0].plan

    @cached_property
    def data(self) -> RunData:
        """Data of the ranks; read once, and refused if incomplete."""
        return read_data(self.inputs)

    @cached_property
    def acceptance(self) -> AcceptanceNote | None:
        """Acceptance of the nodes that the study requires; refused without one that is passed and young enough."""
        most_age_s = self.plan.requires_acceptance_s
        if most_age_s is None:
            return None
        return require_accepted(self.plan.machine.name, hosts_of(self.ranks) or (this_node(),), most_age_s)

    def make(self) -> tuple[RunRecord, ...] | None:
        """Go through all stages and publish the records; None if the run was disturbed and must be repeated.

        An early end gives the attempts a verdict; after any end, nothing remains on the nodes.
        """
        _ = self.acceptance
        with attempts.kept([run.attempt for run in self.runs], self.guard.signals):
            runs = self.open()
            with self._cleaned(runs) as silent, machine_to_itself(partial(say, self.plan)):
                ready = self.prepare(runs)
                ended = self.run_ranks(ready)
            self.guard.signals.require_nodes(ended.endings, silent)
            records, reason = self.conclude(ended)
        if not reason:
            return records
        say(self.plan, f"measured again: {reason}")
        self.guard.signals.go_on()
        return None

    # Before the ranks.

    def open(self) -> tuple[Run, ...]:
        """Open the attempts, check the data, and record the batch system's allocation; nothing is started yet."""
        runs = []
        published = attempts.PublishedSeeds(self.runs[0].folder.parent)
        for run in self.runs:
            _, seeded = attempts.open_attempt(run.folder, run.plan, run.name, published)
            runs.append(replace(run, plan=seeded, earlier=attempts.earlier_attempts(run.folder)))
        _ = self.data
        write_allocation(*(run.attempt for run in runs))
        return tuple(runs)

    def prepare(self, runs: tuple[Run, ...]) -> Ready:
        """Prepare the nodes and build the commands; nothing else is timed on this node at this point."""
        data, pack = self.data, self.data.pack
        # Drop as late as possible: a run that this one waited for may have read the same files.
        nodes = prepare_nodes(self.start.launcher, self.ranks, self.scratch, data.files)
        # Data staged before the clock starts is warm.
        page_cache: PageCache = "kept" if pack and not self.plan.time_staging else nodes.page_cache
        for run in runs:
            if run.share is None:
                write_json(nodes, run.attempt / publish.NODES)
        require_room(self.plan, pack, [run.ranks for run in runs], nodes, self.scratch.parent)
        commands = tuple(self._command(run, nodes, page_cache) for run in runs)
        return Ready(runs, page_cache, commands)

    def _command(self, run: Run, nodes: NodesReport, page_cache: PageCache) -> list[str]:
        """Return the command line that starts the ranks of a run, and write their surroundings to files."""
        instrument, folders = self.start.instrument, self.data.folders
        if run.share is not None:
            write_json(run.share, run.attempt / publish.SHARE)
        if run.plan.kind == "profiled":
            write_json(instrument.facts, run.attempt / publish.TOOL)
        instrument.before(run.attempt, [*folders, every_stage(run.scratch)])
        program = rank_program(run, self.inputs, page_cache, instrument)
        # The ranks of a single node cannot determine this themselves.
        program += ["--shared-scratch"] if nodes.share_scratch > 1 else []
        inside = contained(
            instrument.wrap(program, run.attempt), run.plan.machine.software, [*folders, run.scratch.parent]
        )
        return launch_command(self.start.launcher, run.ranks, inside)

    # The ranks.

    def run_ranks(self, ready: Ready) -> Ended:
        """Start the ranks of all runs and watch them to their end; refuse runs that were ended externally."""
        instrument = self.start.instrument
        started_utc = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with ExitStack() as beside:
            for run in ready.runs:
                beside.enter_context(instrument.beside(run.attempt))
            endings = self._watch_all(ready)
        of_attempts = {run.attempt: ending for run, ending in zip(ready.runs, endings, strict=True)}
        self.guard.signals.require_job(of_attempts)
        for run in ready.runs:
            instrument.finish(run.attempt)
        return Ended(ready, started_utc, endings)

    def _watch_all(self, ready: Ready) -> tuple[Ending, ...]:
        """Watch one run in this thread, several in one thread each, so that the end of one delays no other."""
        interrupted = threading.Event()
        if len(ready.runs) == 1:
            return (self._watch(ready.runs[0], ready.commands[0], interrupted),)
        with ThreadPoolExecutor(len(ready.runs)) as pool:
            futures = [
                pool.submit(self._watch, run, command, interrupted)
                for run, command in zip(ready.runs, ready.commands, strict=True)
            ]
            try:
                done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                # Even if this process is interrupted: no launcher may outlive its supervisor.
                interrupted.set()
        for future in done:
            future.result()
        return tuple(future.result() for future in futures)

    def _watch(self, run: Run, command: list[str], interrupted: threading.Event) -> Ending:
        plan, attempt = run.plan, run.attempt
        progress = Progress(plan, attempt / "epochs.jsonl")

        def look() -> None:
            self.guard.claim.require()
            if interrupted.is_set():
                raise InterruptedError(f"{plan.run_id}: ended, because its group was interrupted")
            progress()

        on = f" of {_where(run.share)}" if run.share else ""
        say(plan, f"starts with seed {plan.seed} on {plan.point.ranks} ranks{on}; output in {attempt / 'output.log'}")
        variables = {ATTEMPT_VARIABLE: attempt.name, **self.start.instrument.variables(attempt)}
        return watch(command, attempt, plan.limits, variables, look)

    # After the ranks.

    @contextmanager
    def _cleaned(self, runs: tuple[Run, ...]) -> Iterator[list[str]]:
        """Clean all nodes after the block, however it ends; yield a list that receives nodes without an answer."""
        silent: list[str] = []
        scratches = list(dict.fromkeys([self.scratch, *(run.scratch for run in runs)]))
        names = [run.name for run in runs]
        try:
            yield silent
        finally:
            # The remaining work takes seconds.
            self.guard.signals.hold_back()
            silent.extend(clean_nodes(self.start.launcher, self.ranks, scratches, names))

    def conclude(self, ended: Ended) -> tuple[tuple[RunRecord, ...], str]:
        """Publish the records, or set the attempts aside; return the records and the reason for setting them aside.

        Not earlier: digesting and comparing files would disturb instances that still train.
        """
        records = self._records(ended)
        self.guard.claim.confirm()
        runs = ended.ready.runs
        # The processes of a tool around the ranks count as others, too, every time.
        reason = "" if self.start.instrument.wraps else attempts.why_repeat(records, runs[0].folder)
        for run, record in zip(runs, records, strict=True):
            if reason:
                attempts.set_aside(run.attempt, record, reason)
            else:
                publish.publish(run.attempt, run.folder, record)
                say(run.plan, f"{record.outcome.replace('_', ' ')} after {record.wall_s:.1f} s: {record.reason}")
        return records, reason

    def _records(self, ended: Ended) -> tuple[RunRecord, ...]:
        data, ready = self.data, ended.ready
        facts = {"data_source": data.manifest.source, "started_utc": ended.started_utc}
        found = collect_provenance(self.plan, data.manifest, data.pack, ready.page_cache)
        shared = found.model_copy(update={"acceptance": self.acceptance})
        records = []
        for run, command, ending in zip(ready.runs, ready.commands, ended.endings, strict=True):
            origin = shared.model_copy(update={"command": tuple(command)})
            record = record_attempt(run.plan, run.attempt, ending, origin, facts)
            records.append(record.model_copy(update={"earlier_attempts": run.earlier}))
        return without_companions(records)


def _where(share: InstanceShare) -> str:
    return ", ".join(f"{node.host} (cores {','.join(map(str, node.cores)) or 'of Slurm'})" for node in share.nodes)


def rank_program(run: Run, inputs: Inputs, page_cache: PageCache, instrument: Instrument) -> list[str]:
    """Return the command line of one rank."""
    plan = ["--plan", str(run.attempt / "plan.json"), "--raw", str(run.attempt), "--scratch", str(run.scratch)]
    pack = ["--pack", str(inputs.pack)] if inputs.pack else []
    data = ["--manifest", str(inputs.manifest), *pack, "--page-cache", page_cache]
    profiler = [] if instrument.step_profiler == "none" else ["--step-profiler", instrument.step_profiler]
    return [sys.executable, "-m", "hpcai.training", *plan, *data, *profiler]
