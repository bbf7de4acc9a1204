"""The multiply-adds of Faster R-CNN, layer by layer."""

from collections.abc import Iterator

from hpcai.training.work import LayerWork
from hpcai.workloads.extreme_weather.data.container import CHANNELS
from hpcai.workloads.extreme_weather.settings import ExtremeWeatherBenchmark
from hpcai.workloads.extreme_weather.training.anchors import FINEST_STRIDE
from hpcai.workloads.extreme_weather.training.model import EXPANSION, MAPS, OUTPUTS


def detector_layers(benchmark: ExtremeWeatherBenchmark) -> tuple[LayerWork, ...]:
    """Return the layers that multiply; the box head is counted for the regions of training.

    A convolution of kernel k with SAME padding on an output of n cells does n k^2 c_in c_out multiply-adds, counting
    padding as data (182.0e9 for 768 x 1152 and 512 regions; benchmarks.md, section 1).
    """
    return (*_backbone(benchmark), *_pyramid(benchmark), *_proposals(benchmark), *_head(benchmark))


def _cells(benchmark: ExtremeWeatherBenchmark, stride: int) -> int:
    """Return the number of cells of a map."""
    return -(-benchmark.data.height // stride) * -(-benchmark.data.width // stride)


def _backbone(benchmark: ExtremeWeatherBenchmark) -> Iterator[LayerWork]:
    settings = benchmark.model
    width = settings.base_filters
    yield LayerWork("stem", _cells(benchmark, 2) * 7**2 * len(CHANNELS) * width, needs_input_gradient=False)
    for stage, count in enumerate(settings.blocks):
        filters, cells = settings.base_filters << stage, _cells(benchmark, FINEST_STRIDE << stage)
        for block in range(count):
            name = f"stage {stage + 1} block {block + 1}"
            first = block == 0
            # The 3x3 convolution has the stride, so the first 1x1 still works on the finer map.
            before = _cells(benchmark, FINEST_STRIDE << max(stage - 1, 0)) if first else cells
            yield LayerWork(f"{name} reduce", before * width * filters)
            yield LayerWork(f"{name} middle", cells * 3**2 * filters**2)
            yield LayerWork(f"{name} expand", cells * filters**2 * EXPANSION)
            if width != EXPANSION * filters or (first and stage > 0):
                yield LayerWork(f"{name} project", cells * width * filters * EXPANSION)
            width = filters * EXPANSION


def _pyramid(benchmark: ExtremeWeatherBenchmark) -> Iterator[LayerWork]:
    settings = benchmark.model
    filters = settings.pyramid_filters
    for number in range(MAPS):
        cells = _cells(benchmark, FINEST_STRIDE << number)
        stage = (settings.base_filters << number) * EXPANSION
        yield LayerWork(f"lateral {number + 2}", cells * stage * filters)
        yield LayerWork(f"output {number + 2}", cells * 3**2 * filters**2)


def _proposals(benchmark: ExtremeWeatherBenchmark) -> Iterator[LayerWork]:
    filters, ratios = benchmark.model.pyramid_filters, len(benchmark.model.anchors.ratios)
    for number in range(len(benchmark.model.anchors.sizes)):
        cells = _cells(benchmark, FINEST_STRIDE << number)
        yield LayerWork(f"proposals {number + 2} shared", cells * 3**2 * filters**2)
        yield LayerWork(f"proposals {number + 2} objectness", cells * filters * ratios)
        yield LayerWork(f"proposals {number + 2} deltas", cells * filters * 4 * ratios)


def _head(benchmark: ExtremeWeatherBenchmark) -> Iterator[LayerWork]:
    settings = benchmark.model
    regions, units = settings.regions.batch, settings.head_units
    yield LayerWork("hidden 1", regions * settings.regions.resolution**2 * settings.pyramid_filters * units)
    yield LayerWork("hidden 2", regions * units**2)
    yield LayerWork("classes", regions * units * OUTPUTS)
    yield LayerWork("deltas", regions * units * 4 * OUTPUTS)
