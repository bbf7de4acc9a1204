"""Measures one run: claim, attempt, launch, watch, record, publish."""

import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from hpcai.config.load import read_plan
from hpcai.config.runs import RunPlan
from hpcai.data.manifest import Manifest, read_manifest
from hpcai.data.pack import PackManifest, read_pack, require_same
from hpcai.data.stage import clean_stage
from hpcai.errors import RecordError, RunRefusedError
from hpcai.machine_lock import machine_to_itself
from hpcai.measure import provenance, publish
from hpcai.measure.claim import claimed
from hpcai.measure.instruments import NO_INSTRUMENT, Instrument, StepProfiler
from hpcai.measure.launcher import Ranks, launch_command
from hpcai.measure.page_cache import drop_page_cache
from hpcai.measure.progress import Progress, read_epochs, say
from hpcai.measure.watch import ATTEMPT_VARIABLE, Ending, watch
from hpcai.records import (
    FINISHED,
    Artefact,
    Outcome,
    Provenance,
    RankReport,
    RunRecord,
    TrainingReport,
    file_sha256,
    read_part,
    write_json,
)
from hpcai.rules.judge import judge

PageCache = Literal["dropped", "not_permitted", "kept"]


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


def measure(inputs: Inputs, folder: Path, launcher: str, instrument: Instrument = NO_INSTRUMENT) -> RunRecord:
    """Measure the run of a plan and publish its record in ``folder``; a finished run is only published again.

    A profiled run has an ``instrument`` around its ranks.

    Whatever happens to the ranks ends in a record. Only what makes a run impossible or forbidden is an error.

    Raises
    ------
    RunRefusedError
        If the run is under way elsewhere, was measured with other settings, or would repeat a seed.
    LaunchError
        If the launcher does not exist.
    """
    plan = read_plan(inputs.plan)
    with claimed(folder) as claim:
        record = publish.published(folder, plan)
        if record is not None:
            refuse_other_data(record, inputs.manifest, folder)
            say(plan, f"already measured ({record.outcome}, attempt {record.attempt}): published again, not repeated")
            publish.republish(folder)
            return record
        attempt, plan = publish.open_attempt(folder, plan)
        record = _attempt(plan, inputs, attempt, Start(launcher, instrument), claim)
        record = record.model_copy(update={"earlier_attempts": publish.broken_attempts(folder)})
        publish.publish(attempt, folder, record)
    say(plan, f"{record.outcome.replace('_', ' ')} after {record.wall_s:.1f} s: {record.reason}")
    return record


def refuse_other_data(record: RunRecord, manifest: Path, folder: Path) -> None:
    """Raise RunRefusedError if a run was measured on other data than a manifest describes."""
    found, measured = read_manifest(manifest).digest, record.provenance.data_digest
    if found != measured:
        raise RunRefusedError(
            f"{manifest}: the data are no longer those that {folder} was measured on (digest {found[:12]}, measured "
            f"{measured[:12]}); restore the data, or put the run aside with `hpcai discard {folder}`"
        )


def _attempt(plan: RunPlan, inputs: Inputs, attempt: Path, start: Start, claim: Path) -> RunRecord:
    manifest = read_manifest(inputs.manifest)
    pack = read_pack(inputs.pack) if inputs.pack else None
    if pack and inputs.pack:
        require_same(pack, manifest, inputs.pack)
    scratch = scratch_folder(plan, attempt.name)
    progress = Progress(plan, attempt / "epochs.jsonl", claim)
    try:
        with machine_to_itself(partial(say, plan)):
            # Dropped only now: a run that was waited for may have read the same files.
            page_cache = clear_page_cache(plan, data_files(inputs, manifest, pack), plan.point.nodes, pack)
            instrument = start.instrument
            if plan.kind == "profiled":
                write_json(instrument.facts, attempt / publish.TOOL)
            instrument.before(attempt, [*data_folders(inputs, manifest, pack), scratch])
            program = rank_program(inputs, attempt, scratch, page_cache, instrument.step_profiler)
            command = launch_command(start.launcher, Ranks.of(plan), instrument.wrap(program, attempt))
            environment = {ATTEMPT_VARIABLE: attempt.name, **instrument.variables(attempt)}
            say(plan, f"starts with seed {plan.seed} on {plan.point.ranks} ranks; output in {attempt / 'output.log'}")
            started_utc = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            with instrument.beside(attempt):
                ending = watch(command, attempt, plan.limits, environment, progress)
            instrument.finish(attempt)
    finally:
        clean_stage(scratch)
    origin = collect_provenance(command, manifest, pack, page_cache)
    return record_attempt(plan, attempt, ending, origin, {"data_source": manifest.source, "started_utc": started_utc})


def record_attempt(
    plan: RunPlan, attempt: Path, ending: Ending, origin: Provenance, facts: dict[str, str]
) -> RunRecord:
    """Join the reports of the ranks, what was seen from outside, and what the rules say of it."""
    (attempt / "heartbeat").unlink(missing_ok=True)
    training, ranks, problem = _reports(plan, attempt)
    outcome, reason = _outcome(ending, training, problem, attempt / "output.log", plan)
    if outcome in FINISHED and len({rank.weights_sha256 for rank in ranks}) > 1:
        outcome, reason = "failed", "the ranks ended with different weights: their results are not one training"
    record = RunRecord(
        run_id=plan.run_id,
        plan=plan,
        plan_digest=plan.digest,
        attempt=attempt.name,
        outcome=outcome,
        reason=reason,
        wall_s=ending.wall_s,
        launch_s=training.started_monotonic_s - ending.started_monotonic_s if training else None,
        exit_status=ending.exit_status,
        training=training,
        partial_epochs=() if training else read_epochs(attempt / "epochs.jsonl"),
        ranks=ranks,
        artefacts=_artefacts(attempt),
        provenance=origin,
        **facts,
    )
    return record.model_copy(update={"verdicts": judge(plan, record.facts)})


def collect_provenance(
    command: Sequence[str], manifest: Manifest, pack: PackManifest | None, page_cache: PageCache
) -> Provenance:
    """Return where the numbers of an attempt come from."""
    commit, dirty, lock = provenance.code_facts()
    return Provenance(
        commit=commit,
        dirty=dirty,
        lock_sha256=lock,
        command=tuple(command),
        environment=provenance.environment_facts(),
        software=provenance.software_facts(),
        machine_facts=provenance.machine_facts(),
        data_digest=manifest.digest,
        pack_digest=provenance.digest_pack(pack) if pack else None,
        page_cache=page_cache,
    )


def scratch_folder(plan: RunPlan, attempt: str) -> Path:
    """Return the node-local folder of an attempt; ${TMPDIR} is /tmp where it is not set."""
    os.environ.setdefault("TMPDIR", "/tmp")  # noqa: S108  POSIX's default of this variable
    return Path(os.path.expandvars(plan.machine.storage.node_local)) / attempt


def data_files(inputs: Inputs, manifest: Manifest, pack: PackManifest | None) -> list[Path]:
    """Return the files that the run reads from shared storage."""
    if pack is not None and inputs.pack is not None:
        return [inputs.pack.parent / shard.file for shard in pack.shards]
    return [manifest.root(inputs.manifest) / entry.path for entries in manifest.splits.values() for entry in entries]


def data_folders(inputs: Inputs, manifest: Manifest, pack: PackManifest | None) -> list[Path]:
    """Return the folders below which the run's files on shared storage lie."""
    return [inputs.pack.parent] if pack is not None and inputs.pack is not None else [manifest.root(inputs.manifest)]


def clear_page_cache(plan: RunPlan, files: list[Path], nodes: int, pack: PackManifest | None) -> PageCache:
    """Drop the files that a run on so many nodes reads; return what that means for the run."""
    dropped = drop_page_cache(files)
    # Other nodes' caches are out of reach, and what is staged before the clock starts is warm.
    return "kept" if nodes > 1 or (pack and not plan.time_staging) else dropped


def rank_program(
    inputs: Inputs, attempt: Path, scratch: Path, page_cache: PageCache, step_profiler: StepProfiler
) -> list[str]:
    """Return the command line of one rank."""
    plan = ["--plan", str(attempt / "plan.json"), "--raw", str(attempt), "--scratch", str(scratch)]
    pack = ["--pack", str(inputs.pack)] if inputs.pack else []
    data = ["--manifest", str(inputs.manifest), *pack, "--page-cache", page_cache]
    profiler = [] if step_profiler == "none" else ["--step-profiler", step_profiler]
    return [sys.executable, "-m", "hpcai.training", *plan, *data, *profiler]


def _reports(plan: RunPlan, attempt: Path) -> tuple[TrainingReport | None, tuple[RankReport, ...], str]:
    """Read the reports of the ranks; what is wrong with them is a reason, not an error."""
    try:
        paths = [attempt / "ranks" / f"rank{rank}.json" for rank in range(plan.point.ranks)]
        ranks = tuple(read_part(RankReport, path) for path in paths)
        return read_part(TrainingReport, attempt / "training.json"), ranks, ""
    except RecordError as error:
        return None, (), str(error)


def _outcome(
    ending: Ending, training: TrainingReport | None, problem: str, output: Path, plan: RunPlan
) -> tuple[Outcome, str]:
    if ending.verdict == "timed_out":
        return "timed_out", f"ended after its time limit of {plan.limits.run_s:g} s"
    if ending.verdict == "stalled":
        return "failed", f"ended after {plan.limits.stall_s:g} s without a sign of life of rank 0"
    if ending.exit_status != 0:
        return "failed", f"the launcher ended with exit status {ending.exit_status}: {last_error(output)}"
    if training is None:
        return "failed", f"the launcher ended well, but the ranks' reports are not complete: {problem}"
    return training.outcome, training.reason


REASONS = (
    re.compile(r"hpcai\.errors\.\w+: (?P<reason>.*)"),
    re.compile(r"^(?:\[[^\]]*\]<\w+>:)?\s*(?P<reason>(?:[\w.]+\.)?\w*(?:Error|Exception)\b:.*|error: .*)$"),
    re.compile(r"^(?P<reason>.*(?:signal|[Kk]illed|Segmentation|terminated|exit code).*)$"),
    re.compile(r"^(?P<reason>.*\S.*)$"),
)
"""What tells best why a launcher failed, the best first: our own error, any error, a signal, the last words."""


def last_error(output: Path) -> str:
    """Return the part of a launcher's output that tells best why it failed."""
    lines = output.read_text(errors="replace").splitlines()
    found = (pattern.search(line) for pattern in REASONS for line in reversed(lines))
    best = next((match for match in found if match), None)
    return best["reason"].strip()[:500] if best else "no output"


def _artefacts(attempt: Path) -> tuple[Artefact, ...]:
    files = sorted(path for path in attempt.rglob("*") if path.is_file())
    return tuple(
        Artefact(path=str(file.relative_to(attempt)), bytes=file.stat().st_size, sha256=file_sha256(file))
        for file in files
    )
