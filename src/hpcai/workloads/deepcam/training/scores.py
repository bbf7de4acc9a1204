"""Loss and quality of a segmentation: weighted cross entropy, and intersection over union of each frame."""

import tensorflow as tf

from hpcai.workloads.deepcam.settings import CLASSES

CLASS_FREQUENCIES = (0.986267818390377, 0.0004578708870701058, 0.01327431072255291)
"""Share of background, cyclone and river pixels in the official training set (reference, train.py)."""
WEIGHT_EXPONENT = -0.125
CLASS_WEIGHTS = tuple(frequency**WEIGHT_EXPONENT for frequency in CLASS_FREQUENCIES)


def weighted_cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Return the mean over all pixels of weight[label] x -ln softmax(logits)[label], a float32 scalar.

    It is not divided by the sum of the weights (reference, utils/losses.py: reduction none, then the mean).

    Parameters
    ----------
    logits
        Shape (batch, height, width, 3), float32.
    labels
        Shape (batch, height, width), integers 0, 1, 2.
    """
    labels = tf.cast(labels, tf.int32)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return tf.reduce_mean(losses * tf.gather(tf.constant(CLASS_WEIGHTS, tf.float32), labels))


def intersections_over_unions(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Return each frame's mean over the three classes of TP / (TP + FP + FN), (batch,) float64.

    A class that occurs in neither prediction nor label counts 1 (reference, utils/metric.py). A frame with non-finite
    logits has no prediction; its result is NaN, which stays visible.

    Parameters
    ----------
    logits
        Shape (batch, height, width, 3).
    labels
        Shape (batch, height, width), integers 0, 1, 2.
    """
    predictions = tf.argmax(logits, axis=-1, output_type=tf.int32)
    labels = tf.cast(labels, tf.int32)
    ratios = []
    for number in range(CLASSES):
        predicted, true = predictions == number, labels == number
        both, either = _pixels(predicted & true), _pixels(predicted | true)
        ratios.append(tf.where(either > 0, both / tf.maximum(either, 1), tf.ones_like(both)))
    means = tf.add_n(ratios) / CLASSES
    finite = tf.reduce_all(tf.math.is_finite(logits), axis=[1, 2, 3])
    return tf.where(finite, means, tf.fill(tf.shape(means), tf.constant(float("nan"), tf.float64)))


def _pixels(mask: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.cast(mask, tf.float64), axis=[1, 2])
