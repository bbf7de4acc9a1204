"""The regressors' kernels as TensorFlow and oneDNN operations of a training step.

Layouts are channels-last, convolutions are padded to equal size ("SAME"), all numbers are float32.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from hpcai.predict.kernels.cases import POOL_EDGE

raw = tf.raw_ops
MOMENTUM = 0.9
RATE = 1e-6
_RANDOM = np.random.default_rng(1).standard_normal(2**16, dtype=np.float32)


@dataclass(frozen=True)
class Operation:
    """One operation with the operands of one case.

    Attributes
    ----------
    compute
        Runs the operation on the operands.
    operands
        Random tensors, and shapes where an operation takes them.
    """

    compute: Callable[..., Any]
    operands: Sequence[tf.Tensor]


def operation(kernel: str, case: Mapping[str, int]) -> Operation:
    """Return the operation of a case of :data:`hpcai.predict.kernels.cases.KERNELS`, with its operands."""
    family, _, stage = kernel.partition("_")
    if family in ("conv2d", "conv3d"):
        return _convolution(int(family[4]), stage, case)
    if family == "gemm":
        return _gemm(stage, case)
    return _OTHERS[kernel](kernel, case)


def _random(*shape: int) -> tf.Tensor:
    return tf.constant(np.resize(_RANDOM, shape))


def _convolution(dimensions: int, stage: str, case: Mapping[str, int]) -> Operation:
    forward, to_input, to_weights = (
        (raw.Conv2D, raw.Conv2DBackpropInput, raw.Conv2DBackpropFilter)
        if dimensions == 2
        else (raw.Conv3D, raw.Conv3DBackpropInputV2, raw.Conv3DBackpropFilterV2)
    )
    stride = case["stride"]
    options: dict[str, Any] = {"strides": [1, *[stride] * dimensions, 1], "padding": "SAME"}
    inputs = [case["batch"], *[case["edge"]] * dimensions, case["channels_in"]]
    weights = [*[case["kernel_edge"]] * dimensions, case["channels_in"], case["channels_out"]]
    outputs = [case["batch"], *[-(-case["edge"] // stride)] * dimensions, case["channels_out"]]
    if stage == "forward":
        return Operation(lambda x, w: forward(input=x, filter=w, **options), [_random(*inputs), _random(*weights)])
    if stage == "input_gradient":
        operands = [tf.constant(inputs), _random(*weights), _random(*outputs)]
        return Operation(lambda s, w, y: to_input(input_sizes=s, filter=w, out_backprop=y, **options), operands)
    operands = [_random(*inputs), tf.constant(weights), _random(*outputs)]
    return Operation(lambda x, s, y: to_weights(input=x, filter_sizes=s, out_backprop=y, **options), operands)


def _gemm(stage: str, case: Mapping[str, int]) -> Operation:
    """Return the product of a dense layer: X (batch, in), W (in, out), Y (batch, out); m, n, k as in its cost."""
    m, n, k = case["m"], case["n"], case["k"]
    if stage == "forward":  # Y = X W: m = out, n = batch, k = in
        return Operation(lambda x, w: raw.MatMul(a=x, b=w), [_random(n, k), _random(k, m)])
    if stage == "input_gradient":  # dX = dY W^T: m = in, n = batch, k = out
        return Operation(lambda y, w: raw.MatMul(a=y, b=w, transpose_b=True), [_random(n, k), _random(m, k)])
    # dW = X^T dY: m = out, n = in, k = batch
    return Operation(lambda x, y: raw.MatMul(a=x, b=y, transpose_a=True), [_random(k, n), _random(k, m)])


def _image(case: Mapping[str, int]) -> list[int]:
    return [case["batch"], case["edge"], case["edge"], case["channels_in"]]


_WINDOW = {"ksize": [1, POOL_EDGE, POOL_EDGE, 1], "strides": [1, POOL_EDGE, POOL_EDGE, 1], "padding": "VALID"}


def _max_pool(kernel: str, case: Mapping[str, int]) -> Operation:
    inputs = _random(*_image(case))
    if kernel.endswith("forward"):
        return Operation(lambda x: raw.MaxPool(input=x, **_WINDOW), [inputs])
    outputs = raw.MaxPool(input=inputs, **_WINDOW)
    operands = [inputs, outputs, _random(*outputs.shape)]
    return Operation(lambda x, y, g: raw.MaxPoolGrad(orig_input=x, orig_output=y, grad=g, **_WINDOW), operands)


def _average_pool(kernel: str, case: Mapping[str, int]) -> Operation:
    shape = _image(case)
    if kernel.endswith("forward"):
        return Operation(lambda x: raw.AvgPool(value=x, **_WINDOW), [_random(*shape)])
    edge = case["edge"] // POOL_EDGE
    operands = [tf.constant(shape), _random(case["batch"], edge, edge, case["channels_in"])]
    return Operation(lambda s, g: raw.AvgPoolGrad(orig_input_shape=s, grad=g, **_WINDOW), operands)


def _batch_norm(kernel: str, case: Mapping[str, int]) -> Operation:
    """Return the fused operation, as used in training."""
    inputs, channels = _random(*_image(case)), case["channels_in"]
    scale, offset = tf.ones([channels]), tf.zeros([channels])

    def forward(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> Any:  # noqa: ANN401  a named tuple of tensors
        none = tf.zeros([0])
        return raw.FusedBatchNormV3(x=x, scale=scale, offset=offset, mean=none, variance=none, is_training=True)

    if kernel.endswith("forward"):
        return Operation(forward, [inputs, scale, offset])
    kept = forward(inputs, scale, offset)[3:]

    def backward(y: tf.Tensor, x: tf.Tensor, scale: tf.Tensor, *kept: tf.Tensor) -> Any:  # noqa: ANN401  as above
        reserved = {f"reserve_space_{place}": tensor for place, tensor in enumerate(kept, start=1)}
        return raw.FusedBatchNormGradV3(y_backprop=y, x=x, scale=scale, **reserved)

    return Operation(backward, [_random(*_image(case)), inputs, scale, *kept])


def _relu(kernel: str, case: Mapping[str, int]) -> Operation:
    inputs = _random(*_image(case))
    if kernel.endswith("forward"):
        return Operation(lambda x: raw.Relu(features=x), [inputs])
    return Operation(lambda g, x: raw.ReluGrad(gradients=g, features=x), [_random(*_image(case)), inputs])


def _bias(kernel: str, case: Mapping[str, int]) -> Operation:
    inputs = _random(*_image(case))
    if kernel.endswith("forward"):
        return Operation(lambda x, b: raw.BiasAdd(value=x, bias=b), [inputs, _random(case["channels_in"])])
    return Operation(lambda g: raw.BiasAddGrad(out_backprop=g), [inputs])


def _softmax(kernel: str, case: Mapping[str, int]) -> Operation:
    inputs = _random(*_image(case))
    if kernel.endswith("forward"):
        return Operation(lambda x: raw.Softmax(logits=x), [inputs])

    def backward(y: tf.Tensor, g: tf.Tensor) -> tf.Tensor:
        # The operations of TensorFlow's Softmax gradient.
        return (g - tf.reduce_sum(g * y, -1, keepdims=True)) * y

    return Operation(backward, [raw.Softmax(logits=inputs), inputs])


def _sgd(_kernel: str, case: Mapping[str, int]) -> Operation:
    """Return an update with momentum by the training's optimiser; each case has variables of its own size."""
    weights, velocity = _variables()
    for variable in (weights, velocity):
        variable.assign(tf.zeros([case["parameters"]]))

    def update(gradient: tf.Tensor) -> tf.Operation | None:
        return raw.ResourceApplyMomentum(
            var=weights.handle, accum=velocity.handle, lr=RATE, grad=gradient, momentum=MOMENTUM
        )

    return Operation(update, [_random(case["parameters"])])


_VARIABLES: list[tf.Variable] = []


def _variables() -> tuple[tf.Variable, tf.Variable]:
    """Return the two variables shared by all updates; each case resizes them."""
    while len(_VARIABLES) < 2:
        _VARIABLES.append(tf.Variable(tf.zeros([1]), shape=[None]))
    return _VARIABLES[0], _VARIABLES[1]


def _copy(_kernel: str, case: Mapping[str, int]) -> Operation:
    values = tf.zeros([case["size_bytes"]], tf.uint8)
    return Operation(lambda x: raw.DeepCopy(x=x), [values])


_BY_NAME: dict[str, Callable[[str, Mapping[str, int]], Operation]] = {
    "max_pool": _max_pool,
    "average_pool": _average_pool,
    "batch_norm": _batch_norm,
    "relu": _relu,
    "bias": _bias,
    "softmax": _softmax,
}
_OTHERS = {
    **{f"{name}_{stage}": build for name, build in _BY_NAME.items() for stage in ("forward", "backward")},
    "sgd": _sgd,
    "copy": _copy,
}
