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
    """Return the operations that a training step executes.

    Forward pass, weight gradient and input gradient cost one forward pass each; the first layer needs no input
    gradient, because data are not trained. Only convolutions and dense layers count.
    """
    return 2 * samples * sum(layer.forward_mac * (3 if layer.needs_input_gradient else 2) for layer in layers)


def sixfold_flop(layers: Sequence[LayerWork], samples: int) -> int:
    """Return the customary count, 6 operations per forward multiply-add; this adds the first layer's input gradient."""
    return 6 * samples * sum(layer.forward_mac for layer in layers)
