"""What a replay says of other messages, cycles and a slow rank, against the same trainings measured on two ranks.

The replay knows one profiled run as it is (`hpcai predict replay`). Measured steps are interleaved: each round trains
as profiled and with each change in turn. A change is judged by its ratio to the step without it, because a profiled run
of one minute is not the timed runs of the next ones. The slow rank gets half of its core: 2 of every 4 ms, by the cpu
controller of cgroup v1, which this needs. The rebuilt steps stand before: as profiled, and with many messages.
"""

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import pandas as pd
from plans import bench_plan, launch_ranks, prepared, time_step

from hpcai.config.study import WARM_STEPS
from hpcai.machine.ceilings.allreduce import measure_allreduce
from hpcai.metrics.profiles.link import CALL, TRANSFER, AllreduceReport
from hpcai.parsers.horovod.timeline import read_timeline_tables
from hpcai.predict.scales.replay import (
    AS_PROFILED,
    WHAT_IF,
    Change,
    StepParts,
    agreement_by_itself_s,
    replay_step,
    split_steps,
    typical_step,
)

ROUNDS, RANKS, GOAL_RATIO = 5, 2, 0.10
BENCHMARKS = ("cosmoflow_tiny", "deepcam_tiny", "extreme_weather_tiny", "opencatalyst_tiny", "resnet50_tiny")
SETTABLE: dict[str, tuple[Change, dict[str, object]]] = {
    "as profiled": (AS_PROFILED, {}),
    "messages of 64 KiB": (WHAT_IF["messages of 64 KiB"], {"fusion_bytes": 65536}),
    "cycle of 5 ms": (WHAT_IF["cycle of 5 ms"], {"cycle_time_s": 5e-3}),
    "one rank half as fast": (WHAT_IF["one rank half as fast"], {}),
}
GROUP, PERIOD_US = Path("/sys/fs/cgroup/cpu/hpcai_half_speed"), 4000
TIMELINE = {"HOROVOD_TIMELINE_MARK_CYCLES": "1"}


def main() -> None:
    """Print a row for each benchmark and change; benchmarks may be named."""
    print(f"{RANKS} ranks; medians over {ROUNDS} interleaved rounds; goal {GOAL_RATIO:.0%}")
    links = _links(measure_allreduce([*launch_ranks(RANKS), sys.executable], 1))
    columns = "replayed_ms measured_ms   error  replayed measured   error  rounds"
    print(f"{'benchmark':22}{'what':24}{columns}")
    with tempfile.TemporaryDirectory() as folder:
        for benchmark in sys.argv[1:] or BENCHMARKS:
            _compare(benchmark, Path(folder) / benchmark, links)


def _links(report: AllreduceReport) -> pd.DataFrame:
    """Return the measured calls and transfers by size."""
    rows = [
        (what, one.size_bytes, time_s)
        for one in report.samples
        for what, time_s in ((CALL, one.duration_s), (TRANSFER, one.transfer_s))
        if time_s
    ]
    return pd.DataFrame(rows, columns=["what", "bytes", "time_s"])


def _compare(benchmark: str, folder: Path, links: pd.DataFrame) -> None:
    data = prepared(_plan(benchmark, {}), folder)
    transfers, agreement_s = links[links["what"] == TRANSFER], agreement_by_itself_s(links)
    step, _ = (_profiled(benchmark, name, data, folder, agreement_s) for name in ("as profiled", "messages of 64 KiB"))
    measured: dict[str, list[float]] = {name: [] for name in SETTABLE}
    for number in range(ROUNDS):
        for place, (name, (change, point)) in enumerate(SETTABLE.items()):
            raw = folder / f"{place}_{number}"
            with _half_speed(raw) if change.slow_ratio > 1 else nullcontext():
                measured[name].append(time_step(_plan(benchmark, point), data, raw)[0])
    base, base_s = measured[next(iter(SETTABLE))], replay_step(step, AS_PROFILED, transfers)
    for name, (change, _) in SETTABLE.items():
        replayed_s, measured_s = replay_step(step, change, transfers), statistics.median(measured[name])
        ratios = sorted(one / other for one, other in zip(measured[name], base, strict=True))
        ratio = statistics.median(ratios)
        print(
            f"{benchmark:22}{name:24}{replayed_s * 1e3:11.2f} {measured_s * 1e3:11.2f} "
            f"{replayed_s / measured_s - 1:+7.1%} {replayed_s / base_s:9.2f} {ratio:8.2f} "
            f"{replayed_s / base_s / ratio - 1:+7.1%}  {ratios[0]:.2f} to {ratios[-1]:.2f}",
            flush=True,
        )


def _profiled(benchmark: str, name: str, data: tuple[Path, Path], folder: Path, agreement_s: float) -> StepParts:
    """Profile a training; print its typical step, rebuilt and measured, and return it."""
    raw, timeline = folder / f"profiled {name}", folder / f"{name}.json"
    time_step(_plan(benchmark, SETTABLE[name][1]), data, raw, {**TIMELINE, "HOROVOD_TIMELINE": str(timeline)})
    step = typical_step(_split(timeline, raw, agreement_s))
    rebuilt_s, what = replay_step(step), f"rebuilt, {len(step.messages)} messages"
    print(
        f"{benchmark:22}{what:24}{rebuilt_s * 1e3:11.2f} {step.step_s * 1e3:11.2f} {rebuilt_s / step.step_s - 1:+7.1%}"
    )
    return step


def _plan(benchmark: str, point: dict[str, object]):  # noqa: ANN202  a plan
    return bench_plan(benchmark, {"ranks_per_node": RANKS, **point}, {"cores_per_rank": 1, "ranks_per_node": RANKS})


def _split(timeline: Path, raw: Path, agreement_s: float):  # noqa: ANN202  parts of steps
    """Split the steps of a timeline, put on its clock as a profile does."""
    tables = read_timeline_tables(timeline)
    clocks = pd.read_json(raw / "clocks.json", typ="series")
    steps = pd.read_csv(raw / "steps.csv").rename(columns={"step_time_s": "duration_s"})
    epoch_s = float(tables.spans.facts["start_epoch_us"]) / 1e6
    steps["start_s"] += float(clocks["wall_s"]) - float(clocks["monotonic_s"]) - epoch_s
    return split_steps(tables.spans.table, tables.cycles, steps.iloc[WARM_STEPS:], agreement_s=agreement_s)


@contextmanager
def _half_speed(raw: Path) -> Iterator[None]:
    """Give the last rank of the run in ``raw`` half of its core, once it is there."""
    try:
        GROUP.mkdir(exist_ok=True)
        for name, period_us in (("cpu.cfs_period_us", PERIOD_US), ("cpu.cfs_quota_us", PERIOD_US // 2)):
            (GROUP / name).write_text(str(period_us))
    except OSError as error:
        raise SystemExit(f"a slow rank needs root and {GROUP.parent} of cgroup v1 ({error})") from error
    ended = threading.Event()
    slower = threading.Thread(target=_slow_down, args=(raw, ended))
    slower.start()
    try:
        yield
    finally:
        ended.set()
        slower.join()
        GROUP.rmdir()


def _slow_down(raw: Path, ended: threading.Event) -> None:
    while not ((rank := _last_rank(str(raw))) or ended.is_set()):
        time.sleep(0.2)
    if rank:
        (GROUP / "cgroup.procs").write_text(str(rank))


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
