"""The losses of Faster R-CNN (Ren et al. 2015), with tensorpack's norms (examples/FasterRCNN/modeling)."""

import tensorflow as tf

from hpcai.workloads.extreme_weather.training.anchors import Sample

HUBER_DELTA = 1 / 9
"""Where the loss of the proposals' deltas changes from quadratic to linear."""


def proposal_losses(
    objectness: tf.Tensor, deltas: tf.Tensor, targets: tf.Tensor, chosen: Sample, batch: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the losses of the region proposal network: cross entropy of objectness, and of positive anchors' deltas.

    Sums over the chosen anchors, divided by the nominal number of anchors per image; means over images.

    Parameters
    ----------
    objectness
        Logits of the chosen anchors, (images, k).
    deltas, targets
        Predicted and true deltas of the chosen anchors, (images, k, 4).
    chosen
        Which of them are positive, and which are used.
    batch
        Nominal number of anchors per image.
    """
    entropy = tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(chosen.positive, tf.float32), objectness)
    class_loss = _sum_where(chosen.used, entropy) / batch
    huber = tf.reduce_sum(huber_loss(deltas - targets, HUBER_DELTA), axis=2) / HUBER_DELTA
    box_loss = _sum_where(chosen.positive, huber) / batch
    return tf.reduce_mean(class_loss), tf.reduce_mean(box_loss)


def region_losses(
    logits: tf.Tensor, labels: tf.Tensor, deltas: tf.Tensor, targets: tf.Tensor, chosen: Sample
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the losses of the box head: cross entropy of the class, and distance of foreground regions' deltas.

    Both are divided by the number of regions that an image uses; means over images.

    Parameters
    ----------
    logits
        Scores of background and classes, (images, k, classes + 1).
    labels
        0 for background, or 1 + class; (images, k) int32.
    deltas
        Predicted deltas of each class, (images, k, classes + 1, 4).
    targets
        True deltas, (images, k, 4).
    chosen
        Which of the regions are positive, and which are used.
    """
    used = tf.reduce_sum(tf.cast(chosen.used, tf.float32), axis=1)
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    class_loss = tf.math.divide_no_nan(_sum_where(chosen.used, entropy), used)
    own = tf.gather(deltas, labels, batch_dims=2)
    distance = tf.reduce_sum(tf.abs(own - targets), axis=2)
    box_loss = tf.math.divide_no_nan(_sum_where(chosen.positive, distance), used)
    return tf.reduce_mean(class_loss), tf.reduce_mean(box_loss)


def huber_loss(errors: tf.Tensor, delta: float) -> tf.Tensor:
    """Return e^2 / 2 up to |e| = delta, and delta (|e| - delta / 2) beyond, element by element."""
    size = tf.abs(errors)
    square = tf.minimum(size, delta)
    return square * (size - square / 2)


def _sum_where(counted: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Return the sums of the counted values over the second axis."""
    return tf.reduce_sum(tf.where(counted, values, 0.0), axis=1)
