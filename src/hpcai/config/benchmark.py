"""What every benchmark file holds: data, packing, staging, model, recipe and target of one workload at one size."""

from typing import Literal

from pydantic import Field, model_validator

from hpcai.config.base import Count, Name, SafePath, Settings, Text


class DataSettings(Settings):
    """Where the samples come from; the workload adds the shape of a sample."""

    dataset: Name = Field(description="Folder under data/; benchmarks that name the same dataset share it.")
    source: Literal["generate", "download", "existing"]
    train_samples: Count
    validation_samples: Count
    edition: Literal["gzip", "plain"] = Field(default="gzip", description="Whether the records are gzip-compressed.")
    path: SafePath | None = Field(default=None, description="Folder of an existing dataset (source: existing).")
    archive: Name | None = Field(default=None, description="Row of datasets.tsv to fetch (source: download).")
    seed: Count = Field(default=1, description="Seed of the generator (source: generate).")

    @model_validator(mode="after")
    def _source_has_what_it_needs(self) -> "DataSettings":
        needs = {"existing": "path", "download": "archive"}
        for source, key in needs.items():
            given = getattr(self, key) is not None
            if self.source == source and not given:
                raise ValueError(f"source {source!r} needs the key {key!r}")
            if self.source != source and given:
                raise ValueError(f"the key {key!r} is only for source {source!r}")
        return self


class PackSettings(Settings):
    """How many sample files become few shards for fast staging."""

    codec: Literal["none", "gzip", "zstd", "shuffle_zstd"] = "shuffle_zstd"
    level: int = Field(default=1, ge=1, le=19, description="Compression level (gzip: at most 9).")
    shards: Count = Field(default=8, description="Number of archives per split.")

    @model_validator(mode="after")
    def _level_exists(self) -> "PackSettings":
        if self.codec == "gzip" and self.level > 9:
            raise ValueError("gzip has the levels 1 to 9")
        return self


class StagingSettings(Settings):
    """Where the training job reads its samples from."""

    place: Literal["node_local", "none"] = Field(
        default="node_local", description="Unpack the shards to node-local storage, or read the dataset in place."
    )
    partition: Literal["whole", "split"] = Field(
        default="whole", description="Each node holds the whole set, or a part of its own."
    )


class Target(Settings):
    """The quality at which a run has converged."""

    value: float = Field(gt=0)
    official: bool = Field(default=False, description="True only for the target that the suite's rules print.")
    note: Text = ""
