"""Caches that a rank fills on the clock, before its first step: training records, and the decoded validation set."""

import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import tensorflow as tf

from hpcai.config.runs import RunPlan
from hpcai.core.errors import DatasetError, StagingError
from hpcai.core.messages import Message, at
from hpcai.data.stage_folder import claim_stage
from hpcai.training.input import Reading, Samples, checked, record_batches

MEMORY_SHARE = 0.5
"""Part of a rank's share of the machine's memory that caches may take; the training needs the other."""
IN_MEMORY = ""
"""What `tf.data` calls a cache that is no file."""
NO_MEMORY = Message(
    "caches.no_memory",
    "the caches need {needed} bytes, expected at most {most} (half of memory_bytes of the machine file for each of "
    "{ranks} ranks on a node); set {column} to none, or use more nodes",
)
NO_SPACE = Message(
    "caches.no_space", "the validation cache needs {needed} bytes, found {free} free; set evaluation_cache to none"
)


class RecordCache:
    """The records of all samples that a rank may draw, as they were read; they are decoded and augmented each time."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples
        with tf.device("CPU:0"):
            # Filled later: the pipeline that reads it is built before the dataset may be touched.
            self._records = tf.Variable(tf.fill([len(samples)], ""), trainable=False, name="record_cache")

    def __call__(self, number: tf.Tensor) -> tf.Tensor:
        """Return the record of a sample by its number in the split."""
        return self._records[number]

    def fill(self, threads: int, most_bytes: float, progress: Callable[[], None]) -> int:
        """Read all records; return how many bytes they have.

        Raises
        ------
        DatasetError
            If a record is damaged, or all of them have more than ``most_bytes``.
        """
        parts, held_bytes = [], 0
        for (records,) in checked(iter(record_batches(self._samples, threads)), "training"):
            parts.append(records)
            held_bytes += int(tf.reduce_sum(tf.strings.length(records)))
            if held_bytes > most_bytes:
                break
            progress()
        if held_bytes <= most_bytes:
            self._records.assign(tf.concat(parts, axis=0))
        return held_bytes


class Caches:
    """What the plan keeps in caches.

    Parameters
    ----------
    plan
        Its ``point.training_cache`` and ``point.evaluation_cache``.
    samples
        Training samples of this rank.
    evaluation_samples
        Number of validation samples of this rank.
    stage
        Folder on node-local storage, and this rank's number, for its file there.
    """

    def __init__(self, plan: RunPlan, samples: Samples, evaluation_samples: int, stage: tuple[Path, int]) -> None:
        self._plan, self._evaluation_samples = plan, evaluation_samples
        self._stage, self._rank = stage
        self._records = RecordCache(samples) if plan.point.training_cache == "memory" else None

    @property
    def wanted(self) -> bool:
        """Whether there is anything to fill."""
        return self._records is not None or self.evaluation is not None

    @property
    def evaluation(self) -> str | None:
        """Where `tf.data` keeps the decoded validation set: a file, or memory; None: nowhere."""
        places = {"none": None, "memory": IN_MEMORY, "node_local": str(self._stage / f"validation_rank{self._rank}")}
        return places[self._plan.point.evaluation_cache]

    def reading(self, reading: Reading) -> Reading:
        """Return how training samples are read: from the cache, if there is one."""
        return replace(reading, cached=self._records)

    def fill(
        self, batches: tf.data.Dataset, spec: tuple[tf.TensorSpec, ...], threads: int, progress: Callable[[], None]
    ) -> None:
        """Fill the caches; the dataset may be touched now.

        Parameters
        ----------
        batches
            Of the evaluation; going through them fills their cache.
        spec
            Tensors of one of them.
        threads
            That read.
        progress
            Called as long as samples come in.

        Raises
        ------
        DatasetError
            If a sample is damaged, or the caches do not fit the memory.
        StagingError
            If the validation set does not fit the node-local storage.
        """
        machine = self._plan.machine
        most_bytes = MEMORY_SHARE * machine.memory_bytes / self._plan.point.ranks_per_node
        held_bytes = self._evaluation_bytes(spec) if self.evaluation == IN_MEMORY else 0
        self._require_memory(held_bytes, most_bytes, "evaluation_cache")
        if self._records is not None:
            held_bytes += self._records.fill(threads, most_bytes - held_bytes, progress)
            self._require_memory(held_bytes, most_bytes, "training_cache")
        if self.evaluation is None:
            return
        if self.evaluation != IN_MEMORY:
            self._require_space(self._evaluation_bytes(spec))
        for _ in checked(iter(batches), "evaluation"):
            progress()

    def _evaluation_bytes(self, spec: tuple[tf.TensorSpec, ...]) -> int:
        """Return what all batches of the evaluation take, modelled from their shapes [bytes]."""
        batch_bytes = sum(math.prod(one.shape) * one.dtype.size for one in spec)
        return int(batch_bytes * math.ceil(self._evaluation_samples / self._plan.evaluation_batch))

    def _require_memory(self, needed: int, most_bytes: float, column: str) -> None:
        if needed > most_bytes:
            ranks = self._plan.point.ranks_per_node
            message = NO_MEMORY(needed=needed, most=int(most_bytes), ranks=ranks, column=column)
            raise DatasetError(at("caches", message))

    def _require_space(self, needed_bytes: int) -> None:
        claim_stage(self._stage)
        space = os.statvfs(self._stage)
        # All ranks of the node are about to write.
        needed_bytes, free_bytes = needed_bytes * self._plan.point.ranks_per_node, space.f_bavail * space.f_frsize
        if needed_bytes > free_bytes:
            raise StagingError(at(str(self._stage), NO_SPACE(needed=needed_bytes, free=free_bytes)))
