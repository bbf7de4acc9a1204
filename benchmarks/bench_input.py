"""The input pipeline's samples per second against a bare TFRecord read of the same files, interleaved in one run.

Peer: `tf.data.TFRecordDataset` over all files with as many parallel reads as there are cores, which neither parses
nor batches. Ours opens the files in an order of its own, checks that each holds one whole record, parses it to int16
cubes and batches them. Both read from the page cache.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import tensorflow as tf
from plans import bench_plan

from hpcai.config.runs import RunPlan
from hpcai.data.cosmoflow.sample import encode_sample
from hpcai.data.tfrecord import write_records
from hpcai.training.input import Reading, Samples, Schedule, Shard, train_batches
from hpcai.training.registry import workload_of

ROUNDS = 7
CASES = (
    ("cosmoflow_tiny", 256, False),
    ("cosmoflow_tiny", 256, True),
    ("cosmoflow", 16, False),
    ("cosmoflow", 16, True),
)
"""Benchmark file, number of files, and whether they are gzip-compressed."""
BATCH = 4


def main() -> None:
    """Print a row for each case."""
    threads = len(os.sched_getaffinity(0))
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    print(f"threads {threads}; medians of {ROUNDS} rounds of ours, bare, ours, bare, ...")
    print("benchmark       edge edition files  ours_samples_per_s  bare_samples_per_s  ours/bare")
    for benchmark, count, gzip in CASES:
        with tempfile.TemporaryDirectory() as folder:
            _run(bench_plan(benchmark, {"global_batch": BATCH}), Path(folder), (count, gzip), threads)


def _run(plan: RunPlan, folder: Path, files: tuple[int, bool], threads: int) -> None:
    """Write the files, read them in turn in both ways, print one row."""
    (count, gzip), edge = files, plan.benchmark.data.edge
    paths = tuple(folder / f"univ_ics_bench_a0001_{number:03d}.tfrecord" for number in range(count))
    rng = np.random.default_rng(1)
    for path in paths:
        cube = rng.poisson(1.0, (edge, edge, edge, plan.benchmark.data.channels)).astype(np.int16)
        write_records(path, [encode_sample(cube, np.zeros(4, np.float32))], compress=gzip)
    workload = workload_of(plan)
    reading = Reading(workload.parse, workload.collate, BATCH, threads)
    samples = Samples(paths, np.arange(count), np.zeros(count, np.int64), Shard(0, 1), gzip)
    ours = train_batches(samples, reading, Schedule(seed=1, epochs=1, rank_samples=count))
    names = [str(path) for path in paths]
    bare = tf.data.TFRecordDataset(names, "GZIP" if gzip else "", num_parallel_reads=threads)
    rates: dict[str, list[float]] = {"ours": [], "bare": []}
    for _ in range(ROUNDS):
        rates["ours"].append(count / _time(ours, count // BATCH))
        rates["bare"].append(count / _time(bare, count))
    ratio = statistics.median(mine / peer for mine, peer in zip(rates["ours"], rates["bare"], strict=True))
    ours_rate, bare_rate = (statistics.median(rates[name]) for name in ("ours", "bare"))
    edition = "gzip" if gzip else "plain"
    print(
        f"{plan.benchmark.name:15} {edge:4} {edition:7} {count:5} {ours_rate:19.1f} {bare_rate:19.1f} {ratio:10.2f}",
        flush=True,
    )


def _time(elements: Iterable[object], expected: int) -> float:
    """Return the time to read all elements [s]; reading fewer than expected is no result."""
    started_s = time.monotonic()
    found = sum(1 for _ in elements)
    duration_s = time.monotonic() - started_s
    if found != expected:
        sys.exit(f"found {found} elements, expected {expected}")
    return duration_s


if __name__ == "__main__":
    main()
