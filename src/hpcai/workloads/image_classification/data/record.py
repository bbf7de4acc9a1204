"""One image as the Inception scripts store it: a tf.train.Example with 15 features.

tensorflow/models, research/inception/inception/data/build_imagenet_data.py. A few thousand of the official images are
grey JPEG files, which the scripts leave as they are; readers decode them to three channels.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from hpcai.core.errors import DatasetError
from hpcai.data.example import Decoded, decode_example, encode_example

Box = tuple[float, float, float, float]
REPAIR = "copy the file again, or make the dataset again"
CHANNELS = 3
_BOX = "image/object/bbox/"
_SIDES = (f"{_BOX}ymin", f"{_BOX}xmin", f"{_BOX}ymax", f"{_BOX}xmax")
_TEXTS = (
    "image/encoded",
    "image/format",
    "image/colorspace",
    "image/class/synset",
    "image/class/text",
    "image/filename",
)
_INTEGERS = ("image/height", "image/width", "image/channels", "image/class/label")
_KINDS: dict[str, Literal["bytes", "int64", "float"]] = {
    **dict.fromkeys(_TEXTS, "bytes"),
    **dict.fromkeys(_INTEGERS, "int64"),
    **dict.fromkeys(_SIDES, "float"),
    f"{_BOX}label": "int64",
}
FEATURES = tuple(_KINDS)


@dataclass(frozen=True)
class ImageRecord:
    """One image with its annotation; ``boxes`` are (ymin, xmin, ymax, xmax), relative to the image."""

    jpeg: bytes
    height: int
    width: int
    label: int
    synset: str
    text: str
    filename: str
    boxes: tuple[Box, ...] = ()


def encode_record(record: ImageRecord) -> bytes:
    """Return the bytes of the tf.train.Example of an image."""
    boxes = np.array(record.boxes, np.float32).reshape(-1, 4)
    sides = {name: boxes[:, side] for side, name in enumerate(_SIDES)}
    return encode_example(
        {
            "image/encoded": record.jpeg,
            "image/format": b"JPEG",
            "image/colorspace": b"RGB",
            "image/height": np.array([record.height]),
            "image/width": np.array([record.width]),
            "image/channels": np.array([CHANNELS]),
            "image/class/label": np.array([record.label]),
            "image/class/synset": record.synset.encode(),
            "image/class/text": record.text.encode(),
            "image/filename": record.filename.encode(),
            **sides,
            f"{_BOX}label": np.full(len(boxes), record.label, np.int64),
        }
    )


def decode_record(payload: bytes | memoryview, classes: int) -> ImageRecord:
    """Return an image after checking that its record is what training expects.

    Only the JPEG header is read; pixels are not decoded.

    Parameters
    ----------
    payload
        The tf.train.Example.
    classes
        Labels are 1..classes.

    Raises
    ------
    DatasetError
        If a feature is missing or wrong; names the feature, what was found and what was expected.
    """
    features = decode_example(payload)
    _check_features(features)
    texts = {name: _one_text(features[name], name) for name in _TEXTS}
    integers = {name: _one_integer(features[name], name) for name in _INTEGERS}
    _expect("image/format", texts["image/format"].decode(errors="replace"), "JPEG")
    _expect("image/colorspace", texts["image/colorspace"].decode(errors="replace"), "RGB")
    _expect("image/channels", integers["image/channels"], CHANNELS)
    label = integers["image/class/label"]
    _check_label(label, classes)
    height, width = integers["image/height"], integers["image/width"]
    _check_jpeg(texts["image/encoded"], height, width)
    return ImageRecord(
        jpeg=texts["image/encoded"],
        height=height,
        width=width,
        label=label,
        synset=texts["image/class/synset"].decode(errors="replace"),
        text=texts["image/class/text"].decode(errors="replace"),
        filename=texts["image/filename"].decode(errors="replace"),
        boxes=_boxes(features, label),
    )


def _check_features(features: Mapping[str, Decoded]) -> None:
    missing = [name for name in FEATURES if name not in features]
    if missing:
        raise DatasetError(
            f"features {', '.join(missing)}: found none, expected all {len(FEATURES)} of the Inception scripts; "
            "convert the images again"
        )
    for name, kind in _KINDS.items():
        value = features[name]
        found = _kind(value)
        # An empty list may have lost its type when it was written.
        if found != kind and len(value):
            raise DatasetError(f"feature {name}: found {found} values, expected {kind}; convert the images again")


def _kind(value: Decoded) -> str:
    if isinstance(value, list):
        return "bytes"
    return "float" if np.issubdtype(value.dtype, np.floating) else "int64"


def _one_text(value: Decoded, name: str) -> bytes:
    if len(value) != 1:
        raise DatasetError(f"feature {name}: found {len(value)} byte strings, expected 1; {REPAIR}")
    return bytes(value[0])


def _one_integer(value: Decoded, name: str) -> int:
    if len(value) != 1:
        raise DatasetError(f"feature {name}: found {len(value)} integers, expected 1; {REPAIR}")
    return int(value[0])


def _expect(name: str, found: object, expected: object) -> None:
    if found != expected:
        raise DatasetError(f"feature {name}: found {found!r}, expected {expected!r}; convert the images again")


def _check_label(label: int, classes: int) -> None:
    if 1 <= label <= classes:
        return
    reason = (
        "labels that count from 0; add 1 to every label when you convert the images"
        if label == 0
        else "another set of classes; correct data.classes, or convert the images again"
    )
    raise DatasetError(f"feature image/class/label: found {label}, expected 1 to {classes} (0 is not used): {reason}")


def _check_jpeg(jpeg: bytes, height: int, width: int) -> None:
    place = "feature image/encoded"
    try:
        # Lazy: only the header is read.
        with Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as image:
            size, mode = image.size, image.mode
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DatasetError(
            f"{place}: found {len(jpeg)} bytes that are not a JPEG image (they begin with {jpeg[:4].hex()}), "
            "expected one; convert the images again"
        ) from error
    if mode not in {"RGB", "L"}:
        raise DatasetError(f"{place}: found colours {mode}, expected RGB or grey; convert the images to RGB")
    if size != (width, height):
        raise DatasetError(
            f"{place}: found {size[1]} x {size[0]} pixels (height x width), expected {height} x {width} as the "
            f"features image/height and image/width say; {REPAIR}"
        )


def _boxes(features: Mapping[str, Decoded], label: int) -> tuple[Box, ...]:
    """Return the boxes, which must be as many in each list, ordered and inside the image."""
    lengths = {name: len(features[name]) for name in (*_SIDES, f"{_BOX}label")}
    if len(set(lengths.values())) > 1:
        raise DatasetError(
            f"features {_BOX}*: found lists of unequal length ({lengths}), expected equal ones; {REPAIR}"
        )
    boxes: NDArray[np.float64] = np.stack([np.asarray(features[name], np.float64) for name in _SIDES], axis=1)
    for number, (ymin, xmin, ymax, xmax) in enumerate(boxes):
        if not (0 <= ymin <= ymax <= 1 and 0 <= xmin <= xmax <= 1):
            raise DatasetError(
                f"features {_BOX}*: box {number}: found ymin {ymin:g}, xmin {xmin:g}, ymax {ymax:g}, xmax {xmax:g}, "
                "expected 0 <= min <= max <= 1: outside the image; give boxes relative to the image"
            )
    others = [int(found) for found in features[f"{_BOX}label"] if int(found) != label]
    if others:
        raise DatasetError(f"feature {_BOX}label: found {others[0]}, expected the image's {label}; {REPAIR}")
    return tuple(tuple(box) for box in boxes.tolist())
