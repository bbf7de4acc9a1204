"""LMDB files read back what was written, and any damage raises an error that names its position."""

import pickle
import shutil
import struct
from pathlib import Path

import lmdb
import numpy as np
import pytest
from unit.workloads.opencatalyst.data.graph_samples import LIMITS, make_graph

from hpcai.core.errors import DatasetError
from hpcai.workloads.opencatalyst.data.container import count_graphs, file_name, read_graphs, write_graphs
from hpcai.workloads.opencatalyst.data.lmdb_pages import check_pages
from hpcai.workloads.opencatalyst.data.pyg_writer import write_count, write_data

GRAPHS = 250
"""Enough entries for the tree to have a root above its leaves."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("written") / file_name(0)
    write_graphs(path, (make_graph(number) for number in range(GRAPHS)))
    return path


@pytest.fixture
def path(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(written, tmp_path))


def change(path: Path, key: str, value: bytes | None) -> None:
    """Put or delete one key through LMDB itself."""
    with (
        lmdb.open(str(path), subdir=False, lock=False, map_size=1 << 26) as file,
        file.begin(write=True) as transaction,
    ):
        if value is None:
            transaction.delete(key.encode())
        else:
            transaction.put(key.encode(), value)


def read_all(path: Path) -> int:
    return sum(1 for _ in read_graphs(path, LIMITS))


def test_graphs_come_back_in_order_and_files_are_equal_bit_for_bit(path: Path, tmp_path: Path) -> None:
    assert path.name == "data.0000.lmdb"
    assert count_graphs(path) == GRAPHS
    for number, graph in enumerate(read_graphs(path, LIMITS)):
        assert graph.fid == number
        np.testing.assert_array_equal(graph.pos, make_graph(number).pos)
    again = tmp_path / "again.lmdb"
    write_graphs(again, (make_graph(number) for number in range(GRAPHS)))
    assert again.read_bytes() == path.read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["again.lmdb", "data.0000.lmdb"]


def test_the_keys_are_the_official_ones(path: Path) -> None:
    with lmdb.open(str(path), subdir=False, readonly=True, lock=False) as file, file.begin() as transaction:
        keys = {bytes(key) for key, _ in transaction.cursor()}
        assert pickle.loads(transaction.get(b"length")) == GRAPHS
    assert keys == {b"length", *(str(number).encode() for number in range(GRAPHS))}


def test_files_of_lmdb_itself_with_many_transactions_pass(path: Path) -> None:
    for number in range(GRAPHS, 270):
        change(path, str(number), write_data(make_graph(number).fields()))
    change(path, "3", write_data(make_graph(3).fields()))
    change(path, "length", pickle.dumps(270, protocol=-1))
    assert read_all(path) == 270


def test_no_graph_to_write(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="found no graph to write"):
        write_graphs(tmp_path / "x.lmdb", [])


@pytest.mark.parametrize(
    ("key", "value", "match"),
    [
        ("length", None, "key length: found none, expected the number of graphs"),
        ("length", write_count(249), "key length: found 249, expected 250"),
        ("length", pickle.dumps("250"), "key length: found a pickled str, expected a whole number"),
        ("7", None, "key length: found 250, expected 249"),
        ("7", b"", "key 7: found a damaged pickle"),
        ("7", pickle.dumps({"pos": 1}), "key 7: found a pickled dict, expected a torch_geometric"),
        ("7", write_data({"natoms": 4}), "key 7: field pos: found only natoms"),
    ],
    ids=["no-length", "other-length", "text-length", "no-graph", "empty-graph", "foreign-graph", "no-positions"],
)
def test_wrong_keys_and_values_are_named(path: Path, key: str, value: bytes | None, match: str) -> None:
    change(path, key, value)
    with pytest.raises(DatasetError, match=match):
        read_all(path)


def test_a_missing_key_with_another_in_its_place(path: Path) -> None:
    change(path, "7", None)
    change(path, "x7", b"1")
    with pytest.raises(DatasetError, match="key 7: found no such key"):
        read_all(path)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "found 0 bytes, expected an LMDB file"),
        (b"CDF\x01" * 5000, "found magic number .*, expected an LMDB file"),
        (bytes(8192), "found magic number 00000000"),
    ],
    ids=["empty", "foreign", "zeros"],
)
def test_foreign_and_empty_files(tmp_path: Path, content: bytes, match: str) -> None:
    path = tmp_path / "data.0000.lmdb"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=match):
        read_all(path)
    with pytest.raises(DatasetError, match="cannot be read"):
        read_all(tmp_path / "missing.lmdb")


@pytest.mark.parametrize("cut", [1, 4096, 100_000, -8192])
def test_a_cut_tail(path: Path, cut: int) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-cut])
    with pytest.raises(DatasetError, match="the tail is cut"):
        read_all(path)


def test_flipped_bits_never_crash(tmp_path: Path) -> None:
    """LMDB would follow a damaged pointer. Most flips in values are found only by the manifest's checksum."""
    path, found = tmp_path / "data.0000.lmdb", 0
    write_graphs(path, (make_graph(number) for number in range(8)))
    original = path.read_bytes()
    random = np.random.default_rng(3)
    headers = [position for position in range(len(original)) if position % 4096 < 64]
    for position in [*random.choice(headers, 150, replace=False), *random.integers(0, len(original), 50)]:
        data = bytearray(original)
        data[int(position)] ^= 1 << int(random.integers(8))
        path.write_bytes(data)
        try:
            read_all(path)
        except DatasetError:
            found += 1
    assert found > 40


def live_page(data: bytes, flag: int) -> int:
    """A page with a flag that the tree uses: its root, a leaf below it, or a run of overflow pages below that."""
    newest = max((0, 4096), key=lambda meta: struct.unpack_from("<Q", data, meta + 144)[0])
    (page,) = struct.unpack_from("<Q", data, newest + 128)
    while not struct.unpack_from("<H", data, page * 4096 + 10)[0] & flag:
        (node,) = struct.unpack_from("<H", data, page * 4096 + 16)
        low, high, flags, key_bytes = struct.unpack_from("<HHHH", data, page * 4096 + node)
        is_leaf = struct.unpack_from("<H", data, page * 4096 + 10)[0] & 2
        value = struct.unpack_from("<Q", data, page * 4096 + node + 8 + key_bytes)[0] if is_leaf else 0
        page = value if is_leaf else low | high << 16 | flags << 32
    return page


@pytest.mark.parametrize(
    ("flag", "offset", "value", "match"),
    [
        (1, 16, struct.pack("<H", 4095), "found node 0 at byte 4095"),
        (1, 12, struct.pack("<H", 5000), "found free space from 5000"),
        (2, 0, struct.pack("<Q", 99), "found number 99"),
        (2, 10, struct.pack("<H", 4), "found number .* and flags 4"),
        (4, 12, struct.pack("<I", 0), "found a run of 0 pages"),
        (4, 12, struct.pack("<I", 1 << 30), "found a run of 1073741824 pages"),
    ],
    ids=["node", "free-space", "number", "flags", "no-run", "long-run"],
)
def test_damaged_pages_are_named(path: Path, flag: int, offset: int, value: bytes, match: str) -> None:
    data = bytearray(path.read_bytes())
    start = live_page(data, flag) * 4096 + offset
    data[start : start + len(value)] = value
    path.write_bytes(data)
    with pytest.raises(DatasetError, match=f"page [0-9]+: {match}"):
        check_pages(path)


def test_pages_that_point_at_each_other_end(path: Path) -> None:
    data = bytearray(path.read_bytes())
    start = live_page(data, 1) * 4096
    first, second = (start + struct.unpack_from("<H", data, start + 16 + 2 * index)[0] for index in (0, 1))
    data[second : second + 6] = data[first : first + 6]
    path.write_bytes(data)
    with pytest.raises(DatasetError, match="found two pointers to it"):
        check_pages(path)
