"""The floating-point work of DimeNet++ for one graph, layer by layer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hpcai.config.opencatalyst import OpenCatalystData, OpenCatalystModel
from hpcai.errors import TrainingError
from hpcai.training.work import LayerWork


@dataclass(frozen=True)
class GraphSize:
    """Atoms, edges and paths k -> j -> i of a graph."""

    atoms: float
    edges: float
    triplets: float

    @classmethod
    def of(cls, data: OpenCatalystData, statistics: Mapping[str, tuple[float, ...]]) -> "GraphSize":
        """Return the mean size of the dataset's graphs, or where it is not known that of one that fills its room.

        Raises
        ------
        TrainingError
            If neither is known.
        """
        names = ("atoms", "edges", "triplets")
        if all(f"mean_{name}" in statistics for name in names):
            return cls(**{name: statistics[f"mean_{name}"][0] for name in names})
        if data.capacity is None:
            raise TrainingError(
                f"statistics of {data.dataset}: found {sorted(statistics)}, expected the mean sizes of its graphs; "
                "prepare the dataset again or set data.capacity"
            )
        return cls(data.capacity.atoms, data.capacity.edges, data.capacity.edges * data.max_neighbours)


def dimenet_layers(settings: OpenCatalystModel, size: GraphSize) -> tuple[LayerWork, ...]:
    """Return the linear layers of the forward pass that predicts forces.

    Its first part computes the energy, its second the energy's gradient, in which each layer multiplies with its
    kernel once more: so each layer stands here twice, and its four further products in the backward pass are the
    gradients of the two. Only real atoms, edges and triplets count, not what fills up a batch.
    """
    layers = [(name, round(size_of * inputs * outputs)) for name, size_of, inputs, outputs in _products(settings, size)]
    energy = [LayerWork(f"{name}, energy", mac) for name, mac in layers]
    return (*energy, *(LayerWork(f"{name}, force", mac) for name, mac in layers))


def _products(settings: OpenCatalystModel, size: GraphSize) -> Iterator[tuple[str, float, int, int]]:
    """Yield name, rows, inputs and outputs of the layers."""
    hidden, radial = settings.hidden, settings.radial
    yield "embedding radial", size.edges, radial, hidden
    yield "embedding edges", size.edges, hidden, hidden
    yield from _output(settings, size, 0)
    for block in range(1, settings.blocks + 1):
        yield from _interaction(settings, size, block)
        yield from _output(settings, size, block)


def _interaction(settings: OpenCatalystModel, size: GraphSize, block: int) -> Iterator[tuple[str, float, int, int]]:
    name = f"interaction {block}"
    hidden, inner, basis = settings.hidden, settings.interaction_hidden, settings.basis_hidden
    residuals = 2 * (settings.layers_before_skip + settings.layers_after_skip)
    yield f"{name} radial 1", size.edges, settings.radial, basis
    yield f"{name} radial 2", size.edges, basis, hidden
    yield f"{name} spherical 1", size.triplets, settings.spherical * settings.radial, basis
    yield f"{name} spherical 2", size.triplets, basis, inner
    yield f"{name} down", size.edges, hidden, inner
    yield f"{name} up", size.edges, inner, hidden
    yield f"{name} hidden", size.edges * (3 + residuals), hidden, hidden


def _output(settings: OpenCatalystModel, size: GraphSize, block: int) -> Iterator[tuple[str, float, int, int]]:
    name = f"output {block}"
    yield f"{name} radial", size.edges, settings.radial, settings.hidden
    yield f"{name} up", size.atoms, settings.hidden, settings.output_hidden
    yield f"{name} hidden", size.atoms * settings.output_layers, settings.output_hidden, settings.output_hidden
    yield f"{name} last", size.atoms, settings.output_hidden, 1
