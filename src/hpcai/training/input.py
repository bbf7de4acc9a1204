"""Input pipeline: TFRecord files with one sample each, shuffled alike on all ranks, sharded, parsed, batched."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from hpcai.errors import DatasetError

Sample = tuple[tf.Tensor, tf.Tensor]
Parse = Callable[[tf.Tensor], Sample]
PREFETCHED_BATCHES = 2


@dataclass(frozen=True)
class Shard:
    """Part ``index`` of ``count`` equal parts."""

    index: int
    count: int


@dataclass(frozen=True)
class Files:
    """Sample files of one split that this rank can read, and the part of them that is its own.

    ``paths`` must be in one order on all ranks that share them.
    """

    paths: tuple[Path, ...]
    shard: Shard
    gzip: bool

    def require(self) -> None:
        """Check that the files of the own shard exist; all ranks together check all files once.

        Raises
        ------
        DatasetError
            Naming the first missing file.
        """
        own = self.paths[self.shard.index :: self.shard.count]
        missing = [path for path in own if not path.is_file()]
        if missing:
            raise DatasetError(
                f"{missing[0]}: no such file (and {len(missing) - 1} more of {len(own)}); "
                "expected every sample of the manifest; make or stage the dataset again"
            )


@dataclass(frozen=True)
class Reading:
    """How samples are read."""

    parse: Parse
    local_batch: int
    threads: int


def epoch_order(seed: int, epoch: int | tf.Tensor, count: int) -> tf.Tensor:
    """Return the order of ``count`` files in an epoch: the same on all ranks, another in each epoch.

    The reference shuffles the sorted list of files with one seed on all ranks, then shards it
    (MLPerf HPC reference, cosmoflow/data/cosmo.py).
    """
    seeds = tf.stack([tf.cast(seed, tf.int64), tf.cast(epoch, tf.int64)])
    return tf.random.experimental.stateless_shuffle(tf.range(count), seeds)


def train_batches(files: Files, reading: Reading, seed: int, epochs: int) -> tf.data.Dataset:
    """Return the training batches of all epochs, one after the other.

    Batch b of the ranks together is the slice [b x global batch, (b + 1) x global batch) of the epoch's order, for
    any number of ranks. No epoch waits for its first batch: reading goes on during the evaluation before it.

    Parameters
    ----------
    files
        As many in the own shard as a multiple of the local batch.
    reading
        Parser, samples per batch and rank, and threads.
    seed
        Seed of the order, equal on all ranks.
    epochs
        Number of epochs, counted from 1.

    Raises
    ------
    DatasetError
        If the files do not make whole batches.
    """
    count, shard = len(files.paths), files.shard
    if count == 0 or count % (shard.count * reading.local_batch):
        raise DatasetError(
            f"training files: found {count}, expected a multiple of {shard.count} ranks x "
            f"{reading.local_batch} samples; change global_batch or the number of samples"
        )
    paths = tf.constant([str(path) for path in files.paths])

    def own_files(epoch: tf.Tensor) -> tf.data.Dataset:
        order = epoch_order(seed, epoch, count)
        return tf.data.Dataset.from_tensor_slices(tf.gather(paths, order[shard.index :: shard.count]))

    samples = _read(tf.data.Dataset.range(1, epochs + 1).flat_map(own_files), files.gzip, reading)
    batches = samples.batch(reading.local_batch, drop_remainder=True).prefetch(PREFETCHED_BATCHES)
    return batches.with_options(_options(reading.threads))


def evaluation_batches(files: Files, reading: Reading) -> tf.data.Dataset:
    """Return the batches (x, y, weight) that hold each file of the own shard exactly once.

    All batches have the full shape, so that nothing is compiled twice; what fills up the last one has weight 0.
    """
    own = [str(path) for path in files.paths[files.shard.index :: files.shard.count]]
    samples = _read(tf.data.Dataset.from_tensor_slices(tf.constant(own, tf.string)), files.gzip, reading)

    def fill(features: tf.Tensor, targets: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        return *(_fill(part, reading.local_batch) for part in (features, targets)), weights_of(targets, reading)

    return (
        samples.batch(reading.local_batch)
        .map(fill)
        .prefetch(PREFETCHED_BATCHES)
        .with_options(_options(reading.threads))
    )


def weights_of(targets: tf.Tensor, reading: Reading) -> tf.Tensor:
    """Return weight 1 for each sample of a batch and 0 for what is missing to a full one; (local_batch,)."""
    return tf.sequence_mask(tf.shape(targets)[0], reading.local_batch, dtype=tf.float32)


def _fill(part: tf.Tensor, size: int) -> tf.Tensor:
    missing = size - tf.shape(part)[0]
    paddings = [[0, missing]] + [[0, 0]] * (part.shape.rank - 1)
    return tf.ensure_shape(tf.pad(part, paddings), [size, *part.shape[1:]])


def _read(paths: tf.data.Dataset, gzip: bool, reading: Reading) -> tf.data.Dataset:
    """Read one sample per file in the order of the paths; a file with none or two is an error, as is a wrong CRC."""

    def read(path: tf.Tensor) -> Sample:
        records = tf.data.TFRecordDataset(path, compression_type="GZIP" if gzip else "")
        return reading.parse(records.get_single_element())

    return paths.map(read, num_parallel_calls=reading.threads, deterministic=True)


def _options(threads: int) -> tf.data.Options:
    options = tf.data.Options()
    options.deterministic = True
    # The tuner would start more threads than the rank has cores.
    options.autotune.enabled = False
    options.threading.private_threadpool_size = threads
    return options


def checked(batches: Iterator[tuple[tf.Tensor, ...]], what: str) -> Iterator[tuple[tf.Tensor, ...]]:
    """Pass batches on; what TensorFlow finds wrong with a file becomes a DatasetError."""
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            return
        except (tf.errors.DataLossError, tf.errors.NotFoundError, tf.errors.InvalidArgumentError) as error:
            raise DatasetError(
                f"{what}: a sample cannot be read ({error.message}); expected one whole record per file with the "
                "features and shape of the manifest; verify the dataset or make it again"
            ) from error
        yield batch
