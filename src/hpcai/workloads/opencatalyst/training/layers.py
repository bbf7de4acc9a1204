"""The blocks of DimeNet++ (MLPerf HPC reference, open_catalyst/ocpmodels/models/dimenet_plus_plus.py).

Gasteiger et al., Fast and Uncertainty-Aware Directional Message Passing, arXiv:2011.14115. E edges, A atoms, K columns
of the grid of neighbours. Blocks compute in the type of their policy; sums over the edges of an atom are float32.
"""

import math

import numpy as np
import tensorflow as tf
from keras import layers
from numpy.typing import NDArray

from hpcai.workloads.opencatalyst.settings import OpenCatalystModel
from hpcai.workloads.opencatalyst.training.basis import swish
from hpcai.workloads.opencatalyst.training.grid import NeighbourGrid, add_rows, take_rows

ELEMENTS = 95
_GLOROT_SCALE = 2.0

Values = NDArray[np.float32]
Random = np.random.Generator


def orthogonal(random: Random, inputs: int, outputs: int) -> Values:
    """Return a random semi-orthogonal matrix, (inputs, outputs), rescaled to Glorot's variance 2 / (inputs + outputs).

    As torch_geometric 1.7.2, nn/inits.py, glorot_orthogonal with a scale of 2; the variance is torch's, over n - 1.
    """
    q, r = np.linalg.qr(random.normal(size=(max(inputs, outputs), min(inputs, outputs))))
    q *= np.sign(np.diag(r))
    kernel = q if inputs >= outputs else q.T
    return np.asarray(kernel * math.sqrt(_GLOROT_SCALE / ((inputs + outputs) * kernel.var(ddof=1))), np.float32)


def torch_default(random: Random, inputs: int, *shape: int) -> Values:
    """Return what torch.nn.Linear draws for kernel and bias: U(-1/sqrt(inputs), 1/sqrt(inputs))."""
    bound = 1 / math.sqrt(inputs)
    return random.uniform(-bound, bound, shape).astype(np.float32)


class _Block(layers.Layer):  # type: ignore[misc]
    """A layer that creates its weights on construction."""

    def __init__(self, policy: str) -> None:
        super().__init__(dtype=policy)
        # Otherwise Keras traces the layer again to build it.
        self.built = True

    def add_values(self, name: str, start: Values) -> tf.Variable:
        """Add a weight that starts with given values."""
        return self.add_weight(
            name=name, shape=start.shape, initializer=lambda shape, dtype=None: tf.constant(start, dtype, shape)
        )


class Linear(_Block):
    """x W + b with given starting values; no b without them."""

    def __init__(self, policy: str, kernel: Values, bias: Values | None = None) -> None:
        super().__init__(policy)
        self.kernel = self.add_values("kernel", kernel)
        self.bias = None if bias is None else self.add_values("bias", bias)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return (..., outputs) of inputs (..., inputs)."""
        products = tf.matmul(tf.reshape(inputs, [-1, inputs.shape[-1]]), tf.convert_to_tensor(self.kernel))
        if self.bias is not None:
            products += tf.convert_to_tensor(self.bias)
        return tf.reshape(products, [*inputs.shape[:-1], products.shape[-1]]) if inputs.shape.rank > 2 else products


class _Makers:
    """Makes the linear layers of a block with the reference's starting values."""

    def __init__(self, policy: str, random: Random) -> None:
        self.policy, self.random = policy, random

    def plain(self, inputs: int, outputs: int) -> Linear:
        """Orthogonal kernel, no bias."""
        return Linear(self.policy, orthogonal(self.random, inputs, outputs))

    def biased(self, inputs: int, outputs: int) -> Linear:
        """Orthogonal kernel, bias of zeros."""
        return Linear(self.policy, orthogonal(self.random, inputs, outputs), np.zeros(outputs, np.float32))


class EmbeddingBlock(_Block):
    """swish(W [h_i, h_j, swish(W_rbf rbf)]) of the elements' vectors h: the first messages, one per edge."""

    def __init__(self, settings: OpenCatalystModel, policy: str, random: Random) -> None:
        super().__init__(policy)
        hidden, bound = settings.hidden, math.sqrt(3)
        self.table = self.add_values("table", random.uniform(-bound, bound, (ELEMENTS, hidden)).astype(np.float32))
        radial = (settings.radial, hidden)
        self.radial = Linear(policy, torch_default(random, radial[0], *radial), torch_default(random, *radial))
        joint = (3 * hidden, hidden)
        self.kernel = self.add_values("kernel", torch_default(random, joint[0], *joint))
        self.bias = self.add_values("bias", torch_default(random, *joint))

    def call(self, rbf: tf.Tensor, numbers: tf.Tensor, ends: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """Return messages (E, hidden).

        The product with the joined vectors is the sum of three products, two of which are the same for all edges of
        an atom.
        """
        centre, source = ends
        centre_kernel, source_kernel, radial_kernel = tf.split(tf.convert_to_tensor(self.kernel), 3)
        atoms = take_rows(tf.convert_to_tensor(self.table), numbers)
        joined = tf.matmul(swish(self.radial(rbf)), radial_kernel) + tf.convert_to_tensor(self.bias)
        joined += take_rows(tf.matmul(atoms, centre_kernel), centre) + take_rows(
            tf.matmul(atoms, source_kernel), source
        )
        return swish(joined)


class Residual(_Block):
    """x + swish(W2 swish(W1 x))."""

    def __init__(self, make: _Makers, hidden: int) -> None:
        super().__init__(make.policy)
        self.first, self.second = make.biased(hidden, hidden), make.biased(hidden, hidden)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the same shape."""
        return inputs + swish(self.second(swish(self.first(inputs))))


class InteractionBlock(_Block):
    """Updates each message with the messages that arrive at its source, weighted by distance and angle."""

    def __init__(self, settings: OpenCatalystModel, policy: str, random: Random) -> None:
        super().__init__(policy)
        make = _Makers(policy, random)
        hidden, inner, basis = settings.hidden, settings.interaction_hidden, settings.basis_hidden
        self.radial = [make.plain(settings.radial, basis), make.plain(basis, hidden)]
        self.spherical = make.plain(settings.spherical * settings.radial, basis)
        self.spherical_kernel = self.add_values("spherical_kernel", orthogonal(random, basis, inner))
        self.incoming, self.outgoing = make.biased(hidden, hidden), make.biased(hidden, hidden)
        self.down, self.up = make.plain(hidden, inner), make.plain(inner, hidden)
        self.before = [Residual(make, hidden) for _ in range(settings.layers_before_skip)]
        self.skip = make.biased(hidden, hidden)
        self.after = [Residual(make, hidden) for _ in range(settings.layers_after_skip)]

    def call(self, messages: tf.Tensor, rbf: tf.Tensor, sbf: tf.Tensor, grid: NeighbourGrid) -> tf.Tensor:
        """Return new messages.

        Parameters
        ----------
        messages
            (E, hidden).
        rbf
            Radial basis, (E, radial).
        sbf
            Spherical basis of the path k -> j -> i over each neighbour k of each edge's source j, (E, K, spherical x
            radial); zero where there is no such path.
        grid
            Which edges continue which.
        """
        outgoing = swish(self.outgoing(messages))
        incoming = swish(self.incoming(messages)) * self.radial[1](self.radial[0](rbf))
        gathered = self._gather(swish(self.down(incoming)), self.spherical(sbf), grid)
        hidden = outgoing + swish(self.up(gathered))
        for layer in self.before:
            hidden = layer(hidden)
        hidden = swish(self.skip(hidden)) + messages
        for layer in self.after:
            hidden = layer(hidden)
        return hidden

    def _gather(self, incoming: tf.Tensor, weights: tf.Tensor, grid: NeighbourGrid) -> tf.Tensor:
        """Return sum over k of incoming_kj * (weights_kji W), (E, inner), as matrix products.

        With b counting the few basis functions, it is sum over b of W_b * (sum over k of weights_kji,b incoming_kj):
        the inner sum is a matrix product, which avoids element-wise products of the size of paths x inner.
        """
        sums = tf.matmul(weights, grid.continued(incoming), transpose_a=True)
        return tf.reduce_sum(sums * tf.convert_to_tensor(self.spherical_kernel), axis=1)


class OutputBlock(_Block):
    """Energies of atoms from the messages that arrive at them; the last layer starts with zeros."""

    def __init__(self, settings: OpenCatalystModel, policy: str, random: Random) -> None:
        super().__init__(policy)
        make = _Makers(policy, random)
        hidden, width = settings.hidden, settings.output_hidden
        self.radial = make.plain(settings.radial, hidden)
        self.up = Linear(policy, orthogonal(random, hidden, width), torch_default(random, hidden, width))
        self.hidden = [make.biased(width, width) for _ in range(settings.output_layers)]
        self.last = Linear(policy, np.zeros((width, 1), np.float32))

    def call(self, messages: tf.Tensor, rbf: tf.Tensor, centre: tf.Tensor, atoms: int) -> tf.Tensor:
        """Return (A,) float32."""
        arriving = tf.cast(self.radial(rbf) * messages, tf.float32)
        values = self.up(add_rows(arriving, centre, atoms))
        for layer in self.hidden:
            values = swish(layer(values))
        return tf.cast(self.last(values)[:, 0], tf.float32)
