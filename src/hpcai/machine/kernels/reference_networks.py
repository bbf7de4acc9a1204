"""Reference networks for measured training steps, built from the layer lists that the cost models read."""

from collections.abc import Callable
from typing import Any

import keras

from hpcai.predict.training.layers import Layer, LayerList, count_parameters
from hpcai.predict.training.networks import build_network
from hpcai.predict.training.stack import Stack
from hpcai.training.batch_norm import BatchNormalization

SMALL_WIDTHS = (32, 64, 128)


def reference_network(name: str) -> LayerList:
    """Return the layers of a reference network, for images of CIFAR-10's shape."""
    return _small_cnn() if name == "small_cnn" else build_network(name, "cifar10")


def _small_cnn() -> LayerList:
    stack = Stack((32, 32, 3))
    for number, width in enumerate(SMALL_WIDTHS, start=1):
        stack.convolution(f"conv{number}", width, 3, bias=True)
        stack.relu(f"relu{number}")
        stack.pool(f"pool{number}", "max_pool", 2, 2, padding="valid")
    stack.dense("dense", 128)
    stack.relu("relu_dense")
    stack.dense("classes", 10)
    return LayerList(
        name="small_cnn",
        title="small CNN, CIFAR-10",
        samples_per_epoch=50_000,
        layers=tuple(stack.layers),
        source="three convolutions of 3x3 with pooling, made for checking the cost models",
        not_modelled=("softmax and loss",),
    )


def build_model(network: LayerList, batch: int) -> keras.Model:
    """Return a Keras model with exactly the layers of a list; its outputs are logits.

    A layer that does not fit the preceding shape begins a second branch at the entry of its residual block, and ``add``
    joins the two. Without such a layer the entry itself is the second operand.

    Raises
    ------
    ValueError
        If image networks without concatenation have no layer of this kind, or shapes do not fit.
    """
    inputs = keras.Input(network.layers[0].input_shape, batch_size=batch)
    present = entry = inputs
    branch = None
    after_add = False
    for layer in network.layers:
        if layer.kind == "add":
            present = keras.layers.Add(name=layer.name)([present, entry if branch is None else branch])
            branch, after_add = None, True
            continue
        if layer.kind != "dense" and tuple(present.shape[1:]) != layer.input_shape:
            branch, present = present, entry
        present = _apply(layer, present)
        if after_add or (layer.kind == "relu" and entry is inputs):
            entry, after_add = present, False
    model = keras.Model(inputs, present)
    found = sum(int(variable.value.shape.num_elements()) for variable in model.trainable_variables)
    if found != count_parameters(network):
        raise ValueError(f"{network.name}: the model has {found} parameters, its list {count_parameters(network)}")
    return model


def _apply(layer: Layer, tensor: Any) -> Any:  # noqa: ANN401  Keras has no types
    if layer.kind not in _LAYERS or layer.repeats != 1:
        raise ValueError(f"layer {layer.name}: kind {layer.kind} with {layer.repeats} repeats has no Keras form here")
    if layer.kind == "dense" and len(tensor.shape) > 2:
        tensor = keras.layers.Flatten()(tensor)
    result = _LAYERS[layer.kind](layer)(tensor)
    if tuple(result.shape[1:]) != layer.output_shape:
        raise ValueError(f"layer {layer.name}: found output {result.shape[1:]}, expected {layer.output_shape}")
    return result


def _convolution(layer: Layer) -> keras.layers.Layer:
    strides = layer.strides or (1, 1)
    return keras.layers.Conv2D(
        layer.output_shape[-1], layer.kernel, strides, padding="same", use_bias=layer.bias, name=layer.name
    )


def _max_pool(layer: Layer) -> keras.layers.Layer:
    # The stride does not determine the window here: whole windows only.
    padding = "valid" if layer.kernel == layer.strides else "same"
    return keras.layers.MaxPooling2D(layer.kernel, layer.strides, padding=padding, name=layer.name)


def _average_pool(layer: Layer) -> keras.layers.Layer:
    return keras.layers.AveragePooling2D(layer.kernel, layer.strides, name=layer.name)


_LAYERS: dict[str, Callable[[Layer], keras.layers.Layer]] = {
    "convolution": _convolution,
    "dense": lambda layer: keras.layers.Dense(layer.output_shape[-1], use_bias=layer.bias, name=layer.name),
    "batch_norm": lambda layer: BatchNormalization(1, momentum=0.9, epsilon=1e-5, name=layer.name),
    "relu": lambda layer: keras.layers.ReLU(name=layer.name),
    "max_pool": _max_pool,
    "average_pool": _average_pool,
}
