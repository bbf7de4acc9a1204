"""Measurements of training steps and their fused blocks: the file behind predictions of steps."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from hpcai.core.disturbance import Disturbance

BlockKind = Literal["convolution", "3-D convolution", "transposed convolution", "depthwise", "dense", "sparse", "other"]
SETS = 4
"""Sets of operands that a block cycles through, so that each call finds the caches as in a step, not warmed by
itself."""
Origin = Literal["benchmark", "reference network"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BlockTime(_Part):
    """One distinct block of a network, timed in its own function."""

    name: str = Field(description="Operation that it begins with, as the network's graph names it.")
    kind: BlockKind
    count: int = Field(ge=1, description="How many such blocks a step has.")
    operations: int = Field(ge=1, description="Of one such block, forward and backward.")
    work_flop: float = Field(description="Of the products and convolutions of one such block.")
    moved_bytes: float = Field(description="Modelled: what it gets and gives, each tensor once.")
    cpu_time_s: float | None = Field(default=None, description="Of one such block; none if it was not measured.")
    reason: str = ""


class StepTimes(_Part):
    """The step of one network at one batch, and its blocks."""

    network: str
    origin: Origin
    batch: int = Field(ge=1, description="Samples of a micro-batch.")
    software: str = Field(default="", description="Versions of what computed.")
    optimizer: str = ""
    parameters: int = 0
    step_s: float | None = Field(default=None, description="Median CPU time of the whole step; none: not measured.")
    update_s: float | None = Field(default=None, description="Of the optimizer's call; none: not measured.")
    rounds: int = Field(default=0, description="Times that step, blocks and update were timed in turn.")
    blocks: tuple[BlockTime, ...] = ()
    reason: str = Field(default="", description="Why there is no time.")


class BlocksReport(_Part):
    """All steps that were measured on a machine."""

    processor: str
    software: str
    sets: int = Field(description="Sets of operands behind the time of a block.")
    threads: int = 1
    method: Literal["measured"] = "measured"
    wall_s: float
    steps: tuple[StepTimes, ...]
    disturbance: tuple[Disturbance, ...] = Field(default=(), description="What others took of the node meanwhile.")
