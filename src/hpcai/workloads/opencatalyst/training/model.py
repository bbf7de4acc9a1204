"""DimeNet++: energies of atoms from distances and angles, and forces as their exact gradient."""

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from hpcai.workloads.opencatalyst.settings import OpenCatalystBenchmark
from hpcai.workloads.opencatalyst.training.basis import BesselBasis, RadialBasis, angular_basis
from hpcai.workloads.opencatalyst.training.grid import NeighbourGrid, make_grid, take_rows
from hpcai.workloads.opencatalyst.training.layers import EmbeddingBlock, InteractionBlock, OutputBlock


class Structure(NamedTuple):
    """Atoms and edges of a batch without the positions; padding has the atomic number 0.

    Parameters
    ----------
    numbers
        Atomic numbers, (A,) int32.
    degrees
        Edges that arrive at each atom, (A,) int32.
    source, centre
        Ends of the edges j -> i, (E,) int32, sorted by centre, padding last and at the last atom.
    shifts
        Offset of the cell's images in the vector from centre to source, Angstrom, (E, 3).
    returning
        Column of the reverse of each edge among the neighbours of its source; any other number if there is none.
    """

    numbers: tf.Tensor
    degrees: tf.Tensor
    source: tf.Tensor
    centre: tf.Tensor
    shifts: tf.Tensor
    returning: tf.Tensor


class DimeNetPlusPlus(keras.Model):  # type: ignore[misc]
    """The network; energies in units of the forces' standard deviation x Angstrom.

    Parameters
    ----------
    benchmark
        Sizes, cut-off and number of neighbours.
    policy
        Keras' type policy of the blocks; geometry and basis are float32.
    seed
        Seed of the weights.
    """

    def __init__(self, benchmark: OpenCatalystBenchmark, policy: str, seed: int) -> None:
        super().__init__(dtype="float32")
        settings = benchmark.model
        random = np.random.default_rng(seed)
        self._cutoff, self._columns = benchmark.data.cutoff_angstrom, benchmark.data.max_neighbours
        self._spherical = settings.spherical
        self._bessel = BesselBasis(settings.spherical, settings.radial, settings.envelope_exponent)
        self.radial_basis = RadialBasis(settings.radial, settings.envelope_exponent)
        self.embedding = EmbeddingBlock(settings, policy, random)
        self.interactions = [InteractionBlock(settings, policy, random) for _ in range(settings.blocks)]
        self.outputs = [OutputBlock(settings, policy, random) for _ in range(settings.blocks + 1)]
        self.built = True

    def call(self, positions: tf.Tensor, structure: Structure) -> tf.Tensor:
        """Return the energies of atoms, (A,) float32; padding has zero.

        Parameters
        ----------
        positions
            Angstrom, (A, 3).
        structure
            Everything else.
        """
        real_atoms = structure.numbers > 0
        real = tf.gather(real_atoms, structure.centre)
        vectors = self._vectors(positions, structure, real)
        lengths = tf.sqrt(tf.reduce_sum(vectors**2, axis=1))
        x = lengths / self._cutoff
        grid = make_grid(structure.degrees, (structure.source, structure.centre), real, self._columns)
        rbf = self.radial_basis(x)
        sbf = self._spherical_basis(x, tf.stop_gradient(vectors / lengths[:, None]), grid, structure)
        atoms = structure.numbers.shape[0]
        messages = self.embedding(rbf, structure.numbers, (structure.centre, structure.source))
        energies = self.outputs[0](messages, rbf, structure.centre, atoms=atoms)
        for interaction, output in zip(self.interactions, self.outputs[1:], strict=True):
            messages = interaction(messages, rbf, sbf, grid=grid)
            energies += output(messages, rbf, structure.centre, atoms=atoms)
        return tf.where(real_atoms, energies, 0)

    def _vectors(self, positions: tf.Tensor, structure: Structure, real: tf.Tensor) -> tf.Tensor:
        """Return vectors from centre to source, (E, 3); padding gets one of the length of the cut-off."""
        vectors = take_rows(positions, structure.source) - take_rows(positions, structure.centre) + structure.shifts
        return tf.where(real[:, None], vectors, tf.constant([self._cutoff, 0, 0], tf.float32))

    def _spherical_basis(
        self, x: tf.Tensor, directions: tf.Tensor, grid: NeighbourGrid, structure: Structure
    ) -> tf.Tensor:
        """Return u j_l(z_ln x_kj) Y_l0(angle kji), (E, K, spherical x radial), zero where there is no path.

        The reference computes the angle as atan2(|a x b|, a . b) of detached positions; its cosine is the product of
        the directions of a, from i to j, and b, from j to k. It does not contribute to the forces.
        """
        cosine = tf.reduce_sum(directions[:, None] * grid.continued(directions), axis=2)
        column = tf.range(self._columns)[None]
        there = column < tf.gather(structure.degrees, structure.source)[:, None]
        path = there & (column != structure.returning[:, None])
        angular = angular_basis(cosine, self._spherical) * tf.cast(path, tf.float32)[:, :, None]
        radial = grid.continued(self._bessel(x))
        products = tf.reshape(radial, [*path.shape, self._spherical, -1]) * angular[..., None]
        return tf.reshape(products, radial.shape)

    def forces(self, positions: tf.Tensor, structure: Structure) -> tf.Tensor:
        """Return minus the gradient of the total energy, (A, 3) float32."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(positions)
            energy = tf.reduce_sum(self(positions, structure))
        return -tape.gradient(energy, positions)
