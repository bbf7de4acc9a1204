"""Measurements of training steps and their fused blocks: the file behind predictions of steps."""

import math
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from hpcai.core.disturbance import Disturbance
from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message, at

BlockKind = Literal[
    "convolution", "3-D convolution", "transposed convolution", "depthwise", "dense", "sparse", "other", "update"
]
"""What a block begins with; an update is an optimizer's whole call."""
Floats = NDArray[np.float64]
Origin = Literal["benchmark", "reference network"]
NO_BLOCKS = Message(
    "steps.no_blocks", "no predict/MACHINE/step_blocks.json, which steps are predicted from: run `make predict` first"
)
SEVERAL_MACHINES = Message("steps.several_machines", "blocks of {machines}, expected one machine: name it (--machine)")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class OperationWork(_Part):
    """What the operations of one type do in a block, as TensorFlow computes them (modelled)."""

    type: str
    count: int = Field(ge=1)
    passed_bytes: float = Field(description="What they get and give.")
    far_bytes: float = Field(default=0.0, description="Of these, what each of them passes beyond 1 MiB.")
    work_flop: float = Field(
        default=0.0, description="Of products, and of convolutions where their windows are inside of the image."
    )
    idle_flop: float = Field(default=0.0, description="What vector registers compute beyond: columns up to 16.")
    idle_input_flop: float = Field(
        default=0.0, description="The same of a convolution's input channels, up to a register's width."
    )
    per_column_flop: float = Field(default=0.0, description="work_flop over the columns of what a product computes.")
    per_pixel_flop: float = Field(default=0.0, description="work_flop of a convolution over the pixels of a row.")
    window_flop: float = Field(default=0.0, description="work_flop of a convolution whose window has several places.")
    unfolded_flop: float = Field(
        default=0.0, description="Of a convolution that multiplies copies of all windows, outside of images too."
    )
    strided_flop: float = Field(default=0.0, description="Of work_flop, where a window moves by more than one place.")
    given_bytes: float = Field(default=0.0, description="Of a product's passed_bytes: images, rows, or their gradient.")
    weight_bytes: float = Field(default=0.0, description="Of them: weights, or their gradient.")
    result_bytes: float = Field(default=0.0, description="Of them: the rest.")
    repeated_bytes: float = Field(
        default=0.0, description="Of passed_bytes, of operations on elements whose operands have several shapes."
    )
    repeated_rows: float = Field(
        default=0.0, description="Rows that these read of each repeated operand; axes repeated alike are one."
    )
    last_axis_bytes: float = Field(default=0.0, description="Of passed_bytes, of reductions along the last axis.")
    products: float = Field(default=0.0, description="Of matrices, where one operation computes many.")
    rows: float = Field(default=0.0, description="That are gathered, added up or multiplied one by one.")

    def plus(self, other: "OperationWork") -> "OperationWork":
        """Return the work of both."""
        return OperationWork(type=self.type, **{name: getattr(self, name) + getattr(other, name) for name in MEASURES})


MEASURES = tuple(name for name in OperationWork.model_fields if name != "type")
"""What an operation may cost by."""


class BlockTime(_Part):
    """One distinct block of a network, timed among the others."""

    name: str = Field(description="Operation that it begins with, as the network's graph names it.")
    kind: BlockKind
    count: int = Field(ge=1, description="How many such blocks a step has.")
    operations: int = Field(ge=1, description="Of one such block, forward and backward.")
    work_flop: float = Field(description="Of the products and convolutions of one such block.")
    moved_bytes: float = Field(description="Modelled: what it gets and gives, each tensor once.")
    works: tuple[OperationWork, ...] = Field(default=(), description="By type of its operations.")
    time_s: float | None = Field(default=None, description="Of one such block; none if it was not measured.")
    reason: str = ""


Anchors = Annotated[tuple[float, ...], Field(description="Times of the same few blocks in every process.")]


class StepTimes(_Part):
    """The step of one network at one batch, and its blocks."""

    network: str
    origin: Origin
    batch: int = Field(ge=1, description="Samples of a micro-batch.")
    precision: str = "fp32"
    software: str = Field(default="", description="Versions of what computed.")
    optimizer: str = ""
    parameters: int = 0
    gradient_sizes: tuple[int, ...] = Field(
        default=(), description="Parameters of each gradient, first layers first; none: another version measured it."
    )
    step_s: float | None = Field(default=None, description="Median CPU time of the whole step; none: not measured.")
    update_s: float | None = Field(default=None, description="Of the optimizer's call; none: not measured.")
    arguments_s: float | None = Field(
        default=None, description="What the step's call takes beyond the update's, because it has more arguments."
    )
    rounds: int = Field(default=0, description="Times that step, blocks and update were timed in turn.")
    update: BlockTime | None = Field(default=None, description="The optimizer's call as a block.")
    blocks: tuple[BlockTime, ...] = ()
    anchors_s: Anchors = ()
    reason: str = Field(default="", description="Why there is no time.")

    @property
    def all_blocks(self) -> tuple[BlockTime, ...]:
        """Its blocks, and the update as the last one."""
        return (*self.blocks, *([self.update] if self.update else []))


class SampleTimes(_Part):
    """Blocks of random sizes that were timed in turn."""

    blocks: tuple[BlockTime, ...]
    anchors_s: Anchors = ()


class BlocksReport(_Part):
    """All steps that were measured on a machine."""

    processor: str
    software: str
    threads: int = 1
    method: Literal["measured"] = "measured"
    wall_s: float = Field(description="Of all steps.")
    steps: tuple[StepTimes, ...]
    samples: tuple[SampleTimes, ...] = Field(default=(), description="Blocks of random sizes, for the regressor.")
    samples_wall_s: float | None = Field(default=None, description="Of the blocks of random sizes; none: not asked.")
    samples_reason: str = Field(default="", description="Why some or all of those that were asked for are missing.")
    disturbance: tuple[Disturbance, ...] = Field(default=(), description="What others took of the node meanwhile.")

    def host_ratios(self) -> tuple[Floats, Floats]:
        """Return how much longer the anchors took beside each step, and beside each part of the random blocks.

        Over their medians in the whole report: what the host's speed drifts. NaN: they were not timed.
        """
        all_s = [*(one.anchors_s for one in self.steps), *(one.anchors_s for one in self.samples)]
        known = np.array([one for one in all_s if one])
        with np.errstate(divide="ignore", invalid="ignore"):
            told = np.nanmedian(known / np.median(known, axis=0), axis=1).tolist() if len(known) else []
        ratios = iter(told)
        found = np.array([next(ratios) if one else math.nan for one in all_s])
        return found[: len(self.steps)], found[len(self.steps) :]


def find_blocks(results: Path, machine: str | None) -> Path | None:
    """Return the file of blocks of a machine, or of the only one that has any; None if there is none.

    Raises
    ------
    ConfigError
        If several machines have blocks and none is named, or that which is named has none.
    """
    found = sorted((results / "predict").glob(f"{machine or '*'}/step_blocks.json"))
    if len(found) > 1:
        names = ", ".join(file.parent.name for file in found)
        raise ConfigError(at(str(results), SEVERAL_MACHINES(machines=names)))
    if machine and not found:
        raise ConfigError(at(str(results), NO_BLOCKS()))
    return found[0] if found else None
