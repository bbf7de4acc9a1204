"""Convert the archives of ILSVRC 2012 to the TFRecord files of the Inception scripts.

tensorflow/models, research/inception/inception/data/build_imagenet_data.py: images sorted by class and name, shuffled
with one seed, cut into equal files. One image is a PNG and 22 are CMYK; these become RGB JPEG images of quality 100,
all others keep their bytes. Boxes are left empty, because they come in a separate archive.
"""

import io
import logging
import os
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from hpcai.config.benchmark import Split
from hpcai.core.errors import DatasetError
from hpcai.core.messages import Message, at
from hpcai.data.archives import UnpackLimits, unpack_archive
from hpcai.data.catalogue import Archive
from hpcai.data.processes import in_forks
from hpcai.data.tfrecord import write_records
from hpcai.workloads.image_classification.data.ilsvrc import Classes, Images, index_train, index_validation, read_devkit
from hpcai.workloads.image_classification.data.record import ImageRecord, encode_record
from hpcai.workloads.image_classification.data.shards import shard_name
from hpcai.workloads.image_classification.settings import ImageClassificationData

logger = logging.getLogger(__name__)
NO_ROOM = Message(
    "conversion.no_room",
    "found space for {found_bytes} bytes, expected {needed_bytes} for the converted images; make room",
)

SHUFFLE_SEED = 12345
"""build_imagenet_data.py, _find_image_files."""
TRAIN, VALIDATION, DEVKIT = "ILSVRC2012_img_train", "ILSVRC2012_img_val", "ILSVRC2012_devkit_t12"
_DEVKIT_BYTES = 1 << 28
_RECORD_BYTES = 1024
"""Upper bound for an image's features besides its JPEG data."""
_QUALITY = 100
_PROGRESS_S = 10.0
_MOST_PROCESSES = 16
"""Each reads images at random places of the archive and needs twice the room of an official file, about 300 MB."""


@dataclass(frozen=True)
class _Source:
    """Shuffled images of one split, and the archive that holds them."""

    split: Split
    archive: Path
    images: Images
    shards: int


def convert_archives(
    archives: Sequence[tuple[Archive, Path]], folder: Path, settings: ImageClassificationData, content_bytes: int
) -> None:
    """Write the TFRecord files of both splits into a folder; the archives stay as they are.

    Parameters
    ----------
    archives
        Training images, validation images and development kit, known by the beginnings of their official names.
    folder
        Empty folder to write into.
    settings
        Classes, files and samples to expect.
    content_bytes
        Most bytes that may be written.

    Raises
    ------
    DatasetError
        If an archive is missing, damaged or does not match its name; names archive and member.
    """
    train, validation, devkit = (_role(archives, name) for name in (TRAIN, VALIDATION, DEVKIT))
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        if devkit[0].format != "tgz":
            raise DatasetError(f"{devkit[1]}: found format {devkit[0].format!r} in datasets.tsv, expected 'tgz'")
        unpack_archive(devkit[1], Path(scratch), "tgz", UnpackLimits(content_bytes=_DEVKIT_BYTES))
        classes = read_devkit(Path(scratch), settings.classes)
    sources = [
        _Source("validation", validation[1], index_validation(validation[1], classes), settings.validation_shards),
        _Source("train", train[1], index_train(train[1], classes), settings.train_shards),
    ]
    _require_space(sources, folder, content_bytes)
    for source in sources:
        expected = settings.samples(source.split)
        if len(source.images) != expected:
            raise DatasetError(
                f"{source.archive}: found {len(source.images)} images, expected {expected} as "
                f"data.{source.split}_samples says; correct it, or fetch the archive again"
            )
        _write_split(source, classes, folder)


def _role(archives: Sequence[tuple[Archive, Path]], name: str) -> tuple[Archive, Path]:
    """Return the archive with an official name."""
    found = [(archive, path) for archive, path in archives if archive.file.startswith(name)]
    if len(found) != 1:
        files = ", ".join(archive.file for archive, _ in archives)
        raise DatasetError(
            f"data.archives: found {len(found)} archives {name}.* among {files or 'none'}, expected 1; "
            "name the rows of training images, validation images and development kit"
        )
    return found[0]


def _require_space(sources: Sequence[_Source], folder: Path, content_bytes: int) -> None:
    needed = sum(int(source.images["size"].sum()) + _RECORD_BYTES * len(source.images) for source in sources)
    if needed > content_bytes:
        raise DatasetError(at(str(folder), NO_ROOM(found_bytes=content_bytes, needed_bytes=needed)))


def _write_split(source: _Source, classes: Classes, folder: Path) -> None:
    """Write the files of a split with several processes, each of which holds one in memory."""
    order = list(range(len(source.images)))
    random.Random(SHUFFLE_SEED).shuffle(order)  # noqa: S311  nothing secret
    shuffled = source.images[order]
    ends = np.linspace(0, len(shuffled), source.shards + 1).astype(int)
    told_s = time.monotonic()
    processes = min(len(os.sched_getaffinity(0)), _MOST_PROCESSES)
    with source.archive.open("rb") as file:

        def write(shard: int) -> None:
            images = shuffled[ends[shard] : ends[shard + 1]]
            path = folder / shard_name(source.split, shard, source.shards)
            write_records(path, _payloads(file.fileno(), source.archive, images, classes), compress=False)

        with closing(in_forks(write, source.shards, processes)) as written:
            for done, _ in enumerate(written, 1):
                if time.monotonic() - told_s >= _PROGRESS_S:
                    told_s = time.monotonic()
                    logger.info("converted %d of %d %s files", done, source.shards, source.split)


def _payloads(descriptor: int, archive: Path, images: Images, classes: Classes) -> Iterator[bytes]:
    for name, offset, size, label in images.tolist():
        place = f"{archive}: member {name.decode()!r}"
        content = os.pread(descriptor, size, offset)
        if len(content) != size:
            raise DatasetError(f"{place}: found {len(content)} bytes, expected {size}: it is cut; fetch it again")
        jpeg, height, width = rgb_jpeg(content, place)
        yield encode_record(
            ImageRecord(
                jpeg=jpeg,
                height=height,
                width=width,
                label=label,
                synset=classes.synsets[label - 1],
                text=classes.texts[label - 1],
                filename=name.decode(),
            )
        )


def rgb_jpeg(content: bytes, place: str) -> tuple[bytes, int, int]:
    """Return an image as RGB (or grey) JPEG data, with height and width [pixels].

    Parameters
    ----------
    content
        JPEG or PNG data.
    place
        Place to name in errors.

    Raises
    ------
    DatasetError
        If it is not an image.
    """
    try:
        with Image.open(io.BytesIO(content), formats=("JPEG", "PNG")) as image:
            width, height = image.size
            if image.format == "JPEG" and image.mode in {"RGB", "L"}:
                return content, height, width
            stream = io.BytesIO()
            image.convert("RGB").save(stream, "JPEG", quality=_QUALITY)
            return stream.getvalue(), height, width
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DatasetError(f"{place}: found no image that can be read ({error}), expected a JPEG image") from error
