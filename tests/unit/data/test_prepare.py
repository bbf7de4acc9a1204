import hashlib
import json
import os
import tarfile
from pathlib import Path

import pytest
from unit.data.data_samples import cut, sample_bytes, write_split
from unit.data.loopback import Publisher, served
from unit.refusals import refused

from hpcai.core.errors import DatasetError
from hpcai.data import download
from hpcai.data import prepare as preparation
from hpcai.data.catalogue import Archive
from hpcai.data.manifest import Manifest, read_manifest, verify_dataset, write_manifest
from hpcai.data.module import SEVERAL_FOLDERS
from hpcai.data.prepare import OTHER_LAYOUT, OTHER_SAMPLES, prepare_dataset
from hpcai.data.tfrecord import GZIP_CUT
from hpcai.workloads.cosmoflow.data import module
from hpcai.workloads.cosmoflow.data.module import CosmoFlowDataModule
from hpcai.workloads.cosmoflow.settings import CosmoFlowData

SHAPE = (16, 16, 16, 4)
NO_TABLE = Path("absent.tsv")


def settings(source: str, **facts: object) -> CosmoFlowData:
    return CosmoFlowData.model_validate(
        {
            "dataset": "small",
            "source": source,
            "train_samples": 4,
            "validation_samples": 2,
            "edge": 16,
            **facts,
        }
    )


def prepare(wanted: CosmoFlowData, folder: Path, table: Path = NO_TABLE) -> Manifest:
    return prepare_dataset("cosmoflow", CosmoFlowDataModule(wanted), folder, table)


def verify(manifest: Manifest, root: Path, edition: str = "gzip") -> None:
    verify_dataset(manifest, CosmoFlowDataModule(settings("generate", edition=edition)), root)


def write_official(root: Path, middle: str = "validation", train: int = 4, *, gzip: bool = True) -> None:
    from hpcai.data.tfrecord import write_records

    for folder, count in (("train", train), (middle, 2)):
        (root / folder).mkdir(parents=True)
        for number in range(count):
            path = root / folder / f"univ_ics_2019-03_a0001_{number:03d}.tfrecord"
            write_records(path, [sample_bytes(number, SHAPE)], compress=gzip)


@pytest.fixture
def fake_generator(monkeypatch):
    def generate(_: CosmoFlowData, folder: Path) -> dict[str, object]:
        write_official(folder)
        return {"seed": 1}

    monkeypatch.setattr(module, "generate_dataset", generate)


def test_generates(tmp_path, fake_generator):
    manifest = prepare(settings("generate"), tmp_path / "small")
    path = tmp_path / "small" / "manifest.json"
    assert read_manifest(path) == manifest
    assert (manifest.source, manifest.origin, manifest.sample_shape) == ("generated", {"seed": 1}, SHAPE)
    verify(manifest, manifest.root(path))
    assert sorted(file.name for file in path.parent.iterdir()) == ["manifest.json", "train", "validation"]
    assert prepare(settings("generate"), tmp_path / "small").digest == manifest.digest


def test_the_real_generator_fits(tmp_path):
    small = settings("generate", train_samples=2, validation_samples=1)
    manifest = prepare(small, tmp_path / "small")
    assert [len(entries) for entries in manifest.splits.values()] == [2, 1]


def test_an_interrupted_generation_leaves_nothing(tmp_path, fake_generator, monkeypatch):
    manifest = prepare(settings("generate"), tmp_path / "small")

    def stop(_: CosmoFlowData, folder: Path) -> dict[str, object]:
        write_split(folder / "train", 2)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "generate_dataset", stop)
    with pytest.raises(KeyboardInterrupt):
        prepare(settings("generate"), tmp_path / "small")
    assert not (tmp_path / "small" / ".partial").exists()
    assert read_manifest(tmp_path / "small" / "manifest.json") == manifest
    verify(manifest, tmp_path / "small")


def test_a_generator_that_does_not_keep_its_promise(tmp_path, fake_generator):
    with refused(DatasetError, OTHER_SAMPLES, found=4, split="train", held="in all its files", expected=5):
        prepare(settings("generate", train_samples=5), tmp_path / "small")
    with pytest.raises(DatasetError, match="record 0: feature x"):
        prepare(settings("generate", edge=32), tmp_path / "small")


@pytest.mark.parametrize("middle", ["validation", "val"])
def test_existing_folders_stay_where_they_are(tmp_path, middle, monkeypatch):
    write_official(tmp_path / "pfs", middle, train=6)
    monkeypatch.setenv("DATA_ROOT", str(tmp_path))
    existing = settings("existing", path="${DATA_ROOT}/pfs")
    manifest = prepare(existing, tmp_path / "small")
    path = tmp_path / "small" / "manifest.json"
    assert manifest.root(path) == tmp_path / "pfs"
    assert [entry.path[-12:-9] for entry in manifest.splits["train"]] == ["000", "001", "002", "003"]
    assert manifest.splits["validation"][0].path.startswith(f"{middle}/")
    assert manifest.unused_files == {"train": 2}
    verify(read_manifest(path), tmp_path / "pfs")


def test_an_existing_manifest_is_verified(tmp_path):
    write_official(tmp_path / "pfs", train=6)
    path = tmp_path / "pfs" / "manifest.json"
    whole = prepare(settings("existing", path=str(tmp_path / "pfs"), train_samples=6), tmp_path / "a")
    write_manifest(whole.model_copy(update={"samples_root": None}), path)
    existing = settings("existing", path=str(tmp_path / "pfs"))
    manifest = prepare(existing, tmp_path / "b")
    assert manifest.splits["train"] == whole.splits["train"][:4]
    assert manifest.origin["had_manifest"] is True
    with pytest.raises(DatasetError, match="edition: found gzip, expected plain"):
        prepare(settings("existing", path=str(tmp_path / "pfs"), edition="plain"), tmp_path / "c")
    cut(tmp_path / "pfs" / whole.splits["train"][1].path, 2)
    with pytest.raises(DatasetError, match=f"_001.tfrecord: record 1: {GZIP_CUT.pattern}"):
        prepare(existing, tmp_path / "d")


def test_generated_data_stay_generated_wherever_they_lie(tmp_path, fake_generator):
    prepare(settings("generate"), tmp_path / "made")
    taken = prepare(settings("existing", path=str(tmp_path / "made")), tmp_path / "taken")
    assert taken.source == "generated"


def test_existing_problems(tmp_path):
    with pytest.raises(DatasetError, match="found no such folder"):
        prepare(settings("existing", path=str(tmp_path / "x")), tmp_path / "a")
    with pytest.raises(DatasetError, match=r"\$\{UNSET_ROOT\}/x: found no such folder"):
        prepare(settings("existing", path="${UNSET_ROOT}/x"), tmp_path / "a")
    (tmp_path / "pfs").mkdir()
    existing = settings("existing", path=str(tmp_path / "pfs"))
    with refused(DatasetError, OTHER_LAYOUT, found="nothing", place=str(tmp_path / "pfs")):
        prepare(existing, tmp_path / "a")
    write_official(tmp_path / "pfs", train=3)
    with refused(DatasetError, OTHER_SAMPLES, found=3, split="train", held="in all its files", expected=4):
        prepare(existing, tmp_path / "a")
    (tmp_path / "pfs" / "val").mkdir()
    with refused(DatasetError, SEVERAL_FOLDERS, found="validation and val", split="validation"):
        prepare(existing, tmp_path / "a")
    assert not (tmp_path / "a" / "manifest.json").exists()


@pytest.mark.parametrize(("top", "middle"), [("", "validation"), ("cosmoUniverse_small/", "val")])
def test_downloads(tmp_path, top, middle):
    write_official(tmp_path / "source", middle, train=5, gzip=False)
    with tarfile.open(tmp_path / "small.tgz", "w:gz") as tar:
        tar.add(tmp_path / "source", top or ".")
    content = (tmp_path / "small.tgz").read_bytes()
    with served(Publisher(content)) as publisher:
        table = tmp_path / "datasets.tsv"
        row = ["small", "small.tgz", publisher.url, str(len(content)), "md5", hashlib.md5(content).hexdigest(), "tgz"]
        table.write_text("\t".join(Archive.model_fields) + "\n" + "\t".join([*row, "a note"]) + "\n")
        download = settings("download", archives=["small"], edition="plain")
        manifest = prepare(download, tmp_path / "data", table)
        prepare(download, tmp_path / "data", table)
        assert len(publisher.requests) == 1
        with pytest.raises(DatasetError, match="found no row 'other'"):
            prepare(settings("download", archives=["other"]), tmp_path / "data", table)
        with pytest.raises(DatasetError, match=r"(?s)expected gzip"):
            prepare(settings("download", archives=["small"]), tmp_path / "data", table)
    path = tmp_path / "data" / "manifest.json"
    assert read_manifest(path) == manifest
    assert {entry.path.split("/")[0] for entry in manifest.entries} == {"train", "validation"}
    assert manifest.unused_files == {}
    verify(manifest, manifest.root(path), "plain")


def test_an_archive_of_something_else(tmp_path):
    (tmp_path / "readme").touch()
    with tarfile.open(tmp_path / "small.tar", "w") as tar:
        tar.add(tmp_path / "readme", "readme")
    with served(Publisher((tmp_path / "small.tar").read_bytes())) as publisher:
        table = tmp_path / "datasets.tsv"
        row = ["small", "small.tar", publisher.url, "", "", "", "tar", "a note"]
        table.write_text("\t".join(Archive.model_fields) + "\n" + "\t".join(row) + "\n")
        with refused(DatasetError, OTHER_LAYOUT, found="readme", place="small.tar"):
            prepare(settings("download", archives=["small"]), tmp_path / "data", table)


def test_only_a_verified_archive_becomes_the_trusted_first_use(tmp_path):
    write_official(tmp_path / "source", gzip=False)
    (tmp_path / "readme").touch()
    for name in ("source", "readme"):
        with tarfile.open(tmp_path / f"{name}.tgz", "w:gz") as tar:
            tar.add(tmp_path / name, name)
    wrong, content = (tmp_path / "readme.tgz").read_bytes(), (tmp_path / "source.tgz").read_bytes()
    download = settings("download", archives=["small"], edition="plain")
    fetched = tmp_path / "data" / "archive" / "small.tgz"
    record = fetched.with_name("small.tgz.first-use.json")
    with served(Publisher(wrong)) as publisher:
        table = tmp_path / "datasets.tsv"
        row = ["small", "small.tgz", publisher.url, "", "", "", "tgz", "a note"]
        table.write_text("\t".join(Archive.model_fields) + "\n" + "\t".join(row) + "\n")
        with refused(DatasetError, OTHER_LAYOUT, found="readme"):
            prepare(download, tmp_path / "data", table)
        assert not record.exists()
        fetched.unlink()
        publisher.content = b"<html>Log in</html>"
        with pytest.raises(DatasetError, match="it was moved to"):
            prepare(download, tmp_path / "data", table)
        publisher.content = content
        prepare(download, tmp_path / "data", table)
    assert json.loads(record.read_bytes())["sha256"] == hashlib.sha256(content).hexdigest()


@pytest.fixture
def arranged(monkeypatch):
    """The names of the archives of each arrangement."""
    arrange, calls = CosmoFlowDataModule.arrange, []

    def noted(self, archives, *given):
        calls.append([row.file for row, _ in archives])
        return arrange(self, archives, *given)

    monkeypatch.setattr(CosmoFlowDataModule, "arrange", noted)
    return calls


@pytest.fixture
def fetched(tmp_path):
    """Settings and table of a download whose archive is there."""
    write_official(tmp_path / "source", gzip=False)
    archive = tmp_path / "data/archive/small.tar"
    archive.parent.mkdir(parents=True)
    with tarfile.open(archive, "w") as tar:
        tar.add(tmp_path / "source", "source")
    table = tmp_path / "datasets.tsv"
    row = ["small", archive.name, "http://127.0.0.1:9/small.tar", "", "", "", "tar", "a note"]
    table.write_text("\t".join(Archive.model_fields) + "\n" + "\t".join(row) + "\n")
    return settings("download", archives=["small"], edition="plain"), tmp_path / "data", table


def raising(error):
    def fail(*_):
        raise error

    return fail


def stopped_while_verifying(fetched, error):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preparation, "make_manifest", raising(error))
        with pytest.raises(type(error)):
            prepare(*fetched)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), DatasetError("a sample cannot be read now")])
def test_what_was_unpacked_is_not_unpacked_again(fetched, arranged, error):
    stopped_while_verifying(fetched, error)
    manifest = prepare(*fetched)
    assert arranged == [["small.tar"]]
    verify(manifest, fetched[1], "plain")
    names = {file.name for file in fetched[1].iterdir()}
    assert names == {"archive", "manifest.json", "train", "validation"}


@pytest.mark.parametrize("change", ["archive", "settings", "published"])
def test_what_no_longer_fits_is_unpacked_again(fetched, arranged, change):
    wanted, folder, table = fetched
    if change == "published":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Path, "rename", raising(KeyboardInterrupt()))
            with pytest.raises(KeyboardInterrupt):
                prepare(*fetched)
    else:
        stopped_while_verifying(fetched, KeyboardInterrupt())
    if change == "archive":
        os.utime(folder / "archive/small.tar", (0, 0))
    elif change == "settings":
        wanted = wanted.model_copy(update={"train_samples": 3})
    manifest = prepare(wanted, folder, table)
    assert len(arranged) == 2
    assert manifest.samples("train") == wanted.train_samples


def test_a_folder_of_a_transfer_that_is_not_as_expected_is_compared_again(tmp_path, monkeypatch):
    write_official(tmp_path / "data/archive/small", gzip=False, train=3)
    record = tmp_path / "data/archive/small.globus-task.json"
    record.touch()
    monkeypatch.setattr(download, "fetch_archive", lambda row, folder: folder / row.file)
    table = tmp_path / "datasets.tsv"
    row = ["small", "small", "https://example.org/small", "", "", "", "folder", "a note"]
    table.write_text("\t".join(Archive.model_fields) + "\n" + "\t".join(row) + "\n")
    wanted = settings("download", archives=["small"], edition="plain")
    with refused(DatasetError, OTHER_SAMPLES, found=3):
        prepare(wanted, tmp_path / "data", table)
    assert not record.exists()
    assert not (tmp_path / "data/.partial").exists()
    record.touch()
    assert prepare(wanted.model_copy(update={"train_samples": 3}), tmp_path / "data", table).samples("train") == 3
    assert record.exists()
