"""DeepCAM: which pixels of a climate frame belong to a cyclone or an atmospheric river (MLPerf HPC, deepcam/)."""

from typing import Any, ClassVar, Literal

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops
from numpy.typing import NDArray

from hpcai.core.errors import TrainingError
from hpcai.core.messages import Message, at
from hpcai.core.processor import lacks_avx512
from hpcai.training.lamb import MAX_GRADIENT_NORM, Lamb
from hpcai.training.moments import EPSILON
from hpcai.training.work import LayerWork
from hpcai.training.workload import Batch, Streams, Workload
from hpcai.workloads.deepcam.mlperf import MLPERF
from hpcai.workloads.deepcam.settings import DeepCamBenchmark, Multistep
from hpcai.workloads.deepcam.training.adam import Adam, AdamW
from hpcai.workloads.deepcam.training.network import apply_network
from hpcai.workloads.deepcam.training.parts import MinMaxScaling, Parts
from hpcai.workloads.deepcam.training.schedules import WarmUp, cosine_rate, multistep_rate
from hpcai.workloads.deepcam.training.scores import intersections_over_unions, weighted_cross_entropy
from hpcai.workloads.deepcam.training.work import network_layers

NO_BF16 = Message(
    "deepcam.no_bf16",
    "TensorFlow computes no gradient of a dilated convolution in bf16 on a processor without AVX-512; use fp32",
)
NO_STATISTICS = Message(
    "deepcam.no_statistics", "found {found} values of {name}, expected {expected}; prepare the dataset again"
)

OPTIMIZERS = {"Adam": Adam, "AdamW": AdamW, "LAMB": Lamb}


class DeepCam(Workload[DeepCamBenchmark]):
    """DeepCAM at the size set in its benchmark file."""

    moving_statistics: ClassVar[Literal["first", "mean"]] = "mean"
    mlperf_name: ClassVar[str] = MLPERF.name
    quality_metric: ClassVar[str] = MLPERF.quality_metric
    higher_is_better: ClassVar[bool] = True
    quality_key: ClassVar[str] = "eval_accuracy"

    @property
    def frame(self) -> tuple[int, int, int]:
        """Height, width and channels of a sample."""
        data = self.benchmark.data
        return (data.height, data.width, data.channels)

    def batch_spec(self) -> tuple[tf.TensorSpec, tf.TensorSpec]:
        """Return float32 channels (batch, height, width, 16) and uint8 classes (batch, height, width)."""
        batch = self.plan.micro_batch
        return tf.TensorSpec([batch, *self.frame], tf.float32), tf.TensorSpec([batch, *self.frame[:2]], tf.uint8)

    def parse(self, record: tf.Tensor, seed: tf.Tensor | None) -> Batch:  # noqa: ARG002
        """Return channels in physical units and classes; there is no augmentation."""
        feature = tf.io.FixedLenFeature([], tf.string)
        example = tf.io.parse_single_example(record, {"data": feature, "labels": feature})
        data = tf.io.decode_raw(example["data"], tf.float32, little_endian=True)
        labels = tf.io.decode_raw(example["labels"], tf.uint8)
        return tf.reshape(data, self.frame), tf.reshape(labels, self.frame[:2])

    def build_model(self, seeds: Streams) -> keras.Model:
        """Return the network, from channels in physical units to float32 logits (batch, height, width, 3)."""
        point, device = self.plan.point, self.plan.machine.device
        if (point.precision, device.kind) == ("bf16", "cpu") and point.engine != "jax" and lacks_avx512():
            raise TrainingError(NO_BF16())
        lowest, highest = (self._statistic(name) for name in ("minval", "maxval"))
        inputs = keras.Input(self.frame, batch_size=self.plan.micro_batch, dtype="float32")
        parts = Parts(self.plan, self.policy, seeds.weights)
        logits = apply_network(parts, self.benchmark.model, MinMaxScaling(lowest, highest, name="scaling")(inputs))
        return keras.Model(inputs, layers.Activation("linear", dtype="float32", name="logits")(logits))

    def _statistic(self, name: str) -> tuple[float, ...]:
        found, channels = self.statistics.get(name, ()), self.benchmark.data.channels
        if len(found) != channels:
            raise TrainingError(
                at("statistics of the training data", NO_STATISTICS(found=len(found), name=name, expected=channels))
            )
        return found

    def build_optimizer(self) -> keras.optimizers.Optimizer:
        """Return the optimizer with the reference's constants."""
        recipe = self.benchmark.recipe
        return OPTIMIZERS[recipe.optimizer](self.learning_rate(0), recipe.betas, recipe.weight_decay)

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of an optimizer step, counted from 0."""
        recipe = self.benchmark.recipe
        schedule, warm_up = recipe.schedule, WarmUp(recipe.warmup_steps, recipe.warmup_factor)
        if isinstance(schedule, Multistep):
            return multistep_rate(step, recipe.learning_rate, warm_up, schedule.milestones, schedule.decay_rate)
        return cosine_rate(step, recipe.learning_rate, warm_up, schedule.t_max, schedule.eta_min)

    def loss(self, model: keras.Model, batch: Batch, seed: tf.Tensor) -> tf.Tensor:  # noqa: ARG002
        """Return the weighted cross entropy."""
        data, labels = batch
        return weighted_cross_entropy(model(data, training=True), labels)

    def evaluate(self, model: keras.Model, batch: Batch, weights: tf.Tensor) -> tf.Tensor:
        """Return the number of frames and the sum of their intersections over unions, (1, 2)."""
        data, labels = batch
        ratios = intersections_over_unions(model(data, training=False), labels)
        # A frame of weight 0 is padding: its result must not count even if it is not finite.
        counted = ops.where(weights > 0, ratios, ops.zeros_like(ratios))
        return ops.stack([ops.sum(ops.cast(weights, "float64")), ops.sum(counted)])[None]

    def quality(self, rows: NDArray[np.float64]) -> float:
        """Return the mean over all frames of a frame's intersection over union."""
        frames, total = rows.sum(axis=0)
        return float(total / frames)

    def hyperparameters(self) -> dict[str, Any]:
        """Return the hyper-parameters that MLPerf HPC's rules for DeepCAM name."""
        recipe, schedule = self.benchmark.recipe, self.benchmark.recipe.schedule
        optimizer = {
            "opt_name": recipe.optimizer,
            "opt_lr": recipe.learning_rate,
            "opt_betas": list(recipe.betas),
            "opt_eps": EPSILON,
            "opt_weight_decay": recipe.weight_decay,
        }
        if recipe.optimizer == "LAMB":
            optimizer |= {
                "opt_bias_correction": True,
                "opt_grad_averaging": True,
                "opt_max_grad_norm": MAX_GRADIENT_NORM,
            }
        fields = schedule.model_dump(mode="json")
        return {
            **optimizer,
            **{f"scheduler_{key}": value for key, value in fields.items()},
            "scheduler_lr_warmup_steps": recipe.warmup_steps,
            "scheduler_lr_warmup_factor": recipe.warmup_factor,
            "batchnorm_group_size": self.plan.point.batchnorm_group,
            "gradient_accumulation_frequency": self.plan.point.accumulation,
        }

    def layers(self) -> tuple[LayerWork, ...]:
        """Return the convolutions, with depthwise and pointwise parts listed separately."""
        return network_layers(self.benchmark)
