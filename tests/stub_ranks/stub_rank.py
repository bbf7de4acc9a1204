"""A rank without TensorFlow and Horovod: it obeys its plan, stages and writes what a rank writes, and learns nothing.

An epoch takes `EPOCH_S`, its evaluation no time. The ranks wait for each other after each, as ranks that exchange
gradients do: what one of them suffers, all suffer. The error after epoch n is 1/n; at an absurd learning rate the loss
is no number. A rank keeps one MiB for each of the model's `base_filters`. While the file exists that `STUB_HOLD` names,
ranks go no further than their first epoch: a test has as long as it needs to break them. Variants named `real...` are
trained for real.
"""

import hashlib
import importlib
import math
import os
import shutil
import sys
import time
from functools import partial
from pathlib import Path
from statistics import median

from hpcai.core.stalls import find_stalls
from hpcai.data.pack import read_pack
from hpcai.data.stage import preflight, stage_shards
from hpcai.data.stage_folder import clean_stage, is_shared, own_stage
from hpcai.launchers.registry import rank_of
from hpcai.records.files import write_json
from hpcai.records.run import EpochRecord, RankReport, StagingRecord, TrainingReport
from hpcai.training.journal import Journal, ResourceSampler, Step
from hpcai.training.mlperf_log import MlperfLog
from hpcai.training.stopping import Goal, Progress, judge

EPOCH_S, LOOK_S = 0.2, 0.02
METRIC, HIGHEST_RATE = "mean_absolute_error", 1000
MIB = b"\1" * (1 << 20)


def run_rank(arguments, plan, placement, started_s):
    """Do what the function of this name in hpcai.training.rank does."""
    if plan.point.variant.startswith("real"):
        del sys.modules["hpcai.training.rank"]
        importlib.import_module("hpcai.training.rank").run_rank(arguments, plan, placement, started_s)
        return
    rank = rank_of(os.environ)
    found = {"rank": rank, "node_index": rank // plan.point.ranks_per_node}
    placement = placement.model_copy(update=found)
    (arguments.raw / "ranks").mkdir(exist_ok=True)
    meetings, ranks = arguments.raw / "meetings", plan.point.ranks
    meet = partial(wait_for_all, meetings, rank, ranks)
    memory = MIB * plan.benchmark.model.base_filters
    with ResourceSampler(arguments.raw / f"resources_rank{rank}.csv"):
        report = run_training(arguments, plan, placement, started_s, meet)
    own = RankReport(
        placement=placement,
        peak_memory_bytes=len(memory),
        cpu_time_s=time.process_time(),
        weights_sha256=hashlib.sha256(str(plan.seed).encode()).hexdigest(),
    )
    write_json(own, arguments.raw / f"ranks/rank{rank}.json")
    if placement.local_rank == 0:
        clean_stage(own_stage(arguments.scratch))
    sign(meetings, rank)
    if rank == 0:
        wait_for_others(meetings, rank, ranks)
        shutil.rmtree(meetings)
        write_json(report, arguments.raw / "training.json")
        if timeline := os.environ.get("HOROVOD_TIMELINE"):
            Path(timeline).write_text("[]")


def run_training(arguments, plan, placement, started_s, meet):
    """Go through the parts of a training; return the report of the first rank."""
    is_first, target = placement.rank == 0, plan.benchmark.target.value
    journal, log = Journal(arguments.raw, is_first), MlperfLog(arguments.raw / "mllog.txt", is_first)
    init_start_s = time.monotonic()
    log.submission(plan, plan.benchmark.workload, arguments.page_cache == "dropped")
    log.start("init_start")
    journal.beat()
    meet()
    log.settings(plan, (plan.benchmark.data.train_samples, plan.benchmark.data.validation_samples), {})
    log.stop("init_stop")
    run_start_s = journal.begin_timing()
    log.start("run_start")
    staging = stage(arguments, plan, placement, journal, meet)
    epochs, steps_s, verdict = train(plan, journal, log, meet)
    run_s = time.monotonic() - run_start_s
    log.end_run(verdict.outcome == "converged")
    return TrainingReport(
        outcome=verdict.outcome,
        reason=verdict.reason,
        seed=plan.seed,
        parameters=1,
        quality_metric=METRIC,
        quality_target=target,
        higher_is_better=False,
        init_s=run_start_s - init_start_s,
        import_s=init_start_s - started_s,
        started_monotonic_s=started_s,
        run_s=run_s,
        step_time_median_s=median(steps_s),
        longest_gap_s=journal.longest_gap_s,
        stalls=find_stalls(steps_s),
        staging=staging,
        epochs=epochs,
    )


def wait_for_all(folder, rank, ranks):
    """Return when each rank has called this as often as this one."""
    sign(folder, rank)
    wait_for_others(folder, rank, ranks)


def sign(folder, rank):
    folder.mkdir(exist_ok=True)
    with (folder / f"rank{rank}").open("ab") as file:
        file.write(b".")


def wait_for_others(folder, rank, ranks):
    met = size_of(folder / f"rank{rank}")
    while any(size_of(folder / f"rank{other}") < met for other in range(ranks)):
        time.sleep(LOOK_S)


def size_of(file):
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def stage(arguments, plan, placement, journal, meet):
    """Stage as a rank does, with the functions that do it."""
    pack = read_pack(arguments.pack)
    nodes, partition = plan.point.nodes, plan.benchmark.staging.partition
    if placement.local_rank == 0:
        preflight(pack, own_stage(arguments.scratch), placement.node_index, nodes, partition)
    meet()
    own = stage_shards(
        pack,
        arguments.pack.parent,
        own_stage(arguments.scratch),
        local_rank=placement.local_rank,
        local_size=plan.point.ranks_per_node,
        node_index=placement.node_index,
        nodes=nodes,
        partition=partition,
        threads=1,
        progress=journal.beat,
    )
    meet()
    return StagingRecord(
        place="shared" if arguments.shared_scratch or is_shared(arguments.scratch) else "node_local",
        partition=partition,
        on_clock=plan.time_staging,
        files=own.files,
        packed_bytes=own.bytes_read,
        content_bytes=own.bytes_written,
        staging_s=own.seconds,
    )


def train(plan, journal, log, meet):
    """Take the epochs of a plan; return them, the times of all steps, and how the training ended."""
    recipe = plan.benchmark.recipe
    goal = Goal(METRIC, plan.benchmark.target.value, False, recipe.max_epochs, plan.max_steps)
    diverges = recipe.base_learning_rate > HIGHEST_RATE
    loss = math.nan if diverges else 1.0
    epochs, steps_s, verdict = [], [], None
    while verdict is None:
        number = len(epochs) + 1
        quality = None if diverges else 1 / number
        log.start("epoch_start", number)
        steps = take_steps(plan, loss, meet)
        log.start("eval_start", number)
        log.stop("eval_stop", number)
        if quality:
            log.quality("eval_error", quality, number)
        log.stop("epoch_stop", number)
        epochs.append(epoch_record(plan, number, steps, quality))
        journal.add_epoch(epochs[-1], steps)
        steps_s += [step.step_time_s for step in steps]
        journal.say(f"epoch {number}: loss {loss}")
        wait_for_release(journal)
        verdict = judge(goal, Progress(number, number * plan.epoch_steps, loss, quality))
    return tuple(epochs), steps_s, verdict


def wait_for_release(journal):
    """Return when there is no file that holds the run; a held run is alive."""
    hold = os.environ.get("STUB_HOLD")
    while hold and Path(hold).exists():
        journal.beat()
        time.sleep(LOOK_S)


def take_steps(plan, loss, meet):
    """Take the steps of an epoch; the last one ends when all ranks have taken theirs."""
    steps = []
    for number in range(1, plan.epoch_steps + 1):
        start_s = time.monotonic()
        time.sleep(EPOCH_S / plan.epoch_steps)
        if number == plan.epoch_steps:
            meet()
        steps.append(Step(start_s, time.monotonic() - start_s, loss))
    return steps


def epoch_record(plan, number, steps, quality):
    times_s = [step.step_time_s for step in steps]
    return EpochRecord(
        epoch=number,
        steps=plan.epoch_steps,
        samples=plan.epoch_steps * plan.global_batch,
        train_s=sum(times_s),
        evaluation_s=0.0,
        evaluation_samples=plan.benchmark.data.validation_samples,
        learning_rate=plan.benchmark.recipe.base_learning_rate,
        train_loss=steps[-1].train_loss,
        quality=quality,
        step_time_median_s=median(times_s),
    )
