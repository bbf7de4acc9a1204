"""Pickles of PyTorch Geometric are read without PyTorch; anything else is refused."""

import os
import pickle
import pickletools
import struct
import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from unit.refusals import refused, told

from hpcai.core.errors import DatasetError
from hpcai.workloads.opencatalyst.data.pyg_pickle import (
    _NAMES,
    FOREIGN_NAME,
    STORAGES,
    WRONG_PICKLE,
    read_count,
    read_data,
)
from hpcai.workloads.opencatalyst.data.pyg_writer import write_count, write_data

FOLDER = Path(__file__).parents[4] / "data" / "opencatalyst"
TYPES = {"pos": "f4", "cell": "f4", "atomic_numbers": "f4", "tags": "i8", "edge_index": "i8", "cell_offsets": "i8",
         "force": "f4", "fixed": "f4"}  # fmt: skip


def stored_fields() -> dict[str, object]:
    stored = np.load(FOLDER / "pyg_fields.npz")
    fields: dict[str, object] = {name: stored[name] for name in TYPES}
    return {**fields, "y": float(stored["y"]), "natoms": 4, "sid": 7, "fid": 3}


@pytest.mark.parametrize("name", ["pyg172_torch2.6.0", "pyg172_torch2.6.0_protocol2", "pyg281_torch2.6.0"])
def test_what_pytorch_geometric_wrote_is_read(name: str) -> None:
    found, expected = read_data((FOLDER / f"{name}.bin").read_bytes()), stored_fields()
    assert found.keys() == expected.keys()
    for field, value in expected.items():
        np.testing.assert_array_equal(found[field], value)
        assert getattr(found[field], "dtype", None) == (np.dtype(TYPES[field]) if field in TYPES else None)


def test_all_kinds_of_tensors_are_read() -> None:
    found = read_data((FOLDER / "odd_pyg172_torch2.6.0.bin").read_bytes())
    np.testing.assert_array_equal(found["pos"], np.arange(4, 16, dtype=np.float32).reshape(3, 4).T)
    assert found["y"] == -1.5
    assert found["force"].dtype == np.float64
    assert found["h"].dtype == np.float16
    np.testing.assert_array_equal(found["b"], [True, False])
    np.testing.assert_array_equal(found["i"], np.arange(5, dtype=np.int32))


def test_what_we_write_we_read_and_pytorch_geometric_would() -> None:
    """That torch 2.6.0 with torch_geometric 1.7.2 and 2.8.1 loads it was tried by hand: here, the same instructions."""
    payload = write_data(stored_fields())
    assert payload == write_data(stored_fields())
    found = read_data(payload)
    for field, value in stored_fields().items():
        np.testing.assert_array_equal(found[field], value)
    names = {"torch_geometric.data.data Data", "torch._utils _rebuild_tensor_v2", "torch.storage _load_from_bytes",
             "collections OrderedDict"}  # fmt: skip
    assert {arg for op, arg, _ in pickletools.genops(payload) if op.name == "GLOBAL"} == names
    strings = {arg for op, arg, _ in pickletools.genops(payload) if op.name == "BINUNICODE"}
    assert {"x", "edge_index", "edge_attr", "y", "pos", "normal", "face"} < strings


def test_counts() -> None:
    assert read_count(write_count(128)) == 128
    assert read_count(pickle.dumps(5, protocol=-1)) == 5
    for wrong in (True, "5", 5.0):
        with pytest.raises(DatasetError, match="expected a whole number"):
            read_count(pickle.dumps(wrong))


def test_a_type_without_storage_is_refused_when_writing() -> None:
    with pytest.raises(DatasetError, match=r"pos: .*complex64"):
        write_data({"pos": np.zeros(2, np.complex64)})


class Evil:
    """Runs a command when it is unpickled."""

    def __init__(self, call: object, *arguments: object) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self.call, self.arguments


@pytest.mark.parametrize("protocol", [0, 1, 2, 5])
def test_nothing_foreign_is_run(tmp_path: Path, protocol: int) -> None:
    made = tmp_path / "made"
    for evil in (
        Evil(os.mkdir, str(made)),
        Evil(eval, f"__import__('os').mkdir({str(made)!r})"),
        Evil(open, str(made), "w"),
    ):
        with pytest.raises(DatasetError) as error:
            read_data(pickle.dumps(evil, protocol=protocol))
        told(str(error.value), FOREIGN_NAME)
    assert not made.exists()


def opcodes(body: bytes) -> bytes:
    return b"\x80\x03" + body + b"."


DATA = b"ctorch_geometric.data.data\nData\n"
REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"


@pytest.mark.parametrize(
    ("payload", "match"),
    [
        (opcodes(REBUILD + b"}X\x04\x00\x00\x00callK\x01s\x86b"), "damaged pickle"),  # set an attribute of a stand-in
        (opcodes(DATA + b"(N}X\x01\x00\x00\x00aK\x01stb"), "damaged pickle"),
        (opcodes(b"ccopyreg\n_reconstructor\n(cbuiltins\nobject\ncbuiltins\nobject\nNtR"), "builds a foreign object"),
        (opcodes(b"cnumpy\ndtype\nX\x01\x00\x00\x00O\x85R"), "a torch_geometric.data.Data object"),
        (opcodes(b"K\x05"), "found a pickled int"),
        (opcodes(REBUILD + b"(NK\x00)))tR"), "tensor without storage"),
        (opcodes(b"ctorch.storage\n_load_from_bytes\nC\x00\x85R"), "damaged pickle"),
        (b"", "damaged pickle"),
        (b"\x80\x03", "damaged pickle"),
    ],
    ids=["attribute", "state", "object", "dtype", "number", "no-storage", "storage", "nothing", "cut"],
)
def test_crafted_pickles_are_refused_and_change_nothing(payload: bytes, match: str) -> None:
    with pytest.raises(DatasetError, match=match):
        read_data(payload)
    assert read_data(write_data(stored_fields()))["natoms"] == 4


def test_every_cut_and_many_flipped_bits_end_in_an_error_or_a_graph() -> None:
    """Flips inside numbers are not detected here (checksums detect them); no other exception may be raised."""
    payload = write_data(stored_fields())
    for end in range(0, len(payload), 13):
        with pytest.raises(DatasetError):
            read_data(payload[:end])
    random = np.random.default_rng(1)
    for position in random.integers(0, len(payload), 400):
        damaged = bytearray(payload)
        damaged[position] ^= 1 << int(random.integers(8))
        with suppress(DatasetError):
            read_data(bytes(damaged))


def test_a_tensor_larger_than_its_storage_is_refused() -> None:
    payload = write_data({"pos": np.zeros((2, 3), np.float32)})
    shape = b"(" + pickle.dumps(2, protocol=3)[2:-1] + pickle.dumps(3, protocol=3)[2:-1] + b"t"
    wide = b"(" + pickle.dumps(200, protocol=3)[2:-1] + pickle.dumps(3, protocol=3)[2:-1] + b"t"
    assert shape in payload
    with pytest.raises(DatasetError, match=r"tensor of shape \(200, 3\) on 6 numbers"):
        read_data(payload.replace(shape, wide))


def test_strides_whose_sum_overflows_do_not_reach_out_of_the_storage() -> None:
    """Four times 2^62 is 0 in 64 bits; NumPy then read far outside of the storage."""
    payload = write_data({"pos": np.zeros((2, 2, 2, 2), np.uint8)})
    strides, far = b"(K\x08K\x04K\x02K\x01t", b"(" + 4 * pickle.dumps(1 << 62, protocol=3)[2:-1] + b"t"
    assert payload.count(strides) == 1
    with pytest.raises(DatasetError, match="tensor that ends at number"):
        read_data(payload.replace(strides, far))


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


STATES = {
    "list": b"](K\x05K\x06e",
    "dict": b"}" + text("call") + b"Ns",
    "slots": b"N}(" + text("dtype") + b"N" + text("call") + b"Nu\x86",
}


def everything() -> list[dict[str, object]]:
    arrays = {name: np.arange(3).astype(code) for name, code in STORAGES.items()}
    files = ["pyg172_torch2.6.0", "pyg281_torch2.6.0", "odd_pyg172_torch2.6.0"]
    return [read_data(write_data(arrays)), *(read_data((FOLDER / f"{name}.bin").read_bytes()) for name in files)]


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
@pytest.mark.parametrize("name", _NAMES, ids=".".join)
def test_no_pickle_changes_how_later_ones_are_read(name: tuple[str, str], state: bytes) -> None:
    """A state that replaced a storage's type made -3.25 read as 1.4e-320 in all later files of the process."""
    before = everything()
    stand_in = "c{}\n{}\n".format(*name).encode()
    for attack in (stand_in + state + b"b", stand_in + b")\x81" + state + b"b", stand_in + b")R" + state + b"b"):
        with suppress(DatasetError):
            read_data(opcodes(attack))
    np.testing.assert_equal(everything(), before)


CALL = b"c_codecs\nencode\nq\x00" + text("x" * 100_000) + text("latin1") + b"\x86q\x01R"


@pytest.mark.parametrize(
    "body",
    [
        b"Nr" + struct.pack("<I", 1 << 24),
        b"Np%d\n" % (1 << 24),
        b"\x8e" + struct.pack("<Q", 1 << 28),
        b"\x96" + struct.pack("<Q", 1 << 28),
        b"\x95" + struct.pack("<Q", 1 << 28) + b"N",
        CALL + b"h\x00h\x01R" * 3000,
    ],
    ids=["LONG_BINPUT", "PUT", "BINBYTES8", "BYTEARRAY8", "FRAME", "calls"],
)
def test_a_small_pickle_takes_little_memory(body: bytes) -> None:
    tracemalloc.start()
    try:
        for read in (read_data, read_count):
            with pytest.raises(DatasetError):
                read(opcodes(body))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 16e6


def test_a_storage_holds_no_other_storage() -> None:
    """Storages within storages took time that grows exponentially with the pickle's size."""
    inner = write_data({"pos": np.zeros(2, np.float32)})
    nested = b"ctorch.storage\n_load_from_bytes\nB" + struct.pack("<I", len(inner)) + inner + b"\x85R"
    with refused(DatasetError, WRONG_PICKLE, found=FOREIGN_NAME(module="torch_geometric.data.data", name="Data")):
        read_data(opcodes(nested))


def test_numbers_of_numpy_are_little_endian() -> None:
    def scalar(order: str) -> bytes:
        kind = b"cnumpy\ndtype\n" + text("i8") + b"\x85RK\x03" + text(order) + b"\x86b"
        return opcodes(b"cnumpy.core.multiarray\nscalar\n" + kind + b"C\x08" + struct.pack("<q", 5) + b"\x86R")

    assert read_count(scalar("<")) == 5
    with pytest.raises(DatasetError, match="byte order"):
        read_count(scalar(">"))
