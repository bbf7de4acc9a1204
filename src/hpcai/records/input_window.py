"""What a rank writes of its input where Darshan is not: the kernel's counters of its reads, and a trace."""

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

TOOL = "/proc/PID/io and tf.data"
COUNTERS, TRACES = "io_rank*.json", "input_rank*.xplane.pb"
SELF = Path("/proc/self/io")


def counters_name(rank: int) -> str:
    """Return the name of a rank's counters."""
    return COUNTERS.replace("*", str(rank))


def trace_name(rank: int) -> str:
    """Return the name of a rank's trace."""
    return TRACES.replace("*", str(rank))


class ReadCounters(BaseModel):
    """What the kernel counted of a process's reads (proc(5), /proc/pid/io); None: it does not tell."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    read_bytes: int | None = Field(default=None, description="rchar: of all read calls, from the page cache as well.")
    reads: int | None = Field(default=None, description="syscr: read calls.")
    storage_bytes: int | None = Field(default=None, description="read_bytes: fetched from storage.")

    @classmethod
    def of_this_process(cls, path: Path = SELF) -> Self:
        """Return the counters of the calling process."""
        try:
            lines = path.read_text().splitlines()
        except OSError:
            return cls()
        found = {name: int(value) for name, _, value in (line.partition(": ") for line in lines) if value.isdigit()}
        return cls(read_bytes=found.get("rchar"), reads=found.get("syscr"), storage_bytes=found.get("read_bytes"))


class InputWindow(BaseModel):
    """Counters of one rank before and after the steps in which its input was watched."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    rank: int = Field(ge=0)
    process_id: int
    start_s: float = Field(description="Monotonic clock before the first step.")
    stop_s: float = Field(description="Monotonic clock after the last one.")
    before: ReadCounters
    after: ReadCounters

    def counted(self, name: str) -> float:
        """Return how much a counter grew; NaN if the kernel does not tell."""
        first, last = getattr(self.before, name), getattr(self.after, name)
        return float("nan") if first is None or last is None else float(last - first)
