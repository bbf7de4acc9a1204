"""The tool of a profiled run: how it wraps the ranks, or why there is none."""

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hpcai.records.run import InstrumentFacts

StepProfiler = Literal["none", "tensorflow", "cuda", "input", "control"]


@dataclass(frozen=True)
class Missing:
    """Why nothing can be measured, as the end of "not measured: "."""

    reason: str


@dataclass(frozen=True)
class Instrument:
    """One tool attached to the ranks of a profiled run.

    In its texts ``{raw}`` stands for the attempt's folder and ``{job}`` for a unique number.

    Attributes
    ----------
    tool
        Name of the tool, as shown in reports.
    raw
        Patterns of the tool's output files, below the attempt's folder; the first must match.
    prefix
        Command prefix of every rank's program.
    first_rank_prefix
        Command prefix of the first rank's program only.
    environment
        Environment variables of the launcher and therefore of all ranks.
    step_profiler
        Profiler that a rank starts and stops around the profiled steps.
    before
        Called first, with the attempt's folder and the data folders.
    beside
        Context in this process while the ranks run, given the attempt's folder.
    afterwards
        Commands that convert the tool's output to text; run in the attempt's folder.
    compute_capability
        Of the accelerator, on which the meaning of counters depends; blank on processors.
    missing
        What the tool cannot tell here, and why; it goes with the numbers that it tells.
    """

    tool: str
    raw: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    first_rank_prefix: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    step_profiler: StepProfiler = "none"
    before: Callable[[Path, Sequence[Path]], None] = lambda *_: None
    beside: Callable[[Path], AbstractContextManager[object]] = lambda _: nullcontext()
    afterwards: tuple[tuple[str, ...], ...] = ()
    compute_capability: str = ""
    missing: str = ""

    def wrap(self, program: Sequence[str], attempt: Path) -> list[str]:
        """Return a rank's program wrapped by the tool."""
        first = (sys.executable, "-m", "hpcai.training.first_rank", *self.first_rank_prefix, "--")
        prefix = (*self.prefix, *(first if self.first_rank_prefix else ()))
        return [*(_filled(word, attempt) for word in prefix), *program]

    @property
    def wraps(self) -> bool:
        """Whether the tool puts processes of its own around the ranks."""
        return bool(self.prefix or self.first_rank_prefix)

    def variables(self, attempt: Path) -> dict[str, str]:
        """Return the launcher's environment variables."""
        return {name: _filled(value, attempt) for name, value in self.environment.items()}

    @property
    def facts(self) -> InstrumentFacts:
        """What is written into the raw folder of a run."""
        return InstrumentFacts(
            tool=self.tool, raw=self.raw, compute_capability=self.compute_capability, missing=self.missing
        )

    def finish(self, attempt: Path) -> None:
        """Convert the tool's output to text; a failing command leaves its message in the output."""
        with (attempt / "output.log").open("ab") as output:
            for command in self.afterwards:
                subprocess.run(command, cwd=attempt, stdout=output, stderr=subprocess.STDOUT, check=False)


def _filled(text: str, attempt: Path) -> str:
    job = int.from_bytes(hashlib.sha256(attempt.name.encode()).digest()[:3], "big") + 1
    return text.replace("{raw}", str(attempt.resolve())).replace("{job}", str(job))


NO_INSTRUMENT = Instrument("none")


def compute_capability() -> float | Missing:
    """Return the lowest compute capability of the node's NVIDIA accelerators."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return Missing("nvidia-smi is not on the PATH: the accelerator's compute capability is unknown")
    done = subprocess.run(
        [program, "--query-gpu=compute_cap", "--format=csv,noheader"], capture_output=True, text=True, check=False
    )
    found = re.findall(r"^\s*(\d+\.\d+)\s*$", done.stdout, re.MULTILINE)
    if done.returncode or not found:
        return Missing(f"nvidia-smi reports no compute capability: {(done.stderr or done.stdout).strip()[:200]}")
    return min(map(float, found))


def tool_on_path(name: str) -> str | Missing:
    """Return the path of a profiler, or report it missing."""
    found = shutil.which(name)
    return found or Missing(f"{name} is not on the PATH; load its module")
