"""One rank of the allreduce measurement: `LAUNCHER python -m hpcai.training.allreduce_bench --output FILE ...`.

The tensors are summed by the module and engine that exchange gradients in training.
"""

import argparse
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from hpcai.catalogue.points import USUAL_ENGINE
from hpcai.config.base import Engine
from hpcai.config.machine import Device
from hpcai.core.disturbance import CoreUse, disturbance_of, look, use_since
from hpcai.core.lean_imports import NEEDLESS, without
from hpcai.launchers.registry import local_rank_of
from hpcai.metrics.profiles.link import AllreduceReport, AllreduceSample
from hpcai.records.files import write_json
from hpcai.training.affinity import pin_to_own_cores
from hpcai.training.ending import run_and_leave

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

NUMBER_BYTES = 4
SIZES = tuple(4 * 4**power for power in range(13))
"""4 bytes to 64 MiB."""
WARM_UP = 2
REPEATS = 20
FEWEST_REPEATS = 3
BUDGET_S = 8.0
"""Time for all sizes together [s]: slow links get fewer repetitions of long messages."""
LIMIT_S = 120


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line's options."""
    parser = argparse.ArgumentParser(prog="python -m hpcai.training.allreduce_bench", description="Time allreduces.")
    parser.add_argument("--output", type=Path, required=True, help="JSON file that rank 0 writes")
    parser.add_argument("--record", type=Path, help="file in which rank 0 records Horovod's timeline")
    parser.add_argument("--sizes", type=_sizes, default=SIZES, help="message sizes in bytes, separated by commas")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="maximum timed repetitions per size")
    parser.add_argument("--budget-s", type=float, default=BUDGET_S, help="time for all sizes together")
    parser.add_argument("--limit-s", type=int, default=LIMIT_S, help="time limit of a rank, which then ends itself")
    parser.add_argument("--cores-per-rank", type=int, default=1)
    parser.add_argument("--engine", choices=get_args(Engine), default=USUAL_ENGINE, help="engine that exchanges")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    return parser.parse_args(arguments)


def tensor_name(size_bytes: int) -> str:
    """Return the name of tensors of a size, also used in the timeline."""
    return f"allreduce.{size_bytes}"


def _sizes(text: str) -> tuple[int, ...]:
    sizes = tuple(int(part) for part in text.split(","))
    if any(size <= 0 or size % NUMBER_BYTES for size in sizes):
        raise argparse.ArgumentTypeError(f"{text}: expected positive multiples of {NUMBER_BYTES} bytes")
    return sizes


def main() -> None:
    """Time all sizes as one rank; rank 0 writes the report."""
    options = parse_arguments()
    # No rank waits for ever, whatever happens to launcher and other ranks: the signal ends the process.
    signal.alarm(options.limit_s)
    local_rank = local_rank_of(os.environ)
    if options.record:
        os.environ["HOROVOD_TIMELINE"] = str(options.record)  # read when Horovod starts
    cores = pin_to_own_cores(local_rank, options.cores_per_rank)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with without(*NEEDLESS):
        from hpcai.training import collective  # TensorFlow starts its threads, so import it only now
    os.environ["KERAS_BACKEND"] = "jax" if options.engine == "jax" else "tensorflow"  # Keras reads it at import
    from hpcai.training.engines import steps_of

    device = steps_of(options.engine).configure_device(Device(kind=options.device), len(cores), local_rank)
    ranks = collective.start(engine=options.engine)
    samples: list[AllreduceSample] = []
    missing: list[str] = []
    start = look()
    if ranks.size == 1:
        missing.append("a single rank exchanges nothing; start two or more")
    else:
        budget_s = options.budget_s / len(options.sizes)
        for size in options.sizes:
            _measure_size(size, options.repeats, budget_s, samples, missing)
    uses = _gather_use(use_since(start), ranks.node_index)
    if ranks.is_first:
        found = {"samples": tuple(samples), "not_measured": tuple(missing), "disturbance": disturbance_of(uses)}
        where = {"ranks": ranks.size, "nodes": ranks.nodes, "engine": options.engine}
        write_json(AllreduceReport(**where, device=device, **found), options.output)
    collective.barrier()
    collective.stop()


def _gather_use(own: CoreUse | None, node_index: int) -> list[CoreUse | None]:
    """Return the core use on every rank's node; nodes are named by number here."""
    import numpy as np

    from hpcai.training import collective

    clocks = (own.cores, own.wall_s, own.own_s, own.busy_s, own.steal_s) if own else (0.0,) * len(_CLOCKS)
    every = collective.gather(np.array([node_index, *clocks], dtype=np.float64), "allreduce.use")
    rows = [dict(zip(_CLOCKS, row[1:].tolist(), strict=True)) for row in every]
    return [
        CoreUse(node=f"node {node:.0f}", **{**row, "cores": int(row["cores"])}) if row["cores"] else None
        for node, row in zip(every[:, 0], rows, strict=True)
    ]


_CLOCKS = ("cores", "wall_s", "own_s", "busy_s", "steal_s")


def _measure_size(
    size_bytes: int, repeats: int, budget_s: float, samples: list[AllreduceSample], missing: list[str]
) -> None:
    import tensorflow as tf

    from hpcai.training import collective

    add = collective.summing(tf.ones([size_bytes // NUMBER_BYTES], tf.float32), tensor_name(size_bytes))
    warm = list(_slowest(add, WARM_UP))
    # All ranks have seen the same times, so they decide alike.
    count = max(FEWEST_REPEATS, min(repeats, int(budget_s / warm[-1][0])))
    timed = list(_slowest(add, count))
    wrong = sum(is_wrong for _, is_wrong in timed)
    if wrong:
        missing.append(f"{size_bytes} bytes: {wrong} of {count} sums were wrong: their times are no measurement")
        return
    samples += [AllreduceSample(size_bytes=size_bytes, duration_s=duration_s) for duration_s, _ in timed]


def _slowest(add: "Callable[[], ArrayLike]", count: int) -> Iterator[tuple[float, bool]]:
    """Sum repeatedly; yield the time of the slowest rank [s], and whether any rank got a wrong sum."""
    import numpy as np

    from hpcai.training import collective

    for _ in range(count):
        duration_s, numbers = collective.time_sum(add)
        own = np.array([duration_s, float((numbers != numbers[0]).any()), numbers[0]])
        every = collective.gather(own, "allreduce.times")
        yield float(every[:, 0].max()), bool(every[:, 1].any() or (every[:, 2] != len(every)).any())


if __name__ == "__main__":
    run_and_leave(main)
