"""Blocks of random sizes, kind by kind: what the regressor of block times learns from, and anchors.

Anchors are the same few blocks in every measuring process. They tell how fast the host is while others are timed.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from hpcai.machine.blocks.compile import Pass
from hpcai.machine.blocks.process import (
    Found,
    Update,
    compile_found,
    compile_update,
    find_distinct,
    record_blocks,
)
from hpcai.machine.blocks.rounds import time_in_turn
from hpcai.machine.blocks.trace import Traced, trace_gradients
from hpcai.predict.steps.report import BlockKind, SampleTimes
from hpcai.training.backend import FEWEST_STRIDED_INPUTS, Padding, convolve_each
from hpcai.training.batch_norm import BatchNormalization
from hpcai.training.momentum import MomentumSGD

MOST_FLOP = 2e9
"""Of the product of a forward pass: up to a tenth of a second on one core."""
MOST_NUMBERS = 2**23
"""In one tensor: 32 MiB."""
TOGETHER = 48
"""Blocks that are compiled and timed together: all of them would need much memory."""
ENOUGH_S = 6.0
"""For the rounds of these."""
WIDE, WIDE_SHARE = 8, 0.7
"""Numbers of channels are multiples of this, as networks have them, in so many of all draws."""
SEED = 2023
UPDATES: tuple[Callable[[], keras.Optimizer], ...] = (
    lambda: MomentumSGD(1e-4, momentum=0.9),
    lambda: keras.optimizers.Adam(1e-4),
    lambda: keras.optimizers.AdamW(1e-4),
    lambda: keras.optimizers.Lamb(1e-4),
)
Step = Callable[..., tf.Tensor]
ACTIVATIONS: tuple[Step, ...] = (tf.nn.relu, tf.nn.relu, tf.nn.silu, tf.tanh, tf.sigmoid)
SMALL: tuple[Step, ...] = (
    tf.nn.silu,
    tf.tanh,
    tf.sigmoid,
    tf.square,
    lambda rows: rows * 0.5 + 1.0,
    lambda rows: tf.maximum(rows, 0.1) - rows,
    lambda rows: tf.math.log1p(tf.abs(rows)),
    lambda rows: tf.sqrt(tf.square(rows) + 1.0),
    lambda rows: tf.where(rows > 0.0, rows, 0.1 * rows),
    lambda rows: rows - tf.reduce_mean(rows, axis=-1, keepdims=True),
    lambda rows: rows / (1.0 + tf.reduce_max(tf.abs(rows), axis=0)),
    lambda rows: tf.concat([rows, -rows], axis=0)[: rows.shape[0]],
    lambda rows: tf.pad(rows[:, 1:], [[0, 0], [1, 0]]),
    lambda rows: tf.stack(tf.split(tf.tile(rows, [1, 2]), 2, axis=1))[1],
    lambda rows: tf.transpose(tf.transpose(rows) * 2.0),
    lambda rows: rows - tf.range(float(rows.shape[1])),
    lambda rows: tf.sin(rows) + tf.pow(tf.abs(rows) + 0.1, 1.5),
    lambda rows: rows / (1.0 + tf.nn.l2_loss(rows)),
    lambda rows: tf.stack([rows, tf.square(rows)], axis=2)[:, :, 1],
    lambda rows: tf.reduce_sum(rows[:, :, None] * tf.range(1.0, 4.0), axis=2),
    lambda rows: (
        rows * tf.nn.sparse_softmax_cross_entropy_with_logits(tf.zeros(rows.shape[:1], tf.int32), rows)[:, None]
    ),
)
"""Of rows of numbers, two or more in a row; what they return has the same shape."""


@dataclass(frozen=True)
class _Chain:
    """What a block computes: a product, a sum of segments or neither, and what follows it.

    Attributes
    ----------
    inputs
        Shape of each, and the number that whole numbers stay below; 0: normal numbers.
    steps
        Layers, or functions; the first one gets all inputs.
    flop
        Of the forward pass.
    trains_input
        Whether the gradient of the first input is asked for.
    """

    inputs: Sequence[tuple[Sequence[int], int]]
    steps: Sequence[Step]
    flop: float
    trains_input: bool = True

    def compute(self, *inputs: tf.Tensor) -> tf.Tensor:
        found = self.steps[0](*inputs)
        for step in self.steps[1:]:
            found = step(found, training=True) if isinstance(step, BatchNormalization) else step(found)
        return found

    def variables(self) -> list[tf.Variable]:
        own = [step for step in self.steps if isinstance(step, keras.layers.Layer)]
        return [variable.value for layer in own for variable in layer.trainable_variables]


class Draw:
    """Random sizes that follow from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def size(self, low: float, high: float) -> int:
        """Return a whole number, evenly distributed by its logarithm."""
        return round(float(np.exp(self._random.uniform(math.log(low), math.log(high)))))

    def channels(self, low: float, high: float) -> int:
        """Return a number of channels or units: often a multiple of :data:`WIDE`."""
        drawn = self.size(low, high)
        is_wide = drawn >= WIDE and self._random.uniform() < WIDE_SHARE
        return WIDE * round(drawn / WIDE) if is_wide else drawn

    def filters(self, inputs: int, low: int, high: int) -> int:
        """Return a number of filters: in one of two draws that of what they get, or a small power of 2 times it."""
        if self.one_of(0, 1):
            return self.channels(low, high)
        return min(max(round(inputs * 2.0 ** self.one_of(-2, -1, 0, 0, 1, 2)), low), high)

    def batch(self, high: int, flop: float, numbers: int) -> int:
        """Return a number of samples: no more than what is small, where one takes so much arithmetic and memory.

        So layers with many weights are as frequent as others, with fewer samples.
        """
        return self.size(1, max(min(high, MOST_FLOP / flop, MOST_NUMBERS / numbers), 1))

    def one_of(self, *choices: int) -> int:
        """Return one of some numbers."""
        return int(self._random.choice(choices))

    def values(self, shape: Sequence[int], below: int) -> tf.Tensor:
        """Return normal numbers, or whole ones below a limit in order: places of neighbours are near each other."""
        if below:
            return tf.constant(np.sort(self._random.integers(0, below, shape), axis=0).astype("int32"))
        return tf.constant(self._random.standard_normal(shape).astype("float32"))


def _follow(draw: Draw, *, is_image: bool) -> list[Step]:
    """Return what follows a product: normalisation where it is of images, activation, pooling."""
    steps: list[Step] = []
    if is_image and draw.one_of(0, 1):
        steps.append(BatchNormalization(1, momentum=0.9, epsilon=1e-5))
    if draw.one_of(0, 1, 1):
        steps.append(tf.nn.relu if is_image else ACTIVATIONS[draw.one_of(*range(len(ACTIVATIONS)))])
    if is_image and not draw.one_of(0, 1, 2, 3):
        steps.append(lambda images: tf.nn.max_pool2d(images, 2, 2, "VALID"))
    return steps


def _convolution(draw: Draw) -> _Chain:
    edge, stride = draw.one_of(1, 1, 3, 3, 3, 5, 7), draw.one_of(1, 1, 1, 2)
    inputs, side = draw.channels(3, 512), draw.size(2, 64)
    outputs = draw.filters(inputs, 4, 512)
    if edge == 1 and inputs < FEWEST_STRIDED_INPUTS:
        stride = 1
    layer = layers.Conv2D(outputs, edge, stride, padding="same", use_bias=bool(draw.one_of(0, 0, 1)))
    flop = 2.0 * inputs * outputs * (edge * side / stride) ** 2
    batch = draw.batch(128, flop, inputs * side**2)
    steps = [layer, *(_follow(draw, is_image=True) if side >= 4 * stride else [tf.nn.relu])]
    return _Chain([([batch, side, side, inputs], 0)], steps, batch * flop, bool(draw.one_of(0, 1, 1, 1)))


def _convolution_3d(draw: Draw) -> _Chain:
    edge, inputs, side = draw.one_of(2, 3, 3), draw.channels(1, 128), draw.size(2, 32)
    outputs = draw.filters(inputs, 4, 128)
    layer = layers.Conv3D(outputs, edge, draw.one_of(1, 1, 1, 2), padding="same")
    steps = [layer, *([tf.nn.leaky_relu] if draw.one_of(0, 1, 1) else [])]
    if side >= 4 and draw.one_of(0, 1):
        steps.append(lambda images: tf.nn.max_pool3d(images, 2, 2, "VALID"))
    flop = 2.0 * inputs * outputs * (edge * side) ** 3
    batch = draw.batch(64, flop, inputs * side**3)
    return _Chain([([batch, side, side, side, inputs], 0)], steps, batch * flop, bool(draw.one_of(0, 1, 1, 1)))


def _transposed(draw: Draw) -> _Chain:
    inputs, side = draw.channels(4, 256), draw.size(2, 48)
    outputs = draw.filters(inputs, 4, 256)
    layer = layers.Conv2DTranspose(outputs, 3, 2, padding="same", use_bias=False)
    flop = 2.0 * inputs * outputs * 9 * side**2
    batch = draw.batch(32, flop, inputs * side**2)
    return _Chain([([batch, side, side, inputs], 0)], [layer, *_follow(draw, is_image=True)], batch * flop)


class _EachChannel(layers.Layer):  # type: ignore[misc]
    """A convolution of each channel with a kernel of its own; Keras' own layer takes no explicit padding."""

    def __init__(self, edge: int, stride: int, padding: Padding, dilation: int) -> None:
        super().__init__(name="depthwise")
        self._edge, self._form = edge, (stride, padding, dilation)

    def build(self, shape: Sequence[int]) -> None:
        self.kernel = self.add_weight(name="kernel", shape=(self._edge, self._edge, shape[-1], 1))

    def call(self, images: tf.Tensor) -> tf.Tensor:
        return convolve_each(images, self.kernel, *self._form)


def _depthwise(draw: Draw) -> _Chain:
    channels, batch, side = draw.channels(4, 728), draw.size(1, 32), draw.size(2, 64)
    edge, stride = draw.one_of(3, 3, 5), draw.one_of(1, 1, 2)
    dilation = draw.one_of(1, 1, 2) if stride == 1 else 1
    around = [edge // 2] * 2
    # TensorFlow combines no explicit padding with a dilation on CPUs.
    padding: Padding = [[0, 0], around, around, [0, 0]] if dilation == 1 and draw.one_of(0, 1) else "SAME"
    layer = _EachChannel(edge, stride, padding, dilation)
    return _Chain([([batch, side, side, channels], 0)], [layer], 50.0 * batch * channels * side**2)


def _dense(draw: Draw) -> _Chain:
    if not draw.one_of(0, 1, 2, 3):
        return _products(draw)
    batch, inputs, outputs = draw.size(2, 4096), draw.channels(4, 4096), draw.channels(4, 2048)
    layer = layers.Dense(outputs, use_bias=bool(draw.one_of(0, 1, 1)))
    steps = [layer, *_follow(draw, is_image=False)]
    return _Chain([([batch, inputs], 0)], steps, 2.0 * batch * inputs * outputs, bool(draw.one_of(0, 1, 1, 1)))


def _products(draw: Draw) -> _Chain:
    """Many small products of matrices in one operation."""
    count, rows, depth, columns = draw.size(2, 8192), draw.size(2, 64), draw.size(2, 64), draw.size(2, 64)
    flop = 2.0 * count * rows * depth * columns
    return _Chain([([count, rows, depth], 0), ([count, depth, columns], 0)], [tf.matmul], flop)


def _sparse(draw: Draw) -> _Chain:
    rows, taken, width = draw.size(8, 8192), draw.size(16, 32768), draw.size(1, 256)
    kind = draw.one_of(0, 1, 2)
    if kind == 0:
        return _Chain([([rows, width], 0), ([taken], rows)], [tf.gather], 0.0)

    def add_up(values: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        return tf.math.unsorted_segment_sum(values, places, rows)

    if kind == 1:
        return _Chain([([taken, width], 0), ([taken], rows)], [add_up], 0.0)

    def multiply(table: tf.Tensor, values: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        sparse = tf.SparseTensor(tf.cast(places, tf.int64), values, [rows, rows])
        return tf.sparse.sparse_dense_matmul(sparse, table)

    return _Chain([([rows, width], 0), ([taken], 0), ([taken, 2], rows)], [multiply], 0.0)


def _other(draw: Draw) -> _Chain:
    if draw.one_of(0, 1):
        return _small_operations(draw)
    side = draw.size(2, 64)
    shape = [draw.size(1, 128), side, side, draw.channels(2, 512)]
    kind = draw.one_of(0, 1, 2) if side > 3 else 0
    if kind == 0:
        return _Chain([(shape, 0), (shape, 0)], [tf.add, tf.nn.relu], 0.0)
    if kind == 1:
        return _Chain([(shape, 0)], [lambda images: tf.nn.max_pool2d(images, 2, 2, "VALID")], 0.0)
    return _Chain([(shape, 0)], [tf.identity, BatchNormalization(1, momentum=0.9, epsilon=1e-5), tf.nn.relu], 0.0)


def _small_operations(draw: Draw) -> _Chain:
    """Draw some of the operations of losses, and of activations that have no operation of their own."""
    chosen = [SMALL[draw.one_of(*range(len(SMALL)))] for _ in range(draw.size(1, 6))]
    return _Chain([([draw.size(2, 2**17), draw.size(2, 256)], 0)], [tf.identity, *chosen], 0.0)


CHAINS: dict[BlockKind, Callable[[Draw], _Chain]] = {
    "convolution": _convolution,
    "3-D convolution": _convolution_3d,
    "transposed convolution": _transposed,
    "depthwise": _depthwise,
    "dense": _dense,
    "sparse": _sparse,
    "other": _other,
}


def trace_sample(kind: BlockKind, seed: int) -> Traced:
    """Return the one block of a kind whose sizes follow from a seed, with the values that it computes on.

    Parameters
    ----------
    kind
        What it begins with.
    seed
        The same sizes and values each time.
    """
    draw = Draw(seed)
    while not _is_small(chain := CHAINS[kind](draw)):
        pass
    inputs = [draw.values(*one) for one in chain.inputs]
    upstream = draw.values(chain.compute(*inputs).shape, 0)

    def forward(*given: tf.Tensor) -> tuple[tf.Tensor, list[Any], list[tf.Tensor]]:
        *own, above = given
        return chain.compute(*own), [*own[: int(chain.trains_input)], *chain.variables()], [above]

    return trace_gradients(forward, [*inputs, upstream])


def _is_small(chain: _Chain) -> bool:
    return chain.flop <= MOST_FLOP and all(math.prod(shape) <= MOST_NUMBERS for shape, _ in chain.inputs)


ANCHORS: dict[BlockKind, int] = {
    "convolution": 99004,
    "3-D convolution": 99004,
    "transposed convolution": 99009,
    "depthwise": 99001,
    "dense": 99000,
    "sparse": 99001,
    "other": 99001,
}
"""Seed of the anchor of each kind: 0.1 to 1.1 ms each on one core, products and traffic, in and beyond near caches."""


def compile_anchors() -> Pass:
    """Return a call that computes the anchors once and reads the clock in between."""
    return _compile_traced([trace_sample(kind, seed) for kind, seed in ANCHORS.items()])[1]


def _compile_traced(traced: Sequence[Traced]) -> tuple[list[Found], Pass]:
    # What little else was traced, such as a constant of a shape, is no block of the kind.
    found = [max(find_distinct(one), key=lambda each: len(each.block.operations)) for one in traced]
    return found, compile_found(
        found, {key: value for one in traced for key, value in one.values.items()}, in_one_step=False
    )


def time_samples(count: int, anchors: Pass) -> Iterator[SampleTimes]:
    """Yield the times of so many blocks of each kind, and of so many updates: those that were timed in turn together.

    Parameters
    ----------
    count
        Of each kind.
    anchors
        Of `compile_anchors`, timed with each part.
    """
    asked = [(kind, SEED + number) for number in range(count) for kind in (*CHAINS, "update")]
    for start in range(0, len(asked), TOGETHER):
        yield _time_part(asked[start : start + TOGETHER], anchors)


def _time_part(asked: Sequence[tuple[BlockKind, int]], anchors: Pass) -> SampleTimes:
    """Return the times of some blocks; what they hold in memory is free afterwards."""
    updates = [draw_update(seed) for kind, seed in asked if kind == "update"]
    found, run = _compile_traced([trace_sample(kind, seed) for kind, seed in asked if kind != "update"])
    calls = {place: update.call for place, (update, _) in enumerate(updates)}
    timed = time_in_turn(calls, [run, anchors], [1 for one in found if not one.reason], ENOUGH_S)
    blocks_s, anchors_s = timed.passes_s
    known = [update.record(name, timed.calls_s[place]) for place, (update, name) in enumerate(updates)]
    return SampleTimes(blocks=(*record_blocks(found, blocks_s), *known), anchors_s=tuple(anchors_s.tolist()))


def draw_update(seed: int) -> tuple[Update, str]:
    """Return the update of random variables by one of the optimizers, and what it is called."""
    draw = Draw(seed)
    shapes = [[draw.size(2, 256), draw.size(2, 2048)][: draw.one_of(1, 2)] for _ in range(draw.size(2, 80))]
    variables = [keras.Variable(draw.values(shape, 0)) for shape in shapes]
    optimizer = UPDATES[draw.one_of(*range(len(UPDATES)))]()
    optimizer.build(variables)
    return compile_update(optimizer, [draw.values(shape, 0) for shape in shapes], variables), type(optimizer).__name__
