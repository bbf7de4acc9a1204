"""RoIAlign: features of regions at a fixed resolution, by bilinear sampling of the matching pyramid level."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from hpcai.workloads.extreme_weather.settings import Regions
from hpcai.workloads.extreme_weather.training.anchors import FINEST_STRIDE
from hpcai.workloads.extreme_weather.training.boxes import area

_CANONICAL_LEVEL = 2
"""A region of the canonical size is taken from P4, the third map (Lin et al. 2017, eq. 1)."""
_CORNERS = 2


def assign_levels(regions: tf.Tensor, canonical_size: float, levels: int) -> tf.Tensor:
    """Return the number of the map that a region is taken from, 0 for P2; (...,) int32.

    floor(4 + log2(sqrt(area) / 224)), limited to P2..P5 (Lin et al. 2017, eq. 1).
    """
    octaves = tf.math.log(tf.sqrt(area(regions)) / canonical_size + 1e-6) / np.log(2.0)
    return tf.clip_by_value(tf.cast(tf.floor(_CANONICAL_LEVEL + octaves), tf.int32), 0, levels - 1)


def roi_align(maps: Sequence[tf.Tensor], regions: tf.Tensor, settings: Regions) -> tf.Tensor:
    """Return the features of regions, (batch, n, resolution, resolution, channels) float32.

    The cells of a region are averages of bilinear samples at the centres of their equal parts (He et al. 2017,
    section 3); map cell k has its centre at (k + 1/2) stride, and beyond the outermost centres the map goes on
    unchanged. The operation is linear in the maps, so it is one product with a sparse matrix, for all levels and
    images together. No gradient flows into the regions.

    Parameters
    ----------
    maps
        Feature maps from P2 on, (batch, height, width, channels).
    regions
        Boxes (batch, n, 4) [pixels].
    settings
        Resolution, samples per cell and canonical size.
    """
    regions = tf.stop_gradient(regions)
    batch, channels = maps[0].shape[0], maps[0].shape[-1]
    shapes = np.array([feature.shape[1:3] for feature in maps])
    cells = shapes.prod(axis=1)
    flat = tf.concat([tf.reshape(tf.cast(feature, tf.float32), [batch, -1, channels]) for feature in maps], axis=1)
    levels = assign_levels(regions, settings.canonical_size, len(maps))
    stride = tf.cast(tf.gather(FINEST_STRIDE << np.arange(len(maps)), levels), tf.float32)
    extents = tf.gather(shapes.astype(np.int32), levels)
    rows, row_weights = _taps(regions[..., 0] / stride, regions[..., 2] / stride, extents[..., 0], settings)
    columns, column_weights = _taps(regions[..., 1] / stride, regions[..., 3] / stride, extents[..., 1], settings)
    begins = tf.gather(np.concatenate([[0], np.cumsum(cells)[:-1]]).astype(np.int32), levels)
    begins += tf.range(batch)[:, None] * int(cells.sum())
    # (batch, n, cell row, cell column, row tap, column tap)
    indices = rows[:, :, :, None, :, None] * extents[..., 1][:, :, None, None, None, None]
    indices += columns[:, :, None, :, None, :] + begins[:, :, None, None, None, None]
    weights = row_weights[:, :, :, None, :, None] * column_weights[:, :, None, :, None, :]
    outputs = batch * regions.shape[1] * settings.resolution**2
    product = _sparse_product(tf.reshape(indices, [outputs, -1]), weights, tf.reshape(flat, [-1, channels]))
    return tf.reshape(product, [batch, regions.shape[1], settings.resolution, settings.resolution, channels])


def _taps(low: tf.Tensor, high: tf.Tensor, extent: tf.Tensor, settings: Regions) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the map cells along one axis whose weighted sum is a cell of a region, and the weights.

    ``low`` and ``high`` are in map cells, (batch, n); both results are (batch, n, resolution, 2 x samples).
    """
    samples = settings.resolution * settings.samples_per_cell
    parts = (tf.range(samples, dtype=tf.float32) + 0.5) / samples
    last = tf.cast(extent - 1, tf.float32)[..., None]
    places = tf.clip_by_value(low[..., None] + parts * (high - low)[..., None] - 0.5, 0.0, last)
    before = tf.floor(places)
    after = tf.minimum(before + 1, last)
    beyond = places - before
    shape = [*low.shape, settings.resolution, settings.samples_per_cell * _CORNERS]
    cells = tf.reshape(tf.stack([before, after], axis=-1), shape)
    weights = tf.reshape(tf.stack([1 - beyond, beyond], axis=-1), shape) / settings.samples_per_cell
    return tf.cast(cells, tf.int32), weights


def _sparse_product(indices: tf.Tensor, weights: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Return for each row of ``indices`` (n, k) the weighted sum of those rows of ``values``."""
    outputs, taps = indices.shape
    rows = tf.repeat(tf.range(outputs, dtype=tf.int64), taps)
    places = tf.stack([rows, tf.cast(tf.reshape(indices, [-1]), tf.int64)], axis=1)
    matrix = tf.SparseTensor(places, tf.reshape(weights, [-1]), [outputs, values.shape[0]])
    return tf.sparse.sparse_dense_matmul(matrix, values)
