"""Read a Horovod timeline, compared with Python's json, interleaved, each reading in its own process.

The file follows the layout of Horovod 0.28 (new layout, many events per line): steps of 40 gradients, fused in
eights, with different times in each step. json only loads it; `spans` pairs all events to spans, as arrays piece by
piece; `parquet` also writes them to a file; `summary` makes phase and message tables; `table` keeps all spans as one
pandas table. Imports are not timed. Memory covers all processes with their imports, counting shared memory once. It is
sampled in separate runs, because sampling takes time.
"""

import argparse
import importlib
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

TENSORS, RANKS, FUSED = 40, 8, 8
ACTIVITIES = (
    "WAIT_FOR_DATA",
    "WAIT_FOR_OTHER_TENSOR_DATA",
    "QUEUE",
    "MEMCPY_IN_FUSION_BUFFER",
    "NCCL_ALLREDUCE",
    "MEMCPY_OUT_FUSION_BUFFER",
)
GAPS_US = (0, 1, 1, 2, 3, 7, 20)
SAMPLED_S = 0.005
GOAL_SPEED, GOAL_MEMORY, GOAL_LARGE_MB = 8.0, 0.1, 200
SMALL_MB, LARGE_MB = 200, 2000


def event(phase: str, tensor: int, name: str = "", rest: str = "") -> str:
    """Return one event with a placeholder for its time."""
    named = f', "name": "{name}"' if name else ""
    return f'{{"ph": "{phase}"{named}, "ts": %d, "pid": {tensor}{rest}}}'


def metadata(tensor: int, content: str) -> str:
    """Return the metadata that names a tensor, or the start."""
    return (
        f'{{"name": "process_name", "ph": "M", "pid": {tensor}, "args": {{{content}}}}},\n'
        f'{{"name": "process_sort_index", "ph": "M", "pid": {tensor}, "args": {{"sort_index": {tensor}}}}},\n'
    )


def step_text(*, first: bool) -> str:
    """Return the events of one step, with placeholders for the times."""
    tensors = range(1, TENSORS + 1)
    events = []
    for tensor in tensors:
        named = metadata(tensor, f'"name": "DistributedAdam_Allreduce/grads_{tensor}_0"') if first else ""
        events.append(named + event("B", tensor, "NEGOTIATE_ALLREDUCE"))
        events += [event("X", tensor, str(rank), ', "dur": 0') for rank in range(RANKS if first else 0)]
        events.append(event("E", tensor))
    for begin in tensors[::FUSED]:
        batch = range(begin, min(begin + FUSED, TENSORS + 1))
        events += [event("B", tensor, "ALLREDUCE") for tensor in batch]
        for activity in ACTIVITIES:
            events += [event("B", tensor, activity) for tensor in batch]
            events += [event("E", tensor) for tensor in batch]
        shapes = {tensor: f"[3, 3, {8 << tensor % 6}, {8 << tensor % 5}]" for tensor in batch}
        results = {tensor: f', "args": {{"dtype": "float32", "shape": "{shapes[tensor]}"}}' for tensor in batch}
        events += [event("E", tensor, rest=results[tensor]) for tensor in batch]
    return ",".join(events)


def write_timeline(path: Path, size_bytes: int) -> None:
    """Write a timeline of at least a size."""
    source = random.Random(1)
    time_us = 1_000_000
    text = step_text(first=True)
    with path.open("w") as file:
        file.write("[\n" + metadata(0, '"start_time_since_epoch_in_micros":1628786040369096'))
        while file.tell() < size_bytes:
            times = []
            for gap in source.choices(GAPS_US, k=text.count("%d")):
                time_us += gap
                times.append(time_us)
            file.write(text % tuple(times))
            text = "," + step_text(first=False) if text[0] != "," else text
        file.write("]")


def load_json(path: Path, _: Path) -> int:
    """Load the file as Python objects."""
    with path.open() as file:
        return len(json.load(file))


def read_spans(path: Path, _: Path) -> int:
    """Pair all events to spans, without keeping them."""
    from hpcai.parsers.horovod.stream import Account, stream_timeline

    account = Account()
    spans = sum(len(chunk.spans.durations_us) for chunk in stream_timeline(path, account))
    assert not account.reasons()
    return spans


def write_parquet(path: Path, folder: Path) -> int:
    """Pair all events to spans and write them to a file."""
    from hpcai.parsers.horovod.spill import spill_timeline

    return spill_timeline(path, folder / "spans.parquet").complete


def summarise(path: Path, _: Path) -> int:
    """Make tables of phases and messages."""
    from hpcai.metrics.profiles.communication import Totals
    from hpcai.parsers.horovod.stream import Account
    from hpcai.parsers.horovod.timeline import iterate_tables

    totals = Totals()
    for piece in iterate_tables(path, Account()):
        totals.add(piece.spans.table)
    assert len(totals.messages())
    return int(totals.phases()["spans"].sum())


def read_table(path: Path, _: Path) -> int:
    """Keep all spans as a table."""
    from hpcai.parsers.horovod.timeline import read_timeline

    return len(read_timeline(path).table)


WAYS: dict[str, Callable[[Path, Path], int]] = {
    "json": load_json,
    "spans": read_spans,
    "parquet": write_parquet,
    "summary": summarise,
    "table": read_table,
}


IMPORTED = {
    "json": (),
    "spans": ("hpcai.parsers.horovod.stream",),
    "parquet": ("hpcai.parsers.horovod.spill",),
    "summary": ("hpcai.parsers.horovod.timeline", "hpcai.metrics.profiles.communication"),
    "table": ("hpcai.parsers.horovod.timeline",),
}


def run_way(name: str, path: Path) -> None:
    """Read in this process; print the time (s) and the number of spans or events."""
    for module in IMPORTED[name]:
        importlib.import_module(module)
    started_s = time.monotonic()
    count = WAYS[name](path, path.parent)
    print(json.dumps([time.monotonic() - started_s, count]))


def start(name: str, path: Path) -> subprocess.Popen[str]:
    """Start one way in its own process."""
    command = [sys.executable, __file__, "--way", name, "--file", str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def measure_time_s(name: str, path: Path) -> float:
    """Return the time of one way."""
    with start(name, path) as process:
        output = process.communicate()[0]
    return float(json.loads(output)[0])


def measure_memory_mb(name: str, path: Path) -> tuple[float, float, int]:
    """Return the peak memory of all processes of one way, its time while watched, and its count."""
    peak_bytes = 0
    with start(name, path) as process:
        while process.poll() is None:
            peak_bytes = max(peak_bytes, used_bytes(process.pid))
            time.sleep(SAMPLED_S)
        seconds, count = json.loads(process.communicate()[0])
    return peak_bytes / 1e6, seconds, count


def used_bytes(process: int) -> int:
    """Return the memory of a process and its children: the private memory of each, and the largest shared part."""
    with suppress(psutil.Error):
        parent = psutil.Process(process)
        used = [member.memory_full_info() for member in (parent, *parent.children(recursive=True))]
        return sum(part.uss for part in used) + max(part.rss - part.uss for part in used)
    return 0


def main() -> None:
    """Write the files, read them alternately, print medians; fail if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small-mb", type=int, default=SMALL_MB)
    parser.add_argument("--large-mb", type=int, default=LARGE_MB, help="0 leaves the large file out")
    parser.add_argument("--folder", type=Path, help="where to write; the folder of temporary files if not given")
    options = parser.parse_args()
    if options.way:
        run_way(options.way, options.file)
        return
    with tempfile.TemporaryDirectory(prefix="hpcai-bench-", dir=options.folder) as folder:
        path = Path(folder) / "timeline.json"
        write_timeline(path, options.small_mb * 1_000_000)
        missed = compare(path, options.rounds)
        if options.large_mb:
            write_timeline(path, options.large_mb * 1_000_000)
            missed |= check_large(path)
    sys.exit(missed)


def compare(path: Path, rounds: int) -> bool:
    """Read the small file in all ways, alternately; return whether a goal is missed."""
    taken_s: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name in WAYS:
            taken_s[name].append(measure_time_s(name, path))
    memory_mb = {name: measure_memory_mb(name, path)[0] for name in WAYS}
    ratios = {
        name: [peer / own for peer, own in zip(taken_s["json"], parts, strict=True)] for name, parts in taken_s.items()
    }
    print(f"{path.stat().st_size / 1e6:.0f} MB, medians of {rounds} rounds (worst to best)")
    for name, parts in taken_s.items():
        speed = f"{statistics.median(ratios[name]):5.1f} x json ({min(ratios[name]):.1f} to {max(ratios[name]):.1f})"
        share = memory_mb[name] / memory_mb["json"]
        print(
            f"  {name:8} {statistics.median(parts):6.2f} s  {speed}  {memory_mb[name]:6.0f} MB  {share:.3f} of json's"
        )
    print(f"  goal: spans at least {GOAL_SPEED:g} x as fast as json, with at most {GOAL_MEMORY:g} of its memory")
    too_large = memory_mb["spans"] > GOAL_MEMORY * memory_mb["json"]
    return too_large or statistics.median(ratios["spans"]) < GOAL_SPEED


def check_large(path: Path) -> bool:
    """Read the large file in the memory-saving ways; return whether one needs too much memory."""
    print(f"{path.stat().st_size / 1e6:.0f} MB, once each; goal: at most {GOAL_LARGE_MB} MB")
    missed = False
    for name in ("spans", "parquet", "summary"):
        memory_mb, seconds, count = measure_memory_mb(name, path)
        missed |= memory_mb > GOAL_LARGE_MB
        print(f"  {name:8} {seconds:6.2f} s  {memory_mb:6.0f} MB  {count} spans", flush=True)
    return missed


if __name__ == "__main__":
    main()
