"""The dataset as a rank sees it: in place, or staged to node-local storage by all ranks of the node together."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from hpcai.config.runs import RunPlan
from hpcai.data.manifest import read_manifest
from hpcai.data.pack import read_pack
from hpcai.data.stage import clean_stage, node_files
from hpcai.errors import ConfigError, DatasetError, StagingError
from hpcai.records import StagingRecord
from hpcai.training import collective
from hpcai.training.input import Files, Shard

Split = Literal["train", "validation"]
Value = TypeVar("Value")


@dataclass(frozen=True)
class Sources:
    """Where the dataset lies: its manifest, its packed form if there is one, and the node-local folder."""

    manifest: Path
    pack: Path | None
    scratch: Path


class Dataset:
    """Files, staging and clean-up of one rank; the methods that say so must be called by all ranks together."""

    def __init__(self, plan: RunPlan, ranks: collective.Ranks, sources: Sources, threads: int) -> None:
        self._plan, self._ranks, self._sources, self.threads = plan, ranks, sources, threads
        self.staging_read_bytes, self.staging_s = 0, 0.0
        self._manifest = read_manifest(sources.manifest)
        self.is_staged = plan.benchmark.staging.place == "node_local"
        if self.is_staged and sources.pack is None:
            raise ConfigError(
                "--pack: found none, expected packed.json of the dataset, because staging.place is node_local"
            )
        self._pack = read_pack(sources.pack) if self.is_staged and sources.pack else None
        data = plan.benchmark.data
        for split, expected in (("train", data.train_samples), ("validation", data.validation_samples)):
            found = len(self._manifest.splits[split])
            if found != expected:
                raise DatasetError(
                    f"{sources.manifest}: found {found} {split} samples, expected {expected} as in the benchmark file; "
                    "make the dataset again or correct the benchmark file"
                )
        self.train_samples, self.validation_samples = data.train_samples, data.validation_samples

    def files(self, split: Split) -> Files:
        """Return the files of a split and this rank's part of them; no file is touched."""
        ranks, staging, gzip = self._ranks, self._plan.benchmark.staging, self._plan.benchmark.data.edition == "gzip"
        if self._pack is None:
            root = self._manifest.root(self._sources.manifest)
            names = sorted(entry.path for entry in self._manifest.splits[split])
        else:
            root = self._sources.scratch
            names = sorted(node_files(self._pack, split, ranks.node_index, ranks.nodes, staging.partition))
        split_by_node = self._pack is not None and staging.partition == "split"
        shard = Shard(ranks.local_rank, ranks.local_size) if split_by_node else Shard(ranks.rank, ranks.size)
        return Files(tuple(root / name for name in names), shard, gzip)

    def stage(self) -> StagingRecord:
        """Stage the dataset, if it is to be staged; all ranks together, and all fail if one does.

        Raises
        ------
        StagingError
            If there is not enough space, or what was staged is not what the manifest says, on any rank.
        """
        staging, on_clock = self._plan.benchmark.staging, self._plan.time_staging
        if self._pack is None or self._sources.pack is None:
            nothing = {"files": 0, "packed_bytes": 0, "content_bytes": 0, "staging_s": 0.0}
            return StagingRecord(place="none", partition=staging.partition, on_clock=on_clock, **nothing)
        return StagingRecord(place="node_local", partition=staging.partition, on_clock=on_clock, **nothing)

    def require_files(self) -> None:
        """Check that all files are there; all ranks together."""
        _together(lambda: [self.files(split).require() for split in ("train", "validation")], "files")

    def clean(self) -> None:
        """Remove what was staged on this node; the node's first rank does it."""
        if self.is_staged and self._ranks.local_rank == 0:
            clean_stage(self._sources.scratch)


def _together(action: Callable[[], Value], what: str) -> Value:
    """Do something on all ranks; if it fails on one, all ranks end with an error, and none waits for another."""
    problem: Exception | None = None
    try:
        result = action()
    except Exception as error:
        problem = error
    failed = np.flatnonzero(collective.gather(np.array([problem is not None]), what).ravel())
    if problem is not None:
        raise problem
    if failed.size:
        raise StagingError(f"{what}: failed on rank {', '.join(map(str, failed))}; see the message of that rank")
    return result
