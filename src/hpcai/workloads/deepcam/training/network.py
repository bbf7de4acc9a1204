"""DeepLabv3+: Xception, a spatial pyramid and a decoder of transposed convolutions (reference, deeplab_xception.py)."""

import keras
from keras import layers

from hpcai.workloads.deepcam.settings import CLASSES, DeepCamModel
from hpcai.workloads.deepcam.training.convolutions import Kernel
from hpcai.workloads.deepcam.training.initial import he_normal, pytorch_default
from hpcai.workloads.deepcam.training.parts import Parts
from hpcai.workloads.deepcam.training.xception import apply_xception

PYRAMID = ((1, 1), (3, 6), (3, 12), (3, 18))
"""Edge and dilation of the pyramid's branches."""


def apply_network(parts: Parts, model: DeepCamModel, inputs: keras.KerasTensor) -> keras.KerasTensor:
    """Return the logits of scaled frames, (batch, height, width, 3), in the precision of the parts."""
    parts.rule = he_normal
    values, low_level = apply_xception(parts, model, inputs)
    branches = [apply_branch(parts, model, values, edge, dilation) for edge, dilation in PYRAMID]
    parts.rule = pytorch_default
    values = layers.Concatenate(name="pyramid", dtype=parts.policy)([*branches, apply_pooling(parts, model, values)])
    values = parts.activate(parts.convolve(values, Kernel(model.aspp, 1), "merge"), "merge")
    low_level = parts.activate(parts.convolve(low_level, Kernel(model.low_level, 1), "low_level"), "low_level")
    return apply_decoder(parts, model, values, low_level)


def apply_branch(
    parts: Parts, model: DeepCamModel, inputs: keras.KerasTensor, edge: int, dilation: int
) -> keras.KerasTensor:
    """Return one branch of the spatial pyramid; same height and width."""
    name = f"aspp{dilation}"
    return parts.activate(parts.convolve(inputs, Kernel(model.aspp, edge, dilation=dilation), name), name)


def apply_pooling(parts: Parts, model: DeepCamModel, inputs: keras.KerasTensor) -> keras.KerasTensor:
    """Return the global-mean branch, broadcast to h/16 x w/16 pixels (48 x 72 in the reference)."""
    _, height, width, _ = inputs.shape
    values = layers.GlobalAveragePooling2D(keepdims=True, name="pooling_mean", dtype=parts.policy)(inputs)
    values = parts.affine(parts.convolve(values, Kernel(model.aspp, 1), "pooling"), "pooling_affine")
    values = parts.rectify(values, "pooling")
    return layers.UpSampling2D((height, width), name="pooling_tile", dtype=parts.policy)(values)


def apply_decoder(
    parts: Parts, model: DeepCamModel, values: keras.KerasTensor, low_level: keras.KerasTensor
) -> keras.KerasTensor:
    """Return logits at the input's height and width from features at a sixteenth and at a quarter of them."""
    width = model.decoder
    for name in ("decoder_up1", "decoder_up2"):
        values = parts.activate(parts.upsample(values, width, name), name)
    values = layers.Concatenate(name="decoder_concat", dtype=parts.policy)([values, low_level])
    for name in ("decoder1", "decoder2"):
        values = parts.activate(parts.convolve(values, Kernel(width), name), name)
    values = parts.convolve(values, Kernel(width, 1), "decoder3", bias=True)
    values = parts.activate(parts.upsample(values, width, "decoder_up3"), "decoder_up3")
    return parts.upsample(values, CLASSES, "decoder_up4")
