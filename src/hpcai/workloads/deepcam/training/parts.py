"""Building blocks of the network: numbered seeds, named layers, one precision."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from hpcai.config.runs import RunPlan
from hpcai.training.batch_norm import batch_norm
from hpcai.workloads.deepcam.training.convolutions import (
    Convolution,
    Kernel,
    SeparableConvolution,
    Shape,
    TransposedConvolution,
)
from hpcai.workloads.deepcam.training.initial import Rule, Start, he_normal

MOMENTUM = 0.9
"""PyTorch's default of 0.1 weights the new value; Keras weights the old one."""
EPSILON = 1e-5


class MinMaxScaling(layers.Layer):  # type: ignore[misc]
    """(x - lowest) / (highest - lowest) of each channel, always in float32: values such as pressures need it."""

    def __init__(self, lowest: Sequence[float], highest: Sequence[float], **keywords: object) -> None:
        super().__init__(dtype="float32", **keywords)
        low, high = np.asarray(lowest, np.float64), np.asarray(highest, np.float64)
        self._shift, self._scale = low.astype(np.float32), (1 / (high - low)).astype(np.float32)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the scaled channels; same shape."""
        return (inputs - self._shift) * self._scale


class Affine(layers.Layer):  # type: ignore[misc]
    """Trained scale and shift per channel; replaces normalisation where a channel has a single value."""

    def build(self, input_shape: Shape) -> None:
        """Create scale and shift."""
        self.scale = self.add_weight(name="scale", shape=(input_shape[-1],), initializer="ones")
        self.shift = self.add_weight(name="shift", shape=(input_shape[-1],), initializer="zeros")

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the outputs; same shape as the inputs."""
        return inputs * tf.cast(self.scale, inputs.dtype) + tf.cast(self.shift, inputs.dtype)


@dataclass
class Parts:
    """Makes the layers of one network.

    Parameters
    ----------
    plan
        Defines the group of the batch normalisation.
    policy
        Keras' type policy of all layers.
    seed
        Determines all initial weights, together with the order in which layers are created.
    rule
        Initialiser of the layers created next.
    """

    plan: RunPlan
    policy: str
    seed: int
    rule: Rule = he_normal
    _made: int = field(default=0, init=False)

    def _start(self) -> Start:
        self._made += 1
        state = np.random.SeedSequence([self.seed, self._made]).generate_state(1)
        # Each layer has two initializers at most; the seed must fit a signed 32-bit integer.
        return Start(self.rule, int(state[0]) % (2**31 - 2))

    def convolve(
        self, values: keras.KerasTensor, kernel: Kernel, name: str, *, bias: bool = False
    ) -> keras.KerasTensor:
        """Apply a convolution."""
        return Convolution(kernel, self._start(), bias=bias, name=name, dtype=self.policy)(values)

    def separate(self, values: keras.KerasTensor, kernel: Kernel, name: str) -> keras.KerasTensor:
        """Apply a separable convolution."""
        return SeparableConvolution(kernel, self._start(), name=name, dtype=self.policy)(values)

    def upsample(self, values: keras.KerasTensor, filters: int, name: str) -> keras.KerasTensor:
        """Apply a transposed convolution."""
        return TransposedConvolution(filters, self._start(), name=name, dtype=self.policy)(values)

    def affine(self, values: keras.KerasTensor, name: str) -> keras.KerasTensor:
        """Scale and shift each channel."""
        return Affine(name=name, dtype=self.policy)(values)

    def normalise(self, values: keras.KerasTensor, name: str) -> keras.KerasTensor:
        """Apply batch normalisation."""
        layer = batch_norm(self.plan, momentum=MOMENTUM, epsilon=EPSILON, name=f"{name}_norm", dtype=self.policy)
        return layer(values)

    def rectify(self, values: keras.KerasTensor, name: str) -> keras.KerasTensor:
        """Apply ReLU."""
        return layers.ReLU(name=f"{name}_relu", dtype=self.policy)(values)

    def activate(self, values: keras.KerasTensor, name: str) -> keras.KerasTensor:
        """Apply batch normalisation and ReLU."""
        return self.rectify(self.normalise(values, name), name)
