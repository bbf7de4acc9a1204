"""Measures one run: claim, attempt, launch, watch, record, publish."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from hpcai.config.load import read_plan
from hpcai.config.machine import scratch_path
from hpcai.config.runs import RunPlan
from hpcai.core.errors import ResultsError, RunRefusedError
from hpcai.core.machine_lock import machine_to_itself
from hpcai.data.manifest import Manifest, read_manifest
from hpcai.data.pack import PackManifest, read_pack, require_same, require_shards
from hpcai.data.stage_folder import every_stage
from hpcai.launchers.ranks import Ranks
from hpcai.launchers.registry import launch_command
from hpcai.measure import provenance, publish
from hpcai.measure.allocation_use import write_allocation
from hpcai.measure.attempts import (
    adopt_finished,
    attempt_folder,
    attempt_name,
    earlier_attempts,
    kept,
    open_attempt,
    set_aside,
    why_repeat,
)
from hpcai.measure.claim import Claim, claimed
from hpcai.measure.container import computing_software, contained
from hpcai.measure.failure_reasons import lost_node
from hpcai.measure.interruption import ASK_S, Signals, ended_by_signals
from hpcai.measure.modules import require_modules
from hpcai.measure.nodes import NodesReport, clean_nodes, prepare_nodes
from hpcai.measure.progress import Progress, say
from hpcai.measure.recording import record_attempt
from hpcai.measure.room import require_room
from hpcai.measure.watch import ATTEMPT_VARIABLE, Ending, watch
from hpcai.profiles.instrument import NO_INSTRUMENT, Instrument, StepProfiler
from hpcai.records.run import Provenance, RunRecord, write_json

PageCache = Literal["dropped", "not_permitted", "kept"]
NODES = "nodes.json"
"""In each attempt: what its nodes said before the ranks started."""


@dataclass(frozen=True)
class Inputs:
    """The files that a run starts from."""

    plan: Path
    manifest: Path
    pack: Path | None


@dataclass(frozen=True)
class Start:
    """How the ranks are started, and which tool looks into them."""

    launcher: str
    instrument: Instrument


@dataclass(frozen=True)
class Guard:
    """What may end a measurement from outside."""

    claim: Claim
    signals: Signals

    def around(self, progress: Callable[[], None]) -> Callable[[], None]:
        """Return what is called a few times per second while ranks run."""

        def look() -> None:
            self.claim.require()
            progress()

        return look

    def require_job(self, endings: Mapping[Path, Ending]) -> None:
        """Interrupt what was interrupted: ranks that Slurm ended with their job, or lost, are no result.

        Parameters
        ----------
        endings
            How launchers ended, by the folders of their attempts.
        """
        for ending in endings.values():
            if ending.verdict == "stood_still":
                words = f"the supervisor stood still for {ending.stood_still_s:.0f} s"
                self.signals.give_up(f"{words}: the times of this run mean nothing")
        bad = [attempt for attempt, ending in endings.items() if ending.is_bad]
        lost = next(filter(None, (lost_node(attempt / "output.log") for attempt in bad)), "")
        if lost:
            # Slurm may know more, but this is enough.
            self.signals.interrupt_if_job_ends(ASK_S)
            self.signals.give_up(f"a node of the run was lost ({lost})")
        elif bad:
            self.signals.interrupt_if_job_ends()

    def require_nodes(self, endings: Iterable[Ending], silent: Sequence[str]) -> None:
        """Interrupt what ended badly and left nodes behind that do not answer: Slurm may not have noticed yet."""
        if silent and any(ending.is_bad for ending in endings):
            names, do = " and ".join(dict.fromkeys(silent)), "do" if len({*silent}) > 1 else "does"
            self.signals.give_up(f"node{'s' * (do == 'do')} {names} {do} not answer any more")


def measure(inputs: Inputs, folder: Path, launcher: str, instrument: Instrument = NO_INSTRUMENT) -> RunRecord:
    """Measure the run of a plan and publish its record in ``folder``; a finished run is only published again.

    A profiled run has an ``instrument`` around its ranks.

    Whatever happens to the ranks ends in a record. Only what makes a run impossible or forbidden is an error. While
    another process is at work on the run, this one waits, and then publishes again what that one has published.

    Raises
    ------
    RunRefusedError
        If the run was measured with other settings, would repeat a seed, or was taken over by another process.
    RunInterruptedError
        If a signal ended it: nothing is published, and the attempt tells why.
    ResultsError
        If its folder cannot be written.
    LaunchError
        If the launcher, the machine's image or one of its modules is not there.
    DatasetError
        If its data or shards are missing or damaged, or its nodes lack room for them: no attempt of it counts, and no
        record is published.
    """
    plan = read_plan(inputs.plan)
    require_modules(plan.machine.modules)
    with (
        ended_by_signals(plan.run_id) as signals,
        results_written(folder),
        claimed(folder, partial(say, plan)) as claim,
    ):
        adopt_finished(folder, plan)
        record = publish.published(folder, plan)
        if record is not None:
            refuse_other_data(record, inputs.manifest, folder)
            say(plan, f"already measured ({record.outcome}, attempt {record.attempt}): published again, not repeated")
            publish.republish(folder)
            return record
        start, guard = Start(launcher, instrument), Guard(claim, signals)
        while record is None:
            record = _measure_once(plan, inputs, folder, start, guard)
    say(plan, f"{record.outcome.replace('_', ' ')} after {record.wall_s:.1f} s: {record.reason}")
    return record


def _measure_once(plan: RunPlan, inputs: Inputs, folder: Path, start: Start, guard: Guard) -> RunRecord | None:
    """Make an attempt and publish it; None if it was disturbed, and is to be repeated."""
    name = attempt_name()
    with kept([attempt_folder(folder, name)], guard.signals):
        attempt, seeded = open_attempt(folder, plan, name)
        record = _attempt(seeded, inputs, attempt, start, guard)
        record = record.model_copy(update={"earlier_attempts": earlier_attempts(folder)})
        guard.claim.confirm()
        # The processes of a tool around the ranks are others as well, each time.
        reason = "" if start.instrument.wraps else why_repeat([record], folder)
        if not reason:
            publish.publish(attempt, folder, record)
            return record
        set_aside(attempt, record, reason)
    say(plan, f"measured again: {reason}")
    guard.signals.go_on()
    return None


@contextmanager
def results_written(folder: Path) -> Iterator[None]:
    """Say in one sentence that a results folder cannot be written.

    Raises
    ------
    ResultsError
        If the system refuses to read or write something in the block.
    """
    try:
        yield
    except OSError as error:
        raise ResultsError(
            f"{error.filename or folder}: {error.strerror or error}, so that {folder} could not be completed; make "
            "room or repair the file system, then start the workflow again"
        ) from error


def refuse_other_data(record: RunRecord, manifest: Path, folder: Path) -> None:
    """Raise RunRefusedError if a run was measured on other data than a manifest describes."""
    found, measured = read_manifest(manifest).digest, record.provenance.data_digest
    if found != measured:
        raise RunRefusedError(
            f"{manifest}: the data are no longer those that {folder} was measured on (digest {found[:12]}, measured "
            f"{measured[:12]}); restore the data, or put the run aside with `hpcai discard {folder}`"
        )


def read_data(manifest_file: Path, pack_file: Path | None) -> tuple[Manifest, PackManifest | None]:
    """Read what a run starts from, and check that its shards are there before any rank waits for them.

    Raises
    ------
    DatasetError
        If the manifests are missing or damaged or describe different data, or a shard is missing or of another length.
    """
    manifest = read_manifest(manifest_file)
    if pack_file is None:
        return manifest, None
    pack = read_pack(pack_file)
    require_same(pack, manifest, pack_file)
    require_shards(pack, pack_file)
    return manifest, pack


def _attempt(plan: RunPlan, inputs: Inputs, attempt: Path, start: Start, guard: Guard) -> RunRecord:
    manifest, pack = read_data(inputs.manifest, inputs.pack)
    write_allocation(attempt)
    ranks, scratch = Ranks.of(plan), scratch_folder(plan, attempt.name)
    folders = data_folders(inputs, manifest, pack)
    look = guard.around(Progress(plan, attempt / "epochs.jsonl"))
    try:
        with machine_to_itself(partial(say, plan)):
            # Dropped only now: a run that was waited for may have read the same files.
            nodes = prepare_nodes(start.launcher, ranks, scratch, data_files(inputs, manifest, pack))
            page_cache = page_cache_of(plan, pack, nodes.page_cache)
            write_json(nodes, attempt / NODES)
            require_room(plan, pack, [ranks], nodes, scratch.parent)
            instrument = start.instrument
            if plan.kind == "profiled":
                write_json(instrument.facts, attempt / publish.TOOL)
            instrument.before(attempt, [*folders, every_stage(scratch)])
            program = rank_program(inputs, attempt, scratch, page_cache, instrument.step_profiler)
            program += shared_scratch(nodes)
            inside = contained(instrument.wrap(program, attempt), plan.machine.software, [*folders, scratch.parent])
            command = launch_command(start.launcher, ranks, inside)
            environment = {ATTEMPT_VARIABLE: attempt.name, **instrument.variables(attempt)}
            say(plan, f"starts with seed {plan.seed} on {plan.point.ranks} ranks; output in {attempt / 'output.log'}")
            started_utc = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            with instrument.beside(attempt):
                ending = watch(command, attempt, plan.limits, environment, look)
            guard.require_job({attempt: ending})
            instrument.finish(attempt)
    finally:
        guard.signals.hold_back()
        silent = clean_nodes(start.launcher, ranks, scratch, attempt.name)
    guard.require_nodes([ending], silent)
    origin = collect_provenance(plan, command, manifest, pack, page_cache)
    return record_attempt(plan, attempt, ending, origin, {"data_source": manifest.source, "started_utc": started_utc})


def collect_provenance(
    plan: RunPlan, command: Sequence[str], manifest: Manifest, pack: PackManifest | None, page_cache: PageCache
) -> Provenance:
    """Return where the numbers of an attempt come from."""
    commit, dirty, lock = provenance.code_facts()
    return Provenance(
        commit=commit,
        dirty=dirty,
        lock_sha256=lock,
        command=tuple(command),
        environment=provenance.environment_facts(),
        software=computing_software(plan.machine.software),
        machine_facts=provenance.machine_facts(),
        data_digest=manifest.digest,
        pack_digest=provenance.digest_pack(pack) if pack else None,
        page_cache=page_cache,
    )


def scratch_folder(plan: RunPlan, attempt: str) -> Path:
    """Return the node-local folder of an attempt."""
    return Path(scratch_path(plan.machine.storage.node_local)) / attempt


def data_files(inputs: Inputs, manifest: Manifest, pack: PackManifest | None) -> list[Path]:
    """Return the files that the run reads from shared storage."""
    if pack is not None and inputs.pack is not None:
        return [inputs.pack.parent / shard.file for shard in pack.shards]
    return [manifest.root(inputs.manifest) / entry.path for entries in manifest.splits.values() for entry in entries]


def data_folders(inputs: Inputs, manifest: Manifest, pack: PackManifest | None) -> list[Path]:
    """Return the folders below which the run's files on shared storage lie."""
    return [inputs.pack.parent] if pack is not None and inputs.pack is not None else [manifest.root(inputs.manifest)]


def page_cache_of(plan: RunPlan, pack: PackManifest | None, dropped: PageCache) -> PageCache:
    """Return what dropping the data means for a run: what is staged before the clock starts is warm."""
    return "kept" if pack and not plan.time_staging else dropped


def shared_scratch(nodes: NodesReport) -> list[str]:
    """Return what ranks are told of scratch that nodes share; the ranks of one node alone could not find out."""
    return ["--shared-scratch"] if nodes.share_scratch > 1 else []


def rank_program(
    inputs: Inputs, attempt: Path, scratch: Path, page_cache: PageCache, step_profiler: StepProfiler
) -> list[str]:
    """Return the command line of one rank."""
    plan = ["--plan", str(attempt / "plan.json"), "--raw", str(attempt), "--scratch", str(scratch)]
    pack = ["--pack", str(inputs.pack)] if inputs.pack else []
    data = ["--manifest", str(inputs.manifest), *pack, "--page-cache", page_cache]
    profiler = [] if step_profiler == "none" else ["--step-profiler", step_profiler]
    return [sys.executable, "-m", "hpcai.training", *plan, *data, *profiler]
