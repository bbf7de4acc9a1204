"""The training loop for all benchmarks: initialisation, staging, epochs of training and evaluation, stop."""

import gc
import resource
import statistics
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import tensorflow as tf
from mlperf_logging.mllog import constants
from numpy.typing import NDArray

from hpcai.config.benchmark import SPLITS
from hpcai.config.runs import RunPlan
from hpcai.core.disturbance import Quietness, look, use_since
from hpcai.core.errors import DatasetError, TrainingError
from hpcai.core.stalls import find_stalls
from hpcai.records.input_reads import RankReads, ReadLog
from hpcai.records.run import EpochRecord, StagingRecord, TrainingReport
from hpcai.training import collective
from hpcai.training.caches import Caches
from hpcai.training.chrono import Chrono, monotonic_s
from hpcai.training.collectives.base import Ranks
from hpcai.training.dataset import Dataset, together
from hpcai.training.engines import steps_of
from hpcai.training.input import Batch, Reading, Schedule, checked, evaluation_batches, train_batches
from hpcai.training.journal import Journal, Step
from hpcai.training.mlperf_log import MlperfLog
from hpcai.training.probe import probe_rate
from hpcai.training.step_profiler import StepProfiler
from hpcai.training.stopping import Goal, Progress, Verdict, judge
from hpcai.training.workload import Workload, seed_streams


@dataclass(frozen=True)
class Outputs:
    """Where rank 0 reports, and the profiler of its steps."""

    journal: Journal
    log: MlperfLog
    profiler: StepProfiler


@dataclass(frozen=True)
class Start:
    """How the run began: clock at the start of the main module, and whether the caches had been cleared."""

    monotonic_s: float
    cache_cleared: bool


class Training:
    """One training run of one rank."""

    def __init__(self, workload: Workload[Any], ranks: Ranks, dataset: Dataset, outputs: Outputs) -> None:
        self._workload, self._ranks, self._dataset = workload, ranks, dataset
        self._journal, self._log, self._profiler = outputs.journal, outputs.log, outputs.profiler
        self._plan: RunPlan = workload.plan
        self._chrono = Chrono()
        self._steps = self._skipped_before = 0
        self._step_times_s = array("d")
        self._faults_per_step: list[float] = []
        self._read_log = ReadLog()
        plan, benchmark = self._plan, self._plan.benchmark
        self._goal = Goal(
            metric=workload.quality_metric,
            target=benchmark.target.value,
            higher_is_better=workload.higher_is_better,
            max_epochs=benchmark.recipe.max_epochs,
            max_steps=plan.max_steps if plan.kind == "profiled" else None,
            fixed_epochs=benchmark.stop == "epochs",
        )

    def run(self, start: Start) -> tuple[TrainingReport, Quietness, str]:
        """Train to the end; return the report, this rank's observations of its node, and the digest of its weights.

        Raises
        ------
        DatasetError
            If a sample is missing or damaged, or staging failed on any rank.
        TrainingError
            If the ranks end with different weights.
        """
        imported_s = monotonic_s() - start.monotonic_s
        self._log.submission(self._plan, self._workload.mlperf_name, start.cache_cleared)
        with self._chrono.phase("init"):
            self._initialise()
        collective.barrier()
        probe_before = self._probe()
        staging, run_start_s = self._start_run()
        cache_s = self._fill_caches()
        epochs, verdict = self._train_epochs()
        run_s, longest_gap_s = monotonic_s() - run_start_s, self._journal.longest_gap_s
        self._log.end_run(verdict.outcome == "converged")  # the rest is not part of the run
        use, probe_after = use_since(self._first_look), self._probe()
        quietness = Quietness(use=use, probe_before_flop_per_s=probe_before, probe_after_flop_per_s=probe_after)
        self._journal.say(f"{verdict.outcome.replace('_', ' ')}: {verdict.reason}")
        digest = self._require_equal_ranks()
        report = TrainingReport(
            outcome=verdict.outcome,
            reason=verdict.reason,
            seed=self._seed,
            parameters=self._engine.parameters,
            quality_metric=self._goal.metric,
            quality_unit=self._workload.quality_unit,
            quality_target=self._goal.target,
            higher_is_better=self._goal.higher_is_better,
            init_s=self._chrono.seconds["init"],
            import_s=imported_s,
            started_monotonic_s=start.monotonic_s,
            run_s=run_s,
            step_time_median_s=statistics.median(self._step_times_s),
            longest_gap_s=longest_gap_s,
            stalls=find_stalls(self._step_times_s, evaluation_times(epochs)),
            cache_s=cache_s,
            staging=staging,
            input=self._dataset.input_sizes(),
            epochs=tuple(epochs),
        )
        return report, quietness, digest

    @property
    def reads(self) -> RankReads:
        """What this rank read while it staged and trained."""
        return self._read_log.reads

    @property
    def page_faults_per_step(self) -> float:
        """Minor page faults of this rank per training step: the median over epochs, the first of which takes memory."""
        return statistics.median(self._faults_per_step)

    @property
    def _seed(self) -> int:
        if self._plan.seed is None:
            raise TrainingError("plan.seed: found none, expected the seed that the run was started with")
        return self._plan.seed

    def _probe(self) -> float:
        """Return the rate of a matrix product on this rank's device, while all ranks do the same [FLOP/s]."""
        return probe_rate(self._plan.machine.device.kind)

    def _initialise(self) -> None:
        """Build and compile everything that does not need the dataset."""
        workload, dataset = self._workload, self._dataset
        self._log.start(constants.INIT_START)
        self._journal.beat()
        seeds = seed_streams(self._seed, self._ranks.rank // self._plan.point.spatial_parts, dataset.part)
        self._engine = steps_of(self._plan.point.engine).Engine(workload, seeds)
        samples = (dataset.train_samples, dataset.validation_samples)
        self._log.settings(self._plan, samples, workload.hyperparameters())
        self._engine.synchronise()
        self._engine.warm_up()
        plan = self._plan
        reading = Reading(workload.parse, workload.collate, plan.micro_batch, dataset.threads, workload.read_part)
        schedule = Schedule(seeds.order, self._goal.max_epochs, plan.epoch_steps * plan.local_batch)
        training, evaluated = (dataset.samples(split) for split in SPLITS)
        own = -(-len(evaluated) // evaluated.shard.count)
        self._caches = Caches(plan, training, own, (dataset.stage_folder, self._ranks.rank))
        self._train_data = train_batches(training, self._caches.reading(reading), schedule)
        at_once = replace(reading, batch=plan.evaluation_batch)
        self._evaluation_data = evaluation_batches(evaluated, at_once, self._caches.evaluation)
        collect_garbage_from_now_on()
        self._log.stop(constants.INIT_STOP)
        self._journal.beat()

    def _start_run(self) -> tuple[StagingRecord, float]:
        """Start the clock before or after staging, as planned; access the dataset only after all ranks have arrived."""
        self._first_look = look()
        collective.barrier()
        run_start_s = self._journal.begin_timing()
        if self._plan.time_staging:
            self._log.start(constants.RUN_START)
        self._read_log.mark()
        staging = self._stage()
        self._read_log.mark()
        if not self._plan.time_staging:
            self._first_look = look()
            run_start_s = self._journal.begin_timing()
            self._log.start(constants.RUN_START)
        self._dataset.require_files()
        return staging, run_start_s

    def _stage(self) -> StagingRecord:
        if not self._dataset.is_staged:
            return self._dataset.stage(self._journal.beat)
        self._log.start(constants.STAGING_START)
        with self._chrono.phase("staging"):
            staging = self._dataset.stage(self._journal.beat)
        self._log.stop(constants.STAGING_STOP)
        self._journal.beat()
        self._journal.say(f"staged {staging.files} files, {staging.content_bytes} bytes, in {staging.staging_s:.2f} s")
        return staging

    def _fill_caches(self) -> float | None:
        """Read what the plan caches, on the clock; return how long all ranks took [s], None without caches."""
        if not self._caches.wanted:
            return None
        with self._chrono.phase("cache") as caching:
            spec, threads = self._workload.evaluation_spec(), self._dataset.threads
            together(
                lambda: self._caches.fill(self._evaluation_data, spec, threads, lambda: self._journal.beat(now=False)),
                "caches",
            )
        self._journal.say(f"filled the caches in {caching.seconds:.2f} s")
        return caching.seconds

    def _train_epochs(self) -> tuple[list[EpochRecord], Verdict]:
        """Return the epochs, and how the training ended."""
        batches = checked(iter(self._train_data), "training")
        records: list[EpochRecord] = []
        verdict = None
        while verdict is None:
            epoch = len(records) + 1
            self._log.start(constants.EPOCH_START, epoch)
            record, steps, verdict = self._epoch(epoch, batches)
            self._read_log.mark()
            self._log.stop(constants.EPOCH_STOP, epoch)
            records.append(record)
            self._journal.add_epoch(record, steps)
            self._step_times_s.extend(step.step_time_s for step in steps)
            quality = "" if record.quality is None else f", {self._goal.metric} {record.quality:.5f}"
            self._journal.say(f"epoch {epoch}: loss {record.train_loss:.5f}{quality}, {record.train_s:.2f} s")
        return records, verdict

    def _epoch(self, epoch: int, batches: Iterator[Batch]) -> tuple[EpochRecord, list[Step], Verdict | None]:
        """Train and evaluate one epoch; an epoch that ends the run early is not evaluated."""
        faults = _minor_page_faults()
        with self._chrono.phase("train") as train:
            steps = self._train_steps(batches)
        self._faults_per_step.append((_minor_page_faults() - faults) / len(steps))
        # The mean over a diverged epoch is not finite either, as the record must show.
        loss = float(np.mean([step.train_loss for step in steps]))
        verdict = judge(self._goal, Progress(epoch, self._steps, loss, None))
        rate = self._workload.learning_rate(self._steps - 1)
        record = epoch_record(epoch, rate, steps, train.seconds, self._plan.global_batch)
        record = record.model_copy(update={"skipped_steps": self._count_skipped()})
        if len(steps) < self._plan.epoch_steps or (verdict is not None and verdict.outcome == "diverged"):
            return record, steps, verdict
        interval = self._plan.benchmark.recipe.evaluation_interval_epochs
        if epoch % interval and epoch < self._goal.max_epochs:
            return record, steps, verdict
        with self._chrono.phase("evaluation") as evaluation:
            quality, samples = self._evaluate(epoch)
        measured = {"quality": quality, "evaluation_samples": samples, "evaluation_s": evaluation.seconds}
        verdict = judge(self._goal, Progress(epoch, self._steps, loss, quality))
        return record.model_copy(update=measured), steps, verdict

    def _count_skipped(self) -> int | None:
        """Return how many of the latest epoch's steps changed nothing; None if the plan has no reason to skip any."""
        if not self._plan.benchmark.recipe.skip_gradient_norm and self._plan.point.precision != "fp16":
            return None
        before, self._skipped_before = self._skipped_before, self._engine.skipped_steps
        return self._skipped_before - before

    def _train_steps(self, batches: Iterator[Batch]) -> list[Step]:
        """Take the steps of an epoch; stop early at a non-finite loss, or at the planned number of steps.

        A loss is fetched during the next step, so that an accelerator does not wait for the host.
        """
        planned = self._plan.epoch_steps
        if self._goal.max_steps is not None:
            planned = min(planned, self._goal.max_steps - self._steps)
        starts_s: list[float] = []
        losses: list[float] = []
        pending: tf.Tensor | None = None
        while len(starts_s) < planned and (not losses or np.isfinite(losses[-1])):
            self._profiler.before_step(self._steps, pending)
            starts_s.append(monotonic_s())
            self._engine.set_learning_rate(self._workload.learning_rate(self._steps))
            micro_batches = list(islice(batches, self._plan.point.accumulation))
            if len(micro_batches) < self._plan.point.accumulation:
                raise DatasetError(f"training: the samples ended after {self._steps} steps; verify the dataset")
            loss = self._engine.train(micro_batches)
            if pending is not None:
                losses.append(float(pending))
            pending = loss
            self._steps += 1
            self._journal.beat(now=False)
        losses += [] if pending is None else [float(pending)]
        durations_s = np.diff([*starts_s, monotonic_s()])
        self._profiler.close()  # writes its trace: after the last step, before the evaluation
        return [Step(*step) for step in zip(starts_s, durations_s.tolist(), losses, strict=True)]

    def _evaluate(self, epoch: int) -> tuple[float, int]:
        """Return the quality over the whole validation set, and the number of samples behind it."""
        self._log.start(constants.EVAL_START, epoch)
        self._engine.synchronise_statistics()
        parts = []
        for batch in checked(iter(self._evaluation_data), "evaluation"):
            parts.append(self._engine.evaluate(batch))
            self._journal.beat(now=False)
        if collective.part_of(self._plan.point.spatial_parts):
            parts = []  # only the first of the ranks that share samples counts them
        rows = collective.gather_rows(parts, self._engine.no_rows, "quality")
        samples, expected = int(rows[:, 0].sum()), self._dataset.validation_samples
        if samples != expected:
            raise DatasetError(f"evaluation: found {samples} samples, expected {expected}; verify the dataset")
        quality = self._workload.quality(rows)
        self._log.stop(constants.EVAL_STOP, epoch)
        self._log.quality(self._workload.quality_key, quality, epoch)
        return quality, samples

    def _require_equal_ranks(self) -> str:
        """Return the digest of the weights after checking that it is equal on all ranks."""
        self._engine.synchronise_statistics()
        digest = self._engine.digest()
        require_equal(collective.gather(np.frombuffer(bytes.fromhex(digest), np.uint8), "weights"))
        return digest


def _minor_page_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def collect_garbage_from_now_on() -> None:
    """Re-enable garbage collection if the main module had stopped it; present objects are treated as permanent."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def require_equal(digests: NDArray[np.generic]) -> None:
    """Check that all ranks ended with equal weights; row r of ``digests`` (ranks, 32) is from rank r.

    Raises
    ------
    TrainingError
        Names the ranks that differ from rank 0.
    """
    different = [int(rank) for rank in np.flatnonzero((digests != digests[0]).any(axis=1))]
    if different:
        raise TrainingError(
            f"weights after training: ranks {different} differ from rank 0, expected equal bits on all ranks; "
            "the gradient exchange or a device is faulty, so this run is invalid"
        )


def evaluation_times(epochs: Sequence[EpochRecord]) -> list[float]:
    """Return the times of the evaluations that took place [s]."""
    return [epoch.evaluation_s for epoch in epochs if epoch.evaluation_s is not None]


def epoch_record(epoch: int, rate: float, steps: Sequence[Step], train_s: float, global_batch: int) -> EpochRecord:
    """Return the record of an epoch before its evaluation.

    Parameters
    ----------
    epoch
        Number of the epoch, from 1.
    rate
        Learning rate of its last step.
    steps
        The steps taken, at least one.
    train_s
        Time of all steps, input included [s].
    global_batch
        Samples per step over all ranks.
    """
    times_s = [step.step_time_s for step in steps]
    return EpochRecord(
        epoch=epoch,
        steps=len(steps),
        samples=len(steps) * global_batch,
        train_s=train_s,
        evaluation_s=None,
        learning_rate=rate,
        train_loss=float(np.mean([step.train_loss for step in steps])),
        step_time_median_s=statistics.median(times_s),
        step_time_p95_s=float(np.percentile(times_s, 95)),
        step_time_max_s=max(times_s),
    )
