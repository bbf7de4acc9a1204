"""The floating-point work of DimeNet++ for one graph, layer by layer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hpcai.core.errors import TrainingError
from hpcai.core.messages import Message
from hpcai.training.work import LayerWork
from hpcai.workloads.opencatalyst.settings import OpenCatalystData, OpenCatalystModel

ELEMENTS, BASIS, BILINEAR, LAST = "elements", "spherical 1", "spherical 2", "last"
"""Layers that are not listed twice, once for the energy and once for the force."""
NO_MEAN_SIZES = Message(
    "work.no_mean_sizes",
    "statistics of {dataset}: found {found}, expected the mean sizes of its graphs; prepare the dataset again or set "
    "data.capacity",
)


@dataclass(frozen=True)
class GraphSize:
    """Atoms, edges and paths k -> j -> i of a graph."""

    atoms: float
    edges: float
    triplets: float

    @classmethod
    def of(cls, data: OpenCatalystData, statistics: Mapping[str, tuple[float, ...]]) -> "GraphSize":
        """Return the mean size of the dataset's graphs; if unknown, the size of a graph that fills its room.

        Raises
        ------
        TrainingError
            If neither is known.
        """
        names = ("atoms", "edges", "triplets")
        if all(f"mean_{name}" in statistics for name in names):
            return cls(**{name: statistics[f"mean_{name}"][0] for name in names})
        if data.capacity is None:
            raise TrainingError(NO_MEAN_SIZES(dataset=data.dataset, found=sorted(statistics)))
        return cls(data.capacity.atoms, data.capacity.edges, data.capacity.edges * data.max_neighbours)


def dimenet_layers(settings: OpenCatalystModel, size: GraphSize) -> tuple[LayerWork, ...]:
    """Return the linear layers of the forward pass that predicts forces.

    The first part computes the energy, the second the energy's gradient, where each layer multiplies by its kernel
    again. So each layer is listed twice, and its four further products in the backward pass are the gradients of the
    two. Four layers differ:

    - the elements' vectors do not depend on the atoms' positions, so they contribute no force;
    - the spherical basis does, but has nothing to train: the energy's part needs no gradient of it;
    - spherical 2 is a product of messages and basis, which both depend on the positions: two products in the force;
    - the last layer is linear, so the force needs only its kernel, and the energy itself is not used.

    Only real atoms, edges and triplets count; padding does not.
    """
    layers = []
    for name, rows, inputs, outputs in _products(settings, size):
        mac = round(rows * inputs * outputs)
        if not name.endswith(LAST):
            layers.append(LayerWork(f"{name}, energy", mac, needs_input_gradient=not name.endswith(BASIS)))
        if name.endswith(BILINEAR):
            layers.append(LayerWork(f"{name}, force of the basis", mac))
        if not name.endswith(ELEMENTS):
            layers.append(LayerWork(f"{name}, force", mac, needs_input_gradient=not name.endswith(LAST)))
    return tuple(layers)


def _products(settings: OpenCatalystModel, size: GraphSize) -> Iterator[tuple[str, float, int, int]]:
    """Yield name, rows, inputs and outputs of the layers."""
    hidden, radial = settings.hidden, settings.radial
    yield "embedding radial", size.edges, radial, hidden
    yield "embedding edges", size.edges, hidden, hidden
    # Both ends of an edge: one product per atom, shared by its edges.
    yield f"embedding {ELEMENTS}", size.atoms, hidden, 2 * hidden
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
    yield f"{name} {BASIS}", size.triplets, settings.spherical * settings.radial, basis
    yield f"{name} {BILINEAR}", size.triplets, basis, inner
    yield f"{name} down", size.edges, hidden, inner
    yield f"{name} up", size.edges, inner, hidden
    yield f"{name} hidden", size.edges * (3 + residuals), hidden, hidden


def _output(settings: OpenCatalystModel, size: GraphSize, block: int) -> Iterator[tuple[str, float, int, int]]:
    name = f"output {block}"
    yield f"{name} radial", size.edges, settings.radial, settings.hidden
    yield f"{name} up", size.atoms, settings.hidden, settings.output_hidden
    yield f"{name} hidden", size.atoms * settings.output_layers, settings.output_hidden, settings.output_hidden
    yield f"{name} {LAST}", size.atoms, settings.output_hidden, 1
