"""Stack the layers of an image network: each starts with the output shape of the one before."""

import math
from typing import Literal

from hpcai.predict.training.layers import Layer, LayerKind

Padding = Literal["same", "valid"]


class Stack:
    """Layers so far, and the input shape of the next one.

    Parameters
    ----------
    shape
        Shape of one image, ``(height, width, channels)``.

    Attributes
    ----------
    layers
        Layers in the order of the forward pass. The first layer with a weight needs no gradient of its input.
    shape
        Output of the last layer; set it to start a branch elsewhere.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.layers: list[Layer] = []
        self.shape = shape

    def convolution(self, name: str, channels: int, kernel: int, stride: int = 1, *, bias: bool = False) -> None:
        """Add a square convolution with SAME padding; the stride divides the edges."""
        output = (*self._slide(kernel, stride, "same"), channels)
        parameters = kernel**2 * self.shape[-1] * channels + bias * channels
        self._append(name, "convolution", output, window=(kernel, stride), parameters=parameters, bias=bias)

    def dense(self, name: str, features: int) -> None:
        """Add a dense layer with bias on the flattened input."""
        self.shape = (math.prod(self.shape),)
        self._append(name, "dense", (features,), parameters=(self.shape[0] + 1) * features, bias=True)

    def batch_norm(self, name: str) -> None:
        """Add a normalisation with scale and shift."""
        self._append(name, "batch_norm", self.shape, parameters=2 * self.shape[-1])

    def relu(self, name: str) -> None:
        """Add an activation."""
        self._append(name, "relu", self.shape)

    def pool(self, name: str, kind: LayerKind, kernel: int, stride: int, padding: Padding = "same") -> None:
        """Add a pooling of square windows."""
        output = (*self._slide(kernel, stride, padding), self.shape[-1])
        self._append(name, kind, output, window=(kernel, stride))

    def pool_all(self, name: str) -> None:
        """Add the average over each channel."""
        self._append(name, "average_pool", (1, 1, self.shape[-1]), window=(self.shape[0], self.shape[0]))

    def add(self, name: str) -> None:
        """Add the sum of two branches of the current shape."""
        self._append(name, "add", self.shape)

    def concat(self, name: str, channels: int) -> None:
        """Concatenate the current branch with one of a given number of channels."""
        self.shape = (*self.shape[:-1], self.shape[-1] + channels)
        self._append(name, "concat", self.shape)

    def _slide(self, kernel: int, stride: int, padding: Padding) -> tuple[int, ...]:
        margin = 0 if padding == "same" else kernel - 1
        return tuple(math.ceil((extent - margin) / stride) for extent in self.shape[:-1])

    def _append(
        self,
        name: str,
        kind: LayerKind,
        output: tuple[int, ...],
        *,
        window: tuple[int, ...] = (),
        parameters: int = 0,
        bias: bool = False,
    ) -> None:
        """Add a layer; `window` is the edge of its kernel and its stride."""
        axes = len(self.shape) - 1
        layer = Layer(
            name,
            kind,
            input_shape=self.shape,
            output_shape=output,
            kernel=window[:1] * axes,
            strides=window[1:] * axes,
            parameters=parameters,
            bias=bias,
            needs_input_gradient=bool(self.layers),
        )
        self.layers.append(layer)
        self.shape = output
