"""Writes a generated dataset: frames of slabs with adsorbates, in the official layout and container."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import ase
import numpy as np

from hpcai.config.benchmark import SPLITS, Split
from hpcai.data.processes import in_processes
from hpcai.workloads.opencatalyst.data.container import file_name, write_graphs
from hpcai.workloads.opencatalyst.data.graph import Graph, GraphLimits
from hpcai.workloads.opencatalyst.data.slabs import System, make_frame, make_system
from hpcai.workloads.opencatalyst.settings import OpenCatalystData

GENERATOR_VERSION = 1


@dataclass(frozen=True)
class _Job:
    """One file to write: samples ``start`` to ``stop`` of a split."""

    split: Split
    number: int
    start: int
    stop: int


def generate_dataset(settings: OpenCatalystData, folder: Path, workers: int | None = None) -> dict[str, object]:
    """Write all samples below ``folder`` and return the facts of the generator for the manifest.

    Files depend on the settings alone, not on the number of workers.

    Parameters
    ----------
    settings
        Sizes, seed, cut-off and slabs.
    folder
        Receives train/ and validation/; the caller publishes it.
    workers
        Number of processes; defaults to the usable processors.

    Raises
    ------
    DatasetError
        If a file cannot be written.
    """
    for split in SPLITS:
        (folder / split).mkdir(parents=True, exist_ok=True)
    sids = range(settings.slabs.systems)
    systems = tuple(in_processes(partial(make_system, settings.slabs, settings.seed), sids, "relaxed systems", workers))
    for _ in in_processes(partial(_write_file, settings, folder, systems), list(_jobs(settings)), "files", workers):
        pass
    return {
        "version": GENERATOR_VERSION,
        "seed": settings.seed,
        "potential": f"EMT of ASE {ase.__version__}",
        "reference": "relaxed clean slab + free adsorbate",
        "slabs": settings.slabs.model_dump(mode="json"),
    }


def graph_limits(settings: OpenCatalystData) -> GraphLimits:
    """Return the limits for edges."""
    return GraphLimits(settings.cutoff_angstrom, settings.max_neighbours)


def _jobs(settings: OpenCatalystData) -> Iterator[_Job]:
    for split in SPLITS:
        count = settings.samples(split)
        for number, start in enumerate(range(0, count, settings.samples_per_file)):
            yield _Job(split, number, start, min(start + settings.samples_per_file, count))


def _write_file(settings: OpenCatalystData, folder: Path, systems: tuple[System, ...], job: _Job) -> int:
    graphs = (_frame(settings, systems, job.split, number) for number in range(job.start, job.stop))
    return write_graphs(folder / job.split / file_name(job.number), graphs)


def _frame(settings: OpenCatalystData, systems: tuple[System, ...], split: Split, number: int) -> Graph:
    """Return a frame of a system drawn at random; validation has other frames of the same systems (OC20's val_id)."""
    key = (settings.seed, SPLITS.index(split), number)
    system = systems[int(np.random.default_rng([*key, len(systems)]).integers(len(systems)))]
    return make_frame(system, settings.slabs, key, graph_limits(settings))
