"""Multiply-adds of DeepLabv3+, layer by layer (327.7e9 for a frame of 768 x 1152)."""

from collections.abc import Iterator

from hpcai.training.work import LayerWork
from hpcai.workloads.deepcam.settings import CLASSES, OUTPUT_STRIDE, DeepCamBenchmark, DeepCamModel
from hpcai.workloads.deepcam.training.network import PYRAMID
from hpcai.workloads.deepcam.training.xception import Block, blocks


def network_layers(benchmark: DeepCamBenchmark) -> tuple[LayerWork, ...]:
    """Return the layers that multiply.

    A convolution does height x width x edge^2 x inputs x filters multiply-adds, with the height and width of its
    outputs and counting padding as data. A transposed convolution uses the height and width of its inputs; the
    depthwise part of a separable convolution has one input per filter.
    """
    model, pixels = benchmark.model, benchmark.data.height * benchmark.data.width
    return (
        *_stem(model, benchmark.data.channels, pixels // 4),
        *_blocks(model, pixels // 4),
        *_exit(model, pixels // OUTPUT_STRIDE**2),
        *_pyramid(model, pixels // OUTPUT_STRIDE**2),
        *_decoder(model, pixels),
    )


def _stem(model: DeepCamModel, channels: int, pixels: int) -> Iterator[LayerWork]:
    first, second = model.stem
    yield LayerWork("stem1", pixels * 9 * channels * first, needs_input_gradient=False)
    yield LayerWork("stem2", pixels * 9 * first * second)


def _separable(name: str, pixels: int, inputs: int, filters: int) -> Iterator[LayerWork]:
    yield LayerWork(f"{name}_depthwise", pixels * 9 * inputs)
    yield LayerWork(f"{name}_pointwise", pixels * inputs * filters)


def _blocks(model: DeepCamModel, pixels: int) -> Iterator[LayerWork]:
    channels = model.stem[1]
    for block in blocks(model):
        yield from _block(block, channels, pixels)
        pixels, channels = pixels // block.stride**2, block.filters


def _block(block: Block, inputs: int, pixels: int) -> Iterator[LayerWork]:
    channels, after = inputs, pixels // block.stride**2
    for number, filters in enumerate(block.normed, 1):
        yield from _separable(f"{block.name}_separable{number}", pixels, channels, filters)
        channels = filters
    if block.last:
        yield from _separable(f"{block.name}_separable{len(block.normed) + 1}", after, channels, channels)
    if block.stride > 1 or inputs != block.filters:
        yield LayerWork(f"{block.name}_skip", after * inputs * block.filters)


def _exit(model: DeepCamModel, pixels: int) -> Iterator[LayerWork]:
    channels, wide, wider = model.exit
    for number, filters in enumerate((wide, wide, wider), 1):
        yield from _separable(f"exit{number}", pixels, channels, filters)
        channels = filters


def _pyramid(model: DeepCamModel, pixels: int) -> Iterator[LayerWork]:
    inputs = model.exit[-1]
    for edge, dilation in PYRAMID:
        yield LayerWork(f"aspp{dilation}", pixels * edge**2 * inputs * model.aspp)
    yield LayerWork("pooling", inputs * model.aspp)
    yield LayerWork("merge", pixels * (len(PYRAMID) + 1) * model.aspp**2)


def _decoder(model: DeepCamModel, pixels: int) -> Iterator[LayerWork]:
    width, quarter = model.decoder, pixels // 16
    yield LayerWork("low_level", quarter * model.entry[0] * model.low_level)
    yield LayerWork("decoder_up1", pixels // 256 * 9 * model.aspp * width)
    yield LayerWork("decoder_up2", pixels // 64 * 9 * width**2)
    yield LayerWork("decoder1", quarter * 9 * (width + model.low_level) * width)
    yield LayerWork("decoder2", quarter * 9 * width**2)
    yield LayerWork("decoder3", quarter * width**2)
    yield LayerWork("decoder_up3", quarter * 9 * width**2)
    yield LayerWork("decoder_up4", pixels // 4 * 9 * width * CLASSES)
