"""The encoder: a modified aligned Xception with output stride 16 (reference, architecture/deeplab_xception.py)."""

from dataclasses import dataclass

import keras
from keras import layers

from hpcai.workloads.deepcam.settings import DeepCamModel
from hpcai.workloads.deepcam.training.convolutions import Kernel
from hpcai.workloads.deepcam.training.parts import Parts

EXIT_DILATION = 2


@dataclass(frozen=True)
class Block:
    """Separable convolutions with a shortcut around them.

    Parameters
    ----------
    normed
        Output channels of the batch-normalised convolutions, with ReLU between them.
    last
        Stride of one more convolution without normalisation; 0 if there is none.
    ends_with_relu
        Whether ReLU follows the addition of the shortcut.
    """

    name: str
    normed: tuple[int, ...]
    last: int = 0
    ends_with_relu: bool = True

    @property
    def filters(self) -> int:
        """Output channels."""
        return self.normed[-1]

    @property
    def stride(self) -> int:
        """Stride of the block."""
        return max(self.last, 1)


def blocks(model: DeepCamModel) -> tuple[Block, ...]:
    """Return the blocks in order; block 1 excludes the ReLU that both of its consumers see."""
    first, second, middle = model.entry
    entry = (
        Block("block1", (first, first), last=2, ends_with_relu=False),
        Block("block2", (second, second), last=2),
        Block("block3", (middle, middle), last=2),
    )
    names = [f"block{number}" for number in range(4, 4 + model.middle_blocks)]
    exit_name = f"block{4 + model.middle_blocks}"
    return (
        *entry,
        *(Block(name, (middle, middle, middle)) for name in names),
        Block(exit_name, (middle, model.exit[0]), last=1, ends_with_relu=False),
    )


def apply_block(parts: Parts, block: Block, inputs: keras.KerasTensor) -> keras.KerasTensor:
    """Return the outputs of a block; the shortcut has a 1x1 convolution where shapes differ."""
    values = inputs
    for number, filters in enumerate(block.normed, 1):
        name = f"{block.name}_separable{number}"
        values = parts.normalise(parts.separate(values, Kernel(filters), name), name)
        if number < len(block.normed):
            values = parts.rectify(values, name)
    if block.last:
        name = f"{block.name}_separable{len(block.normed) + 1}"
        values = parts.separate(values, Kernel(block.filters, stride=block.last), name)
    shortcut = inputs
    if block.stride > 1 or inputs.shape[-1] != block.filters:
        name = f"{block.name}_skip"
        shortcut = parts.normalise(parts.convolve(inputs, Kernel(block.filters, 1, block.stride), name), name)
    values = layers.Add(name=f"{block.name}_add", dtype=parts.policy)([values, shortcut])
    return parts.rectify(values, block.name) if block.ends_with_relu else values


def apply_xception(
    parts: Parts, model: DeepCamModel, inputs: keras.KerasTensor
) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """Return the deepest features, at a sixteenth of the edges, and those of block 1, at a quarter.

    The reference takes block 1's output before an in-place ReLU, so the ReLU applies to it too.
    """
    values = inputs
    for number, (filters, stride) in enumerate(zip(model.stem, (2, 1), strict=True), 1):
        name = f"stem{number}"
        values = parts.activate(parts.convolve(values, Kernel(filters, stride=stride), name), name)
    first, *others = blocks(model)
    low_level = values = parts.rectify(apply_block(parts, first, values), first.name)
    for block in others:
        values = apply_block(parts, block, values)
    wide, wider = model.exit[1:]
    for number, filters in enumerate((wide, wide, wider), 1):
        name = f"exit{number}"
        values = parts.activate(parts.separate(values, Kernel(filters, dilation=EXIT_DILATION), name), name)
    return values, low_level
