"""One image as a record: written and read as by TensorFlow, with an error for each kind of fault."""

import io
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from unit.workloads.image_classification.data.image_files import picture, record

from hpcai.core.errors import DatasetError
from hpcai.data.example import decode_example, encode_example
from hpcai.workloads.image_classification.data.record import FEATURES, decode_record, encode_record

BOX = "image/object/bbox/"


@pytest.mark.parametrize("boxes", [(), ((0.25, 0.125, 0.5, 1.0),), ((0.0, 0.0, 1.0, 1.0), (0.25, 0.5, 0.5, 0.75))])
def test_what_is_written_is_read(boxes: Any) -> None:
    expected = record(boxes=boxes)
    assert decode_record(encode_record(expected), 8) == expected


def test_tensorflow_reads_all_fifteen_features_with_their_types() -> None:
    example = tf.train.Example.FromString(encode_record(record()))
    kinds = {name: feature.WhichOneof("kind") for name, feature in example.features.feature.items()}
    assert set(kinds) == set(FEATURES)
    assert len(kinds) == 15
    texts = {"encoded", "format", "colorspace", "class/synset", "class/text", "filename"}
    assert {name for name, kind in kinds.items() if kind == "bytes_list"} == {f"image/{name}" for name in texts}
    sides = {f"{BOX}{side}" for side in ("xmin", "ymin", "xmax", "ymax")}
    assert {name for name, kind in kinds.items() if kind == "float_list"} == sides
    features = example.features.feature
    assert features["image/class/label"].int64_list.value == [3]
    assert features[f"{BOX}label"].int64_list.value == [3]
    assert features[f"{BOX}xmax"].float_list.value == [0.75]


def test_records_that_tensorflow_wrote_are_read() -> None:
    example = tf.train.Example.FromString(encode_record(record(boxes=())))
    assert decode_record(example.SerializeToString(), 8) == record(boxes=())


def changed(**features: Any) -> bytes:
    """The bytes of a good record with other features; None removes one."""
    values = {**decode_example(encode_record(record())), **{f"image/{k}": v for k, v in features.items()}}
    return encode_example({name: value for name, value in values.items() if value is not None})


def jpeg(mode: str) -> bytes:
    stream = io.BytesIO()
    Image.new(mode, (30, 20)).save(stream, "JPEG")
    return stream.getvalue()


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"encoded": None}, r"image/encoded: found none, expected all 15"),
        ({"object/bbox/xmin": None}, r"bbox/xmin: found none"),
        ({"height": floats(20)}, r"image/height: found float values, expected int64"),
        ({"class/text": ints(1)}, r"image/class/text: found int64 values, expected bytes"),
        ({"object/bbox/xmin": ints(0)}, r"xmin: found int64 values, expected float"),
        ({"class/label": ints(1, 2)}, r"image/class/label: found 2 integers, expected 1"),
        ({"filename": [b"a", b"b"]}, r"image/filename: found 2 byte strings"),
        ({"format": b"PNG"}, r"image/format: found 'PNG', expected 'JPEG'"),
        ({"colorspace": b"CMYK"}, r"image/colorspace: found 'CMYK'"),
        ({"channels": ints(4)}, r"image/channels: found 4, expected 3"),
        ({"class/label": ints(0)}, r"found 0, expected 1 to 8 .* count from 0; add 1"),
        ({"class/label": ints(9)}, r"found 9, expected 1 to 8 .* another set of classes"),
        ({"class/label": ints(-1)}, r"found -1, expected 1 to 8"),
        ({"encoded": b""}, r"image/encoded: found 0 bytes that are not a JPEG"),
        ({"encoded": picture(form="PNG")}, r"not a JPEG image \(they begin with 89504e47\)"),
        ({"encoded": jpeg("CMYK")}, r"found colours CMYK, expected RGB or grey"),
        ({"encoded": picture(30, 20)}, r"found 30 x 20 pixels .* expected 20 x 30"),
        ({"height": ints(30), "width": ints(20)}, r"found 20 x 30 pixels"),
        ({"object/bbox/xmin": floats(0.1, 0.2)}, r"lists of unequal length"),
        ({"object/bbox/label": ints()}, r"lists of unequal length"),
        ({"object/bbox/label": ints(4)}, r"bbox/label: found 4, expected the image's 3"),
        ({"object/bbox/xmax": floats(1.01)}, r"box 0: found .* xmax 1.01, expected 0 <= min <= max <= 1: outside"),
        ({"object/bbox/ymin": floats(-0.5)}, r"ymin -0.5"),
        ({"object/bbox/ymin": floats(0.9)}, r"ymin 0.9"),
        ({"object/bbox/ymin": floats(np.nan)}, r"ymin nan"),
    ],
)
def test_what_is_wrong_is_named(features: dict[str, Any], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        decode_record(changed(**features), 8)


def test_grey_images_are_left_as_they_are_in_the_official_files() -> None:
    assert decode_record(changed(encoded=jpeg("L")), 8).width == 30


def test_no_example_at_all() -> None:
    with pytest.raises(DatasetError):
        decode_record(b"something else", 8)
