"""Build the record of an ended attempt: the ranks' reports, external observations, and the rules' verdict."""

import os
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from hpcai.config.runs import RunPlan
from hpcai.core.disturbance import Disturbance, disturbance_of
from hpcai.core.errors import RecordError
from hpcai.core.files import file_sha256, why_full
from hpcai.data.manifest import Manifest
from hpcai.data.packed import PackManifest
from hpcai.measure import provenance
from hpcai.measure.container import computing_software
from hpcai.measure.failure_reasons import why
from hpcai.measure.nodes import PageCache
from hpcai.measure.progress import read_epochs
from hpcai.measure.publish import give_back_reserve
from hpcai.measure.rank_files import RANKS, gather_rank_files, read_rank_reports
from hpcai.measure.watch import Ending
from hpcai.records.files import read_part
from hpcai.records.run import FINISHED, Artefact, Outcome, Provenance, RankReport, RunRecord, TrainingReport
from hpcai.rules.judge import judge

LATE_S = 60.0
"""How long a network file system may hide files written by another node (nfs(5): acdirmax and acregmax)."""
LOOK_S = 0.5


def collect_provenance(
    plan: RunPlan, manifest: Manifest, pack: PackManifest | None, page_cache: PageCache
) -> Provenance:
    """Return the provenance of an attempt's numbers without its command, which differs between instances."""
    commit, dirty, lock = provenance.code_facts()
    return Provenance(
        commit=commit,
        dirty=dirty,
        lock_sha256=lock,
        command=(),
        environment=provenance.environment_facts(),
        software=computing_software(plan.machine.software),
        machine_facts=provenance.machine_facts(),
        data_digest=manifest.digest,
        pack_digest=provenance.digest_pack(pack) if pack else None,
        page_cache=page_cache,
    )


def record_attempt(
    plan: RunPlan, attempt: Path, ending: Ending, origin: Provenance, facts: dict[str, str]
) -> RunRecord:
    """Combine the ranks' reports, external observations, and the rules' verdict.

    Raises
    ------
    RecordError
        If reports and external observations contradict each other.
    """
    try:
        record = _join(plan, attempt, ending, origin, facts)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "as a whole"
        raise RecordError(
            f"{attempt}: what was reported makes no record ({place}: {first['msg']}), expected reports of the ranks "
            "that agree with the supervisor's observations; the attempt is kept as it is"
        ) from error
    return record.model_copy(update={"verdicts": judge(plan, record.facts)})


def _join(plan: RunPlan, attempt: Path, ending: Ending, origin: Provenance, facts: dict[str, str]) -> RunRecord:
    (attempt / "heartbeat").unlink(missing_ok=True)
    complete = ending.verdict == "ended" and ending.exit_status == 0
    training, ranks, problem = _reports(plan, attempt, LATE_S if complete else 0.0)
    gather_rank_files(attempt)
    outcome, reason = _outcome(ending, training, problem, attempt / "output.log", plan)
    give_back_reserve(attempt)
    if outcome in FINISHED and len({rank.weights_sha256 for rank in ranks}) > 1:
        outcome, reason = "failed", "the ranks ended with different weights: their results are not one training"
    return RunRecord(
        run_id=plan.run_id,
        plan=plan,
        plan_digest=plan.digest,
        attempt=attempt.name,
        outcome=outcome,
        reason=reason,
        wall_s=ending.wall_s,
        launch_s=_launch_s(ending, training, ranks),
        exit_status=ending.exit_status,
        training=training,
        partial_epochs=() if training else read_epochs(attempt / "epochs.jsonl"),
        ranks=ranks,
        disturbance=disturbance_while_timed(ranks),
        artefacts=_artefacts(attempt),
        provenance=origin,
        **facts,
    )


def _launch_s(ending: Ending, training: TrainingReport | None, ranks: Sequence[RankReport]) -> float | None:
    """Return the time from the start of the launcher to that of rank 0 [s]; None if no clock timed both.

    A monotonic clock counts from the start of its node, so rank 0 must have run on the supervisor's. Wall clocks of two
    nodes may differ by more than a launch takes.
    """
    if training is None or ranks[0].placement.hostname != socket.gethostname():
        return None
    return training.started_monotonic_s - ending.started_monotonic_s


def disturbance_while_timed(
    ranks: Iterable[RankReport], companions: Iterable[RankReport] = ()
) -> tuple[Disturbance, ...]:
    """Return the load by other processes on the nodes of a run.

    Parameters
    ----------
    ranks
        Those of the run.
    companions
        Ranks of the other instances of its weak-scaling group, which do not count as others on shared nodes.
    """
    uses = [rank.quietness.use if rank.quietness else None for rank in ranks]
    nodes = {use.node for use in uses if use}
    beside = (rank.quietness.use for rank in companions if rank.quietness)
    return disturbance_of([*uses, *(use for use in beside if use and use.node in nodes)])


def without_companions(records: Sequence[RunRecord]) -> tuple[RunRecord, ...]:
    """Return the records of runs that trained together; only processes outside the group count as others."""
    alone = []
    for record in records:
        companions = [rank for other in records if other is not record for rank in other.ranks]
        found = disturbance_while_timed(record.ranks, companions)
        alone.append(record.model_copy(update={"disturbance": found}))
    return tuple(alone)


def _reports(plan: RunPlan, attempt: Path, wait_s: float) -> tuple[TrainingReport | None, tuple[RankReport, ...], str]:
    """Read the ranks' reports, which may appear late; defects become a reason, not an error."""
    reports = [f"rank{rank}.json" for rank in range(plan.point.ranks)]
    await_files({attempt: ["training.json"], attempt / RANKS: reports}, wait_s)
    try:
        ranks = read_rank_reports(attempt, plan.point.ranks)
        return read_part(TrainingReport, attempt / "training.json"), ranks, ""
    except RecordError as error:
        return None, (), str(error)


def await_files(names: Mapping[Path, Iterable[str]], wait_s: float) -> None:
    """Wait for files written by ranks on other nodes; listing their folders makes the client ask the file server."""
    give_up_s = time.monotonic() + wait_s
    while not all(set(own) <= set(os.listdir(folder)) for folder, own in names.items()):  # noqa: PTH208  names are enough
        if time.monotonic() >= give_up_s:
            return
        time.sleep(LOOK_S)


def _outcome(
    ending: Ending, training: TrainingReport | None, problem: str, output: Path, plan: RunPlan
) -> tuple[Outcome, str]:
    # A launcher may hang if it cannot write its ranks' output, and the ranks leave no message about their end.
    full = why_full(output.parent) if ending.is_bad or training is None else ""
    because = f"; {output.parent}: {full}: make room" if full else ""
    if ending.verdict == "timed_out":
        return "timed_out", f"ended after its time limit of {plan.limits.run_s:g} s{because}"
    if ending.verdict == "stalled":
        return "failed", f"ended after {plan.limits.stall_s:g} s without a sign of life of rank 0{because}"
    if full:
        return "failed", f"{output.parent}: {full}, so that the ranks could not write what they found; make room"
    if ending.exit_status != 0:
        return "failed", f"the launcher ended with exit status {ending.exit_status}: {why(output, ending.exit_status)}"
    if training is None:
        return "failed", f"the launcher succeeded, but the ranks' reports are not complete: {problem}"
    return training.outcome, training.reason


def _artefacts(attempt: Path) -> tuple[Artefact, ...]:
    found = []
    for file in sorted(attempt.rglob("*")):
        # Files that a network file system hides until the last reader closes them (.nfs*) do not belong to the run.
        if file.name.startswith(".nfs"):
            continue
        with suppress(FileNotFoundError):
            if file.is_file():
                size_bytes, digest = file.stat().st_size, file_sha256(file)
                found.append(Artefact(path=str(file.relative_to(attempt)), bytes=size_bytes, sha256=digest))
    return tuple(found)
