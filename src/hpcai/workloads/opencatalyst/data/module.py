"""OpenCatalyst's data: LMDB files of pickled graphs, in the folders train and validation (or val)."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcai.config.benchmark import SPLITS, Split
from hpcai.core.errors import DatasetError
from hpcai.data.archives import UnpackLimits, unpack_archive
from hpcai.data.catalogue import Archive
from hpcai.data.module import DataModule, FileFacts, Found, Member, file_checksum, files_in_folders, require_unchanged
from hpcai.data.processes import in_forks
from hpcai.data.tfrecord import FRAME_BYTES, encode_records
from hpcai.workloads.opencatalyst.data.container import SUFFIX, count_graphs, read_graphs
from hpcai.workloads.opencatalyst.data.extxyz import convert_pairs, split_of
from hpcai.workloads.opencatalyst.data.generator import generate_dataset, graph_limits
from hpcai.workloads.opencatalyst.data.graph import Graph, count_triplets
from hpcai.workloads.opencatalyst.settings import OpenCatalystData

MEMBER_GRAPHS = 64
"""Graphs per TFRecord file: few enough files for staging, enough to shuffle an epoch."""
STATISTICS_GRAPHS = 20_000
"""Larger training sets are sampled evenly: the error of a standard deviation of millions of forces is far below 1 %."""
PROCESSES_FROM_GRAPHS = 4096
"""Graphs from which several processes pay off."""
_UNPACKED = "unpacked"


class OpenCatalystDataModule(DataModule[OpenCatalystData]):
    """Graphs of atoms with energies and forces."""

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Empty, because graphs vary in size."""
        return ()

    def split_files(self, split: Split) -> int | None:
        """Return the number of LMDB files of a split; None unless they are generated.

        A download has one for each published pair of files; their number is unknown before.
        """
        if self.settings.source != "generate":
            return None
        return -(-self.settings.samples(split) // self.settings.samples_per_file)

    def find(self, root: Path) -> Found | None:
        """Return the LMDB files of the two folders."""
        return files_in_folders(root, lambda name: name.endswith(SUFFIX))

    def examine(self, file: Path) -> FileFacts:
        """Read a file whole; check its pages, its keys, and every field of every graph."""
        size, crc = file_checksum(file)
        records = sum(1 for _ in read_graphs(file, graph_limits(self.settings)))
        return FileFacts(bytes=size, crc32c=crc, records=records, content_bytes=size, content_crc32c=crc)

    def member_count(self, facts: FileFacts) -> int:
        """Return the number of TFRecord files."""
        return -(-facts.records // MEMBER_GRAPHS)

    def split_members(self, split: Split) -> int | None:
        """Return the number of TFRecord files of a split; None unless its LMDB files are generated."""
        if self.settings.source != "generate":
            return None
        whole, rest = divmod(self.settings.samples(split), self.settings.samples_per_file)
        return whole * -(-self.settings.samples_per_file // MEMBER_GRAPHS) + -(-rest // MEMBER_GRAPHS)

    def members(self, file: Path, facts: FileFacts, numbers: range | None = None) -> Iterator[Member]:
        """Yield the graphs as TFRecord files of `MEMBER_GRAPHS`."""
        if numbers is None:
            require_unchanged(file, facts)
        numbers = numbers or range(self.member_count(facts))
        graphs = read_graphs(file, graph_limits(self.settings), numbers.start * MEMBER_GRAPHS)
        number = numbers.start
        while number < numbers.stop and (payloads := [graph.example() for graph in islice(graphs, MEMBER_GRAPHS)]):
            ends = np.cumsum([FRAME_BYTES + len(payload) for payload in payloads]).tolist()
            name = f"{file.stem}.{number:04d}.tfrecord"
            yield Member(name, encode_records(payloads), (0, *ends[:-1]))
            number += 1

    def generate(self, folder: Path) -> dict[str, object]:
        """Write generated slabs."""
        return generate_dataset(self.settings, folder)

    def statistics(
        self,
        root: Path,
        found: Found,
        examined: Mapping[str, Sequence[Any]] | None = None,  # noqa: ARG002
        records: Mapping[Split, Sequence[int]] | None = None,
    ) -> dict[str, tuple[float, ...]]:
        """Return facts about the training graphs.

        ``force_standard_deviation`` is that of all components of the free atoms' forces, eV/Angstrom; ``mean_``,
        ``standard_deviation_`` and ``max_`` atoms and edges are per graph, over all graphs of both splits, and
        determine the room of a batch; ``mean_triplets`` covers the graphs that the forces are taken from.
        """
        files = [root / path for split in SPLITS for path in found[split]]
        # Counting reads all pages of a file.
        counts = [int(n) for split in SPLITS for n in records[split]] if records else [*map(count_graphs, files)]
        training = sum(counts[: len(found["train"])])
        chosen, firsts = range(0, training, -(-training // STATISTICS_GRAPHS)), [0, *accumulate(counts)]
        processes = len(os.sched_getaffinity(0)) if sum(counts) >= PROCESSES_FROM_GRAPHS else 1
        sizes: list[tuple[int, int]] = []
        triplets: list[int] = []
        forces: list[NDArray[np.float32]] = []
        for some in in_forks(lambda file: self._summary(files[file], firsts[file], chosen), len(files), processes):
            sizes += some.sizes
            triplets += some.triplets
            forces += some.forces
        deviation = float(np.concatenate(forces).std(dtype=np.float64))
        if not deviation > 0:
            raise DatasetError(
                f"{root}: found a force standard deviation of {deviation} over {len(forces)} graphs, expected a "
                "positive one; make the dataset again with free atoms"
            )
        table = np.array(sizes, np.float64)
        kinds = {"mean": table.mean(axis=0), "standard_deviation": table.std(axis=0), "max": table.max(axis=0)}
        per_graph = {
            f"{kind}_{name}": (float(value),)
            for kind, values in kinds.items()
            for name, value in zip(("atoms", "edges"), values, strict=True)
        }
        return {"force_standard_deviation": (deviation,), **per_graph, "mean_triplets": (float(np.mean(triplets)),)}

    def _summary(self, file: Path, first: int, chosen: range) -> "_Summary":
        """Return what `statistics` needs of a file's graphs; they are numbered from ``first``."""
        found = _Summary([], [], [])
        for number, graph in enumerate(read_graphs(file, graph_limits(self.settings)), first):
            found.sizes.append((graph.natoms, graph.edge_index.shape[1]))
            if number in chosen:
                found.triplets.append(count_triplets(graph))
                found.forces.append(_free_forces(graph))
        return found

    def arrange(self, archives: Sequence[tuple[Archive, Path]], folder: Path, content_bytes: int) -> None:
        """Unpack the archives of S2EF and convert them to LMDB, one split after the other."""
        for archive, path in archives:
            if archive.format not in {"tar", "tgz"}:
                raise DatasetError(
                    f"{archive.dataset}: found format {archive.format}, expected tar; correct datasets.tsv"
                )
            target = folder / split_of((archive.dataset,))
            target.mkdir(exist_ok=False)
            unpacked = folder / _UNPACKED
            unpacked.mkdir()
            limits = UnpackLimits(content_bytes=content_bytes)
            unpack_archive(path, unpacked, "tgz" if archive.format == "tgz" else "tar", limits)
            convert_pairs(unpacked, target, graph_limits(self.settings))
            shutil.rmtree(unpacked)


@dataclass(frozen=True)
class _Summary:
    """Atoms and edges of each graph; triplets and forces on free atoms of the chosen ones."""

    sizes: list[tuple[int, int]]
    triplets: list[int]
    forces: list[NDArray[np.float32]]


def _free_forces(graph: Graph) -> NDArray[np.float32]:
    return np.asarray(graph.force[graph.fixed == 0])
