"""Samples per second of the input pipeline, compared with the training step's demand and with a bare read.

Each rank of a two-rank run on two cores has one core for both, so everything here runs on one core with one thread:
input, steps and bare reads alternate. `input/step` is the ratio of the input rate to the step's demand. The bare read
is `tf.data.TFRecordDataset` over the same files, without shuffling, parsing or batching. All read plain
shards from the page cache.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plans import OFFICIAL_DATA, Case, bench_plan, dataset_of

from hpcai.training.engine import Engine, configure_device
from hpcai.training.registry import workload_of
from hpcai.training.workload import seed_streams

GOAL_STEP = 1.5
ROUNDS = 3
CASES = (
    Case("resnet50", "fp32", batch=8, rounds=ROUNDS, steps=1, data=OFFICIAL_DATA["resnet50"]),
    Case("extreme_weather", "fp32", batch=1, rounds=ROUNDS, steps=1, data=OFFICIAL_DATA["extreme_weather"]),
    Case("cosmoflow", "fp32", batch=2, rounds=ROUNDS, steps=1, data=OFFICIAL_DATA["cosmoflow"]),
    Case("deepcam", "fp32", batch=1, rounds=ROUNDS, steps=1, data=OFFICIAL_DATA["deepcam"]),
    Case("opencatalyst", "fp32", batch=8, rounds=ROUNDS, steps=1, data=OFFICIAL_DATA["opencatalyst"]),
    Case("resnet50_tiny", "fp32", batch=4, rounds=ROUNDS, steps=8, data={}),
    Case("extreme_weather_tiny", "fp32", batch=2, rounds=ROUNDS, steps=4, data={}),
    Case("cosmoflow_tiny", "fp32", batch=8, rounds=ROUNDS, steps=16, data={"edition": "plain"}),
    Case("deepcam_tiny", "fp32", batch=1, rounds=ROUNDS, steps=4, data={}),
    Case("opencatalyst_tiny", "fp32", batch=4, rounds=ROUNDS, steps=8, data={}),
)


def main() -> None:
    """Print a row for each case, or for those named on the command line; fail if the goal is missed."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    print(f"one core; medians of {ROUNDS} rounds of input, step, bare read; samples per second")
    print("benchmark            batch     input      step      bare  input/step (goal 1.5)  input/bare")
    chosen = [case for case in CASES if not sys.argv[1:] or case.benchmark in sys.argv[1:]]
    failed = False
    for number, case in enumerate(chosen):
        with tempfile.TemporaryDirectory() as folder:
            failed |= _run(case, Path(folder), first=number == 0) < GOAL_STEP
    sys.exit(failed)


def _run(case: Case, folder: Path, *, first: bool) -> float:
    """Time one case; return how much faster the input is than the step."""
    from hpcai.training import collective

    machine = {"cores_per_node": 1, "cores_per_rank": 1, "ranks_per_node": 1}
    plan = bench_plan(case.benchmark, {"precision": case.precision, "global_batch": case.batch}, machine, case.data)
    if first:
        configure_device(plan.machine.device, 1, 0)
        collective.start()
    dataset = dataset_of(plan, folder, 1)
    workload = workload_of(plan, dataset.statistics)
    engine = Engine(workload, seed_streams(1, 0))
    engine.warm_up()
    actions = _actions(case, dataset, workload, engine)
    rates: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(case.rounds):
        for name, action in actions.items():
            started_s = time.monotonic()
            samples = action()
            rates[name].append(samples / (time.monotonic() - started_s))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    ratios = {
        peer: statistics.median(own / other for own, other in zip(rates["input"], rates[peer], strict=True))
        for peer in ("step", "bare")
    }
    print(
        f"{case.benchmark:20} {case.batch:5} {medians['input']:9.1f} {medians['step']:9.1f} {medians['bare']:9.1f}  "
        f"{ratios['step']:10.2f}            {ratios['bare']:10.2f}",
        flush=True,
    )
    return ratios["step"]


def _actions(case: Case, dataset: Any, workload: Any, engine: Engine) -> dict[str, Callable[[], int]]:  # noqa: ANN401
    """Return the timed actions, each run once before; each returns its number of samples."""
    import tensorflow as tf

    from hpcai.training.input import Reading, Schedule, train_batches

    samples = dataset.samples("train")
    count = len(samples) // case.batch * case.batch
    reading = Reading(workload.parse, workload.collate, case.batch, 1)
    batches = train_batches(samples, reading, Schedule(1, 1, count))
    files = [str(path) for path in dict.fromkeys(samples.paths)]
    first = next(iter(batches))
    # The shards are tar archives of plain TFRecords; the bare read uses one file with the same records.
    joined = Path(files[0]).with_name("joined.tfrecord")
    _join(samples, joined)
    bare = tf.data.TFRecordDataset(str(joined))

    def step() -> int:
        for _ in range(case.steps):
            loss = engine.train([first])
        loss.numpy()
        return case.steps * case.batch

    actions = {
        "input": lambda: case.batch * sum(1 for _ in batches),
        "step": step,
        "bare": lambda: sum(1 for _ in bare),
    }
    for action in actions.values():
        action()
    return actions


def _join(samples: Any, target: Path) -> None:  # noqa: ANN401
    """Write all records of a split into one TFRecord file."""
    import struct

    with target.open("wb") as joined:
        for number, offset_bytes in zip(samples.file, samples.offset_bytes, strict=True):
            with samples.paths[number].open("rb") as shard:
                shard.seek(int(offset_bytes))
                length = shard.read(12)
                joined.write(length + shard.read(struct.unpack_from("<Q", length)[0] + 4))


if __name__ == "__main__":
    main()
