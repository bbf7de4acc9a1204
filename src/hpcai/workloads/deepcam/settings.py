"""Settings of the DeepCAM workload (MLPerf HPC reference, deepcam/src/deepCam); the defaults are the official ones."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from hpcai.config.base import Count, Index, Ratio, Settings
from hpcai.config.benchmark import BenchmarkSettings, DataSettings, RecipeSettings, Suite

OUTPUT_STRIDE = 16
"""Pixels of the input per pixel of the deepest features, along each axis (architecture/deeplab_xception.py, os=16)."""

CLASSES = 3
"""0 background, 1 tropical cyclone, 2 atmospheric river."""

Edge = Annotated[int, Field(ge=OUTPUT_STRIDE, multiple_of=OUTPUT_STRIDE, strict=True)]


class DeepCamData(DataSettings):
    """Frames of a climate simulation with a class for each pixel."""

    height: Edge = Field(default=768, description="Pixels from south to north.")
    width: Edge = Field(default=1152, description="Pixels from west to east.")
    channels: Literal[16] = 16


class DeepCamModel(Settings):
    """Channels and depth of DeepLabv3+ with a modified Xception."""

    stem: tuple[Count, Count] = Field(default=(32, 64), description="The two convolutions before the blocks.")
    entry: tuple[Count, Count, Count] = Field(
        default=(128, 256, 728), description="Blocks 1 to 3; the last one's channels are those of the middle blocks."
    )
    middle_blocks: Index = Field(default=16, description="Blocks 4 to 19.")
    exit: tuple[Count, Count, Count] = Field(
        default=(1024, 1536, 2048), description="Block 20, the next two separable convolutions, and the last."
    )
    aspp: Count = Field(default=256, description="Channels of each pyramid branch, and of their merged output.")
    low_level: Count = Field(default=48, description="Channels that the decoder takes from block 1.")
    decoder: Count = 256


class Multistep(Settings):
    """The learning rate falls by a factor at each milestone."""

    type: Literal["multistep"] = "multistep"
    milestones: tuple[Count, ...] = Field(default=(800,), description="Optimizer steps, not counting the warm-up.")
    decay_rate: float = Field(default=0.1, gt=0, le=1)

    @model_validator(mode="after")
    def _milestones_grow(self) -> "Multistep":
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError("milestones must grow")
        return self


class CosineAnnealing(Settings):
    """The learning rate falls along half a cosine; it rises again if training continues."""

    type: Literal["cosine_annealing"]
    t_max: Count = Field(description="Optimizer steps of the descent.")
    eta_min: float = Field(default=0.0, ge=0, description="Learning rate at the end of the descent.")


class DeepCamRecipe(RecipeSettings):
    """Optimizer and learning-rate schedule; by default the published recipe (run_training_nranks1024.sh)."""

    global_batch: Count = 2048
    max_epochs: Count = Field(default=200, description="The published scripts' limit.")
    optimizer: Literal["LAMB", "AdamW", "Adam"] = "LAMB"
    betas: tuple[Ratio, Ratio] = (0.9, 0.999)
    learning_rate: float = Field(default=0.0055, gt=0)
    weight_decay: float = Field(default=0.01, ge=0, description="For all variables; Adam adds it to the gradient.")
    warmup_steps: Index = Field(default=400, description="Optimizer steps; 0: no warm-up.")
    warmup_factor: float = Field(
        default=1.0, ge=1, description="1: from 0 to the learning rate; more: from it to this multiple of it."
    )
    schedule: Annotated[Multistep | CosineAnnealing, Field(discriminator="type")] = Multistep()


class DeepCamBenchmark(BenchmarkSettings):
    """One DeepCAM benchmark file."""

    suite: ClassVar[Suite] = "mlperf_hpc"
    stop: ClassVar[Literal["target", "epochs"]] = "target"
    remainder: ClassVar[Literal["refuse", "drop", "pad"]] = "drop"
    native: ClassVar[bool] = False

    workload: Literal["deepcam"]
    data: DeepCamData
    model: DeepCamModel = DeepCamModel()
    recipe: DeepCamRecipe = DeepCamRecipe()

    @model_validator(mode="after")
    def _target_is_a_ratio(self) -> "DeepCamBenchmark":
        if self.target.value > 1:
            raise ValueError(f"target.value: {self.target.value} is no intersection over union, which is at most 1")
        return self
