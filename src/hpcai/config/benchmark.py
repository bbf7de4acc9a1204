"""Contents of every benchmark file: data, packing, staging, model, recipe and target of one workload at one size."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from hpcai.config.base import Count, Engine, Name, SafePath, Settings, Text
from hpcai.core.messages import Message

NEEDS_PLAIN_SHARDS = Message(
    "benchmark.needs_plain_shards",
    "staging.place: 'none' needs pack.codec: 'none' here, because TensorFlow reads the shards in place",
)


class PartTraffic(NamedTuple):
    """Traffic of a rank in a step, for one sample, to the ranks that share the sample.

    Attributes
    ----------
    to_neighbours
        Numbers sent to neighbours by the rank that sends most, forward and backward.
    to_each_at_most
        Numbers sent to every rank instead, by an engine that sends each as much as the one that needs most.
    to_each
        Other numbers sent to every rank of the replica.
    """

    to_neighbours: float = 0.0
    to_each_at_most: float = 0.0
    to_each: float = 0.0


WHOLE_SAMPLES = Message("benchmark.whole_samples", "1: {workload} trains on whole samples")

Suite = Literal["mlperf_hpc", "hpc_ai500"]
Split = Literal["train", "validation"]
SPLITS: tuple[Split, ...] = ("train", "validation")


class DataSettings(Settings):
    """Source of the samples; the workload adds the shape of a sample."""

    dataset: Name = Field(description="Folder below data/; benchmarks with the same dataset name share it.")
    source: Literal["generate", "download", "existing"]
    train_samples: Count
    validation_samples: Count
    path: SafePath | None = Field(default=None, description="Folder of an existing dataset (source: existing).")
    archives: tuple[Name, ...] = Field(default=(), description="Rows of datasets.tsv to download (source: download).")
    seed: Count = Field(default=1, description="Seed of the generator (source: generate).")

    def samples(self, split: Split) -> int:
        """Return the number of samples of a split."""
        return self.train_samples if split == "train" else self.validation_samples

    @model_validator(mode="after")
    def _source_has_what_it_needs(self) -> "DataSettings":
        needs = {"existing": "path", "download": "archives"}
        for source, key in needs.items():
            given = bool(getattr(self, key))
            if self.source == source and not given:
                raise ValueError(f"source {source!r} needs the key {key!r}")
            if self.source != source and given:
                raise ValueError(f"the key {key!r} is only allowed for source {source!r}")
        return self


class PackSettings(Settings):
    """Packing of the samples into few shards for fast staging."""

    codec: Literal["none", "gzip", "zstd", "shuffle_zstd", "shuffle_lz4", "auto"] = Field(
        default="shuffle_zstd",
        description="shuffle_zstd is made for 16-bit counts; shuffle_lz4 compresses them less and unpacks faster. "
        "auto measures the storage of the shards and chooses.",
    )
    level: int = Field(default=1, ge=1, le=19, description="Compression level (gzip: at most 9, lz4: 12).")
    shards: Count = Field(default=8, description="Number of archives per split.")

    @model_validator(mode="after")
    def _level_exists(self) -> "PackSettings":
        if self.codec == "gzip" and self.level > 9:
            raise ValueError("gzip levels are 1 to 9")
        if self.codec in {"shuffle_lz4", "auto"} and self.level > 12:
            raise ValueError("lz4 levels are 1 to 12, also where auto may choose it")
        return self


class StagingSettings(Settings):
    """Location from which training reads its samples."""

    place: Literal["node_local", "none"] = Field(
        default="node_local", description="Unpack the shards to node-local storage, or read in place."
    )
    partition: Literal["whole", "split"] = Field(
        default="whole",
        description="Each node holds the whole dataset, or only its part, which it draws in an order of its own.",
    )


class Target(Settings):
    """The quality at which a run counts as converged."""

    value: float = Field(gt=0)
    official: bool = Field(default=False, description="True only for the target given in the suite's rules.")
    note: Text = ""


class RecipeSettings(Settings):
    """Settings of every recipe; the workload adds optimizer and schedule."""

    unwritten: ClassVar[tuple[str, ...]] = ("skip_gradient_norm",)
    """Keys that plans omit where they have their default, so that plans of earlier versions stay the same."""

    global_batch: Count
    max_epochs: Count
    evaluation_interval_epochs: Count = Field(
        default=1, description="The quality is evaluated every N epochs, and after the last one."
    )
    skip_gradient_norm: float = Field(
        default=0.0,
        ge=0,
        description="Gradient skipping: a step whose mean gradient has a larger Euclidean norm changes nothing; 0: "
        "every step counts.",
    )

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        fields: dict[str, object] = write(self)
        for name in self.unwritten:
            if getattr(self, name) == type(self).model_fields[name].default:
                fields.pop(name, None)
        return fields


class BenchmarkSettings(Settings):
    """One benchmark file; a workload adds `workload`, `data`, `model` and `recipe`."""

    suite: ClassVar[Suite]
    stop: ClassVar[Literal["target", "epochs"]]
    """A run ends when it reaches the target (MLPerf HPC), or after a fixed number of epochs (HPC AI500)."""
    remainder: ClassVar[Literal["refuse", "drop", "pad"]]
    """Treatment of training samples that do not fill a global batch: refuse any remainder; drop it from the epoch
    (others in each epoch); or pad the batch with samples of the same epoch."""
    native: ClassVar[bool]
    """Whether TensorFlow reads the official container itself (TFRecord); other containers are converted when packed."""

    engines: ClassVar[tuple[Engine, ...]] = ("horovod", "tensorflow")
    """Engines that can train it; jax needs models made of Keras' layers and keras.ops."""

    if TYPE_CHECKING:  # each workload declares its own, in its own order
        workload: str
        data: DataSettings
        model: Any
        recipe: RecipeSettings

    name: Name
    title: Text
    pack: PackSettings = PackSettings()
    staging: StagingSettings = StagingSettings()
    target: Target

    @property
    def is_packed(self) -> bool:
        """Whether training reads shards or data staged from them, instead of the dataset itself."""
        return self.staging.place == "node_local" or not self.native

    def refuse_parts(self, parts: int) -> str:  # noqa: ARG002  used by workloads that split samples
        """Return the allowed values if samples cannot be split into so many parts (more than 1); blank if they can."""
        return WHOLE_SAMPLES(workload=self.workload)

    def part_traffic(self, parts: int) -> PartTraffic:  # noqa: ARG002  used by workloads that split samples
        """Return the traffic between ranks that share each sample; zero for whole samples."""
        return PartTraffic()

    @model_validator(mode="after")
    def _can_be_read(self) -> "BenchmarkSettings":
        if not self.native and self.staging.place == "none" and self.pack.codec != "none":
            raise ValueError(NEEDS_PLAIN_SHARDS())
        return self
