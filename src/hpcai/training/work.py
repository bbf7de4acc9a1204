"""The floating-point work of a training step, counted layer by layer; one multiply-add is two operations."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LayerWork:
    """Multiply-adds of one convolution or dense layer in the forward pass of one sample."""

    name: str
    forward_mac: int
    needs_input_gradient: bool = True


def computed_flop(layers: Sequence[LayerWork], samples: int) -> int:
    """Return the operations of a training step that are really done.

    Forward, gradient of the weights and gradient of the input cost one forward each; the first layer needs no
    gradient of its input, because data are not trained. Everything that is no convolution or dense layer is left out.
    """
    return 2 * samples * sum(layer.forward_mac * (3 if layer.needs_input_gradient else 2) for layer in layers)


def sixfold_flop(layers: Sequence[LayerWork], samples: int) -> int:
    """Return the customary count, 6 operations per forward multiply-add: more than is done, by the first layer."""
    return 6 * samples * sum(layer.forward_mac for layer in layers)
