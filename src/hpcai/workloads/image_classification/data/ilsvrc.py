"""Index the archives of ILSVRC 2012 as published: their classes, and the position of each image.

``ILSVRC2012_img_train.tar`` holds one tar archive per class, named by its WordNet id; ``ILSVRC2012_img_val.tar`` holds
numbered images, whose classes are in ``ILSVRC2012_devkit_t12.tar.gz``. Images stay in place: tar does not compress, so
an offset suffices to read any image, in any order, without unpacking 144 GB.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat

from hpcai.core.errors import DatasetError
from hpcai.workloads.image_classification.data.tar_window import REFUSED, Window, members, refused, whole

_MAX_IMAGE_BYTES = 1 << 26
"""More than any official image has; each is read into memory."""
_WORDNET_ID = re.compile(r"n\d{8}")
_CLASS_ARCHIVE = re.compile(r"(n\d{8})\.tar")
_TRAIN_IMAGE = re.compile(r"(n\d{8})_\d{1,9}\.JPEG")
_VALIDATION_IMAGE = re.compile(r"ILSVRC2012_val_(\d{8})\.JPEG")
IMAGE = np.dtype([("name", "S32"), ("offset", "i8"), ("size", "i8"), ("label", "i4")])
"""Name, archive offset, size and label of an image: only 52 bytes, because there are 1.3 million."""

Images = NDArray[np.void]
"""Array of `IMAGE`."""


@dataclass(frozen=True)
class Classes:
    """Classes in the order of their labels (from 1), and the labels of the validation images in the images' order."""

    synsets: tuple[str, ...]
    texts: tuple[str, ...]
    validation_labels: tuple[int, ...]


def read_devkit(folder: Path, classes: int) -> Classes:
    """Return the classes and the validation set's labels from the unpacked development kit.

    The label of a class is the rank of its WordNet id, from 1, as in the Inception scripts; the kit numbers classes
    differently.

    Raises
    ------
    DatasetError
        If a file is missing or damaged, or the number of classes is not ``classes``.
    """
    meta = _only(folder, "meta.mat")
    rows = sorted(_leaves(meta))
    if len(rows) != classes or not all(_WORDNET_ID.fullmatch(row[0]) for row in rows):
        raise DatasetError(
            f"{meta}: found {len(rows)} classes, expected {classes} with WordNet ids; correct data.classes"
        )
    labels = {number: label for label, (_, number, _) in enumerate(rows, 1)}
    return Classes(
        synsets=tuple(row[0] for row in rows),
        texts=tuple(row[2] for row in rows),
        validation_labels=_ground_truth(_only(folder, "ILSVRC2012_validation_ground_truth.txt"), labels),
    )


def _only(folder: Path, name: str) -> Path:
    found = sorted(folder.rglob(name))
    if len(found) != 1:
        raise DatasetError(f"{folder}: found {len(found)} files {name}, expected 1 in the development kit; {REFUSED}")
    return found[0]


def _leaves(meta: Path) -> list[tuple[str, int, str]]:
    """Return WordNet id, the kit's number and text of the classes; the table also holds their WordNet parents."""
    try:
        table = np.atleast_1d(loadmat(str(meta), squeeze_me=True)["synsets"])
        return [
            (str(row["WNID"]), int(row["ILSVRC2012_ID"]), str(row["words"]))
            for row in table
            if row["num_children"] == 0
        ]
    except Exception as error:  # scipy may raise anything on a damaged file
        raise DatasetError(
            f"{meta}: cannot be read ({error}), expected the table synsets of the development kit; fetch it again"
        ) from error


def _ground_truth(path: Path, labels: Mapping[int, int]) -> tuple[int, ...]:
    """Return a label for each line, which holds one of the kit's own numbers."""
    found: list[int] = []
    for number, line in enumerate(path.read_text(encoding="ascii", errors="replace").split(), 1):
        if not line.isdecimal() or int(line) not in labels:
            raise DatasetError(
                f"{path}: line {number}: found {line[:40]!r}, expected the number of one of {len(labels)} classes; "
                "fetch the development kit again"
            )
        found.append(labels[int(line)])
    return tuple(found)


def index_train(archive: Path, classes: Classes) -> Images:
    """Return the training images, sorted by class and name.

    Raises
    ------
    DatasetError
        If a member is neither class nor image, a class is missing, or the archive is cut or damaged; names archive
        and member.
    """
    labels = {synset: label for label, synset in enumerate(classes.synsets, 1)}
    parts: dict[str, Images] = {}
    with archive.open("rb") as file:
        outer = whole(file, archive)
        for member in members(outer):
            match = _CLASS_ARCHIVE.fullmatch(member.name)
            if match is None or match[1] not in labels or match[1] in parts:
                raise refused(outer, member, "one archive for each class of the development kit")
            parts[match[1]] = _images(outer.part(member), _label_in_class(match[1], labels[match[1]]))
    missing = sorted(set(labels) - set(parts))
    if missing:
        raise DatasetError(
            f"{archive}: found {len(parts)} classes, expected {len(labels)}: {missing[0]} is missing; fetch it again"
        )
    return np.concatenate([parts[synset] for synset in classes.synsets])


def _label_in_class(synset: str, label: int) -> Callable[[str], int]:
    def find(name: str) -> int:
        match = _TRAIN_IMAGE.fullmatch(name)
        return label if match and match[1] == synset else 0

    return find


def index_validation(archive: Path, classes: Classes) -> Images:
    """Return the validation images, sorted by class and name.

    Raises
    ------
    DatasetError
        If a member is not a validation image, or the archive is damaged; names archive and member.
    """

    def find(name: str) -> int:
        match = _VALIDATION_IMAGE.fullmatch(name)
        number = int(match[1]) if match else 0
        return classes.validation_labels[number - 1] if 1 <= number <= len(classes.validation_labels) else 0

    with archive.open("rb") as file:
        images = _images(whole(file, archive), find)
    if len(images) != len(classes.validation_labels):
        raise DatasetError(
            f"{archive}: found {len(images)} images, expected {len(classes.validation_labels)} as the development kit "
            "has labels; fetch both again"
        )
    return images[np.argsort(images, order=("label", "name"))]


def _images(window: Window, find_label: Callable[[str], int]) -> Images:
    """Return the images of an archive, sorted by name; ``find_label`` returns 0 for a foreign name."""
    rows: list[tuple[bytes, int, int, int]] = []
    for member in members(window):
        label = find_label(member.name)
        if not label:
            raise refused(window, member, "an image of the class or of the validation set")
        if not 0 < member.size <= _MAX_IMAGE_BYTES:
            raise refused(window, member, f"an image of 1 to {_MAX_IMAGE_BYTES} bytes (it has {member.size})")
        rows.append((member.name.encode(), window.start + member.offset_data, member.size, label))
    images = np.sort(np.array(rows, IMAGE), order="name")
    names = images["name"]
    twice = names[1:][names[1:] == names[:-1]]
    if len(twice):
        raise DatasetError(f"{window.name}: member {twice[0].decode()!r}: found it twice, expected it once; {REFUSED}")
    return images
