"""A rank's view of the dataset: in place, or staged to node-local storage by all ranks of the node together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hpcai.config.benchmark import SPLITS, Split
from hpcai.config.runs import RunPlan
from hpcai.core.errors import ConfigError, DatasetError, StagingError
from hpcai.core.files import file_system_of
from hpcai.data.columns import Array
from hpcai.data.manifest import read_manifest
from hpcai.data.pack import input_bytes, read_pack, require_same
from hpcai.data.packed import PackManifest
from hpcai.data.stage import StagingResult, node_part, preflight, stage_shards
from hpcai.data.stage_folder import clean_stage, is_shared, own_stage
from hpcai.data.texts import Paths
from hpcai.records.input_reads import InputSizes
from hpcai.records.run import StagingRecord
from hpcai.training import collective
from hpcai.training.collectives.base import Ranks
from hpcai.training.input import Samples, Shard

MESSAGE_BYTES = 1000
Value = TypeVar("Value")


@dataclass(frozen=True)
class Sources:
    """Location of the dataset: its manifest, its packed form if any, and the scratch folder of the attempt."""

    manifest: Path
    pack: Path | None
    scratch: Path
    shared_scratch: bool = False
    """Whether nodes are known to see the same scratch folder."""


@dataclass(frozen=True)
class _Places:
    """Files of a split with their lengths, and file and offset of each sample's record."""

    paths: Sequence[Path]
    file: NDArray[np.int64]
    offset_bytes: Array
    file_bytes: Array


class Dataset:
    """Files, staging and clean-up of one rank; methods documented so must be called by all ranks together."""

    def __init__(self, plan: RunPlan, ranks: Ranks, sources: Sources, threads: int) -> None:
        self._plan, self._ranks, self._sources, self.threads = plan, ranks, sources, threads
        self.staging_read_bytes, self.staging_s = 0, 0.0
        self._stage = own_stage(sources.scratch)
        self._samples: dict[Split, Samples] = {}
        self._manifest = read_manifest(sources.manifest)
        self.is_staged = plan.benchmark.staging.place == "node_local"
        self._pack = None
        if plan.benchmark.is_packed:
            if sources.pack is None:
                raise ConfigError(
                    "--pack: found none, expected packed.json of the dataset, because training reads the packed dataset"
                )
            self._pack, self._pack_root = read_pack(sources.pack), sources.pack.parent
            require_same(self._pack, self._manifest, sources.pack)
        data = plan.benchmark.data
        for split in SPLITS:
            found, expected = self._manifest.samples(split), data.samples(split)
            if found != expected:
                raise DatasetError(
                    f"{sources.manifest}: found {found} {split} samples, expected {expected} as in the benchmark file; "
                    "make the dataset again or correct the benchmark file"
                )
        self.train_samples, self.validation_samples = data.train_samples, data.validation_samples

    @property
    def stage_folder(self) -> Path:
        """Folder of this node on node-local storage; it is removed when the run ends."""
        return self._stage

    @property
    def statistics(self) -> dict[str, tuple[float, ...]]:
        """Statistics of the training split, from the manifest."""
        return self._manifest.statistics

    @property
    def part(self) -> int:
        """Number of the part of the dataset that this rank can read: its node's, or 0 if it is the whole dataset."""
        return self._ranks.node_index if self._is_split else 0

    @property
    def _is_split(self) -> bool:
        return self.is_staged and self._plan.benchmark.staging.partition == "split"

    def samples(self, split: Split) -> Samples:
        """Return the location of a split's samples and this rank's part of them; accesses no file."""
        if split not in self._samples:
            self._samples[split] = self._find_samples(split)
        return self._samples[split]

    def input_sizes(self) -> InputSizes:
        """Return the bytes of the files that an epoch and an evaluation read, over all ranks, and where they lie."""
        sizes = {split: self._stored_bytes(split) for split in SPLITS}
        place = self.samples("train").paths[0].parent
        return InputSizes(
            train_bytes=sizes["train"],
            evaluation_bytes=sizes["validation"],
            file_system=file_system_of(place),
            staging_file_system=file_system_of(self._pack_root) if self._pack and self.is_staged else "",
        )

    def _stored_bytes(self, split: Split) -> int:
        if self._pack is not None:
            return input_bytes(self._pack, split, staged=self.is_staged)
        return self._manifest.files(split).total("bytes")

    def _find_samples(self, split: Split) -> Samples:
        ranks = self._ranks
        places = self._places(split)
        place, places_of_all = (ranks.local_rank, ranks.local_size) if self._is_split else (ranks.rank, ranks.size)
        shared_by = self._plan.point.spatial_parts
        return Samples(
            paths=places.paths,
            file=places.file,
            offset_bytes=places.offset_bytes.astype(np.int64),
            shard=Shard(place // shared_by, places_of_all // shared_by),
            # Packed files are plain TFRecords, whatever their source.
            gzip=self._pack is None and self._manifest.edition == "gzip",
            file_bytes=places.file_bytes.astype(np.int64),
            staged=self.is_staged,
        )

    def _places(self, split: Split) -> _Places:
        """Return where the samples of a split are, in an order shared by all ranks that hold the same files."""
        if self._pack is None:
            entries = self._manifest.files(split)
            entries = entries.take(entries.order("path"))
            offsets, records = entries.lists("record_offsets")
            paths = Paths(self._manifest.root(self._sources.manifest), entries, "path")
            return _Places(paths, np.repeat(np.arange(len(entries)), records), offsets, entries.numbers("bytes"))
        if self.is_staged:
            return self._staged_places(self._pack, split)
        # An uncompressed member lies in its shard unchanged and can be read there.
        pieces = node_part(self._pack, split, 0, 1, "whole").pieces
        offsets, records = pieces.members.lists("record_offsets")
        starts = np.repeat(pieces.members.numbers("offset").astype(np.int64), records)
        shards = [self._pack_root / shard for shard in pieces.shards]
        sizes = {shard.file: shard.bytes for shard in self._pack.shards}
        shard_bytes = np.array([sizes[shard] for shard in pieces.shards], np.int64)
        return _Places(shards, np.repeat(pieces.shard, records), starts + offsets.astype(np.int64), shard_bytes)

    def _staged_places(self, pack: PackManifest, split: Split) -> _Places:
        """Return where this node's own samples are; a file may hold others beside them."""
        ranks = self._ranks
        part = node_part(pack, split, ranks.node_index, ranks.nodes, self._plan.benchmark.staging.partition)
        members, own = part.pieces.members, slice(part.first, part.first + part.samples)
        offsets, records = members.lists("record_offsets")
        file = np.repeat(np.arange(len(members)), records)
        return _Places(Paths(self._stage, members, "name"), file[own], offsets[own], members.numbers("content_bytes"))

    def stage(self, progress: Callable[[], None]) -> StagingRecord:
        """Stage the dataset if required; all ranks together, and all fail if one does.

        Parameters
        ----------
        progress
            Called every few seconds while this rank's files are being completed.

        Raises
        ------
        StagingError
            If on any rank there is not enough space, or the staged files differ from the manifest.
        """
        staging, on_clock = self._plan.benchmark.staging, self._plan.time_staging
        if self._pack is None or not self.is_staged:
            nothing = {"files": 0, "packed_bytes": 0, "content_bytes": 0, "staging_s": 0.0}
            return StagingRecord(place="none", partition=staging.partition, on_clock=on_clock, **nothing)
        pack = self._pack
        together(lambda: self._preflight(pack), "staging_space")
        own, shared = together(lambda: (self._stage_own_part(pack, progress), self._is_shared()), "staging")
        self.staging_read_bytes, self.staging_s = own.bytes_read, own.seconds
        row = np.array([own.files, own.bytes_read, own.bytes_written, own.seconds, shared])
        rows = collective.gather(row, "staging_totals")
        files, packed_bytes, content_bytes = (int(total) for total in rows[:, :3].sum(axis=0))
        return StagingRecord(
            place="shared" if rows[:, 4].any() else "node_local",
            partition=staging.partition,
            on_clock=on_clock,
            files=files,
            packed_bytes=packed_bytes,
            content_bytes=content_bytes,
            staging_s=float(rows[:, 3].max()),
            compression_ratio=content_bytes / packed_bytes,
        )

    def _is_shared(self) -> bool:
        """Check once per node whether others stage to the same place; all have started by now."""
        sources = self._sources
        return sources.shared_scratch or (self._ranks.local_rank == 0 and is_shared(sources.scratch))

    def _preflight(self, pack: PackManifest) -> None:
        """Check the free space once per node."""
        ranks, partition = self._ranks, self._plan.benchmark.staging.partition
        if ranks.local_rank == 0:
            preflight(pack, self._stage, ranks.node_index, ranks.nodes, partition)

    def _stage_own_part(self, pack: PackManifest, progress: Callable[[], None]) -> StagingResult:
        ranks, partition = self._ranks, self._plan.benchmark.staging.partition
        return stage_shards(
            pack,
            self._pack_root,
            self._stage,
            local_rank=ranks.local_rank,
            local_size=ranks.local_size,
            node_index=ranks.node_index,
            nodes=ranks.nodes,
            partition=partition,
            threads=self.threads,
            progress=progress,
        )

    def require_files(self) -> None:
        """Check that all files exist and have the lengths of the manifest; all ranks together."""
        together(self._require_own_files, "files")

    def _require_own_files(self) -> None:
        for split in SPLITS:
            self.samples(split).require()

    def clean(self) -> None:
        """Remove the files staged or cached on this node; the node's first rank does it."""
        writes = self.is_staged or self._plan.point.evaluation_cache == "node_local"
        if writes and self._ranks.local_rank == 0:
            clean_stage(self._stage)


def together(action: Callable[[], Value], what: str) -> Value:
    """Run a function on all ranks; if it fails on one, all ranks raise that error, and none waits for another."""
    problem: Exception | None = None
    try:
        result = action()
    except Exception as error:
        problem = error
    message = f"{type(problem).__name__}: {problem}" if problem else ""
    text = np.frombuffer(message.encode()[:MESSAGE_BYTES].ljust(MESSAGE_BYTES, b"\0"), np.uint8)
    messages = [row.tobytes().rstrip(b"\0").decode(errors="replace") for row in collective.gather(text, what)]
    if problem is not None:
        raise problem
    failed = [f"rank {rank}: {found}" for rank, found in enumerate(messages) if found]
    if failed:
        raise StagingError("; ".join(failed))
    return result
