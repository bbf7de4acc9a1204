"""The generator is deterministic, keeps the official layout, and makes visibly different classes."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from unit.data.record_files import read_records
from unit.workloads.image_classification.data.image_files import generated, settings

from hpcai.workloads.image_classification.data.generator import EDGES, describe_class, make_record
from hpcai.workloads.image_classification.data.record import ImageRecord, decode_record


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_equal_settings_give_equal_files_and_other_seeds_others(tmp_path: Path) -> None:
    for name, seed in (("first", 1), ("second", 1), ("third", 2)):
        generated(tmp_path / name, seed=seed)
    first, second, third = (contents(tmp_path / name) for name in ("first", "second", "third"))
    assert first == second
    assert list(first) == [f"train-0000{n}-of-00004" for n in range(4)] + [
        f"validation-0000{n}-of-00002" for n in range(2)
    ]
    assert all(first[name] != third[name] for name in first)


def test_files_hold_equally_many_records_and_each_class_equally_often(tmp_path: Path) -> None:
    generated(tmp_path / "data", train_samples=32, classes=4)
    files = sorted((tmp_path / "data").glob("train-*"))
    records = [[decode_record(payload, 4) for payload in read_records(file, compressed=False)] for file in files]
    assert [len(part) for part in records] == [8] * 4
    labels = [record.label for part in records for record in part]
    assert np.bincount(labels).tolist() == [0, 8, 8, 8, 8]
    assert labels != sorted(labels)
    assert len({record.jpeg for part in records for record in part}) == 32
    boxes = [len(record.boxes) for part in records for record in part]
    assert set(boxes) == {0, 1}


def test_images_vary_in_size_and_shape() -> None:
    records = [make_record(settings(), "train", number) for number in range(16)]
    sizes = {(record.height, record.width) for record in records}
    assert len(sizes) > 12
    assert all(EDGES[0] <= edge <= EDGES[1] for size in sizes for edge in size)


def stripes_and_hue(record: ImageRecord) -> tuple[bool, float]:
    """Whether stripes lie flat, and the hue [degrees], from the pixels alone."""
    image = Image.open(io.BytesIO(record.jpeg))
    pixels = np.asarray(image, float) / 255
    height, width, _ = pixels.shape
    centre = pixels[height // 4 : -height // 4, width // 4 : -width // 4]
    light = centre.sum(axis=2)
    lies_flat = np.abs(np.diff(light, axis=0)).mean() > np.abs(np.diff(light, axis=1)).mean()
    red, green, blue = (centre**2.2).mean(axis=(0, 1))
    hue = np.degrees(np.arctan2(np.sqrt(3) * (green - blue), 2 * red - green - blue)) % 360
    return bool(lies_flat), float(hue)


@pytest.mark.parametrize("number", range(0, 16, 3))
def test_the_class_is_what_the_image_shows(number: int) -> None:
    record = make_record(settings(), "validation", number)
    lies_flat, hue = stripes_and_hue(record)
    assert lies_flat == record.text.startswith("horizontal")
    expected = float(record.text.split()[-2])
    assert abs((hue - expected + 180) % 360 - 180) < 30
    assert record.text == describe_class(record.label - 1, 8)
