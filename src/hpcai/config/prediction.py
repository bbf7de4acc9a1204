"""The predictions of a study, and the measurements they need."""

from typing import Annotated, Literal, get_args

from pydantic import Field, field_validator, model_validator

from hpcai.config.base import Compression, Count, Index, Name, Seed, Settings
from hpcai.config.machine import Precision
from hpcai.core.units import BytesPerSecond, Seconds

ReferenceNetwork = Literal["small_cnn", "vgg11", "resnet50"]
StepCostModel = Literal["blocks", "roofline", "regressors"]
KernelFamily = Literal["convolution2d", "convolution3d", "gemm", "elementwise", "update"]
"""Kernels that one process measures."""
MOST_SOLUTIONS = 20
"""Orders that HPL reads in one input."""


class HplTest(Settings):
    """One run of HPL on a grid of process_rows x process_columns processes, each with one core."""

    order: Count = Field(description="Rows of the matrix (N).")
    block: Count = Field(description="Columns of a panel (NB).")
    process_rows: Count = 1
    process_columns: Count = 1

    @model_validator(mode="after")
    def _holds_a_block(self) -> "HplTest":
        if self.order < self.block:
            raise ValueError(f"order {self.order} is less than block {self.block}: expected at least one panel")
        return self

    @property
    def processes(self) -> int:
        """Number of processes in the grid."""
        return self.process_rows * self.process_columns

    @property
    def words(self) -> str:
        """Short name for file names and messages."""
        return f"{self.order}-{self.block}-{self.process_rows}x{self.process_columns}"


class AssumedLink(Settings):
    """A hypothetical link between ranks, to predict its effect."""

    name: Name
    bandwidth_bytes_per_s: BytesPerSecond = Field(description='Rate of one direction, for example "200 Gbit/s".')
    latency_s: Seconds = Field(description="Latency of one message from rank to rank.")


class Prediction(Settings):
    """Questions for the predictors, measured only by `snakemake predict`; by default nothing is measured."""

    step_blocks: bool = Field(
        default=False,
        description="Whether the fused blocks of the study's benchmarks, and of `reference_networks`, are timed once "
        "per machine: what their training steps are predicted from.",
    )
    block_samples: Index = Field(
        default=0,
        description="Blocks of random sizes of each kind that are timed besides, to estimate the times of blocks that "
        "were not timed; 0: none.",
    )
    kernel_samples: Index = Field(
        default=0,
        description=(
            "Random shapes of each kernel that are timed once per machine to train the regressors; fewer than "
            "1000 give little accuracy; 0: none."
        ),
    )
    kernel_passes: Count = Field(
        default=3,
        description=(
            "Number of passes over all shapes; the least disturbed one counts, which matters on a shared machine."
        ),
    )
    kernel_seed: Seed = Field(
        default=2023,
        description="Seed of the random shapes and of the regressors' training; changing it repeats the measurement.",
    )
    reference_networks: tuple[ReferenceNetwork, ...] = Field(
        default=(),
        description="Networks whose training steps are timed and compared with the sums of their kernel times.",
    )
    hpl_tests: tuple[HplTest, ...] = Field(
        default=(), description="Runs of a real HPL (hpcc) with which the HPL model is compared."
    )
    hpl_repeats: Annotated[Count, Field(le=MOST_SOLUTIONS)] = Field(
        default=1,
        description="How often a start of HPL solves the system that takes longest; smaller ones are solved more "
        "often, up to 20 times, so that all starts compute as long. The median time counts.",
    )
    cost_model: StepCostModel = Field(
        default="blocks",
        description="Preferred model of the computing of a predicted step: what `step_blocks` timed (the whole step, "
        "or the sum of its blocks where not each batch has it), rooflines, or kernel regressors. Where it does not "
        "apply, the other model with the smaller error on measured steps is used.",
    )
    ranks: tuple[Count, ...] = Field(default=(), description="Numbers of ranks for which each variant is predicted.")
    links: tuple[AssumedLink, ...] = Field(
        default=(), description="Links for which the largest measured scale is predicted."
    )
    precisions: tuple[Precision, ...] = Field(default=(), description="Precisions for which each scale is predicted.")
    compressions: tuple[Compression, ...] = Field(
        default=(), description="Gradient compressions for which each scale is predicted."
    )

    def measured_files(self, machine: str) -> dict[str, list[str]]:
        """Return the files below the results folder that are measured once per machine, by subject."""
        folder = f"predict/{machine}"
        return {
            "kernel_times": [f"{folder}/{one}/times.parquet" for one in get_args(KernelFamily) if self.kernel_samples],
            "step_blocks": [f"{folder}/step_blocks.json"] if self.step_blocks else [],
            "reference_steps": [f"{folder}/reference_steps.json"] if self.reference_networks else [],
            "blas_rates": [f"{folder}/blas_rates.json"] if self.hpl_tests else [],
            "hpl": [f"{folder}/hpl.json"] if self.hpl_tests else [],
        }

    @field_validator("reference_networks", "hpl_tests", "ranks", "precisions", "compressions")
    @classmethod
    def _each_once(cls, values: tuple[object, ...]) -> tuple[object, ...]:
        if len(set(values)) != len(values):
            raise ValueError("each value once")
        return values

    @field_validator("links")
    @classmethod
    def _names_once(cls, links: tuple[AssumedLink, ...]) -> tuple[AssumedLink, ...]:
        if len({link.name for link in links}) != len(links):
            raise ValueError("each name once")
        return links
