"""The official container: single-file LMDB environments with the keys "0", "1", ... and ``length``.

From the MLPerf HPC reference, open_catalyst/scripts/preprocess_ef.py and ocpmodels/datasets/trajectory_lmdb.py.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import lmdb

from hpcai.core.errors import DatasetError
from hpcai.workloads.opencatalyst.data.graph import Graph, GraphLimits, graph_from_fields
from hpcai.workloads.opencatalyst.data.lmdb_pages import check_pages
from hpcai.workloads.opencatalyst.data.pyg_pickle import read_count, read_data
from hpcai.workloads.opencatalyst.data.pyg_writer import write_count, write_data

LENGTH_KEY = b"length"
SUFFIX = ".lmdb"
_FIRST_MAP_BYTES = 1 << 22
_BATCH = 64
REPAIR = "copy the file again, or make the dataset again"


def file_name(number: int) -> str:
    """Return the name of a dataset's file, counted from 0."""
    return f"data.{number:04d}{SUFFIX}"


def write_graphs(path: Path, graphs: Iterable[Graph]) -> int:
    """Write graphs to one LMDB file, with a bounded number of them in memory; return their number.

    Raises
    ------
    DatasetError
        If there are none, or LMDB cannot write.
    """
    count, batch = 0, list[tuple[bytes, bytes]]()
    try:
        with lmdb.open(str(path), subdir=False, lock=False, map_size=_FIRST_MAP_BYTES) as environment:
            for graph in graphs:
                batch.append((str(count).encode(), write_data(graph.fields())))
                count += 1
                if len(batch) == _BATCH:
                    _put(environment, batch)
                    batch.clear()
            _put(environment, [*batch, (LENGTH_KEY, write_count(count))])
            environment.sync(True)
    except lmdb.Error as error:
        raise DatasetError(f"{path}: cannot be written ({error}); make room, or write elsewhere") from error
    if not count:
        raise DatasetError(f"{path}: found no graph to write, expected at least one; correct the caller")
    return count


def _put(environment: lmdb.Environment, items: list[tuple[bytes, bytes]]) -> None:
    """Write items in one transaction; the map grows with the file, because memory limits count the map."""
    while True:
        try:
            with environment.begin(write=True) as transaction:
                for key, value in items:
                    transaction.put(key, value)
            return
        except lmdb.MapFullError:
            environment.set_mapsize(2 * environment.info()["map_size"])


def read_graphs(path: Path, limits: GraphLimits, first: int = 0) -> Iterator[Graph]:
    """Yield the graphs of a file in the order of their keys, from a first one on, each checked.

    Raises
    ------
    DatasetError
        On damage, missing keys or fields, wrong types or shapes; names file, key and field.
    """
    entries = check_pages(path)
    try:
        with _opened(path) as file, file.begin() as transaction:
            length = _length(path, transaction, entries)
            for number in range(first, length):
                yield _graph(path, transaction, number, limits)
    except lmdb.Error as error:
        raise DatasetError(f"{path}: LMDB finds it damaged ({error}); {REPAIR}") from error


def count_graphs(path: Path) -> int:
    """Return the number of graphs that a file declares."""
    entries = check_pages(path)
    try:
        with _opened(path) as file, file.begin() as transaction:
            return _length(path, transaction, entries)
    except lmdb.Error as error:
        raise DatasetError(f"{path}: LMDB finds it damaged ({error}); {REPAIR}") from error


def _opened(path: Path) -> lmdb.Environment:
    """Open a file whose pages were checked, without writing a lock file beside it."""
    return lmdb.open(str(path), subdir=False, readonly=True, lock=False, max_readers=1)


def _length(path: Path, transaction: lmdb.Transaction, entries: int) -> int:
    value = transaction.get(LENGTH_KEY)
    place = f"{path}: key length"
    if value is None:
        raise DatasetError(f"{place}: found none, expected the number of graphs; {REPAIR}")
    try:
        length = read_count(bytes(value))
    except DatasetError as error:
        raise DatasetError(f"{place}: {error}") from None
    if length != entries - 1 or length < 1:
        raise DatasetError(f"{place}: found {length}, expected {entries - 1} as there are other keys; {REPAIR}")
    return length


def _graph(path: Path, transaction: lmdb.Transaction, number: int, limits: GraphLimits) -> Graph:
    place = f"{path}: key {number}"
    value = transaction.get(str(number).encode())
    if value is None:
        raise DatasetError(f"{place}: found no such key, expected all below length; {REPAIR}")
    try:
        return graph_from_fields(read_data(bytes(value)), limits)
    except DatasetError as error:
        raise DatasetError(f"{place}: {error}") from None
