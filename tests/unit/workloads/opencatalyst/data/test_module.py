"""The data module: generated files, examination, conversion, statistics, and the published archives."""

import lzma
import os
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
from ase.calculators.emt import EMT
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms
from ase.io import write
from unit.refusals import refused
from unit.workloads.opencatalyst.data.graph_samples import settings

from hpcai.core.errors import DatasetError
from hpcai.data.catalogue import Archive, read_catalogue
from hpcai.data.manifest import write_manifest
from hpcai.data.module import CHANGED_FILE
from hpcai.data.prepare import MANIFEST, prepare_dataset
from hpcai.data.tfrecord import FRAME_BYTES, Content, split_records
from hpcai.workloads.opencatalyst.data import module
from hpcai.workloads.opencatalyst.data.container import read_graphs
from hpcai.workloads.opencatalyst.data.extxyz import NO_SPLIT, split_of
from hpcai.workloads.opencatalyst.data.generator import generate_dataset, graph_limits
from hpcai.workloads.opencatalyst.data.graph import CROWDED_ATOM, Graph, count_triplets
from hpcai.workloads.opencatalyst.data.module import OpenCatalystDataModule
from hpcai.workloads.opencatalyst.data.slabs import make_frame, make_system

MODULE = OpenCatalystDataModule(settings())
LIMITS = graph_limits(settings())
CATALOGUE = Path(__file__).parents[5] / "config" / "datasets.tsv"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated")
    MODULE.generate(folder)
    return folder


def graphs_of(folder: Path, split: str) -> list[Graph]:
    return [graph for path in sorted((folder / split).iterdir()) for graph in read_graphs(path, LIMITS)]


def test_workers_do_not_change_a_byte(generated: Path, tmp_path: Path) -> None:
    facts = generate_dataset(settings(), tmp_path, workers=1)
    names = ["train/data.0000.lmdb", "train/data.0001.lmdb", "validation/data.0000.lmdb"]
    for name in names:
        assert (tmp_path / name).read_bytes() == (generated / name).read_bytes()
    assert MODULE.find(generated) == {"train": names[:2], "validation": names[2:]}
    assert facts["version"] == 1
    assert "EMT" in str(facts["potential"])


def test_files_are_counted_only_where_they_are_made_here(generated: Path) -> None:
    """A published pair becomes one file, however many graphs it holds."""
    found = MODULE.find(generated)
    assert {split: MODULE.split_files(split) for split in found} == {split: len(found[split]) for split in found}
    members = {
        split: sum(MODULE.member_count(MODULE.examine(generated / path)) for path in found[split]) for split in found
    }
    assert {split: MODULE.split_members(split) for split in found} == members
    for elsewhere in ({"source": "download", "archives": ["oc_train", "oc_val"]}, {"source": "existing", "path": "x"}):
        other = OpenCatalystDataModule(settings(**elsewhere))
        assert [count(split) for count in (other.split_files, other.split_members) for split in found] == [None] * 4


def test_slabs_are_what_they_should_be(generated: Path) -> None:
    graphs = graphs_of(generated, "train")
    assert [graph.fid for graph in graphs] == list(range(6))
    for graph in graphs:
        assert 9 <= graph.natoms <= 14
        assert set(graph.tags) == {0, 1, 2}
        height = graph.pos[:, 2]
        assert height[graph.fixed == 1].max() < height[graph.tags == 1].min()
        assert height[graph.tags == 2].min() > height[graph.tags == 1].max() - 1
        assert not graph.tags[graph.fixed == 1].any()
        assert np.abs(graph.force).max() < 20
        assert -15 < graph.y < 15
    validation = graphs_of(generated, "validation")
    assert all(
        (validation[0].pos.shape != graph.pos.shape) or (validation[0].pos != graph.pos).any() for graph in graphs
    )


def test_forces_are_minus_the_gradient_of_the_energy() -> None:
    options = settings().slabs
    system = make_system(options, 1, 0)
    graph = make_frame(system, options, (1, 0, 5), LIMITS)
    atoms = system.atoms()
    for atom, axis in ((0, 0), (graph.natoms - 1, 2)):
        energies = []
        for sign in (1, -1):
            atoms.positions[:] = graph.pos
            atoms.positions[atom, axis] += sign * 1e-4
            atoms.calc = EMT()
            energies.append(atoms.get_potential_energy() - system.reference_ev)
        assert graph.force[atom, axis] == pytest.approx(-(energies[0] - energies[1]) / 2e-4, abs=1e-4)
        assert graph.y == pytest.approx(np.mean(energies), abs=1e-4)


def test_members_are_examples_of_all_graphs(generated: Path) -> None:
    file = generated / "train" / "data.0000.lmdb"
    facts = MODULE.examine(file)
    assert (facts.records, facts.bytes, facts.record_offsets) == (4, file.stat().st_size, ())
    (member,) = MODULE.members(file, facts)
    assert member.name == "data.0000.0000.tfrecord"
    payloads = [bytes(payload) for payload in split_records(Content(member.content), "x")]
    assert payloads == [graph.example() for graph in graphs_of(generated, "train")[:4]]
    sizes = [FRAME_BYTES + len(payload) for payload in payloads]
    assert member.record_offsets == (0, *np.cumsum(sizes)[:-1].tolist())


def test_a_changed_file_is_not_converted(generated: Path, tmp_path: Path) -> None:
    data = bytearray((generated / "train" / "data.0000.lmdb").read_bytes())
    path = tmp_path / "data.0000.lmdb"
    path.write_bytes(data)
    facts = MODULE.examine(path)
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with refused(DatasetError, CHANGED_FILE):
        list(MODULE.members(path, facts))


def test_statistics_are_those_of_the_graphs(generated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = MODULE.find(generated)
    assert found is not None
    statistics = MODULE.statistics(generated, found)
    graphs = graphs_of(generated, "train")
    forces = np.concatenate([graph.force[graph.fixed == 0].ravel() for graph in graphs])
    assert statistics["force_standard_deviation"] == pytest.approx((forces.std(),), rel=1e-5)
    everything = [*graphs, *graphs_of(generated, "validation")]
    atoms = [graph.natoms for graph in everything]
    edges = [graph.edge_index.shape[1] for graph in everything]
    assert statistics["mean_atoms"] == (pytest.approx(np.mean(atoms)),)
    assert statistics["standard_deviation_edges"] == (pytest.approx(np.std(edges)),)
    assert (statistics["max_atoms"], statistics["max_edges"]) == ((max(atoms),), (max(edges),))
    assert statistics["mean_triplets"] == (pytest.approx(np.mean([count_triplets(graph) for graph in graphs])),)
    assert statistics == MODULE.statistics(generated, found)
    monkeypatch.setattr(module, "PROCESSES_FROM_GRAPHS", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(2))
    assert statistics == MODULE.statistics(generated, found)


def test_statistics_are_those_of_the_files_that_are_used(
    generated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four and two graphs in two files, a dataset of four has the first; and nothing counts graphs again."""

    def refuse(_: Path) -> int:
        raise AssertionError("all pages of a file were read again")

    found = MODULE.find(generated)
    assert found is not None
    first = {"train": found["train"][:1], "validation": found["validation"]}
    expected = MODULE.statistics(generated, first)
    assert expected != MODULE.statistics(generated, found)
    monkeypatch.setattr(module, "count_graphs", refuse)
    smaller = OpenCatalystDataModule(settings(source="existing", path=str(generated), train_samples=4))
    manifest = prepare_dataset("opencatalyst", smaller, tmp_path / "scanned", tmp_path / "none.tsv")
    assert manifest.samples("train") == 4
    assert manifest.statistics == expected
    shutil.copytree(generated, tmp_path / "described")
    whole = OpenCatalystDataModule(settings(source="existing", path=str(tmp_path / "described")))
    write_manifest(
        prepare_dataset("opencatalyst", whole, tmp_path / "whole", tmp_path / "none.tsv"),
        tmp_path / "described" / MANIFEST,
    )
    smaller = OpenCatalystDataModule(settings(source="existing", path=str(tmp_path / "described"), train_samples=4))
    described = prepare_dataset("opencatalyst", smaller, tmp_path / "taken", tmp_path / "none.tsv")
    assert described.origin["had_manifest"]
    assert described.digest == manifest.digest


def test_another_cut_off_is_noticed(generated: Path) -> None:
    strict = OpenCatalystDataModule(settings(max_neighbours=11))
    with pytest.raises(DatasetError, match=f"key 0: field edge_index: {CROWDED_ATOM(neighbours=12)}"):
        strict.examine(generated / "train" / "data.0000.lmdb")


def write_pair(folder: Path, number: int, frames: int = 2) -> list[Graph]:
    """A pair of files as OC20 publishes them; returns what they should become."""
    options, graphs = settings().slabs, []
    folder.mkdir(parents=True, exist_ok=True)
    structures, lines = [], []
    for frame in range(frames):
        system = make_system(options, 1, 0)
        graph = make_frame(system, options, (1, number, frame), LIMITS)
        atoms = system.atoms()
        atoms.positions[:] = graph.pos
        atoms.set_tags(graph.tags)
        atoms.set_constraint(FixAtoms(mask=graph.fixed == 1))
        atoms.calc = SinglePointCalculator(atoms, energy=graph.y + 100.5, forces=graph.force)
        structures.append(atoms)
        lines.append(f"random{system.sid},frame{graph.fid},100.5\n")
        graphs.append(graph)
    path = folder / f"{number}.extxyz"
    write(path, structures, format="extxyz", columns=["symbols", "positions", "move_mask", "tags", "forces"])
    (folder / f"{number}.extxyz.xz").write_bytes(lzma.compress(path.read_bytes()))
    path.unlink()
    (folder / f"{number}.txt.xz").write_bytes(lzma.compress("".join(lines).encode()))
    return graphs


def pack_tar(source: Path, path: Path) -> Path:
    with tarfile.open(path, "w") as tar:
        tar.add(source, source.name)
    return path


def row(name: str) -> Archive:
    return Archive(dataset=name, file=f"{name}.tar", url=f"https://example.org/{name}.tar", format="tar")


@pytest.fixture
def archives(tmp_path: Path) -> list[tuple[Archive, Path]]:
    found = []
    for name, count in (("oc_train_2m", 2), ("oc_val_id", 1)):
        for number in range(count):
            write_pair(tmp_path / name / name, number)
        found.append((row(name), pack_tar(tmp_path / name, tmp_path / f"{name}.tar")))
    return found


def test_published_archives_become_the_official_layout(archives: list[tuple[Archive, Path]], tmp_path: Path) -> None:
    target = tmp_path / "arranged"
    target.mkdir()
    MODULE.arrange(archives, target, 1 << 30)
    assert sorted(str(path.relative_to(target)) for path in target.rglob("*")) == [
        "train", "train/data.0000.lmdb", "train/data.0001.lmdb", "validation", "validation/data.0000.lmdb"]  # fmt: skip
    assert [MODULE.examine(path).records for path in sorted(target.rglob("*.lmdb"))] == [2, 2, 2]
    expected = write_pair(tmp_path / "again", 1)
    for ours, graph in zip(read_graphs(target / "train/data.0001.lmdb", LIMITS), expected, strict=True):
        assert (ours.sid, ours.fid) == (graph.sid, graph.fid)
        assert ours.y == pytest.approx(graph.y, abs=1e-5)
        np.testing.assert_allclose(ours.pos, graph.pos, atol=1e-6)
        np.testing.assert_allclose(ours.force, graph.force, atol=1e-6)
        np.testing.assert_array_equal(ours.fixed, graph.fixed)
        np.testing.assert_array_equal(ours.tags, graph.tags)
        np.testing.assert_array_equal(ours.atomic_numbers, graph.atomic_numbers)
        assert ours.edge_index.shape == graph.edge_index.shape


def damage(folder: Path, kind: str) -> None:
    structures, lines = folder / "0.extxyz.xz", folder / "0.txt.xz"
    text = lzma.decompress(lines.read_bytes())
    if kind == "no partner":
        lines.unlink()
    elif kind == "nothing":
        structures.unlink()
        lines.unlink()
    elif kind == "cut":
        structures.write_bytes(structures.read_bytes()[:-40])
    elif kind == "flipped":
        data = bytearray(structures.read_bytes())
        data[len(data) // 2] ^= 8
        structures.write_bytes(data)
    elif kind == "more lines":
        lines.write_bytes(lzma.compress(text + b"random1,frame2,0.5\n"))
    elif kind == "fewer lines":
        lines.write_bytes(lzma.compress(text.splitlines(keepends=True)[0]))
    elif kind == "strange line":
        lines.write_bytes(lzma.compress(b"system 5\n"))
    else:
        frames = lzma.decompress(structures.read_bytes()).replace(b"forces", b"farces")
        structures.write_bytes(lzma.compress(frames))


@pytest.mark.parametrize(
    ("kind", "match"),
    [
        ("no partner", "without partner, expected pairs"),
        ("nothing", "found 0 files"),
        ("cut", "found damage"),
        ("flipped", "found damage|expected extxyz"),
        ("more lines", "frame 2: found '' as number of atoms"),
        ("fewer lines", "found more frames than the 1 lines"),
        ("strange line", "line 0: found 'system 5"),
        ("no forces", "found no energy or forces"),
    ],
)
def test_damaged_publications_are_refused(tmp_path: Path, kind: str, match: str) -> None:
    write_pair(tmp_path / "source" / "x", 0)
    damage(tmp_path / "source" / "x", kind)
    archive = pack_tar(tmp_path / "source", tmp_path / "oc_train.tar")
    target = tmp_path / "arranged"
    target.mkdir()
    with pytest.raises(DatasetError, match=match):
        MODULE.arrange([(row("oc_train"), archive)], target, 1 << 30)


def test_the_split_of_an_archive_is_in_its_name() -> None:
    assert split_of(["opencatalyst_train_2m"]) == "train"
    assert split_of(["opencatalyst_val_id"]) == "validation"
    for name in ("opencatalyst", "train_val"):
        with refused(DatasetError, NO_SPLIT):
            split_of([name])


def test_the_official_rows_of_the_catalogue() -> None:
    rows = read_catalogue(CATALOGUE)
    assert rows["opencatalyst_train_2m"].checksum == "863bc983245ffc0285305a1850e19cf7"
    assert rows["opencatalyst_val_id"].checksum == "f57f7f5c1302637940f2cc858e789410"
