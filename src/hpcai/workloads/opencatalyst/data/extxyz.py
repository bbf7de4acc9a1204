"""Convert the published files of OC20's task S2EF, pairs of ``*.extxyz.xz`` and ``*.txt.xz``, to LMDB.

Follows the MLPerf HPC reference (open_catalyst/scripts/uncompress.py, then preprocess_ef.py with --get-edges and
--ref-energy): line n of the text, ``random<sid>,frame<fid>,<reference energy>``, belongs to frame n of the structures.
"""

import io
import lzma
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import ase.io
import numpy as np
from ase import Atoms
from ase.constraints import FixAtoms

from hpcai.core.errors import DatasetError
from hpcai.core.messages import Message, at
from hpcai.data.processes import in_forks
from hpcai.workloads.opencatalyst.data.container import file_name, write_graphs
from hpcai.workloads.opencatalyst.data.graph import Graph, GraphLimits
from hpcai.workloads.opencatalyst.data.neighbours import find_edges

NO_SPLIT = Message("extxyz.no_split", "found no split in the names, expected 'train' or 'val'; correct datasets.tsv")

STRUCTURES, LINES = ".extxyz.xz", ".txt.xz"
MOST_WORKERS = 64
_MOST_ATOMS = 10_000
_MOST_LINE_CHARACTERS = 100_000
_LINE = re.compile(r"random(\d+),frame(\d+),([-+.\deE]+)\s*")
REPAIR = "fetch the archive again"


def convert_pairs(source: Path, folder: Path, limits: GraphLimits) -> int:
    """Convert all pairs of files below a folder, one LMDB file each; return the number of frames.

    A pair is read frame by frame, so memory does not grow with it; pairs are converted in parallel.

    Parameters
    ----------
    source
        Folder with the unpacked archive.
    folder
        Empty folder for data.0000.lmdb and so on, in the order of the pairs' names.
    limits
        Limits for edges.

    Raises
    ------
    DatasetError
        If a file has no partner or is damaged, or lines and frames disagree; names file and frame.
    """
    pairs = sorted(source.rglob(f"*{STRUCTURES}"))
    lonely = {path.name for path in source.rglob(f"*{LINES}")} ^ {_lines_of(path).name for path in pairs}
    if lonely or not pairs:
        raise DatasetError(
            f"{source}: found {len(pairs)} files *{STRUCTURES}, and {sorted(lonely)[:3]} without partner, expected "
            f"pairs of *{STRUCTURES} and *{LINES}; {REPAIR}"
        )
    targets = [folder / file_name(number) for number in range(len(pairs))]
    workers = min(len(os.sched_getaffinity(0)), MOST_WORKERS)

    def convert(number: int) -> int:
        return write_graphs(targets[number], read_pair(pairs[number], limits))

    with closing(in_forks(convert, len(pairs), workers)) as counts:
        return sum(counts)


def _lines_of(structures: Path) -> Path:
    return structures.with_name(structures.name.removesuffix(STRUCTURES) + LINES)


def read_pair(structures: Path, limits: GraphLimits) -> Iterator[Graph]:
    """Yield the graphs of a pair of files.

    Raises
    ------
    DatasetError
        If a file is damaged, or lines and frames disagree; names file and frame.
    """
    number = -1
    try:
        with lzma.open(structures, "rt") as frames, lzma.open(_lines_of(structures), "rt") as lines:
            for number, line in enumerate(lines):
                place = f"{structures}: frame {number}"
                found = _LINE.fullmatch(line)
                if not found:
                    raise DatasetError(
                        f"{_lines_of(structures)}: line {number}: found {line[:80]!r}, expected "
                        f"random<sid>,frame<fid>,<energy>; {REPAIR}"
                    )
                atoms = _read_frame(frames, place)
                yield _graph(atoms, (int(found[1]), int(found[2])), float(found[3]), limits)
            if frames.read(1):
                raise DatasetError(
                    f"{structures}: found more frames than the {number + 1} lines of {_lines_of(structures).name}, "
                    f"expected as many; {REPAIR}"
                )
    except (lzma.LZMAError, EOFError, UnicodeDecodeError, OSError) as error:
        raise DatasetError(
            f"{structures}: after {number} frames: found damage ({error}), expected whole xz files; {REPAIR}"
        ) from error


def _read_frame(frames: io.TextIOBase, place: str) -> Atoms:
    """Read one frame: a count, a line of facts, and a line for each atom."""
    first = frames.readline(_MOST_LINE_CHARACTERS)
    count = int(first) if first.strip().isdigit() else 0
    if not 1 <= count <= _MOST_ATOMS:
        raise DatasetError(f"{place}: found {first[:40]!r} as number of atoms, expected a frame; {REPAIR}")
    text = first + "".join(frames.readline(_MOST_LINE_CHARACTERS) for _ in range(count + 1))
    try:
        atoms = ase.io.read(io.StringIO(text), index=0, format="extxyz")
    except Exception as error:  # ASE may raise anything on damaged text
        raise DatasetError(f"{place}: found {type(error).__name__}: {error}, expected extxyz; {REPAIR}") from error
    if atoms.calc is None or not {"energy", "forces"} <= atoms.calc.results.keys():
        raise DatasetError(f"{place}: found no energy or forces, expected both; {REPAIR}")
    return atoms


def _graph(atoms: Atoms, numbers: tuple[int, int], reference_ev: float, limits: GraphLimits) -> Graph:
    fixed = np.zeros(len(atoms), np.float32)
    for constraint in atoms.constraints:
        if isinstance(constraint, FixAtoms):
            fixed[constraint.index] = 1
    edge_index, cell_offsets = find_edges(atoms.get_positions(), atoms.cell.array, limits)
    return Graph(
        pos=atoms.get_positions().astype(np.float32),
        cell=atoms.cell.array.astype(np.float32)[None],
        atomic_numbers=atoms.numbers.astype(np.float32),
        sid=numbers[0],
        fid=numbers[1],
        edge_index=edge_index,
        cell_offsets=cell_offsets,
        y=float(atoms.get_potential_energy(apply_constraint=False)) - reference_ev,
        force=atoms.get_forces(apply_constraint=False).astype(np.float32),
        fixed=fixed,
        tags=atoms.get_tags().astype(np.int64),
    )


def split_of(names: Sequence[str]) -> str:
    """Return the split that an archive belongs to, by the names of its row in datasets.tsv.

    Raises
    ------
    DatasetError
        If the names match neither split or both.
    """
    marks = {"train": "train", "validation": "val"}
    found = [split for split, mark in marks.items() if any(re.search(rf"(^|[_.]){mark}", name) for name in names)]
    if len(found) != 1:
        raise DatasetError(at(str(" and ".join(names)), NO_SPLIT()))
    return found[0]
