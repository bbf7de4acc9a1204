"""The container: its official layout, conversion, and each kind of damage."""

import re
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from unit.refusals import refused
from unit.workloads.deepcam.data.deepcam_frames import (
    HEIGHT,
    SHAPE,
    WIDTH,
    arrays,
    module,
    write_frame,
    write_statistics,
)

from hpcai.core.errors import DatasetError
from hpcai.data.catalogue import Archive
from hpcai.data.module import CHANGED_FILE, FileFacts
from hpcai.data.prepare import prepare_dataset
from hpcai.data.tfrecord import Content, split_records
from hpcai.workloads.deepcam.data.frame import NO_HDF5


def test_files_are_found_without_the_statistics_of_the_old_layout(tmp_path: Path) -> None:
    for name in ("train/data-2.h5", "train/data-1.h5", "validation/data-3.h5"):
        write_frame(tmp_path / name)
    for folder in ("train", "validation"):
        write_statistics(tmp_path / folder / "stats.h5")
    assert module().find(tmp_path) == {
        "train": ["train/data-1.h5", "train/data-2.h5"],
        "validation": ["validation/data-3.h5"],
    }
    assert module().find(tmp_path / "train") is None


def test_a_sample_reaches_tensorflow_with_all_its_numbers(tmp_path: Path) -> None:
    file = write_frame(tmp_path / "data-0001.h5")
    facts = module().examine(file)
    assert (facts.records, facts.bytes, facts.content_bytes) == (1, file.stat().st_size, file.stat().st_size)
    assert facts.crc32c == facts.content_crc32c
    (member,) = module().members(file, facts)
    assert (member.name, member.record_offsets) == ("data-0001.tfrecord", (0,))
    (payload,) = split_records(Content(member.content), member.name)
    example = tf.train.Example.FromString(bytes(payload)).features.feature
    assert set(example) == {"data", "labels"}
    data, labels = (example[name].bytes_list.value[0] for name in ("data", "labels"))
    np.testing.assert_array_equal(np.frombuffer(data, "<f4").reshape(SHAPE), arrays()["climate/data"])
    np.testing.assert_array_equal(np.frombuffer(labels, np.uint8).reshape(SHAPE[:2]), arrays()["climate/labels_0"])


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8, ">i4"])
def test_classes_of_any_integer_type_are_read(tmp_path: Path, dtype: str) -> None:
    labels = arrays()["climate/labels_0"].astype(dtype)
    file = write_frame(tmp_path / "data-1.h5", labels_0=labels, labels_1=None)
    (member,) = module().members(file, module().examine(file))
    assert arrays()["climate/labels_0"].tobytes() in member.content


def data(**changes: object) -> np.ndarray:
    values = arrays()["climate/data"]
    for value in changes.values():
        values[3, 4, 7] = value
    return values


LABELS = arrays()["climate/labels_0"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": np.moveaxis(data(), -1, 0)}, "climate/data: found shape (16, 16, 32), which is NCHW"),
        ({"data": data()[:, :16]}, "climate/data: found shape (16, 16, 16), expected (16, 32, 16); correct"),
        ({"data": data()[..., :15]}, "found shape (16, 32, 15), expected (16, 32, 16)"),
        ({"data": data().astype(np.float64)}, "climate/data: found float64, expected float32"),
        ({"data": data(bad=np.nan)}, "climate/data: found nan at row 3, column 4 of PSL, expected finite numbers"),
        ({"data": data(bad=-np.inf)}, "found -inf at row 3, column 4 of PSL"),
        ({"data": None}, "found no dataset climate/data, expected climate/data, climate/labels_0"),
        ({"labels_0": None}, "found no dataset climate/labels_0"),
        ({"labels_0": LABELS.T}, "climate/labels_0: found shape (32, 16), expected (16, 32)"),
        ({"labels_0": LABELS + np.uint8(1)}, "climate/labels_0: found classes from 1 to 3, expected 0 (background)"),
        ({"labels_0": LABELS.astype(np.int8) - 1}, "found classes from -1 to 1"),
        ({"labels_0": LABELS.astype(np.float32)}, "climate/labels_0: found float32, expected integers"),
    ],
)
def test_wrong_content_is_named(tmp_path: Path, changes: dict[str, np.ndarray], message: str) -> None:
    file = write_frame(tmp_path / "data-1.h5", **changes)
    with pytest.raises(DatasetError, match=re.escape(f"{file}: ")) as error:
        module().examine(file)
    assert message in str(error.value)


def test_channels_first_is_recognised_when_no_edge_is_that_of_the_channels(tmp_path: Path) -> None:
    file = write_frame(tmp_path / "data-1.h5", data=np.zeros((16, 32, 48), np.float32))
    with pytest.raises(DatasetError, match=r"NCHW \(channels first\).*transpose"):
        module(height=32, width=48).examine(file)


def test_a_cut_tail_an_empty_and_a_foreign_file_are_refused(tmp_path: Path) -> None:
    file = write_frame(tmp_path / "data-1.h5")
    whole = file.read_bytes()
    for content in (whole[:-1000], whole[:600], b"", b"no HDF5 at all" * 100):
        file.write_bytes(content)
        with refused(DatasetError, NO_HDF5, found_bytes=len(content)):
            module().examine(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"data-1\.h5: cannot be read"):
        module().examine(tmp_path / "data-1.h5")


def test_a_flipped_bit_after_the_examination_is_found(tmp_path: Path) -> None:
    file = write_frame(tmp_path / "data-1.h5")
    facts = module().examine(file)
    content = bytearray(file.read_bytes())
    content[-500] ^= 4
    file.write_bytes(content)
    with refused(DatasetError, CHANGED_FILE, expected_crc32c=facts.crc32c):
        list(module().members(file, facts))


@pytest.mark.parametrize("start", range(0, 2048, 64))
def test_damage_of_the_structure_never_passes_as_another_sample(tmp_path: Path, start: int) -> None:
    """Overwritten bytes either change no number or raise one of our errors."""
    file = write_frame(tmp_path / "data-1.h5")
    content = bytearray(file.read_bytes())
    content[start : start + 16] = b"\xff" * 16
    file.write_bytes(content)
    try:
        facts = module().examine(file)
    except DatasetError:
        return
    assert isinstance(facts, FileFacts)


def test_facts_of_another_size_are_refused(tmp_path: Path) -> None:
    file = write_frame(tmp_path / "data-1.h5")
    facts = module().examine(file)
    with pytest.raises(DatasetError, match="expected 7 with"):
        list(module().members(file, replace(facts, bytes=7)))


def test_sample_shape() -> None:
    assert module().sample_shape == (HEIGHT, WIDTH, 16)
    assert module().sidecars == ("stats.h5",)


def write_official(root: Path, statistics: str) -> Path:
    for split, count in (("train", 3), ("validation", 2)):
        for number in range(1, count + 1):
            write_frame(root / split / f"data-{number}.h5")
    write_statistics(root / statistics)
    return root


@pytest.mark.parametrize("place", ["stats.h5", "train/stats.h5"])
def test_an_existing_dataset_of_either_layout_is_taken_where_it_lies(tmp_path: Path, place: str) -> None:
    root = write_official(tmp_path / "official", place)
    taken = module(source="existing", path=str(root))
    manifest = prepare_dataset("deepcam", taken, tmp_path / "dataset", tmp_path / "none.tsv")
    assert (manifest.samples("train"), manifest.samples("validation")) == (3, 2)
    assert manifest.statistics["maxval"] == tuple(range(1, 17))
    (root / place).unlink()
    with pytest.raises(DatasetError, match=r"stats\.h5: cannot be read"):
        prepare_dataset("deepcam", taken, tmp_path / "dataset", tmp_path / "none.tsv")


@pytest.mark.parametrize("place", ["stats.h5", "train/stats.h5"])
def test_a_download_of_either_layout_has_its_statistics_in_the_root(tmp_path: Path, place: str) -> None:
    archive = tmp_path / "dataset/archive/small.tar"
    archive.parent.mkdir(parents=True)
    with tarfile.open(archive, "w") as tar:
        tar.add(write_official(tmp_path / "official", place), "official")
    table = tmp_path / "datasets.tsv"
    row = ["small", archive.name, "http://127.0.0.1:9/small.tar", "", "", "", "tar", "a note"]
    table.write_text("\t".join(Archive.model_fields) + "\n" + "\t".join(row) + "\n")
    fetched = module(source="download", archives=["small"])
    manifest = prepare_dataset("deepcam", fetched, tmp_path / "dataset", table)
    assert manifest.statistics["maxval"] == tuple(range(1, 17))
    again = module(source="existing", path=str(tmp_path / "dataset"))
    assert prepare_dataset("deepcam", again, tmp_path / "again", table).statistics == manifest.statistics
    assert (tmp_path / "dataset/stats.h5").is_file()
