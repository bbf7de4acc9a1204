"""Inputs of a measurement: the named files, and the data that they describe."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcai.core.errors import RunRefusedError
from hpcai.data.manifest import Manifest, read_manifest
from hpcai.data.pack import read_pack, require_same, require_shards
from hpcai.data.packed import PackManifest
from hpcai.data.texts import Paths
from hpcai.records.run import RunRecord


@dataclass(frozen=True)
class Inputs:
    """The input files of a run, or of all instances of a weak-scaling group, which share their data.

    Attributes
    ----------
    plans
        Plan of the run, or of each instance.
    manifest, pack
        Manifests of the data; no pack if the data are read unpacked.
    """

    plans: tuple[Path, ...]
    manifest: Path
    pack: Path | None


@dataclass(frozen=True)
class RunData:
    """The data of a run on shared storage.

    Attributes
    ----------
    manifest, pack
        Description of the data and of their packing.
    files
        Files that the run reads.
    folders
        Folders that contain them.
    """

    manifest: Manifest
    pack: PackManifest | None
    files: Sequence[Path]
    folders: tuple[Path, ...]


def read_data(inputs: Inputs) -> RunData:
    """Read the inputs of a run, and check its shards before any rank waits for them.

    Raises
    ------
    DatasetError
        If the manifests are missing or damaged or describe different data, or a shard is missing or of another length.
    """
    manifest = read_manifest(inputs.manifest)
    if inputs.pack is None:
        root = manifest.root(inputs.manifest)
        files = Paths(root, manifest.entries, "path")
        return RunData(manifest, None, files, (root,))
    pack, folder = read_pack(inputs.pack), inputs.pack.parent
    require_same(pack, manifest, inputs.pack)
    require_shards(pack, inputs.pack)
    return RunData(manifest, pack, tuple(folder / shard.file for shard in pack.shards), (folder,))


def refuse_other_data(record: RunRecord, manifest: Path, folder: Path) -> None:
    """Raise RunRefusedError if a run was measured on other data than a manifest describes."""
    found, measured = read_manifest(manifest).digest, record.provenance.data_digest
    if found != measured:
        raise RunRefusedError(
            f"{manifest}: the data differs from the data that {folder} was measured on (digest {found[:12]}, measured "
            f"{measured[:12]}); restore the data, or put the run aside with `hpcai discard {folder} --reason WHY`"
        )
