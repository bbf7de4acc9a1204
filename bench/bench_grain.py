"""Samples per second of the input pipeline against Grain, the loader of the JAX world, on the same files and one core.

Both read plain records from the page cache at their offsets in shuffled order, verify checksums, decode, and batch,
with one thread. Needs `pip install grain`, which the environment leaves out.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from plans import OFFICIAL_DATA, Case, bench_plan, dataset_of

from hpcai.data.example import decode_example
from hpcai.data.tfrecord import HEADER, masked_crc32c

ROUNDS, PREFETCHED_BATCHES = 5, 2
CASES = (
    Case("cosmoflow", "fp32", batch=2, rounds=ROUNDS, steps=1, data=OFFICIAL_DATA["cosmoflow"]),
    Case("cosmoflow_tiny", "fp32", batch=8, rounds=ROUNDS, steps=1, data={"edition": "plain"}),
)


class Cubes:
    """Random access to the samples of a split, as Grain asks for."""

    def __init__(self, samples: Any, cube: Sequence[int]) -> None:  # noqa: ANN401
        self._samples, self._cube = samples, cube
        self._files = [os.open(path, os.O_RDONLY) for path in samples.paths]

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        file, offset = self._files[self._samples.file[number]], int(self._samples.offset_bytes[number])
        size, _ = HEADER.unpack(os.pread(file, HEADER.size, offset))
        found = os.pread(file, size + 4, offset + HEADER.size)
        record = memoryview(found)[:size]
        if masked_crc32c(record) != int.from_bytes(found[size:], "little"):
            raise ValueError(f"record {number}: its checksum is another")
        example = decode_example(bytes(record))
        return np.frombuffer(example["x"][0], "<i2").reshape(self._cube), np.asarray(example["y"], np.float32)


def main() -> None:
    """Print a row for each case."""
    if find_spec("grain") is None:
        print("not measured: this environment has no Grain; `pip install grain` brings it")
        return
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    print(f"one core; medians of {ROUNDS} interleaved rounds; samples per second")
    print(f"{'benchmark':20} {'tf.data':>10} {'grain':>10} {'tf.data/grain':>14}  smallest  largest")
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            _compare(case, Path(folder))


def _compare(case: Case, folder: Path) -> None:
    machine = {"cores_per_node": 1, "cores_per_rank": 1, "ranks_per_node": 1}
    plan = bench_plan(case.benchmark, {"global_batch": case.batch}, machine, case.data)
    dataset = dataset_of(plan, folder, 1)
    ways = {"tf.data": _by_tensorflow(plan, dataset), "grain": _by_grain(plan, dataset)}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(case.rounds + 1):
        for name, read in ways.items():
            started_s = time.monotonic()
            rate = read() / (time.monotonic() - started_s)
            rates[name] += [rate] * (number > 0)  # the first round fills caches
    ratios = [own / peer for own, peer in zip(*rates.values(), strict=True)]
    own, peer, ratio = (statistics.median(found) for found in (*rates.values(), ratios))
    row = f"{case.benchmark:20} {own:10.1f} {peer:10.1f} {ratio:14.2f}"
    print(f"{row}  {min(ratios):8.2f} {max(ratios):8.2f}", flush=True)


def _by_tensorflow(plan: Any, dataset: Any) -> Callable[[], int]:  # noqa: ANN401
    from hpcai.training.input import Reading, Schedule, train_batches
    from hpcai.training.registry import workload_of

    workload, samples = workload_of(plan, dataset.statistics), dataset.samples("train")
    count = len(samples) // plan.micro_batch * plan.micro_batch
    reading = Reading(workload.parse, workload.collate, plan.micro_batch, 1)
    batches = train_batches(samples, reading, Schedule(1, 1, count))
    return lambda: sum(len(counts) for counts, _ in batches.as_numpy_iterator())


def _by_grain(plan: Any, dataset: Any) -> Callable[[], int]:  # noqa: ANN401
    import grain

    edge = plan.benchmark.data.edge
    source = Cubes(dataset.samples("train"), (edge, edge, edge, plan.benchmark.data.channels))
    shuffled = grain.MapDataset.source(source).seed(1).shuffle().batch(plan.micro_batch, drop_remainder=True)
    options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=PREFETCHED_BATCHES)
    return lambda: sum(len(counts) for counts, _ in shuffled.to_iter_dataset(options))


if __name__ == "__main__":
    main()
