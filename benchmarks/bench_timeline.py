"""Reading a Horovod timeline against Python's json, interleaved, each reading in a process of its own.

The file is written from the layout of Horovod 0.28 (new layout, many events per line): steps of 40 gradients, fused
by eights, with other times in each step. json only loads it; `spans` pairs all events to spans, as arrays piece by
piece; `parquet` also writes them to a file; `summary` makes phase and message tables of them; `table` keeps all spans
as one pandas table. Memory is the peak resident size of the process with everything that it imported.
"""

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

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
GOAL_SPEED, GOAL_MEMORY, GOAL_LARGE_MB = 8.0, 0.1, 200
SMALL_MB, LARGE_MB = 200, 2000


def event(phase: str, tensor: int, name: str = "", rest: str = "") -> str:
    """Return one event with a place for its time."""
    named = f', "name": "{name}"' if name else ""
    return f'{{"ph": "{phase}"{named}, "ts": %d, "pid": {tensor}{rest}}}'


def metadata(tensor: int, content: str) -> str:
    """Return what names a tensor, or the start."""
    return (
        f'{{"name": "process_name", "ph": "M", "pid": {tensor}, "args": {{{content}}}}},\n'
        f'{{"name": "process_sort_index", "ph": "M", "pid": {tensor}, "args": {{"sort_index": {tensor}}}}},\n'
    )


def step_text(*, first: bool) -> str:
    """Return the events of one step, with a place for each time."""
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
    from hpcai.metrics.communication import Totals
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


def run_way(name: str, path: Path) -> None:
    """Read in this process; print the time (s), the peak of resident memory (MB) and the number of spans or events."""
    if name in ("summary", "table"):
        import pandas  # noqa: F401  its import is no part of the reading
    import numpy  # noqa: F401

    started_s = time.monotonic()
    count = WAYS[name](path, path.parent)
    seconds = time.monotonic() - started_s
    print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3 * 1.024, count]))


def measure(name: str, path: Path) -> tuple[float, float, int]:
    """Run one way in a process of its own."""
    command = [sys.executable, __file__, "--way", name, "--file", str(path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, memory_mb, count = json.loads(output)
    return seconds, memory_mb, count


def main() -> None:
    """Write the files, read them in turn, print medians; fail if a goal is missed."""
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
    """Read the small file in all ways, in turn; return whether a goal is missed."""
    taken: dict[str, list[tuple[float, float, int]]] = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name in WAYS:
            taken[name].append(measure(name, path))
    medians = {
        name: tuple(statistics.median(part[i] for part in parts) for i in (0, 1)) for name, parts in taken.items()
    }
    ratios = {
        name: statistics.median(peer[0] / own[0] for peer, own in zip(taken["json"], parts, strict=True))
        for name, parts in taken.items()
    }
    print(f"{path.stat().st_size / 1e6:.0f} MB, medians of {rounds} rounds")
    for name, (seconds, memory_mb) in medians.items():
        share = memory_mb / medians["json"][1]
        print(f"  {name:8} {seconds:6.2f} s  {ratios[name]:5.1f} x json  {memory_mb:6.0f} MB  {share:.3f} of json's")
    share = medians["spans"][1] / medians["json"][1]
    print(f"  goal: spans at least {GOAL_SPEED:g} x as fast as json, with at most {GOAL_MEMORY:g} of its memory")
    return ratios["spans"] < GOAL_SPEED or share > GOAL_MEMORY


def check_large(path: Path) -> bool:
    """Read the large file in the ways that keep little; return whether one needs too much memory."""
    print(f"{path.stat().st_size / 1e6:.0f} MB, once each; goal: at most {GOAL_LARGE_MB} MB")
    missed = False
    for name in ("spans", "parquet", "summary"):
        seconds, memory_mb, count = measure(name, path)
        missed |= memory_mb > GOAL_LARGE_MB
        print(f"  {name:8} {seconds:6.2f} s  {memory_mb:6.0f} MB  {count} spans", flush=True)
    return missed


if __name__ == "__main__":
    main()
