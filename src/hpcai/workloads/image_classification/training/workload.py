"""Image classification: ResNet-50 v1.5 classifies images (HPC AI500 V2.0, resnet50v1.5/)."""

import math
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from mlperf_logging.mllog import constants
from numpy.typing import NDArray

from hpcai.training.backend import half_square_sum
from hpcai.training.lamb import MAX_GRADIENT_NORM, Lamb
from hpcai.training.lars import EPSILON as LARS_EPSILON
from hpcai.training.lars import Lars, is_scale_or_shift
from hpcai.training.moments import EPSILON as LAMB_EPSILON
from hpcai.training.momentum import MomentumSGD
from hpcai.training.schedules import scaled_rate
from hpcai.training.work import LayerWork
from hpcai.training.workload import Batch, Streams, Workload
from hpcai.workloads.image_classification.settings import ImageClassificationBenchmark
from hpcai.workloads.image_classification.training.model import CHANNELS, ResNet, layer_work
from hpcai.workloads.image_classification.training.preprocessing import evaluation_pixels, parse_record, train_pixels


class ImageClassification(Workload[ImageClassificationBenchmark]):
    """ResNet at the size set in its benchmark file."""

    mlperf_name: ClassVar[str] = "image_classification"
    quality_metric: ClassVar[str] = "top1_accuracy"
    higher_is_better: ClassVar[bool] = True
    quality_key: ClassVar[str] = "eval_accuracy"

    @property
    def outputs(self) -> int:
        """Outputs of the network: one more than classes, the last of which is never a target, as in the reference."""
        return self.benchmark.data.classes + 1

    def batch_spec(self) -> tuple[tf.TensorSpec, ...]:
        """Return float32 pixels in 0..255, (batch, crop, crop, 3), and int32 labels from 0, (batch,)."""
        batch, crop = self.plan.micro_batch, self.benchmark.data.crop
        return tf.TensorSpec([batch, crop, crop, CHANNELS], tf.float32), tf.TensorSpec([batch], tf.int32)

    def parse(self, record: tf.Tensor, seed: tf.Tensor | None) -> Batch:
        """Return pixels and label of an image: a random part of it for training, its centre for evaluation."""
        data = self.benchmark.data
        jpeg, label, boxes = parse_record(record)
        if seed is None:
            return evaluation_pixels(jpeg, data.crop, data.resize_edge), label
        return train_pixels(jpeg, boxes, data.crop, seed), label

    def build_model(self, seeds: Streams) -> keras.Model:
        """Return the network in the precision of the plan; variables and logits are float32."""
        network = ResNet(self.plan, self.benchmark.model, seeds.weights)
        return network.build(self.benchmark.data.crop, self.outputs, self.policy)

    def build_optimizer(self) -> keras.optimizers.Optimizer:
        """Return SGD with momentum, LARS or LAMB; these two leave batch norm and bias out of decay and adaptation."""
        recipe, rate = self.benchmark.recipe, self.learning_rate(0)
        if recipe.optimizer == "lars":
            return Lars(rate, recipe.momentum, recipe.weight_decay, recipe.trust_coefficient)
        if recipe.optimizer == "lamb":
            return Lamb(rate, recipe.betas, recipe.weight_decay, exempt=is_scale_or_shift)
        return MomentumSGD(rate, momentum=recipe.momentum)

    @property
    def peak_rate(self) -> float:
        """Learning rate at the end of the warm-up."""
        recipe = self.benchmark.recipe
        return scaled_rate(recipe.base_learning_rate, self.plan.global_batch, recipe.base_batch, recipe.scaling)

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step: linear warm-up from 0, then cosine or steps, both counted from step 0.

        Because of that, the rate falls from 1.000 to 0.981 of the peak where the warm-up ends
        (utils/learning_rate.py). A boundary between rates takes effect one step later, as in
        ``tf.train.piecewise_constant``.
        """
        recipe, epoch_steps = self.benchmark.recipe, self.plan.epoch_steps
        warmup_steps = recipe.warmup_epochs * epoch_steps
        if step < warmup_steps:
            return self.peak_rate * step / warmup_steps
        if recipe.schedule == "cosine":
            done = min(1.0, step / (recipe.max_epochs * epoch_steps))
            return self.peak_rate * (1 + math.cos(math.pi * done)) / 2
        decays = sum(step > epoch * epoch_steps for epoch in recipe.decay_epochs)
        return float(self.peak_rate * recipe.decay_factor**decays)

    def loss(self, model: keras.Model, batch: Batch, seed: tf.Tensor) -> tf.Tensor:  # noqa: ARG002
        """Return cross entropy with smoothed labels plus the penalty on all trainable variables.

        The target is 1 - s + s/n for the label and s/n for each other one of n outputs, s = label_smoothing. The
        penalty includes scales and shifts of batch norm and the bias: A5 forbids excluding them. LARS and LAMB have
        their decay in the step instead, and no penalty.
        """
        pixels, labels = batch
        recipe = self.benchmark.recipe
        logits = model(pixels, training=True)
        others = recipe.label_smoothing / self.outputs
        is_label = ops.arange(self.outputs, dtype="int32") == labels[:, None]
        targets = ops.where(is_label, np.float32(1 - recipe.label_smoothing + others), np.float32(others))
        error = ops.mean(ops.categorical_crossentropy(targets, logits, from_logits=True))
        if recipe.weight_decay == 0 or recipe.optimizer != "sgd":
            return error
        squares = sum(half_square_sum(variable.value) for variable in model.trainable_variables)
        return error + recipe.weight_decay * squares

    def evaluate(self, model: keras.Model, batch: Batch, weights: tf.Tensor) -> tf.Tensor:
        """Return the number of images, and of those whose largest logit is the label's; (1, 2) float64."""
        pixels, labels = batch
        logits = model(pixels, training=False)
        best = ops.cast(ops.argmax(logits, axis=1), "int32")
        # argmax over NaN returns the first class, which many images have as label.
        correct = (best == labels) & ops.all(ops.isfinite(logits), axis=1) & (weights > 0)
        counts = [ops.sum(ops.cast(values, "float64")) for values in (weights, correct)]
        return ops.stack(counts)[None]

    def quality(self, rows: NDArray[np.float64]) -> float:
        """Return the share of correctly classified images."""
        counted, correct = rows.sum(axis=0)
        return float(correct / counted)

    def hyperparameters(self) -> dict[str, Any]:
        """Return the recipe; HPC AI500 has no rules for logs, so the keys are MLPerf's where it has one."""
        recipe = self.benchmark.recipe
        found: dict[str, Any] = {
            constants.OPT_NAME: recipe.optimizer,
            **self._constants(),
            constants.OPT_BASE_LR: self.peak_rate,
            constants.OPT_LR_WARMUP_EPOCHS: recipe.warmup_epochs,
            constants.OPT_WEIGHT_DECAY: recipe.weight_decay,
            "label_smoothing": recipe.label_smoothing,
            "learning_rate_schedule": recipe.schedule,
        }
        if recipe.schedule == "step":
            found[constants.OPT_LR_DECAY_BOUNDARY_EPOCHS] = list(recipe.decay_epochs)
            found[constants.OPT_LR_DECAY_FACTOR] = recipe.decay_factor
        return found

    def _constants(self) -> dict[str, Any]:
        """Return what only the recipe's optimizer has; keys are MLPerf's for ResNet-50 and DeepCAM."""
        recipe = self.benchmark.recipe
        if recipe.optimizer == "lamb":
            return {
                "opt_betas": list(recipe.betas),
                "opt_eps": LAMB_EPSILON,
                "opt_bias_correction": True,
                "opt_grad_averaging": True,
                "opt_max_grad_norm": MAX_GRADIENT_NORM,
            }
        if recipe.optimizer == "lars":
            return {
                "lars_opt_momentum": recipe.momentum,
                "lars_epsilon": LARS_EPSILON,
                "lars_opt_trust_coefficient": recipe.trust_coefficient,
            }
        return {"sgd_opt_momentum": recipe.momentum}

    def layers(self) -> tuple[LayerWork, ...]:
        """Return convolutions and the dense layer, counted by a formula."""
        return layer_work(self.benchmark.model, self.benchmark.data.crop, self.outputs)
