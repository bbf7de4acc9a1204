"""The generator: photographs of painted objects; colour and direction of the stripes define the class.

The object covers most of the image, in front of a grey wall. Colours mix in linear light; lamp, lens and sensor add
uneven light, darker corners, shot and read noise, an 8-bit transfer curve and JPEG. Classes are invariant to
mirroring and magnification, because training applies both.
"""

import io
import logging
import time
from pathlib import Path

import numpy as np
import PIL
from numpy.typing import NDArray
from PIL import Image

from hpcai.config.benchmark import SPLITS, Split
from hpcai.data.tfrecord import write_records
from hpcai.workloads.image_classification.data.record import Box, ImageRecord, encode_record
from hpcai.workloads.image_classification.data.shards import shard_name
from hpcai.workloads.image_classification.settings import ImageClassificationData

logger = logging.getLogger(__name__)

GENERATOR_VERSION = 1
EDGES = (48, 96)
"""Shortest and longest edge of an image [pixels]."""
PATTERNS = ("horizontal stripes", "vertical stripes")
SYNSET_DIGITS = 8
_PERIODS = (0.16, 0.28)
"""Shortest and longest period of a pattern, relative to the shorter edge of its image."""
_TILT = 0.2
"""Largest angle between stripes and frame [rad]."""
_PAINT = 0.75
"""Fraction of the light that the painted half of a pattern absorbs."""
_BOX_SHARE = 0.7
"""Fraction of images with an annotated box."""
_FULL_WELL = 2000.0
"""Electrons of a saturated pixel: the shot noise of a small sensor."""
_READ_NOISE = 8.0
"""Electrons."""
_GAMMA = 2.2
"""Exponent of the transfer curve, close to sRGB's (IEC 61966-2-1)."""
_JPEG_QUALITY = 90

FloatArray = NDArray[np.float64]


def generate_dataset(settings: ImageClassificationData, folder: Path) -> dict[str, object]:
    """Write all files of both splits into ``folder`` and return the facts of the generator for the manifest.

    Parameters
    ----------
    settings
        Samples, files, classes and seed.
    folder
        Receives train-... and validation-... in the official layout; the caller publishes it.
    """
    started_s = time.monotonic()
    for split in SPLITS:
        shards, samples = getattr(settings, f"{split}_shards"), settings.samples(split)
        each = samples // shards
        for shard in range(shards):
            numbers = range(shard * each, (shard + 1) * each)
            payloads = (encode_record(make_record(settings, split, number)) for number in numbers)
            write_records(folder / shard_name(split, shard, shards), payloads, compress=False)
    logger.info("generated the images in %.1f s", time.monotonic() - started_s)
    return {
        "version": GENERATOR_VERSION,
        "seed": settings.seed,
        "classes": settings.classes,
        "edges": list(EDGES),
        "patterns": list(PATTERNS),
        # Other encoder versions may write other bytes for the same pixels.
        "pillow": PIL.__version__,
    }


def make_record(settings: ImageClassificationData, split: Split, number: int) -> ImageRecord:
    """Return one image of a split with its annotation; classes take turns in a random order."""
    random = np.random.default_rng([settings.seed, SPLITS.index(split), number])
    label = _label(settings, split, number)
    height, width = (int(edge) for edge in random.integers(EDGES[0], EDGES[1] + 1, 2))
    box = _draw_box(random)
    scene = _scene(random, (height, width), box, label - 1, settings.classes)
    synset = f"n{label:0{SYNSET_DIGITS}d}"
    return ImageRecord(
        jpeg=_jpeg(_photograph(random, scene)),
        height=height,
        width=width,
        label=label,
        synset=synset,
        text=describe_class(label - 1, settings.classes),
        filename=f"{synset}_{number}.JPEG" if split == "train" else f"generated_val_{number + 1:08d}.JPEG",
        boxes=(box,) if random.random() < _BOX_SHARE else (),
    )


def describe_class(index: int, classes: int) -> str:
    """Describe the images of a class, counted from 0."""
    return f"{PATTERNS[index % len(PATTERNS)]} of hue {360 * _hue(index, classes):.0f} degrees"


def _label(settings: ImageClassificationData, split: Split, number: int) -> int:
    """Return the label of an image: each block of ``classes`` images holds each class once."""
    block, place = divmod(number, settings.classes)
    order = np.random.default_rng([settings.seed, len(SPLITS) + SPLITS.index(split), block])
    return int(order.permutation(settings.classes)[place]) + 1


def _hue(index: int, classes: int) -> float:
    """Return the hue of a class on the colour circle, in [0, 1)."""
    hues = -(-classes // len(PATTERNS))
    return (index // len(PATTERNS)) / hues


def _draw_box(random: np.random.Generator) -> Box:
    """Return the object's box: at least three quarters of each edge."""
    extents = random.uniform(0.75, 1.0, 2)
    ymin, xmin = random.uniform(0, 1 - extents)
    return (float(ymin), float(xmin), float(ymin + extents[0]), float(xmin + extents[1]))


def _scene(random: np.random.Generator, size: tuple[int, int], box: Box, index: int, classes: int) -> FloatArray:
    """Return the light that reaches the camera from wall and object, (height, width, 3), at most about 1."""
    height, width = size
    y, x = np.mgrid[0:height, 0:width] + 0.5
    colour = _colour((_hue(index, classes) + random.uniform(-0.03, 0.03)) % 1, random.uniform(0.6, 0.9))
    painted = _stripes(random, PATTERNS[index % len(PATTERNS)], y, x)
    thing = colour * (1 - _PAINT * painted[..., None])
    ymin, xmin, ymax, xmax = box
    inside = (y >= ymin * height) & (y < ymax * height) & (x >= xmin * width) & (x < xmax * width)
    wall = np.full(3, random.uniform(0.15, 0.5))
    slope = random.uniform(-0.3, 0.3, 2)
    lamp = 0.8 * (1 + slope[0] * (y / height - 0.5) + slope[1] * (x / width - 0.5))
    return np.asarray(np.where(inside[..., None], thing, wall) * lamp[..., None])


def _colour(hue: float, saturation: float) -> FloatArray:
    """Return the linear RGB reflectances of a hue in [0, 1): a smooth wheel with one maximum per primary."""
    phases = 2 * np.pi * (hue - np.array([0, 1, 2]) / 3)
    return np.asarray(1 - saturation * (1 - np.cos(phases)) / 2)


def _stripes(random: np.random.Generator, name: str, y: FloatArray, x: FloatArray) -> FloatArray:
    """Return how much of each pixel is painted, in [0, 1]; soft edges, as a lens draws them."""
    wave = 2 * np.pi / (random.uniform(*_PERIODS) * min(y.shape))
    phase, tilt = random.uniform(0, 2 * np.pi), random.uniform(-_TILT, _TILT)
    down, across = (y, x) if name == "horizontal stripes" else (x, y)
    return np.asarray(0.5 + 0.5 * np.tanh(2 * np.sin(wave * (down * np.cos(tilt) + across * np.sin(tilt)) + phase)))


def _photograph(random: np.random.Generator, light: FloatArray) -> NDArray[np.uint8]:
    """Return the light as a camera records it: darker corners, counted photons and electrons, coded values."""
    height, width, _ = light.shape
    y, x = np.mgrid[0:height, 0:width] + 0.5
    # The natural fall-off cos^4 of a lens whose corner lies 25 degrees off its axis.
    radius = np.hypot(y / height - 0.5, x / width - 0.5) / np.hypot(0.5, 0.5)
    fall_off = np.cos(np.arctan(radius * np.tan(np.radians(25)))) ** 4
    electrons = random.poisson(_FULL_WELL * np.clip(light * fall_off[..., None], 0, None))
    signal = (electrons + random.normal(0, _READ_NOISE, light.shape)) / _FULL_WELL
    return np.asarray(np.rint(255 * np.clip(signal, 0, 1) ** (1 / _GAMMA)), np.uint8)


def _jpeg(pixels: NDArray[np.uint8]) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels, "RGB").save(stream, "JPEG", quality=_JPEG_QUALITY)
    return stream.getvalue()
