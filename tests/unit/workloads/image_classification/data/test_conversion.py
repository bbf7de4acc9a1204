"""A miniature of ILSVRC 2012 is converted to the files of the Inception scripts; damaged archives are refused."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat
from unit.data.record_files import read_records
from unit.refusals import refused
from unit.workloads.image_classification.data.image_files import module, picture

from hpcai.core.errors import DatasetError
from hpcai.data.catalogue import Archive
from hpcai.data.processes import in_forks
from hpcai.workloads.image_classification.data import conversion
from hpcai.workloads.image_classification.data.conversion import NO_ROOM
from hpcai.workloads.image_classification.data.record import ImageRecord, decode_record
from hpcai.workloads.image_classification.data.tar_window import Window

# The kit's own numbers are not in the order of the WordNet ids.
KIT = [(1, "n03000000", "third, of all"), (2, "n01000000", "first"), (3, "n02000000", "second")]
PARENT = (4, "n00000001", "everything")
TRUTH = [3, 1, 2, 1]
"""Numbers of the four validation images, whose labels are 2, 3, 1, 3."""
FILES = ("ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar", "ILSVRC2012_devkit_t12.tar.gz")
Members = list[tuple[str, bytes]]


def tar(members: Members, mode: str = "w") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def class_members(synset: str, count: int = 4) -> Members:
    return [(f"{synset}_{number}.JPEG", picture(20 + number, 30)) for number in range(count)]


def train_members() -> Members:
    odd = {"n01000000_0.JPEG": picture(mode="CMYK"), "n02000000_1.JPEG": picture(form="PNG")}
    classes = {synset: [(n, odd.get(n, data)) for n, data in class_members(synset)] for _, synset, _ in KIT}
    return [(f"{synset}.tar", tar(images)) for synset, images in classes.items()]


def validation_members() -> Members:
    return [(f"ILSVRC2012_val_{number:08d}.JPEG", picture(40, 20 + number)) for number in (2, 1, 4, 3)]


def devkit_members(truth: list[int] = TRUTH, kit: list[tuple[int, str, str]] = KIT) -> Members:
    kind = [("ILSVRC2012_ID", object), ("WNID", object), ("words", object), ("num_children", object)]
    rows = np.array([(*row, 0) for row in kit] + [(*PARENT, 3)], kind)
    stream = io.BytesIO()
    savemat(stream, {"synsets": rows.reshape(-1, 1)})
    top = "ILSVRC2012_devkit_t12"
    lines = "".join(f"{number}\n" for number in truth).encode()
    return [
        (f"{top}/readme.txt", b"about"),
        (f"{top}/data/meta.mat", stream.getvalue()),
        (f"{top}/data/ILSVRC2012_validation_ground_truth.txt", lines),
    ]


def convert(folder: Path, contents: dict[int, bytes] | None = None, space: int = 1 << 30, **changes: Any) -> Path:
    """Convert the miniature, optionally with replaced archives, and return the folder of the result."""
    own = [tar(train_members()), tar(validation_members()), tar(devkit_members(), "w:gz")]
    archives = []
    for number, name in enumerate(FILES):
        path = folder / name
        path.write_bytes((contents or {}).get(number, own[number]))
        row = {"dataset": f"row_{number}", "file": name, "url": f"https://image-net.org/{name}"}
        archives.append((Archive.model_validate({**row, "format": "tgz" if number == 2 else "tar"}), path))
    result = folder / "result"
    result.mkdir()
    counts = {"train_samples": 12, "validation_samples": 4, "train_shards": 4, "validation_shards": 2, "classes": 3}
    module(**{**counts, **changes}).arrange(archives, result, space)
    return result


def records(files: list[Path]) -> list[ImageRecord]:
    return [decode_record(payload, 3) for file in files for payload in read_records(file, compressed=False)]


def test_the_result_is_the_official_layout(tmp_path: Path) -> None:
    result = convert(tmp_path)
    found = module().find(result)
    assert found is not None
    assert found["train"] == [f"train-0000{number}-of-00004" for number in range(4)]
    assert found["validation"] == ["validation-00000-of-00002", "validation-00001-of-00002"]
    assert sorted(path.name for path in result.iterdir()) == [*found["train"], *found["validation"]]


def test_labels_are_ranks_of_wordnet_ids_and_every_image_is_there_once(tmp_path: Path) -> None:
    train = records(sorted(convert(tmp_path).glob("train-*")))
    assert {(record.label, record.synset, record.text) for record in train} == {
        (1, "n01000000", "first"),
        (2, "n02000000", "second"),
        (3, "n03000000", "third, of all"),
    }
    names = [record.filename for record in train]
    assert sorted(names) == sorted(name for _, synset, _ in KIT for name, _ in class_members(synset))
    assert names != sorted(names)
    assert all(record.filename.startswith(record.synset) for record in train)
    assert all(record.boxes == () for record in train)


def test_validation_labels_come_from_the_ground_truth(tmp_path: Path) -> None:
    validation = records(sorted(convert(tmp_path).glob("validation-*")))
    labels = {record.filename: record.label for record in validation}
    assert labels == {f"ILSVRC2012_val_{n:08d}.JPEG": label for n, label in enumerate([2, 3, 1, 3], 1)}
    assert {record.filename: record.width for record in validation}["ILSVRC2012_val_00000003.JPEG"] == 23


def test_images_keep_their_bytes_but_for_png_and_cmyk(tmp_path: Path) -> None:
    found = {record.filename: record for record in records(sorted(convert(tmp_path).glob("train-*")))}
    assert found["n03000000_2.JPEG"].jpeg == picture(22, 30)
    for name in ("n01000000_0.JPEG", "n02000000_1.JPEG"):
        with Image.open(io.BytesIO(found[name].jpeg)) as image:
            assert (image.format, image.mode) == ("JPEG", "RGB")
            pixels = np.asarray(image)
        # CMYK and JPEG shift colours a little; black stays left and orange right.
        assert pixels[:, 2].max() < 40
        np.testing.assert_allclose(pixels[:, -3].mean(axis=0), (200, 100, 50), atol=12)


def test_the_shuffle_is_a_fixed_one(tmp_path: Path) -> None:
    results = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        results.append(convert(tmp_path / name))
    first, second = results
    assert [path.read_bytes() for path in sorted(first.iterdir())] == [
        path.read_bytes() for path in sorted(second.iterdir())
    ]


def test_several_processes_write_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results, started = [], list[int]()
    monkeypatch.setattr(conversion, "in_forks", lambda *given: (started.append(given[2]), in_forks(*given))[1])
    for processes in (1, 2):
        monkeypatch.setattr(conversion.os, "sched_getaffinity", lambda _, count=processes: range(count))
        (tmp_path / str(processes)).mkdir()
        results.append({path.name: path.read_bytes() for path in convert(tmp_path / str(processes)).iterdir()})
    assert started == [1, 1, 2, 2]
    assert results[0] == results[1]


def flipped_header(content: bytes) -> bytes:
    """The archive with one flipped bit in the header of its second member."""
    data = bytearray(content)
    size = int(data[124:135], 8)
    data[512 + -(-size // 512) * 512 + 3] ^= 1
    return bytes(data)


def other_train(change: Callable[[Members], Members]) -> Callable[[], dict[int, bytes]]:
    return lambda: {0: tar(change(train_members()))}


def first_class(images: Members) -> Callable[[], dict[int, bytes]]:
    """The training archive with other images in the class n03000000."""
    return other_train(lambda members: [("n03000000.tar", tar(images)), *members[1:]])


def link() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        info = tarfile.TarInfo("n01000000.tar")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(info)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (lambda: {0: tar(train_members())[:-20000]}, r"img_train.tar.*(cut|damage)"),
        (lambda: {0: flipped_header(tar(train_members()))}, r"neither a member nor an end mark"),
        (lambda: {0: b""}, r"img_train.tar: after 0 members: found damage"),
        (lambda: {1: tar(validation_members())[:700]}, r"img_val.tar.*(damage|cut)"),
        (lambda: {0: link()}, r"'n01000000.tar': found it there, expected plain files"),
        (other_train(lambda m: m[:2]), r"found 2 classes, expected 3: n02000000 is missing"),
        (other_train(lambda m: [*m, m[0]]), r"member 'n03000000.tar': found it there, expected one archive for each"),
        (other_train(lambda m: [*m, ("n09999999.tar", m[0][1])]), r"member 'n09999999.tar': found it there"),
        (other_train(lambda m: [*m, ("../../evil.tar", b"x")]), r"evil.tar': found it there"),
        (
            first_class([("n01000000_1.JPEG", picture())]),
            r"'n03000000.tar': member 'n01000000_1.JPEG': found it there, expected an image of the class",
        ),
        (first_class([("/etc/n03000000_1.JPEG", picture())]), r"expected an image of the class"),
        (first_class(class_members("n03000000", 1) * 2), r"'n03000000_0.JPEG': found it twice"),
        (first_class([("n03000000_1.JPEG", b"")]), r"expected an image of 1 to \d+ bytes \(it has 0\)"),
        (first_class([*class_members("n03000000", 3), ("n03000000_9.JPEG", b"?")]), r"_9.JPEG': found no image"),
        (first_class(class_members("n03000000", 3)), r"found 11 images, expected 12 as data.train_samples"),
        (other_train(lambda m: [("n03000000.tar", b"no archive"), *m[1:]]), r"member 'n03000000.tar': after 0 members"),
        (lambda: {1: tar(validation_members()[:3])}, r"found 3 images, expected 4 as the development kit"),
        (lambda: {1: tar([("ILSVRC2012_val_00000005.JPEG", picture())])}, r"00000005.JPEG': found it there"),
        (lambda: {2: tar(devkit_members([3, 1, 2, 9]), "w:gz")}, r"line 4: found '9', expected the number of one of 3"),
        (lambda: {2: tar(devkit_members(kit=KIT[:2]), "w:gz")}, r"meta.mat: found 2 classes, expected 3"),
        (lambda: {2: tar(devkit_members()[:2], "w:gz")}, r"found 0 files ILSVRC2012_validation_ground_truth.txt"),
        (lambda: {2: tar([("meta.mat", b"x" * 200)], "w:gz")}, r"meta.mat: cannot be read"),
        (lambda: {2: tar([("../meta.mat", b"x")], "w:gz")}, r"'\.\.'"),
    ],
)  # fmt: skip
def test_what_is_no_such_archive_is_refused(
    tmp_path: Path, contents: Callable[[], dict[int, bytes]], message: str
) -> None:
    with pytest.raises(DatasetError, match=message):
        convert(tmp_path, contents())
    assert not list(tmp_path.parent.glob("evil*"))


def test_too_little_space(tmp_path: Path) -> None:
    with refused(DatasetError, NO_ROOM, found_bytes=1000):
        convert(tmp_path, space=1000)


def test_an_archive_is_not_named(tmp_path: Path) -> None:
    row = {"dataset": "row", "file": FILES[0], "url": "https://image-net.org/x", "format": "tar"}
    with pytest.raises(DatasetError, match=r"found 0 archives ILSVRC2012_img_val.* among ILSVRC2012_img_train.tar"):
        module().arrange([(Archive.model_validate(row), tmp_path / "x")], tmp_path, 1 << 30)


def test_headers_are_never_large(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    info = tarfile.TarInfo("name")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 21
    path.write_bytes(info.tobuf() + b"a" * (1 << 21) + b"\0" * 1024)
    with path.open("rb") as file, pytest.raises(DatasetError, match="found a header of"):
        with tarfile.open(fileobj=Window(file, 0, path.stat().st_size, "a.tar"), mode="r:"):  # type: ignore[call-overload]
            pass
