"""Periodic slabs with an adsorbate, with energies and exact forces from effective medium theory.

The structures are built by ASE; its EMT calculator has parameters for these metals and light elements (Jacobsen,
Stoltze and Norskov, Surf. Sci. 366, 394 (1996); ase.calculators.emt). A system is an adsorbate on a slab near its
equilibrium; a frame of it has all free atoms displaced at random, as along a relaxation of OC20.
"""

from dataclasses import dataclass

import numpy as np
from ase import Atoms
from ase.build import add_adsorbate, fcc100, fcc111, molecule
from ase.calculators.emt import EMT
from ase.constraints import FixAtoms
from ase.optimize import FIRE
from numpy.typing import NDArray

from hpcai.workloads.opencatalyst.data.graph import ADSORBATE, SUBSURFACE, SURFACE, Graph, GraphLimits
from hpcai.workloads.opencatalyst.data.neighbours import find_edges
from hpcai.workloads.opencatalyst.settings import SlabSettings

SIZES = ((2, 2, 2), (2, 2, 3))
"""Atoms along the surface and layers: cells so small that an atom sees its own images."""
VACUUM_ANGSTROM = 7.0
"""On either side: more than the longest edge between a slab and its image."""
SITES = {"fcc111": ("ontop", "bridge", "fcc", "hcp"), "fcc100": ("ontop", "bridge", "hollow")}  # codespell:ignore ontop
HEIGHT_ANGSTROM = 1.4
RELAXED_EV_PER_ANGSTROM = 0.02
MOST_STEPS = 150
_LOWER_ATOM = {"CO": 1, "NO": 0, "OH": 0}
"""Atom of ase.build.molecule that is bound to the surface: C of CO, N of NO, O of OH."""
_CARTESIAN = 3


@dataclass(frozen=True)
class System:
    """A slab with an adsorbate near its equilibrium.

    ``reference_ev`` is the energy of the relaxed clean slab plus that of the free adsorbate, as in OC20.
    """

    sid: int
    symbols: tuple[str, ...]
    positions: NDArray[np.float64]
    cell: NDArray[np.float64]
    fixed: NDArray[np.bool_]
    tags: NDArray[np.int64]
    reference_ev: float

    def atoms(self) -> Atoms:
        """Return the structure for ASE."""
        return Atoms(self.symbols, self.positions, cell=self.cell, pbc=True)


def make_system(settings: SlabSettings, seed: int, sid: int) -> System:
    """Draw and relax one system; the result depends only on the arguments."""
    random = np.random.default_rng([seed, 0, sid])
    metal, facet = str(random.choice(settings.metals)), str(random.choice(settings.facets))
    adsorbate, site = str(random.choice(settings.adsorbates)), str(random.choice(SITES[facet]))
    layers = SIZES[int(random.integers(len(SIZES)))]
    build = {"fcc111": fcc111, "fcc100": fcc100}[facet]
    slab = build(metal, layers, vacuum=VACUUM_ANGSTROM)
    slab.pbc = True
    gas = molecule(adsorbate) if adsorbate in _LOWER_ATOM else Atoms(adsorbate)
    covered = slab.copy()
    add_adsorbate(covered, gas, HEIGHT_ANGSTROM, site, mol_index=_LOWER_ATOM.get(adsorbate, 0))
    layer = covered.get_tags()  # counted from the top layer, 1; an adsorbate has 0
    tags = np.where(layer == 0, ADSORBATE, np.where(layer == 1, SURFACE, SUBSURFACE))
    fixed = layer == layer.max()
    gas.calc = EMT()
    reference = _relax(slab, fixed[: len(slab)]) + gas.get_potential_energy()
    _relax(covered, fixed)
    return System(
        sid,
        tuple(covered.get_chemical_symbols()),
        covered.get_positions(),
        covered.cell.array,
        fixed,
        tags.astype(np.int64),
        float(reference),
    )


def _relax(atoms: Atoms, fixed: NDArray[np.bool_]) -> float:
    """Move the free atoms towards their equilibrium; return the energy, eV."""
    atoms.set_constraint(FixAtoms(mask=fixed))
    atoms.calc = EMT()
    FIRE(atoms, logfile=None).run(fmax=RELAXED_EV_PER_ANGSTROM, steps=MOST_STEPS)
    return float(atoms.get_potential_energy())


def make_frame(system: System, settings: SlabSettings, key: tuple[int, int, int], limits: GraphLimits) -> Graph:
    """Return a frame of a system.

    Parameters
    ----------
    system
        Structure near its equilibrium.
    settings
        Sizes of the random displacements.
    key
        Seed, number of the split, and number of the frame.
    limits
        Limits for edges.
    """
    random = np.random.default_rng([key[0], 1 + key[1], key[2]])
    atoms = system.atoms()
    moves = random.normal(0, settings.rattle_angstrom, atoms.positions.shape)
    moves[system.tags == ADSORBATE] += random.normal(0, settings.displacement_angstrom, _CARTESIAN)
    moves[system.fixed] = 0
    # The official files hold float32: the forces belong to the positions that are stored.
    positions = (system.positions + moves).astype(np.float32)
    atoms.positions[:] = positions
    # A new calculator each time: its list of pairs depends on the structures before.
    atoms.calc = EMT()
    edge_index, cell_offsets = find_edges(atoms.get_positions(), atoms.cell.array, limits)
    return Graph(
        pos=positions,
        cell=atoms.cell.array.astype(np.float32)[None],
        atomic_numbers=atoms.numbers.astype(np.float32),
        sid=system.sid,
        fid=key[2],
        edge_index=edge_index,
        cell_offsets=cell_offsets,
        y=float(atoms.get_potential_energy() - system.reference_ev),
        force=atoms.get_forces().astype(np.float32),
        fixed=system.fixed.astype(np.float32),
        tags=system.tags,
    )
