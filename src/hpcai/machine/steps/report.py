"""Request to and report of the process that times training steps."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from hpcai.config.machine import Precision

StepPrecision = Literal["fp32", "tf32", "bf16"]
Place = Literal["device", "host"]
MODULE = "hpcai.machine.steps.process"
REPORT, PLAN, TRACE, PROGRAM, OUTPUT = "steps.json", "plan.json", "steps.xplane.pb", "steps.hlo.txt", "output.log"
"""Files in the folder of one case."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Block(_Part):
    """Steps timed together; the loss of the last one was fetched."""

    started_s: float = Field(description="Monotonic clock.")
    duration_s: float = Field(gt=0)
    steps: int = Field(ge=1)

    @property
    def step_s(self) -> float:
        """Mean time of a step [s]."""
        return self.duration_s / self.steps


class StepReport(_Part):
    """The steps of one benchmark in one precision."""

    engine: str
    device: str = Field(description="As the engine names it.")
    precision: Precision
    batch: int = Field(ge=1)
    batch_place: Place = Field(description="Memory that the batch lies in; each step copies it from the host's.")
    parameters: int
    flop_per_sample: float = Field(gt=0, description="By the formula of the layers.")
    first_step_s: float = Field(description="With compilation, which `blocks` leave out.")
    blocks: tuple[Block, ...] = Field(min_length=1)
    traced_steps: int = Field(default=0, description="Steps in the trace; 0: there is none.")
    trace_reason: str = ""


def report_path(folder: Path) -> Path:
    """Return the path of a case's report."""
    return folder / REPORT
