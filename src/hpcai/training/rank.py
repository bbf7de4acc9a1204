"""One rank from joining the others to its report; imports TensorFlow, so import it after the cores are set."""

import argparse
import os
import resource
from contextlib import suppress

import psutil

from hpcai.config.runs import RunPlan
from hpcai.core.disturbance import Quietness
from hpcai.core.errors import LaunchError, StagingError
from hpcai.records.files import write_json
from hpcai.records.run import Placement, RankReport
from hpcai.training import collective
from hpcai.training.accelerators import gather_accelerators, own_accelerator, require_own
from hpcai.training.collectives.base import Ranks
from hpcai.training.dataset import Dataset, Sources
from hpcai.training.engines import steps_of
from hpcai.training.journal import Journal, ResourceSampler, storage_bytes
from hpcai.training.loop import Outputs, Start, Training
from hpcai.training.mlperf_log import MlperfLog
from hpcai.training.registry import workload_of
from hpcai.training.step_profiler import step_profiler


def run_rank(arguments: argparse.Namespace, plan: RunPlan, placement: Placement, started_s: float) -> None:
    """Train as one of the plan's ranks and write this rank's reports.

    Parameters
    ----------
    arguments
        The command line's options.
    plan
        What to train.
    placement
        The rank's place according to the launcher; facts from Horovod and TensorFlow are added here.
    started_s
        Monotonic clock at the start of the main module [s].
    """
    device = steps_of(plan.point.engine).configure_device(plan.machine.device, placement.threads, placement.local_rank)
    ranks = collective.start(plan.point, plan.point.engine)
    _require_plan(plan, ranks, placement)
    found = {"rank": ranks.rank, "node_index": ranks.node_index, "device": device}
    placement = placement.model_copy(update={**found, **_accelerator(plan, ranks, placement)})
    (arguments.raw / "ranks").mkdir(exist_ok=True)
    sources = Sources(arguments.manifest, arguments.pack, arguments.scratch, arguments.shared_scratch)
    dataset = Dataset(plan, ranks, sources, placement.threads)
    outputs = Outputs(
        journal=Journal(arguments.raw, ranks.is_first),
        log=MlperfLog(arguments.raw / "mllog.txt", ranks.is_first),
        profiler=step_profiler(arguments.step_profiler, arguments.raw, ranks.rank),
    )
    try:
        with ResourceSampler(arguments.raw / f"resources_rank{ranks.rank}.csv"):
            training = Training(workload_of(plan, dataset.statistics), ranks, dataset, outputs)
            report, quietness, digest = training.run(Start(started_s, arguments.page_cache == "dropped"))
        own = _report(placement, dataset, training, quietness, digest)
        write_json(own, arguments.raw / "ranks" / f"rank{ranks.rank}.json")
        collective.barrier()
        if ranks.is_first:
            write_json(report, arguments.raw / "training.json")
        # Before the cleaning, which may take longer than ranks wait for each other at the end.
        collective.stop()
    except BaseException:
        # The user must see the first error.
        with suppress(StagingError):
            dataset.clean()
        raise
    dataset.clean()


def _require_plan(plan: RunPlan, ranks: Ranks, placement: Placement) -> None:
    """Check that the launcher started what the plan requires."""
    found = {"ranks": ranks.size, "ranks per node": ranks.local_size, "local rank": ranks.local_rank}
    expected = {
        "ranks": plan.point.ranks,
        "ranks per node": plan.point.ranks_per_node,
        "local rank": placement.local_rank,
    }
    if found != expected:
        raise LaunchError(
            f"launcher: found {found}, expected {expected}; "
            "start one process per rank, with a launcher that Horovod and this program support"
        )


def _accelerator(plan: RunPlan, ranks: Ranks, placement: Placement) -> dict[str, str]:
    """Return the placement fields for this rank's accelerator, after checking that no other rank has it."""
    if plan.machine.device.kind == "cpu":
        return {}
    own = own_accelerator(os.environ, ranks, placement.hostname)
    every = gather_accelerators(own)
    if not plan.machine.device.shared_by_ranks:
        require_own(every)
    return {"accelerator": own.name, "accelerator_uuid": own.uuid}


def _report(
    placement: Placement, dataset: Dataset, training: Training, quietness: Quietness, digest: str
) -> RankReport:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    read, written = storage_bytes(psutil.Process())
    return RankReport(
        placement=placement,
        peak_memory_bytes=usage.ru_maxrss * 1024,  # Linux counts it in KiB
        cpu_time_s=usage.ru_utime + usage.ru_stime,
        read_bytes=read,
        written_bytes=written,
        staging_read_bytes=dataset.staging_read_bytes,
        staging_s=dataset.staging_s,
        reads=training.reads,
        page_faults_per_step=training.page_faults_per_step,
        quietness=quietness,
        weights_sha256=digest,
    )
