"""What a replay says of other messages, cycles and a slow rank, against the same trainings measured on two ranks.

The replay knows one profiled run as it is (`hpcai predict replay`). Measured steps are interleaved: each round trains
as profiled and with each change in turn. A change is judged by its ratio to the step without it, because a profiled run
of one minute is not the timed runs of the next ones. The slow rank is stopped for half of every 4 ms.
"""

import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import pandas as pd
from plans import bench_plan, launch_ranks, prepared, time_step

from hpcai.config.study import WARM_STEPS
from hpcai.machine.ceilings.allreduce import measure_allreduce
from hpcai.metrics.profiles.link import AllreduceReport
from hpcai.parsers.horovod.timeline import read_timeline_tables
from hpcai.predict.scales.replay import AS_PROFILED, WHAT_IF, Change, replay_step, split_steps, typical_step

ROUNDS, RANKS, GOAL_RATIO = 5, 2, 0.10
BENCHMARKS = ("cosmoflow_tiny", "deepcam_tiny", "extreme_weather_tiny", "opencatalyst_tiny", "resnet50_tiny")
SETTABLE: dict[str, tuple[Change, dict[str, object]]] = {
    "as profiled": (AS_PROFILED, {}),
    "messages of 64 KiB": (WHAT_IF["messages of 64 KiB"], {"fusion_bytes": 65536}),
    "cycle of 5 ms": (WHAT_IF["cycle of 5 ms"], {"cycle_time_s": 5e-3}),
    "one rank half as fast": (WHAT_IF["one rank half as fast"], {}),
}
HALF_S = 0.002
TIMELINE = {"HOROVOD_TIMELINE_MARK_CYCLES": "1"}


def main() -> None:
    """Print a row for each benchmark and change; benchmarks may be named."""
    print(f"{RANKS} ranks; medians over {ROUNDS} interleaved rounds; goal {GOAL_RATIO:.0%}")
    transfers = _transfers(measure_allreduce([*launch_ranks(RANKS), sys.executable], 1))
    print("benchmark             what                    replayed_ms measured_ms   error  replayed measured   error")
    with tempfile.TemporaryDirectory() as folder:
        for benchmark in sys.argv[1:] or BENCHMARKS:
            _compare(benchmark, Path(folder) / benchmark, transfers)


def _transfers(report: AllreduceReport) -> pd.DataFrame:
    """Return the measured transfers by size."""
    rows = [(one.size_bytes, one.transfer_s) for one in report.samples if one.transfer_s]
    return pd.DataFrame(rows, columns=["bytes", "time_s"])


def _compare(benchmark: str, folder: Path, transfers: pd.DataFrame) -> None:
    data = prepared(_plan(benchmark, {}), folder)
    timeline = folder / "timeline.json"
    environment = {**TIMELINE, "HOROVOD_TIMELINE": str(timeline)}
    time_step(_plan(benchmark, {}), data, folder / "profiled", environment)
    step = typical_step(_split(timeline, folder / "profiled"))
    measured: dict[str, list[float]] = {name: [] for name in SETTABLE}
    for number in range(ROUNDS):
        for place, (name, (change, point)) in enumerate(SETTABLE.items()):
            raw = folder / f"{place}_{number}"
            with _half_stopped(raw) if change.slow_ratio > 1 else nullcontext():
                measured[name].append(time_step(_plan(benchmark, point), data, raw)[0])
    base, base_s = measured[next(iter(SETTABLE))], replay_step(step, AS_PROFILED, transfers)
    for name, (change, _) in SETTABLE.items():
        replayed_s, measured_s = replay_step(step, change, transfers), statistics.median(measured[name])
        ratio = statistics.median(one / other for one, other in zip(measured[name], base, strict=True))
        print(
            f"{benchmark:22}{name:24}{replayed_s * 1e3:11.2f} {measured_s * 1e3:11.2f} "
            f"{replayed_s / measured_s - 1:+7.1%} {replayed_s / base_s:9.2f} {ratio:8.2f} "
            f"{replayed_s / base_s / ratio - 1:+7.1%}",
            flush=True,
        )


def _plan(benchmark: str, point: dict[str, object]):  # noqa: ANN202  a plan
    return bench_plan(benchmark, {"ranks_per_node": RANKS, **point}, {"cores_per_rank": 1, "ranks_per_node": RANKS})


def _split(timeline: Path, raw: Path):  # noqa: ANN202  parts of steps
    """Split the steps of a timeline, put on its clock as a profile does."""
    tables = read_timeline_tables(timeline)
    clocks = pd.read_json(raw / "clocks.json", typ="series")
    steps = pd.read_csv(raw / "steps.csv").rename(columns={"step_time_s": "duration_s"})
    epoch_s = float(tables.spans.facts["start_epoch_us"]) / 1e6
    steps["start_s"] += float(clocks["wall_s"]) - float(clocks["monotonic_s"]) - epoch_s
    return split_steps(tables.spans.table, tables.cycles, steps.iloc[WARM_STEPS:])


@contextmanager
def _half_stopped(raw: Path) -> Iterator[None]:
    """Stop the last rank of the run in ``raw`` for half of the time."""
    process = multiprocessing.Process(target=_stop_and_go, args=(str(raw),), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def _stop_and_go(raw: str) -> None:
    while not (rank := _last_rank(raw)):
        time.sleep(0.2)
    with suppress(ProcessLookupError):  # the run has ended
        while True:
            for number in (signal.SIGSTOP, signal.SIGCONT):
                os.kill(rank, number)
                time.sleep(HALF_S)


def _last_rank(raw: str) -> int | None:
    """Return the process of the last rank."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            marks = (folder / "environ").read_bytes().split(b"\0")
            if raw.encode() in words and f"HOROVOD_RANK={RANKS - 1}".encode() in marks:
                return int(folder.name)
    return None


if __name__ == "__main__":
    main()
