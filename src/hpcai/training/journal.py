"""Output of a running rank: signs of life, steps, epochs, resources."""

import csv
import json
import threading
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from hpcai.records.run import EpochRecord
from hpcai.training.chrono import clocks, monotonic_s

BEAT_S = 2.0
SAMPLE_S = 0.5


@dataclass(frozen=True)
class Step:
    """One training step, including the wait for its batch."""

    start_s: float
    step_time_s: float
    train_loss: float


class Journal:
    """Heartbeat, steps and epochs of rank 0; other ranks write nothing.

    ``longest_gap_s``: longest time between two signs of life since :meth:`begin_timing` [s].
    """

    def __init__(self, raw: Path, active: bool) -> None:
        self._raw, self._active, self._beat_s = raw, active, float("-inf")
        self.begin_timing()
        if active:
            with (raw / "steps.csv").open("w", newline="") as stream:
                csv.writer(stream).writerow(["epoch", "step", "start_s", "step_time_s", "train_loss"])
            (raw / "epochs.jsonl").touch()
            # Profilers stamp with the wall clock, steps with the monotonic clock: this links the two.
            (raw / "clocks.json").write_text(json.dumps(asdict(clocks())) + "\n")

    def begin_timing(self) -> float:
        """Return the monotonic clock [s]; from now on the longest time without a sign of life is tracked."""
        self._alive_s, self.longest_gap_s = monotonic_s(), 0.0
        return self._alive_s

    def beat(self, *, now: bool = True) -> None:
        """Write a sign of life; with ``now=False`` at most every few seconds.

        Called by working code, never by a dedicated thread: a hanging training must fall silent.
        """
        time_s = monotonic_s()
        self._alive_s, self.longest_gap_s = time_s, max(self.longest_gap_s, time_s - self._alive_s)
        if self._active and (now or time_s - self._beat_s > BEAT_S):
            (self._raw / "heartbeat").touch()
            self._beat_s = time_s

    def add_epoch(self, record: EpochRecord, steps: Sequence[Step]) -> None:
        """Write a completed epoch and its steps."""
        if not self._active:
            return
        with (self._raw / "steps.csv").open("a", newline="") as stream:
            csv.writer(stream).writerows((record.epoch, number, *astuple(step)) for number, step in enumerate(steps, 1))
        with (self._raw / "epochs.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(record.model_dump_json() + "\n")
        self.beat()

    def say(self, sentence: str) -> None:
        """Print one line of progress."""
        if self._active:
            print(sentence, flush=True)


class ResourceSampler:
    """Samples this process's memory, processor and storage use in the background, into a CSV file."""

    COLUMNS = ("monotonic_s", "rss_bytes", "cpu_percent", "read_bytes", "written_bytes")

    def __init__(self, path: Path) -> None:
        self._path, self._ended, self._process = path, threading.Event(), psutil.Process()
        self._thread = threading.Thread(target=self._sample, name="resources", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        with self._path.open("w", newline="") as stream:
            rows = csv.writer(stream)
            rows.writerow(self.COLUMNS)
            self._process.cpu_percent()  # the first call has no reference
            while not self._ended.wait(SAMPLE_S):
                read, written = storage_bytes(self._process)
                rss = self._process.memory_info().rss
                rows.writerow([f"{monotonic_s():.3f}", rss, self._process.cpu_percent(), read, written])
                stream.flush()


def storage_bytes(process: psutil.Process) -> tuple[int | None, int | None]:
    """Return the bytes that a process read from and wrote to storage; None if the system does not report them."""
    try:
        counters = process.io_counters()
    except (psutil.AccessDenied, AttributeError, NotImplementedError):
        return None, None
    return counters.read_bytes, counters.write_bytes
