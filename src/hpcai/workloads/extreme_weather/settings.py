"""Settings of the Extreme Weather Analytics workload (HPC AI500 V2.0): Faster R-CNN on the ExtremeWeather dataset.

The paper names the network, its 41 million parameters, the data, the target and the 50 epochs; its code is not public.
Everything else follows tensorpack's Faster R-CNN (examples/FasterRCNN), which also uses TensorFlow, Horovod and one
image per worker. Sixteen channels require training from scratch with trainable batch norm.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from hpcai.config.base import Count, Ratio, Settings
from hpcai.config.benchmark import SPLITS, BenchmarkSettings, DataSettings, RecipeSettings, Suite

COARSEST_STRIDE = 32
"""Pixels per cell of the backbone's last feature map."""
PYRAMID_LEVELS = 5
Year = Annotated[int, Field(ge=1000, le=9999, strict=True)]
Pixels = Annotated[int, Field(ge=64, le=8192, strict=True)]
Positive = Annotated[float, Field(gt=0)]


class ExtremeWeatherData(DataSettings):
    """Global fields of a climate model, one file per year, with the boxes of the events in them."""

    height: Pixels = Field(description="Rows (latitude) of an image, a multiple of 32; 768 is the official size.")
    width: Pixels = Field(description="Columns (longitude) of an image, a multiple of 32; 1152 is the official size.")
    channels: Literal[16] = 16
    train_years: tuple[Year, ...] = Field(min_length=1, description="Years to train on, one file climo_YYYY.h5 each.")
    validation_years: tuple[Year, ...] = Field(min_length=1, description="Years to evaluate on, not to train on.")

    @model_validator(mode="after")
    def _edges_can_be_halved(self) -> "ExtremeWeatherData":
        for name in ("height", "width"):
            if getattr(self, name) % COARSEST_STRIDE:
                raise ValueError(f"{name}: a multiple of {COARSEST_STRIDE} is allowed")
        return self

    @model_validator(mode="after")
    def _years_hold_the_samples(self) -> "ExtremeWeatherData":
        years = (*self.train_years, *self.validation_years)
        if len(set(years)) != len(years):
            raise ValueError("train_years and validation_years must name each year once")
        for split in SPLITS:
            samples, count = self.samples(split), len(getattr(self, f"{split}_years"))
            if samples % count:
                raise ValueError(f"{split}_samples: {samples} frames cannot be spread evenly over {count} years")
        return self

    def frames(self, year: int) -> int:
        """Return the number of frames in the file of a year, 1460 (four a day) in the official ones."""
        if year in self.train_years:
            return self.train_samples // len(self.train_years)
        return self.validation_samples // len(self.validation_years)


class Anchors(Settings):
    """Anchor boxes of the region proposal network, and which of them it learns from."""

    sizes: tuple[Positive, ...] = Field(
        default=(32.0, 64.0, 128.0, 256.0, 512.0),
        min_length=1,
        max_length=PYRAMID_LEVELS,
        description="Root of the area on each pyramid level from P2 on (strides 4, 8, 16, 32, 64) [pixels].",
    )
    ratios: tuple[Positive, ...] = Field(default=(0.5, 1.0, 2.0), min_length=1, description="Height to width.")
    positive_iou: Ratio = Field(default=0.7, description="From this overlap an anchor is positive; so is a box's best.")
    negative_iou: Ratio = Field(default=0.3, description="Below this overlap an anchor is negative.")
    batch: Count = Field(default=256, description="Anchors per image in the loss.")
    positive_ratio: Ratio = Field(default=0.5, description="Largest share of positive anchors in the batch.")

    @model_validator(mode="after")
    def _limits_are_ordered(self) -> "Anchors":
        if not 0 < self.negative_iou <= self.positive_iou:
            raise ValueError("negative_iou must be positive and at most positive_iou")
        return self


class Proposals(Settings):
    """Boxes that the region proposal network passes on."""

    train: Count = Field(default=2000, description="Maximum per level, and in total, in training.")
    test: Count = Field(default=1000, description="Maximum per level, and in total, in evaluation.")
    iou: Ratio = Field(default=0.7, description="Of two boxes that overlap more, the lower-scoring one is dropped.")


class Regions(Settings):
    """Regions of interest: which proposals the box head learns from, and how it samples them."""

    batch: Count = Field(default=512, description="Regions per image in the loss.")
    positive_ratio: Ratio = Field(default=0.25, description="Largest share of foreground in the batch.")
    positive_iou: Ratio = 0.5
    canonical_size: Positive = Field(
        default=224.0, description="Root of the area of a region that is taken from P4 [pixels]."
    )
    resolution: Count = Field(default=7, description="Cells per edge of a region's features.")
    samples_per_cell: Literal[1, 2] = Field(default=2, description="Bilinear samples per cell and axis, averaged.")


class Detections(Settings):
    """Filters on the box head's output in evaluation."""

    score: Ratio = Field(default=0.05, description="Only higher scores count.")
    iou: Ratio = Field(default=0.5, description="Of two boxes of a class that overlap more, the lower is dropped.")
    per_image: Count = 100


class ExtremeWeatherModel(Settings):
    """Faster R-CNN with a ResNet-50 and a feature pyramid; the defaults give 41,408,424 trainable parameters."""

    blocks: tuple[Count, Count, Count, Count] = Field(default=(3, 4, 6, 3), description="Bottlenecks per stage.")
    # Not 1: projections would have too few inputs for oneDNN, see hpcai.training.backend.FEWEST_STRIDED_INPUTS.
    base_filters: Count = Field(
        default=64, ge=2, description="Filters of the stem; stages begin with 1, 2, 4, 8 times it."
    )
    pyramid_filters: Count = 256
    head_units: Count = Field(default=1024, description="Width of the two dense layers of the box head.")
    batch_norm_momentum: Ratio = Field(default=0.9, description="Share of the moving statistics that a step keeps.")
    batch_norm_epsilon: Positive = 1e-5
    anchors: Anchors = Anchors()
    proposals: Proposals = Proposals()
    regions: Regions = Regions()
    detections: Detections = Detections()


class ExtremeWeatherRecipe(RecipeSettings):
    """Optimizer and learning-rate schedule (tensorpack, examples/FasterRCNN/config.py and train.py)."""

    optimizer: Literal["sgd"] = "sgd"
    momentum: Ratio = 0.9
    weight_decay: float = Field(default=1e-4, ge=0, description="Times half the sum of squares of all kernels.")
    global_batch: Count = 8
    base_batch: Count = Field(default=8, description="Global batch for which the base learning rate holds.")
    base_learning_rate: Positive = Field(default=0.01, description="Scaled linearly with the global batch.")
    warmup_steps: int = Field(default=1000, ge=0, strict=True)
    warmup_start_ratio: Positive = Field(default=1 / 3, le=1, description="First learning rate over the peak.")
    decay_points: tuple[Ratio, ...] = Field(default=(2 / 3, 8 / 9), description="Rate drops, as parts of the training.")
    decay_factor: Annotated[float, Field(gt=0, lt=1)] = 0.1
    max_epochs: Count = 50

    @model_validator(mode="after")
    def _points_grow(self) -> "ExtremeWeatherRecipe":
        if list(self.decay_points) != sorted(set(self.decay_points)):
            raise ValueError("decay_points must grow")
        return self


class ExtremeWeatherBenchmark(BenchmarkSettings):
    """One Extreme Weather Analytics benchmark file."""

    suite: ClassVar[Suite] = "hpc_ai500"
    stop: ClassVar[Literal["target", "epochs"]] = "epochs"
    remainder: ClassVar[Literal["refuse", "drop", "pad"]] = "drop"
    native: ClassVar[bool] = False

    workload: Literal["extreme_weather"]
    data: ExtremeWeatherData
    model: ExtremeWeatherModel = ExtremeWeatherModel()
    recipe: ExtremeWeatherRecipe = ExtremeWeatherRecipe()
