"""Convolutions with the reference's padding: symmetric for any stride, as in PyTorch.

TensorFlow's SAME pads a strided convolution of an even edge by (0, 1) where the reference has (1, 1). For a transposed
convolution it drops the last row and column where the reference drops the first. Explicit paddings match the reference
and avoid the copies of separate padding and slicing (a transposed convolution's gradients took half as long).
"""

from dataclasses import dataclass

import tensorflow as tf
from keras import layers

from hpcai.workloads.deepcam.training.initial import Start

Shape = tuple[int | None, ...]
UPSAMPLING_EDGE, UPSAMPLING_STRIDE = 3, 2
BEFORE_FIRST = [[0, 0], [1, 0], [1, 0], [0, 0]]
"""Paddings of the convolution whose transpose is a VALID transposed convolution without its first row and column."""


@dataclass(frozen=True)
class Kernel:
    """Output channels and shape of a convolution; the edge is 1 or 3 pixels."""

    filters: int
    edge: int = 3
    stride: int = 1
    dilation: int = 1

    @property
    def padding(self) -> str | list[list[int]]:
        """Zeros around (batch, height, width, channels): dilation x (edge - 1) / 2 on every side."""
        if self.edge == 1:
            return "VALID"
        if self.stride == 1:
            # Equivalent, and the only padding that TensorFlow combines with a dilation on CPUs.
            return "SAME"
        zeros = self.dilation * (self.edge - 1) // 2
        return [[0, 0], [zeros, zeros], [zeros, zeros], [0, 0]]

    @property
    def strides(self) -> list[int]:
        """Strides along the four axes."""
        return [1, self.stride, self.stride, 1]

    def output_shape(self, shape: Shape, filters: int) -> Shape:
        """Return the output shape for an input with even edges."""
        batch, height, width, _ = shape
        assert height is not None
        assert width is not None
        return (batch, height // self.stride, width // self.stride, filters)


class Convolution(layers.Layer):  # type: ignore[misc]
    """Convolution with an optional bias."""

    def __init__(self, kernel: Kernel, start: Start, *, bias: bool = False, **keywords: object) -> None:
        super().__init__(**keywords)
        self.form, self._start, self._has_bias = kernel, start, bias

    def build(self, input_shape: Shape) -> None:
        """Create the kernel, (edge, edge, inputs, filters), and the bias if there is one."""
        form, inputs = self.form, int(input_shape[-1] or 0)
        fan_in = form.edge**2 * inputs
        shape = (form.edge, form.edge, inputs, form.filters)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=self._start.values(fan_in))
        if self._has_bias:
            self.bias = self.add_weight(
                name="bias", shape=(form.filters,), initializer=self._start.values(fan_in, variable=1)
            )

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the convolution of (batch, height, width, channels)."""
        form = self.form
        outputs = tf.nn.conv2d(inputs, self.kernel, form.strides, form.padding, dilations=form.dilation)
        return tf.nn.bias_add(outputs, self.bias) if self._has_bias else outputs

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """Return the shape of the outputs."""
        return self.form.output_shape(input_shape, self.form.filters)


class SeparableConvolution(layers.Layer):  # type: ignore[misc]
    """One 3x3 kernel per channel, then a 1x1 convolution; no activation between them, and no bias."""

    def __init__(self, kernel: Kernel, start: Start, **keywords: object) -> None:
        super().__init__(**keywords)
        self.form, self._start = kernel, start

    def build(self, input_shape: Shape) -> None:
        """Create the kernels, (edge, edge, inputs, 1) and (1, 1, inputs, filters)."""
        form, inputs = self.form, int(input_shape[-1] or 0)
        self.depthwise = self.add_weight(
            name="depthwise",
            shape=(form.edge, form.edge, inputs, 1),
            initializer=self._start.values(form.edge**2),
        )
        self.pointwise = self.add_weight(
            name="pointwise",
            shape=(1, 1, inputs, form.filters),
            initializer=self._start.values(inputs, variable=1),
        )

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the convolution of (batch, height, width, channels)."""
        form = self.form
        dilations = [form.dilation, form.dilation]
        each = tf.nn.depthwise_conv2d(inputs, self.depthwise, form.strides, form.padding, dilations=dilations)
        return tf.nn.conv2d(each, self.pointwise, 1, "VALID")

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """Return the shape of the outputs."""
        return self.form.output_shape(input_shape, self.form.filters)


class TransposedConvolution(layers.Layer):  # type: ignore[misc]
    """3x3 transposed convolution that doubles both edges (PyTorch: stride 2, padding 1, output padding 1), no bias."""

    def __init__(self, filters: int, start: Start, **keywords: object) -> None:
        super().__init__(**keywords)
        self.filters, self._start = filters, start

    def build(self, input_shape: Shape) -> None:
        """Create the kernel, (3, 3, filters, inputs)."""
        shape = (UPSAMPLING_EDGE, UPSAMPLING_EDGE, self.filters, int(input_shape[-1] or 0))
        # PyTorch uses the output channels of a transposed convolution as its fan-in.
        initializer = self._start.values(UPSAMPLING_EDGE**2 * self.filters)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=initializer)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return (batch, 2 height, 2 width, filters)."""
        kernel = tf.convert_to_tensor(self.kernel)
        batch, height, width, filters = self.compute_output_shape(inputs.shape)
        if kernel.dtype != tf.bfloat16:
            shape = [batch, height, width, filters]
            return tf.nn.conv2d_transpose(inputs, kernel, shape, UPSAMPLING_STRIDE, BEFORE_FIRST)
        # With bfloat16 on CPUs only oneDNN is fast (twentyfold), and it does not support explicit paddings.
        assert height is not None
        assert width is not None
        whole = [batch, height + 1, width + 1, filters]
        return tf.nn.conv2d_transpose(inputs, kernel, whole, UPSAMPLING_STRIDE, "VALID")[:, 1:, 1:]

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """Return the shape of the outputs."""
        batch, height, width, _ = input_shape
        assert height is not None
        assert width is not None
        return (batch, UPSAMPLING_STRIDE * height, UPSAMPLING_STRIDE * width, self.filters)
