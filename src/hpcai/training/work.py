"""The floating-point work of a training step, counted layer by layer; one multiply-add is two operations."""

from collections.abc import Sequence
from dataclasses import dataclass

from hpcai.config.cosmoflow import CosmoFlowBenchmark

TARGETS = 4


@dataclass(frozen=True)
class LayerWork:
    """Multiply-adds of one convolution or dense layer in the forward pass of one sample."""

    name: str
    forward_mac: int
    needs_input_gradient: bool = True


def cosmoflow_layers(benchmark: CosmoFlowBenchmark) -> tuple[LayerWork, ...]:
    """Return the layers of a CosmoFlow network that multiply.

    A convolution of kernel k with SAME padding on an edge e does e^3 k^3 c_in c_out multiply-adds, the padding
    counted as if it were data (34.43e9 for the official size; MLPerf HPC reference, cosmoflow/models/cosmoflow.py).
    """
    settings = benchmark.model
    edge: int = benchmark.data.edge
    channels: int = benchmark.data.channels
    layers: list[LayerWork] = []
    for block in range(settings.conv_layers):
        filters = settings.base_filters * 2**block
        mac = edge**3 * settings.kernel**3 * channels * filters
        layers.append(LayerWork(f"convolution {block + 1}", mac, needs_input_gradient=block > 0))
        edge, channels = edge // 2, filters
    units = edge**3 * channels
    for number, wider in enumerate((*settings.dense, TARGETS), 1):
        layers.append(LayerWork(f"dense {number}", units * wider))
        units = wider
    return tuple(layers)


def computed_flop(layers: Sequence[LayerWork], samples: int) -> int:
    """Return the operations of a training step that are really done.

    Forward, gradient of the weights and gradient of the input cost one forward each; the first layer needs no
    gradient of its input, because data are not trained. Everything that is no convolution or dense layer is left out.
    """
    return 2 * samples * sum(layer.forward_mac * (3 if layer.needs_input_gradient else 2) for layer in layers)


def sixfold_flop(layers: Sequence[LayerWork], samples: int) -> int:
    """Return the customary count, 6 operations per forward multiply-add: more than is done, by the first layer."""
    return 6 * samples * sum(layer.forward_mac for layer in layers)
