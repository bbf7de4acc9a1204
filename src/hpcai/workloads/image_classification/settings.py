"""Settings of the image classification workload: ResNet-50 v1.5 on ImageNet (HPC AI500 V2.0, resnet50v1.5/)."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from hpcai.config.base import Count, Engine, Ratio, Settings
from hpcai.config.benchmark import SPLITS, BenchmarkSettings, DataSettings, RecipeSettings, Suite
from hpcai.core.messages import Message

ONLY_FOR = Message("image_classification.only_for", "{key}: only for the optimizer {optimizer}, found {found!r}")
CONSTANTS = {"betas": "lamb", "trust_coefficient": "lars"}
"""Keys that only one optimizer uses."""


class ImageClassificationData(DataSettings):
    """JPEG images with labels 1..classes in TFRecord files of the Inception scripts."""

    classes: Annotated[int, Field(ge=2, le=100_000, strict=True)] = 1000
    train_shards: Annotated[int, Field(ge=1, le=99_999, strict=True)] = Field(
        default=1024, description="Files of the training split, for sources that write them."
    )
    validation_shards: Annotated[int, Field(ge=1, le=99_999, strict=True)] = Field(
        default=128, description="Files of the validation split, for sources that write them."
    )
    resize_edge: Count = Field(default=256, description="Shorter side of an image before the evaluation's crop.")
    crop: Annotated[int, Field(ge=32, strict=True)] = Field(
        default=224, description="Edge of the square that the network sees; five halvings must leave a pixel."
    )

    @model_validator(mode="after")
    def _sizes_fit(self) -> "ImageClassificationData":
        if self.crop > self.resize_edge:
            raise ValueError(f"crop: {self.crop} is more than resize_edge = {self.resize_edge} can give")
        for split in SPLITS:
            samples, shards = self.samples(split), getattr(self, f"{split}_shards")
            if samples < shards:
                raise ValueError(f"{split}_shards: {shards} files for {samples} samples leave some of them empty")
            if self.source == "generate" and samples % shards:
                raise ValueError(
                    f"{split}_shards: {samples} samples in {shards} files are not equally many in each; "
                    "the reference counts the records of the first file for all"
                )
        return self


class ImageClassificationModel(Settings):
    """The residual network; the defaults are ResNet-50 v1.5."""

    # Not 1: projections would have too few inputs for oneDNN, see hpcai.training.backend.FEWEST_STRIDED_INPUTS.
    stem_filters: Count = Field(
        default=64, ge=2, description="Filters of the first layer; all others are multiples of it."
    )
    blocks: Annotated[tuple[Count, ...], Field(min_length=1, max_length=4)] = Field(
        default=(3, 4, 6, 3), description="Bottleneck blocks of each stage."
    )


class ImageClassificationRecipe(RecipeSettings):
    """Optimizer and learning-rate schedule (reference, scripts/fp32.sh and utils/learning_rate.py)."""

    unwritten: ClassVar[tuple[str, ...]] = (*RecipeSettings.unwritten, "betas", "trust_coefficient", "scaling")

    global_batch: Count = 256
    max_epochs: Count = 90
    optimizer: Literal["sgd", "lars", "lamb"] = Field(
        default="sgd", description="lars and lamb are learning-rate policies for large batches (HPC AI500 V2.0, 6.1.2)."
    )
    momentum: Ratio = Field(default=0.875, description="Of sgd and lars.")
    betas: tuple[Ratio, Ratio] = Field(default=(0.9, 0.999), description="Of lamb.")
    trust_coefficient: float = Field(
        default=0.001, gt=0, description="Of lars: the rate of a kernel over |kernel| / |gradient|."
    )
    weight_decay: float = Field(
        default=2.0**-15,
        ge=0,
        description="sgd: penalty weight_decay x sum(w^2)/2 on every trainable variable; lars and lamb: decay of "
        "kernels, not of batch norm and bias.",
    )
    label_smoothing: Ratio = Field(default=0.1, description="Spread evenly over all classes + 1 outputs.")
    base_learning_rate: float = Field(default=0.256, gt=0)
    base_batch: Count = Field(default=256, description="Global batch for which the base learning rate holds.")
    scaling: Literal["linear", "sqrt", "none"] = Field(
        default="linear", description="Of the learning rate with the global batch; none: the base learning rate."
    )
    warmup_epochs: int = Field(default=8, ge=0, description="Linear from 0.")
    schedule: Literal["cosine", "step"] = "cosine"
    decay_epochs: tuple[Count, ...] = Field(default=(30, 60, 80, 90), description="Only for the schedule step.")
    decay_factor: float = Field(default=0.1, gt=0, lt=1, description="Multiplies the rate at each of decay_epochs.")

    @model_validator(mode="after")
    def _decay_grows(self) -> "ImageClassificationRecipe":
        if list(self.decay_epochs) != sorted(set(self.decay_epochs)):
            raise ValueError("decay_epochs must grow")
        if self.warmup_epochs > self.max_epochs:
            raise ValueError(f"warmup_epochs: {self.warmup_epochs} is more than max_epochs = {self.max_epochs}")
        return self

    @model_validator(mode="after")
    def _constants_are_of_the_optimizer(self) -> "ImageClassificationRecipe":
        for key, optimizer in CONSTANTS.items():
            if key in self.model_fields_set and self.optimizer != optimizer:
                raise ValueError(ONLY_FOR(key=key, optimizer=optimizer, found=self.optimizer))
        return self


class ImageClassificationBenchmark(BenchmarkSettings):
    """One image classification benchmark file."""

    suite: ClassVar[Suite] = "hpc_ai500"
    stop: ClassVar[Literal["target", "epochs"]] = "epochs"
    remainder: ClassVar[Literal["refuse", "drop", "pad"]] = "drop"
    native: ClassVar[bool] = True
    engines: ClassVar[tuple[Engine, ...]] = ("horovod", "tensorflow", "jax")

    workload: Literal["image_classification"]
    data: ImageClassificationData
    model: ImageClassificationModel = ImageClassificationModel()
    recipe: ImageClassificationRecipe = ImageClassificationRecipe()
