"""Write `Data` objects of PyTorch Geometric 1.7 as pickles that PyTorch loads, without using PyTorch.

The instructions are written by hand, because Python's pickler only names what it can import. Layout of PyTorch
Geometric 1.7.2: a new `Data`, then its ``__dict__``; tensors as in torch/_tensor.py, `_reduce_ex_internal`;
storages as in torch/serialization.py, `_legacy_save`.
"""

import pickle
import struct
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hpcai.core.errors import DatasetError
from hpcai.workloads.opencatalyst.data.pyg_pickle import STORAGES, TORCH_MAGIC, TORCH_PROTOCOL

Value = NDArray[np.generic] | float | int | None
_STORAGE_OF = {np.dtype(code): name for name, code in STORAGES.items()}
_BASE_FIELDS = ("x", "edge_index", "edge_attr", "y", "pos", "normal", "face")
"""What `Data.__init__` always sets (torch_geometric 1.7.2, data/data.py)."""
_PROTOCOL = b"\x80\x03"
_STOP = b"."


def write_data(fields: Mapping[str, Value]) -> bytes:
    """Return a `Data` object with some attributes as a pickle of protocol 3; equal fields give equal bytes.

    Raises
    ------
    DatasetError
        If an array has a type that torch lacks.
    """
    ordered = {**dict.fromkeys(_BASE_FIELDS), **fields}
    items = b"".join(_text(name) + _value(name, value) for name, value in ordered.items())
    new_object = _name("torch_geometric.data.data", "Data") + pickle.EMPTY_TUPLE + pickle.NEWOBJ
    state = pickle.EMPTY_DICT + pickle.MARK + items + pickle.SETITEMS
    return _PROTOCOL + new_object + state + pickle.BUILD + _STOP


def write_count(count: int) -> bytes:
    """Return a whole number as a pickle."""
    return _PROTOCOL + _plain(count) + _STOP


def _value(name: str, value: Value) -> bytes:
    if isinstance(value, np.ndarray):
        if value.dtype not in _STORAGE_OF:
            raise DatasetError(f"{name}: found an array of {value.dtype}, expected one of {', '.join(STORAGES)}")
        return _tensor(value)
    return _plain(value)


def _tensor(array: NDArray[np.generic]) -> bytes:
    """Encode the call _rebuild_tensor_v2(storage, 0, shape, strides, requires_grad=False, hooks=OrderedDict())."""
    strides = [int(np.prod(array.shape[axis + 1 :], dtype=np.int64)) for axis in range(array.ndim)]
    storage = _call("torch.storage", "_load_from_bytes", _plain(_storage_bytes(array)))
    arguments = (
        storage
        + _plain(0)
        + _tuple(b"".join(map(_plain, array.shape)))
        + _tuple(b"".join(map(_plain, strides)))
        + pickle.NEWFALSE
        + _call("collections", "OrderedDict", b"")
    )
    return _call("torch._utils", "_rebuild_tensor_v2", arguments)


def _storage_bytes(array: NDArray[np.generic]) -> bytes:
    """Return what torch.save writes for the storage of an array."""
    key = "0"
    system = {
        "protocol_version": TORCH_PROTOCOL,
        "little_endian": True,
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    identity = _tuple(
        _text("storage")
        + _name("torch", _STORAGE_OF[array.dtype])
        + _text(key)
        + _text("cpu")
        + _plain(array.size)
        + pickle.NONE
    )
    head = b"".join(pickle.dumps(item, protocol=2) for item in (TORCH_MAGIC, TORCH_PROTOCOL, system))
    described = b"\x80\x02" + identity + pickle.BINPERSID + _STOP
    return head + described + pickle.dumps([key], protocol=2) + struct.pack("<q", array.size) + array.tobytes()


def _name(module: str, name: str) -> bytes:
    return pickle.GLOBAL + f"{module}\n{name}\n".encode()


def _call(module: str, name: str, arguments: bytes) -> bytes:
    return _name(module, name) + _tuple(arguments) + pickle.REDUCE


def _tuple(items: bytes) -> bytes:
    return pickle.MARK + items + pickle.TUPLE


def _text(text: str) -> bytes:
    data = text.encode()
    return pickle.BINUNICODE + struct.pack("<I", len(data)) + data


def _plain(value: object) -> bytes:
    """Encode a number, None or bytes: the body of its own pickle, which names nothing and needs no memo."""
    if isinstance(value, bytes):
        return pickle.BINBYTES + struct.pack("<I", len(value)) + value
    assert value is None or isinstance(value, int | float), "nothing else is written"
    return pickle.dumps(value, protocol=3)[len(_PROTOCOL) : -len(_STOP)]
