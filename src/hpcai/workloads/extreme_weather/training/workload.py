"""The Extreme Weather Analytics workload: samples, losses, optimizer, schedule and mean average precision."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf
from mlperf_logging.mllog import constants
from numpy.typing import NDArray

from hpcai.config.runs import RunPlan
from hpcai.core.errors import TrainingError
from hpcai.core.messages import Message, at
from hpcai.training.momentum import MomentumSGD
from hpcai.training.work import LayerWork
from hpcai.training.workload import Batch, Streams, Workload
from hpcai.workloads.extreme_weather.data.container import BOX_FIELDS, CHANNELS, MAX_BOXES
from hpcai.workloads.extreme_weather.data.sample import BOXES, IDENTITY, IMAGE
from hpcai.workloads.extreme_weather.settings import ExtremeWeatherBenchmark
from hpcai.workloads.extreme_weather.training.anchors import (
    Sample,
    assign_anchors,
    assign_regions,
    make_anchors,
    sample,
)
from hpcai.workloads.extreme_weather.training.average_precision import Boxes, mean_average_precision
from hpcai.workloads.extreme_weather.training.boxes import encode, pairwise_iou
from hpcai.workloads.extreme_weather.training.counting import detector_layers
from hpcai.workloads.extreme_weather.training.detection import DELTA_SCALE, Found, detect, propose
from hpcai.workloads.extreme_weather.training.losses import proposal_losses, region_losses
from hpcai.workloads.extreme_weather.training.model import HEAD, OUTPUTS, PYRAMID, build_detector, kernels
from hpcai.workloads.extreme_weather.training.roi_align import roi_align
from hpcai.workloads.extreme_weather.training.schedule import learning_rate, peak_rate

NO_STATISTICS = Message(
    "extreme_weather.no_statistics",
    "found {means} means and {deviations} standard deviations, expected {expected} of each in the manifest; "
    "prepare the dataset again",
)

DETECTION, TRUTH = 1.0, 2.0
"""Kinds of rows for the metric; 0 is an unused row."""


@dataclass(frozen=True)
class Truth:
    """True boxes of a batch: corners (batch, 15, 4) [pixels], labels (1 + class), and which rows hold a box."""

    corners: tf.Tensor
    labels: tf.Tensor
    present: tf.Tensor


class ExtremeWeather(Workload[ExtremeWeatherBenchmark]):
    """Faster R-CNN of one plan."""

    mlperf_name: ClassVar[str] = "extreme_weather"
    quality_metric: ClassVar[str] = "mean_average_precision"
    higher_is_better: ClassVar[bool] = True
    quality_key: ClassVar[str] = "eval_accuracy"

    def __init__(self, plan: RunPlan, statistics: Mapping[str, tuple[float, ...]] | None = None) -> None:
        super().__init__(plan, statistics)
        data = self.benchmark.data
        self._image = (data.height, data.width)
        self._grid = make_anchors(self.benchmark.model.anchors, self._image)

    def batch_spec(self) -> tuple[tf.TensorSpec, ...]:
        """Images (n, 16, height, width), boxes (n, 15, 5) as in the container, and identities (n,)."""
        size = self.plan.micro_batch
        return (
            tf.TensorSpec([size, len(CHANNELS), *self._image], tf.float32),
            tf.TensorSpec([size, MAX_BOXES, BOX_FIELDS], tf.int32),
            tf.TensorSpec([size], tf.int64),
        )

    def parse(self, record: tf.Tensor, seed: tf.Tensor | None) -> Batch:  # noqa: ARG002  no augmentation
        """Return image, boxes and identity of a frame.

        There is no augmentation: flips are unphysical for winds with a sign and for latitudes.
        """
        raw = {name: tf.io.FixedLenFeature([], tf.string) for name in (IMAGE, BOXES)}
        features = tf.io.parse_single_example(record, {**raw, IDENTITY: tf.io.FixedLenFeature([], tf.int64)})
        image = tf.reshape(tf.io.decode_raw(features[IMAGE], tf.float32), [len(CHANNELS), *self._image])
        boxes = tf.reshape(tf.io.decode_raw(features[BOXES], tf.int32), [MAX_BOXES, BOX_FIELDS])
        return image, boxes, features[IDENTITY]

    def build_model(self, seeds: Streams) -> keras.Model:
        """Return the detector with fresh weights.

        Raises
        ------
        TrainingError
            If the manifest has no statistics to normalise the channels with.
        """
        self._normaliser()
        return build_detector(self.benchmark, self.plan, self.policy, seeds.weights)

    def build_optimizer(self) -> keras.optimizers.Optimizer:
        """Return gradient descent with momentum."""
        return MomentumSGD(learning_rate=0.0, momentum=self.benchmark.recipe.momentum)

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step: linear warm-up, then two steps down."""
        recipe = self.benchmark.recipe
        return learning_rate(recipe, self.plan.global_batch, step, self.plan.epoch_steps * recipe.max_epochs)

    def loss(self, model: keras.Model, batch: Batch, seed: tf.Tensor) -> tf.Tensor:
        """Return the four losses of the two stages and the weight decay."""
        images, boxes, _ = batch
        truth, seeds = _truth(boxes), tf.random.experimental.stateless_split(seed, 2)
        *maps, objectness, deltas = model.get_layer(PYRAMID)(self._prepared(images), training=True)
        first_stage = self._proposal_losses(objectness, deltas, truth, seeds[0])
        regions, chosen, matched = self._training_regions(objectness, deltas, truth, seeds[1])
        logits, region_deltas = self._classified(model, maps, regions, training=True)
        labels = tf.where(chosen.positive, tf.gather(truth.labels, matched, batch_dims=1), 0)
        targets = encode(tf.gather(truth.corners, matched, batch_dims=1), regions) * DELTA_SCALE
        second_stage = region_losses(logits, labels, region_deltas, targets, chosen)
        decay = tf.add_n([tf.nn.l2_loss(kernel.value) for kernel in kernels(model)])
        return tf.add_n([*first_stage, *second_stage, self.benchmark.recipe.weight_decay * decay])

    def evaluate(self, model: keras.Model, batch: Batch, weights: tf.Tensor) -> tf.Tensor:
        """Return one row for each possible detection and each possible true box of each image.

        Columns: samples (1 in the first row of an image), identity of the image, kind (0 for an unused row),
        class, score, ymin, xmin, ymax, xmax.
        """
        images, boxes, identities = batch
        counted = weights > 0
        # Padding of the last batch may hold any value.
        prepared = self._prepared(tf.where(counted[:, None, None, None], images, 0.0))
        *maps, objectness, deltas = model.get_layer(PYRAMID)(prepared, training=False)
        limits = self.benchmark.model.proposals
        regions = propose(objectness, deltas, self._grid, self._image, most=limits.test, iou=limits.iou)
        logits, region_deltas = self._classified(model, maps, regions[0], training=False)
        found = detect(logits, region_deltas, regions, self._image, self.benchmark.model.detections)
        return _rows(found, _truth(boxes), identities, counted)

    def quality(self, rows: NDArray[np.float64]) -> float:
        """Return the mean average precision at IoU 0.5."""
        detections, truths = (_boxes(rows[rows[:, 2] == kind]) for kind in (DETECTION, TRUTH))
        return mean_average_precision(detections, truths)

    def hyperparameters(self) -> dict[str, Any]:
        """Return the hyper-parameters of optimizer and schedule; HPC AI500 prescribes no log."""
        recipe = self.benchmark.recipe
        return {
            constants.OPT_NAME: recipe.optimizer,
            "sgd_opt_momentum": recipe.momentum,
            constants.OPT_BASE_LR: peak_rate(recipe, self.plan.global_batch),
            constants.OPT_LR_WARMUP_STEPS: recipe.warmup_steps,
            constants.OPT_LR_WARMUP_FACTOR: recipe.warmup_start_ratio,
            "opt_learning_rate_decay_points": list(recipe.decay_points),
            constants.OPT_LR_DECAY_FACTOR: recipe.decay_factor,
            constants.OPT_WEIGHT_DECAY: recipe.weight_decay,
        }

    def layers(self) -> tuple[LayerWork, ...]:
        """Return the layers that multiply; the box head is counted for the regions of training."""
        return detector_layers(self.benchmark)

    def _normaliser(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Return mean and standard deviation of the channels, (16, 1, 1)."""
        found = [self.statistics.get(name, ()) for name in ("mean", "standard_deviation")]
        lengths = [len(values) for values in found]
        if lengths != [len(CHANNELS)] * 2:
            raise TrainingError(
                at(
                    f"statistics of {self.benchmark.data.dataset}",
                    NO_STATISTICS(means=lengths[0], deviations=lengths[1], expected=len(CHANNELS)),
                )
            )
        mean, deviation = (tf.constant(values, tf.float32, [len(CHANNELS), 1, 1]) for values in found)
        return mean, deviation

    def _prepared(self, images: tf.Tensor) -> tf.Tensor:
        """Return normalised images with the channels last."""
        mean, deviation = self._normaliser()
        return tf.transpose((images - mean) / deviation, [0, 2, 3, 1])

    def _proposal_losses(
        self, objectness: tf.Tensor, deltas: tf.Tensor, truth: Truth, seed: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        settings = self.benchmark.model.anchors
        anchors = tf.constant(self._grid.boxes)
        overlap = pairwise_iou(tf.broadcast_to(anchors, [objectness.shape[0], *anchors.shape]), truth.corners)
        assignment = assign_anchors(overlap, truth.present, settings)
        chosen = sample(assignment, settings.batch, int(settings.batch * settings.positive_ratio), seed)
        matched = tf.gather(assignment.matched, chosen.indices, batch_dims=1)
        targets = encode(tf.gather(truth.corners, matched, batch_dims=1), tf.gather(anchors, chosen.indices))
        scores, moves = (tf.gather(values, chosen.indices, batch_dims=1) for values in (objectness, deltas))
        return proposal_losses(scores, moves, targets, chosen, settings.batch)

    def _training_regions(
        self, objectness: tf.Tensor, deltas: tf.Tensor, truth: Truth, seed: tf.Tensor
    ) -> tuple[tf.Tensor, Sample, tf.Tensor]:
        """Return sampled regions (batch, k, 4), what they are, and the indices of their true boxes (batch, k)."""
        limits, settings = self.benchmark.model.proposals, self.benchmark.model.regions
        proposals, valid = propose(objectness, deltas, self._grid, self._image, most=limits.train, iou=limits.iou)
        # True boxes are candidates too, so the foreground is not empty in the first steps.
        candidates = tf.concat([proposals, truth.corners], axis=1)
        exist = tf.concat([valid, truth.present], axis=1)
        overlap = pairwise_iou(candidates, truth.corners)
        assignment = assign_regions(overlap, truth.present, exist, settings.positive_iou)
        chosen = sample(assignment, settings.batch, int(settings.batch * settings.positive_ratio), seed)
        regions, matched = (
            tf.gather(values, chosen.indices, batch_dims=1) for values in (candidates, assignment.matched)
        )
        return regions, chosen, matched

    def _classified(
        self, model: keras.Model, maps: list[tf.Tensor], regions: tf.Tensor, *, training: bool
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return class scores (batch, n, 5) and deltas (batch, n, 5, 4) of regions."""
        batch, count = regions.shape[:2]
        features = roi_align(maps, regions, self.benchmark.model.regions)
        logits, deltas = model.get_layer(HEAD)(tf.reshape(features, [-1, *features.shape[2:]]), training=training)
        return tf.reshape(logits, [batch, count, OUTPUTS]), tf.reshape(deltas, [batch, count, OUTPUTS, 4])


def _truth(boxes: tf.Tensor) -> Truth:
    """Return the true boxes from rows as in the container, (batch, 15, 5)."""
    return Truth(tf.cast(boxes[..., :4], tf.float32), boxes[..., 4] + 1, boxes[..., 4] >= 0)


def _rows(found: Found, truth: Truth, identities: tf.Tensor, counted: tf.Tensor) -> tf.Tensor:
    """Return the rows of `ExtremeWeather.evaluate`, (batch x (detections + 15), 9)."""
    kinds = [tf.where(mask, kind, 0.0) for mask, kind in ((found.valid, DETECTION), (truth.present, TRUTH))]
    kind = tf.concat(kinds, axis=1)
    labels = tf.concat([found.classes, truth.labels - 1], axis=1)
    scores = tf.concat([found.scores, tf.zeros_like(kinds[1])], axis=1)
    first = tf.one_hot(tf.zeros(identities.shape, tf.int32), kind.shape[1], dtype=tf.float64)
    columns = [first, tf.broadcast_to(identities[:, None], kind.shape), kind, labels, scores]
    columns = [tf.cast(column, tf.float64)[..., None] for column in columns]
    corners = tf.cast(tf.concat([found.boxes, truth.corners], axis=1), tf.float64)
    rows = tf.where(counted[:, None, None], tf.concat([*columns, corners], axis=2), tf.zeros([], tf.float64))
    return tf.reshape(rows, [-1, rows.shape[-1]])


def _boxes(rows: NDArray[np.float64]) -> Boxes:
    """Return the boxes in rows of one kind."""
    identity, label = (rows[:, column].astype(np.int64) for column in (1, 3))
    return Boxes(identity, label, rows[:, 4], rows[:, 5:])
