"""Input pipeline: TFRecord samples, shuffled equally on all ranks that share them, sharded, parsed, batched."""

import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from hpcai.core.errors import DatasetError
from hpcai.core.messages import Message, at

NO_WHOLE_BATCHES = Message(
    "input.no_whole_batches",
    "found {found}, and {rank_samples} per rank and epoch, expected at least one and a multiple of the {batch} "
    "samples of a batch; change global_batch or the number of samples",
)
NO_FILE = Message(
    "input.no_file",
    "no such file, expected one of {expected_bytes} bytes as in the manifest ({others} more of {files} are wrong); "
    "make or stage the dataset again",
)
OTHER_LENGTH = Message(
    "input.other_length",
    "found {found_bytes} bytes, expected {expected_bytes} as in the manifest ({others} more of {files} are wrong): the "
    "file was replaced or cut; make or stage the dataset again",
)
BAD_SAMPLE = Message(
    "input.bad_sample",
    "a sample cannot be read ({reason}), expected a whole record with the features and shapes of the manifest; unless "
    "the reason gives other advice, verify the dataset or make it again",
)

Batch = tuple[tf.Tensor, ...]
Parse = Callable[[tf.Tensor, tf.Tensor | None], Batch]
Collate = Callable[[tf.data.Dataset, int], tf.data.Dataset]
ReadPart = Callable[[tf.Tensor, tf.Tensor], Batch]
PREFETCHED_BATCHES = 2
CACHED_AT_ONCE = 64
"""Records that are handed to a cache together."""


@dataclass(frozen=True)
class Shard:
    """Part ``index`` of ``count`` equal parts."""

    index: int
    count: int


@dataclass(frozen=True)
class Samples:
    """Location of each sample of a split that this rank can read, and this rank's part of them.

    ``file``, shape (samples,), indexes ``paths``; ``offset_bytes``, shape (samples,), is the start of the sample's
    record in its file. ``file_bytes``, shape (files,), are the lengths according to the manifest. Ranks that share the
    files must list them in the same order. A gzip-compressed file has one sample. ``staged``: staging has written the
    files and verified their checksums in this run.
    """

    paths: Sequence[Path]
    file: NDArray[np.int64]
    offset_bytes: NDArray[np.int64]
    shard: Shard
    gzip: bool
    file_bytes: NDArray[np.int64]
    staged: bool = False

    def __len__(self) -> int:
        """Return the number of samples of all ranks that share the files."""
        return len(self.file)

    def require(self) -> None:
        """Check that the files of the own shard exist and have their lengths; all ranks together check every file once.

        Raises
        ------
        DatasetError
            Names the first that is missing or has another length.
        """
        own = slice(self.shard.index, None, self.shard.count)
        lengths = self.file_bytes[own].tolist()
        files = zip(self.paths[own], lengths, strict=True)
        wrong = [(path, found, expected) for path, expected in files if (found := _length(path)) != expected]
        if wrong:
            path, found_bytes, expected_bytes = wrong[0]
            facts = {"expected_bytes": expected_bytes, "others": len(wrong) - 1, "files": len(lengths)}
            words = NO_FILE(**facts) if found_bytes is None else OTHER_LENGTH(found_bytes=found_bytes, **facts)
            raise DatasetError(at(str(path), words))


def _length(path: Path) -> int | None:
    """Return the bytes of a file; None if there is none."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


@dataclass(frozen=True)
class Reading:
    """How samples become batches."""

    parse: Parse
    collate: Collate
    batch: int
    threads: int
    read_part: ReadPart | None = None
    """Reads a rank's part of a sample at an offset of a staged file, if ranks share samples; otherwise unused."""
    cached: Callable[[tf.Tensor], tf.Tensor] | None = None
    """Returns the record of a training sample by its number from a cache; None: it is read from its file."""

    def sample(self, path: tf.Tensor, offset_bytes: tf.Tensor, seed: tf.Tensor | None, samples: Samples) -> Batch:
        """Return the tensors of the sample at an offset of a file, or of this rank's part of it.

        A record's checksum covers all of it, so a part is read alone only where staging has verified the file.
        """
        if self.read_part is not None and samples.staged:
            return self.read_part(path, offset_bytes)
        return self.parse(_record(path, offset_bytes, samples.gzip), seed)


@dataclass(frozen=True)
class Schedule:
    """Training data order: epochs of this many samples per rank, ordered by seed and epoch.

    The seed also gives each sample its seed for augmentation.
    """

    seed: int
    epochs: int
    rank_samples: int


def epoch_order(seed: int, epoch: int | tf.Tensor, count: int) -> tf.Tensor:
    """Return the order of ``count`` samples in an epoch: equal for equal seeds, different in each epoch.

    The reference shuffles the sorted list of files with one seed on all ranks, then shards it
    (MLPerf HPC reference, cosmoflow/data/cosmo.py).
    """
    seeds = tf.stack([tf.cast(seed, tf.int64), tf.cast(epoch, tf.int64)])
    return tf.random.experimental.stateless_shuffle(tf.range(count), seeds)


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def train_batches(samples: Samples, reading: Reading, schedule: Schedule) -> tf.data.Dataset:
    """Return the training batches of all epochs in sequence.

    The joint batch b of the ranks that share the files is the slice [b x joint batch, (b + 1) x joint batch) of the
    epoch's order, for any number of them. They are all ranks, or those of a node that holds its own part of the
    dataset: then each node has an order of its own. Samples left at the end of the order are skipped in this epoch; if
    samples are lacking, the order restarts. No epoch waits for its first batch: reading continues during the preceding
    evaluation.

    Parameters
    ----------
    samples
        Location of the samples; at least one.
    reading
        Parser, collation, samples per batch and rank, and threads.
    schedule
        Seed of the order, equal on all ranks that share the files, number of epochs, and samples per rank and epoch.

    Raises
    ------
    DatasetError
        If there are no samples, or the batches do not fit an epoch.
    """
    count, shard = len(samples), samples.shard
    if count == 0 or schedule.rank_samples % reading.batch:
        raise DatasetError(
            at(
                "training samples",
                NO_WHOLE_BATCHES(found=count, rank_samples=schedule.rank_samples, batch=reading.batch),
            )
        )
    used = schedule.rank_samples * shard.count

    def own_addresses(epoch: tf.Tensor) -> tf.data.Dataset:
        order = epoch_order(schedule.seed, epoch, count)
        order = tf.tile(order, [-(-used // count)])[:used][shard.index :: shard.count]
        return tf.data.Dataset.from_tensor_slices((*_addresses(samples, order), order, tf.fill(tf.shape(order), epoch)))

    def read(path: tf.Tensor, offset_bytes: tf.Tensor, number: tf.Tensor, epoch: tf.Tensor) -> Batch:
        own = tf.random.experimental.stateless_fold_in(tf.stack([schedule.seed, tf.cast(epoch, tf.int32)]), number)
        if reading.cached is not None:
            return reading.parse(reading.cached(number), own)
        return reading.sample(path, offset_bytes, own, samples)

    addresses = tf.data.Dataset.range(1, schedule.epochs + 1).flat_map(own_addresses)
    parsed = addresses.map(read, num_parallel_calls=reading.threads, deterministic=True)
    batches = reading.collate(parsed, reading.batch).map(lambda *batch: batch[:-1])  # all weights are 1
    return batches.prefetch(PREFETCHED_BATCHES).with_options(_options(reading.threads))


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def evaluation_batches(samples: Samples, reading: Reading, cache: str | None = None) -> tf.data.Dataset:
    """Return the batches (*tensors, weights) that hold each sample of the own shard exactly once.

    All batches have the full shape, so that nothing is compiled twice; padding of the last one has weight 0. With a
    ``cache``, a file or an empty name for memory, samples are read and decoded once.
    """
    own = np.arange(len(samples))[samples.shard.index :: samples.shard.count]
    addresses = tf.data.Dataset.from_tensor_slices(_addresses(samples, tf.constant(own, tf.int32)))
    parsed = addresses.map(
        lambda path, offset_bytes: reading.sample(path, offset_bytes, None, samples),
        num_parallel_calls=reading.threads,
        deterministic=True,
    )
    batches = reading.collate(parsed, reading.batch)
    if cache is not None:
        batches = batches.cache(cache)
    return batches.prefetch(PREFETCHED_BATCHES).with_options(_options(reading.threads))


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def record_batches(samples: Samples, threads: int) -> tf.data.Dataset:
    """Return the records of all samples, in their order, as batches (records,) of strings."""
    addresses = tf.data.Dataset.from_tensor_slices(_addresses(samples, tf.range(len(samples))))
    records = addresses.map(
        lambda path, offset_bytes: (_record(path, offset_bytes, samples.gzip),),
        num_parallel_calls=threads,
        deterministic=True,
    )
    return records.batch(CACHED_AT_ONCE).with_options(_options(threads))


def _addresses(samples: Samples, chosen: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return path and offset of the chosen samples."""
    paths = tf.constant([str(path) for path in samples.paths], tf.string)
    files = tf.gather(tf.constant(samples.file), chosen)
    return tf.gather(paths, files), tf.gather(tf.constant(samples.offset_bytes), chosen)


def _record(path: tf.Tensor, offset_bytes: tf.Tensor, gzip: bool) -> tf.Tensor:
    """Return the record at an offset of a file; TensorFlow checks its two checksums.

    ``tf.data.TFRecordDataset`` reads from the start of a file; its underlying operation can start anywhere. A
    compressed file must hold exactly one record.
    """
    if gzip:
        return tf.data.TFRecordDataset(path, compression_type="GZIP").get_single_element()
    records = tf.raw_ops.TFRecordDatasetV2(
        filenames=path[tf.newaxis], compression_type="", buffer_size=0, byte_offsets=offset_bytes[tf.newaxis]
    )
    types = {"output_types": [tf.string], "output_shapes": [[]]}
    first = tf.raw_ops.TakeDataset(input_dataset=records, count=1, **types)
    return tf.raw_ops.DatasetToSingleElement(dataset=first, **types)[0]


def _options(threads: int) -> tf.data.Options:
    options = tf.data.Options()
    options.deterministic = True
    # The autotuner would start more threads than the rank has cores.
    options.autotune.enabled = False
    options.threading.private_threadpool_size = threads
    return options


def checked(batches: Iterator[Batch], what: str) -> Iterator[Batch]:
    """Pass batches through; turn TensorFlow's file errors into DatasetError."""
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            return
        except (tf.errors.DataLossError, tf.errors.NotFoundError, tf.errors.InvalidArgumentError) as error:
            reason = error.message.partition("\nTraceback")[0]  # from a Python function
            raise DatasetError(at(str(what), BAD_SAMPLE(reason=reason))) from error
        yield batch
