"""VGG11, VGG16, ResNet-50 v1.5 and DenseNet-121 for CIFAR-10 and ImageNet as lists of layers, in canonical form.

Sources: VGG (Simonyan and Zisserman 2015) with biases and without batch normalisation; ResNet-50 (He et al. 2016) with
the stride in the 3x3 convolution of a block (v1.5) and without biases; DenseNet-121 (Huang et al. 2017). For CIFAR-10
images the VGG head is 512-512-10, and the residual and dense networks begin with a 3x3 convolution of stride 1 and no
pooling.

The public library of Barrachina et al. (2023, doi 10.1007/s00607-021-00997-9) differs: its ResNet-50 has biases in all
convolutions and, for CIFAR-10, one more dense layer of 2048 with batch normalisation (27 747 850 parameters); its
DenseNet-121 for ImageNet does not shrink the image in its stem and ends in a dense layer of 50 176 inputs
(57 123 048 parameters). Those forms are not modelled here.
"""

from dataclasses import dataclass
from functools import cache

from hpcai.core.errors import ConfigError
from hpcai.predict.training.layers import LayerList
from hpcai.predict.training.stack import Stack

NETWORKS: dict[str, str] = {
    "vgg11": "VGG11",
    "vgg16": "VGG16",
    "resnet50": "ResNet-50 v1.5",
    "densenet121": "DenseNet-121",
}
"""Names, and titles for tables and figures."""


@dataclass(frozen=True)
class Images:
    """A set of training images."""

    title: str
    edge: int
    classes: int
    samples: int
    """Samples per epoch."""


IMAGES: dict[str, Images] = {
    "cifar10": Images("CIFAR-10", edge=32, classes=10, samples=50_000),
    "imagenet": Images("ImageNet", edge=224, classes=1000, samples=1_281_167),
}

VGG_WIDTHS = (64, 128, 256, 512, 512)
VGG_DEPTHS = {"vgg11": (1, 1, 2, 2, 2), "vgg16": (2, 2, 3, 3, 3)}
VGG_HEADS = {"cifar10": (512, 512), "imagenet": (4096, 4096)}
RESNET_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Width of the 3x3 convolutions, blocks, and stride of the first block."""
RESNET_EXPANSION = 4
DENSE_BLOCKS = (6, 12, 24, 16)
DENSE_GROWTH, DENSE_BOTTLENECK = 32, 4


@cache
def build_network(name: str, data: str) -> LayerList:
    """Return the layers of a network for a set of images.

    Parameters
    ----------
    name
        One of `NETWORKS`.
    data
        One of `IMAGES`.

    Raises
    ------
    ConfigError
        If the network or data are unknown.
    """
    if name not in NETWORKS:
        raise ConfigError(f"network {name!r} is unknown: choose from {', '.join(NETWORKS)}, or give a file of layers")
    if data not in IMAGES:
        raise ConfigError(f"data {data!r} are unknown: choose from {', '.join(IMAGES)}")
    images = IMAGES[data]
    stack = Stack((images.edge, images.edge, 3))
    if name in VGG_DEPTHS:
        _stack_vgg(stack, VGG_DEPTHS[name], VGG_HEADS[data])
    elif name == "resnet50":
        _stack_resnet(stack, small=data == "cifar10")
    else:
        _stack_densenet(stack, small=data == "cifar10")
    stack.dense("classes", images.classes)
    return LayerList(
        name=f"{name}_{data}",
        title=f"{NETWORKS[name]}, {images.title}",
        samples_per_epoch=images.samples,
        layers=tuple(stack.layers),
        source="canonical form of the network's paper",
        not_modelled=("softmax and loss", "dropout") if name in VGG_DEPTHS else ("softmax and loss",),
    )


def _stack_vgg(stack: Stack, depths: tuple[int, ...], head: tuple[int, ...]) -> None:
    for stage, (width, depth) in enumerate(zip(VGG_WIDTHS, depths, strict=True), start=1):
        for number in range(1, depth + 1):
            stack.convolution(f"conv{stage}_{number}", width, 3, bias=True)
            stack.relu(f"relu{stage}_{number}")
        stack.pool(f"pool{stage}", "max_pool", 2, 2, padding="valid")
    for number, width in enumerate(head, start=1):
        stack.dense(f"dense{number}", width)
        stack.relu(f"relu_dense{number}")


def _stack_resnet(stack: Stack, *, small: bool) -> None:
    _convolve_and_normalise(stack, "stem", 64, *((3, 1) if small else (7, 2)))
    stack.relu("stem_relu")
    if not small:
        stack.pool("stem_pool", "max_pool", 3, 2)
    for stage, (width, blocks, stride) in enumerate(RESNET_STAGES, start=1):
        for number in range(1, blocks + 1):
            _stack_residual_block(stack, f"block{stage}_{number}", width, stride if number == 1 else 1)
    stack.pool_all("pool")


def _stack_residual_block(stack: Stack, name: str, width: int, stride: int) -> None:
    entry = stack.shape
    for part, (channels, kernel, step) in enumerate(
        ((width, 1, 1), (width, 3, stride), (width * RESNET_EXPANSION, 1, 1)), start=1
    ):
        _convolve_and_normalise(stack, f"{name}_{part}", channels, kernel, step)
        if part < 3:
            stack.relu(f"{name}_{part}_relu")
    exit_shape = stack.shape
    if entry != exit_shape:
        stack.shape = entry
        _convolve_and_normalise(stack, f"{name}_shortcut", exit_shape[-1], 1, stride)
    stack.add(f"{name}_add")
    stack.relu(f"{name}_relu")


def _convolve_and_normalise(stack: Stack, name: str, channels: int, kernel: int, stride: int) -> None:
    stack.convolution(f"{name}_conv", channels, kernel, stride)
    stack.batch_norm(f"{name}_norm")


def _stack_densenet(stack: Stack, *, small: bool) -> None:
    if small:
        stack.convolution("stem_conv", 2 * DENSE_GROWTH, 3)
    else:
        _convolve_and_normalise(stack, "stem", 2 * DENSE_GROWTH, 7, 2)
        stack.relu("stem_relu")
        stack.pool("stem_pool", "max_pool", 3, 2)
    for block, depth in enumerate(DENSE_BLOCKS, start=1):
        for number in range(1, depth + 1):
            _stack_dense_layer(stack, f"block{block}_{number}")
        if block < len(DENSE_BLOCKS):
            _normalise_and_convolve(stack, f"transition{block}", stack.shape[-1] // 2, 1)
            stack.pool(f"transition{block}_pool", "average_pool", 2, 2, padding="valid")
    stack.batch_norm("norm")
    stack.relu("relu")
    stack.pool_all("pool")


def _stack_dense_layer(stack: Stack, name: str) -> None:
    entry = stack.shape
    _normalise_and_convolve(stack, f"{name}_1", DENSE_BOTTLENECK * DENSE_GROWTH, 1)
    _normalise_and_convolve(stack, f"{name}_2", DENSE_GROWTH, 3)
    stack.concat(f"{name}_concat", entry[-1])


def _normalise_and_convolve(stack: Stack, name: str, channels: int, kernel: int) -> None:
    stack.batch_norm(f"{name}_norm")
    stack.relu(f"{name}_relu")
    stack.convolution(f"{name}_conv", channels, kernel)
