"""Small images, records and files of image classification."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from hpcai.workloads.image_classification.data.module import ImageClassificationDataModule
from hpcai.workloads.image_classification.data.record import ImageRecord
from hpcai.workloads.image_classification.settings import ImageClassificationData


def settings(**changes: Any) -> ImageClassificationData:
    values = {
        "dataset": "images",
        "source": "generate",
        "train_samples": 16,
        "validation_samples": 8,
        "train_shards": 4,
        "validation_shards": 2,
        "classes": 8,
        "crop": 32,
        "resize_edge": 40,
    }
    return ImageClassificationData.model_validate({**values, **changes})


def module(**changes: Any) -> ImageClassificationDataModule:
    return ImageClassificationDataModule(settings(**changes))


def picture(height: int = 20, width: int = 30, mode: str = "RGB", form: str = "JPEG") -> bytes:
    """Bytes of an image file that has an edge in the middle."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:, width // 2 :] = (200, 100, 50)
    stream = io.BytesIO()
    Image.fromarray(pixels, "RGB").convert(mode).save(stream, form)
    return stream.getvalue()


def record(**changes: Any) -> ImageRecord:
    values: dict[str, Any] = {
        "jpeg": picture(),
        "height": 20,
        "width": 30,
        "label": 3,
        "synset": "n00000003",
        "text": "a thing",
        "filename": "n00000003_1.JPEG",
        "boxes": ((0.1, 0.2, 0.5, 0.75),),
    }
    return ImageRecord(**{**values, **changes})


def generated(folder: Path, **changes: Any) -> ImageClassificationDataModule:
    made = module(**changes)
    folder.mkdir()
    made.generate(folder)
    return made
