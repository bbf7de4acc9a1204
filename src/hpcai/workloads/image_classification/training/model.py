"""ResNet v1.5 (HPC AI500, resnet50v1.5/model/): bottleneck blocks with the stride on the 3x3 convolution."""

from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from hpcai.config.runs import RunPlan
from hpcai.training.backend import VarianceScaling
from hpcai.training.batch_norm import batch_norm
from hpcai.training.work import LayerWork
from hpcai.workloads.image_classification.settings import ImageClassificationModel

CHANNEL_MEANS = (123.68, 116.78, 103.94)
PIXEL_SCALE = 255.0
"""Normalisation of the reference (utils/data_utils.py, normalized_inputs)."""
CHANNELS = 3
EXPANSION = 4
STEM_KERNEL = 7
BN_MOMENTUM = 0.9
BN_EPSILON = 1e-5
"""model/resnet_v1_5.py, batch_norm_hparams."""


@keras.saving.register_keras_serializable(package="hpcai")
class NormalisedPixels(layers.Layer):  # type: ignore[misc]
    """(x - channel mean) / 255 of float32 pixels in 0..255, in the layer's compute type."""

    def __init__(self, **keywords: object) -> None:
        # Normalise before the cast: a narrow compute type would lose digits.
        super().__init__(autocast=False, **keywords)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return normalised pixels; same shape as the inputs."""
        return ops.cast((inputs - ops.convert_to_tensor(CHANNEL_MEANS, "float32")) / PIXEL_SCALE, self.compute_dtype)


class ResNet:
    """Builds the network of one plan; no layer but the last has a bias.

    Parameters
    ----------
    plan
        Batch, precision and batch-norm groups.
    settings
        Filters and blocks.
    seed
        Seed of all weights.
    """

    def __init__(self, plan: RunPlan, settings: ImageClassificationModel, seed: int) -> None:
        self._plan, self._settings = plan, settings
        self._seeds = _seeds(seed)

    def build(self, crop: int, outputs: int, policy: str) -> keras.Model:
        """Return the network from pixels, (batch, crop, crop, 3) in 0..255, to float32 logits, (batch, outputs)."""
        # One shared policy; separate ones would repeat it 170 times.
        before = keras.config.dtype_policy()
        keras.config.set_dtype_policy(policy)
        try:
            return self._network(crop, outputs)
        finally:
            keras.config.set_dtype_policy(before)

    def _network(self, crop: int, outputs: int) -> keras.Model:
        inputs = keras.Input((crop, crop, CHANNELS), batch_size=self._plan.micro_batch, dtype="float32")
        values = NormalisedPixels(name="normalised")(inputs)
        filters = self._settings.stem_filters
        values = self._convolution(values, filters, STEM_KERNEL, 2, "stem")
        values = layers.ReLU(name="stem_relu")(values)
        values = layers.MaxPooling2D(3, 2, padding="same", name="stem_pool")(values)
        for stage, blocks in enumerate(self._settings.blocks):
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                values = self._bottleneck(values, filters << stage, stride, f"stage{stage + 1}_block{block + 1}")
        values = layers.GlobalAveragePooling2D(name="mean")(values)
        values = layers.Dense(outputs, kernel_initializer=self._initializer(), name="classes")(values)
        return keras.Model(inputs, layers.Activation("linear", dtype="float32", name="logits")(values))

    def _bottleneck(self, inputs: keras.KerasTensor, filters: int, stride: int, name: str) -> keras.KerasTensor:
        """Return a bottleneck block: 1x1, 3x3 with the stride, 1x1; added to its input, or to a projection of it."""
        shortcut = inputs
        if inputs.shape[-1] != filters * EXPANSION:
            shortcut = self._convolution(inputs, filters * EXPANSION, 1, stride, f"{name}_shortcut")
        values = self._convolution(inputs, filters, 1, 1, f"{name}_reduce")
        values = layers.ReLU(name=f"{name}_reduce_relu")(values)
        values = self._convolution(values, filters, 3, stride, f"{name}_middle")
        values = layers.ReLU(name=f"{name}_middle_relu")(values)
        values = self._convolution(values, filters * EXPANSION, 1, 1, f"{name}_expand")
        values = layers.Add(name=f"{name}_sum")([shortcut, values])
        return layers.ReLU(name=f"{name}_relu")(values)

    def _convolution(
        self, inputs: keras.KerasTensor, filters: int, kernel: int, stride: int, name: str
    ) -> keras.KerasTensor:
        """Return convolution and batch normalisation, zero-padded equally on both sides for any stride.

        TensorFlow's SAME pads a strided convolution of an even edge on one side only (blocks/conv2d_block.py).
        """
        values, padding = inputs, "same"
        if stride > 1 and kernel > 1:
            values, padding = layers.ZeroPadding2D((kernel - 1) // 2, name=f"{name}_pad")(values), "valid"
        convolution = layers.Conv2D(
            filters,
            kernel,
            stride,
            padding,
            use_bias=False,
            kernel_initializer=self._initializer(),
            name=name,
        )
        norm = batch_norm(self._plan, momentum=BN_MOMENTUM, epsilon=BN_EPSILON, name=f"{name}_norm")
        return norm(convolution(values))

    def _initializer(self) -> keras.initializers.Initializer:
        return VarianceScaling(2.0, "fan_out", "truncated_normal", seed=next(self._seeds))


def _seeds(seed: int) -> Iterator[int]:
    """Yield a seed for each layer that fits a signed 32-bit integer, as Keras requires."""
    random = np.random.default_rng(seed)
    while True:
        yield int(random.integers(2**31 - 1))


def layer_work(settings: ImageClassificationModel, crop: int, outputs: int) -> tuple[LayerWork, ...]:
    """Return the layers that multiply, for one image.

    A convolution with kernel k from c_in to c_out channels onto an edge e does e^2 k^2 c_in c_out multiply-adds,
    counting padding as data: 4.089e9 for ResNet-50 at 224 pixels and 1001 outputs.
    """
    filters = settings.stem_filters
    edge = -(-crop // 2)
    found = [LayerWork("stem", edge**2 * STEM_KERNEL**2 * CHANNELS * filters, needs_input_gradient=False)]
    edge, channels = -(-edge // 2), filters
    for stage, blocks in enumerate(settings.blocks):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            name, narrow, wide = f"stage{stage + 1}_block{block + 1}", filters << stage, (filters << stage) * EXPANSION
            smaller = -(-edge // stride)
            if channels != wide:
                found.append(LayerWork(f"{name}_shortcut", smaller**2 * channels * wide))
            found.append(LayerWork(f"{name}_reduce", edge**2 * channels * narrow))
            found.append(LayerWork(f"{name}_middle", smaller**2 * 9 * narrow * narrow))
            found.append(LayerWork(f"{name}_expand", smaller**2 * narrow * wide))
            edge, channels = smaller, wide
    return (*found, LayerWork("classes", channels * outputs))
