"""Reads pickled PyTorch Geometric `Data` objects without PyTorch, and without running anything that a pickle names.

A pickle is a program that may call whatever it can import. This reader knows a few names, each of which it answers
with a harmless stand-in of its own, and refuses all others. A tensor is a view (offset, shape, strides) of a storage,
which torch.save wrote in its format before 1.6: five pickles and then the raw numbers (torch/serialization.py,
`_legacy_save`; torch/storage.py, `__reduce__`).
"""

import io
import pickle
import struct
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from hpcai.errors import DatasetError

TORCH_MAGIC = 0x1950A86A20F9469CFC6C
TORCH_PROTOCOL = 1001
STORAGES: dict[str, str] = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "|i1",
    "ByteStorage": "|u1",
    "BoolStorage": "|b1",
}
"""Classes of torch and the little-endian numbers that they hold."""
REPAIR = "copy the file again, or make the dataset again"

Array = NDArray[np.generic]


def read_data(payload: bytes) -> dict[str, object]:
    """Return the attributes of a pickled `Data` object by name; tensors become arrays.

    Both forms are read: the one of PyTorch Geometric 1.x, whose attributes lie in ``__dict__``, and the one of 2.x,
    which keeps them in a storage of its own. Attributes without a value are left out.

    Raises
    ------
    DatasetError
        If the pickle is damaged, is no `Data` object, or names anything that such an object does not need.
    """
    found = _load(io.BytesIO(payload), _Unpickler)
    if not isinstance(found, _Data):
        raise _problem(f"found a pickled {type(found).__name__}", "a torch_geometric.data.Data object")
    attributes: object = vars(found)
    if "_store" in vars(found):
        attributes = getattr(vars(found)["_store"], "_mapping", None)
    if not isinstance(attributes, dict):
        raise _problem("found a Data object with a strange storage", "the one of PyTorch Geometric 2")
    return {str(name): value for name, value in attributes.items() if value is not None}


def read_count(payload: bytes) -> int:
    """Return a pickled whole number, such as the value of the key ``length``.

    Raises
    ------
    DatasetError
        If it is something else.
    """
    found = _load(io.BytesIO(payload), _Unpickler)
    if isinstance(found, bool) or not isinstance(found, int):
        raise _problem(f"found a pickled {type(found).__name__}", "a whole number")
    return found


def _problem(found: str, expected: str) -> DatasetError:
    return DatasetError(f"{found}, expected {expected}; {REPAIR}")


class _Sealed(type):
    """Keeps a pickle from changing the stand-ins for the pickles that follow."""

    def __setattr__(cls, name: str, value: object) -> NoReturn:
        raise TypeError(f"{cls.__name__}.{name} cannot be set")


class _Data(metaclass=_Sealed):
    """Stands for torch_geometric.data.data.Data: attributes and no behaviour."""


class _Store(metaclass=_Sealed):
    """Stands for torch_geometric.data.storage.GlobalStorage."""


@dataclass(frozen=True, slots=True)
class _Function:
    """Stands for a function of torch or NumPy; frozen, so that a pickle cannot change it."""

    call: Callable[..., object]

    def __call__(self, *arguments: object) -> object:
        return self.call(*arguments)


@dataclass(frozen=True, slots=True)
class _StorageType:
    """Stands for torch.FloatStorage and the like."""

    dtype: np.dtype[np.generic]


class _ScalarType(metaclass=_Sealed):
    """Stands for numpy.dtype: the type of a scalar, of which only the code matters."""

    def __init__(self, code: str, *_: object) -> None:
        self.dtype = np.dtype(code) if code in {"f4", "f8", "i4", "i8"} else None

    def __setstate__(self, state: object) -> None:
        """Byte order and layout; the codes above are little-endian."""


def _scalar(kind: _ScalarType, data: bytes) -> object:
    """Return a NumPy scalar as a number of Python."""
    if not isinstance(kind, _ScalarType) or kind.dtype is None:
        raise _problem("found a NumPy scalar that is no number", "numbers of 4 or 8 bytes")
    return np.frombuffer(data, kind.dtype, count=1)[0].item()


def _tensor(storage: Array, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: object) -> Array:
    """Return what torch._utils._rebuild_tensor_v2 makes of a storage, as a copy."""
    if not isinstance(storage, np.ndarray) or len(shape) != len(strides):
        raise _problem("found a tensor without storage or strides", "a view of a storage")
    sizes, steps = np.array(shape, np.int64), np.array(strides, np.int64)
    numbers = int(np.prod(sizes))
    last = offset + int(((sizes - 1) * steps).sum())
    if offset < 0 or (sizes < 0).any() or (steps < 0).any() or numbers > storage.size:
        raise _problem(f"found a tensor of shape {shape} on {storage.size} numbers", "a view of a storage")
    if numbers and last >= storage.size:
        raise _problem(f"found a tensor that ends at number {last} of {storage.size}", "a view of a storage")
    item_bytes = storage.itemsize
    view = np.lib.stride_tricks.as_strided(storage[offset:], shape, tuple(int(step) * item_bytes for step in steps))
    return view.copy()


def _encoded(text: str, encoding: str) -> bytes:
    """Return the bytes that protocols below 3 write as text."""
    if encoding != "latin1":
        raise _problem(f"found text in {encoding}", "bytes as latin1")
    return text.encode("latin1")


def _rebuild_data(cls: object, base: object, state: object) -> object:
    """Return what copyreg._reconstructor makes, which pickles of protocol 0 and 1 call."""
    if base is object and state is None:
        if cls is _Data:
            return _Data()
        if cls is _Store:
            return _Store()
    raise _problem("found a pickle that builds something foreign", "a Data object")


class _Unpickler(pickle.Unpickler):
    """Knows `_NAMES` and nothing else."""

    def find_class(self, module_name: str, global_name: str) -> object:
        """Return the stand-in of a name."""
        try:
            return _NAMES[module_name, global_name]
        except KeyError:
            raise _problem(
                f"found the name {module_name}.{global_name} in a pickle", "a Data object of tensors and numbers"
            ) from None


class _StorageUnpickler(_Unpickler):
    """Reads the pickle of a storage, in which the storage itself is a persistent id."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream)
        self.found: tuple[np.dtype[np.generic], str, int] | None = None

    def persistent_load(self, pid: object) -> object:
        """Remember type, key and count; the numbers follow after the pickles."""
        match pid:
            case ("storage", _StorageType(dtype), str(key), str(), int(count), None):
                self.found = (dtype, key, count)
                return self
        raise _problem("found a storage that is a view of another, or is none", "a storage with numbers of its own")


def _storage(data: object) -> Array:
    """Return the numbers of a storage from the bytes that torch.save wrote.

    Magic number, protocol, facts about the system, the storage's description, the list of keys; then for the one key
    the count as int64 and the raw little-endian numbers.
    """
    if not isinstance(data, bytes):
        raise _problem("found a storage without bytes", "bytes of torch.save")
    stream = io.BytesIO(data)
    magic, protocol, system = (_load(stream, _Unpickler) for _ in range(3))
    if (magic, protocol) != (TORCH_MAGIC, TORCH_PROTOCOL):
        raise _problem(f"found magic number {magic!r} and protocol {protocol!r}", "a storage written by torch.save")
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise _problem("found a storage of a big-endian machine", "little-endian numbers")
    described: list[_StorageUnpickler] = []

    def remember(source: io.BytesIO) -> _StorageUnpickler:
        described.append(_StorageUnpickler(source))
        return described[0]

    _load(stream, remember)
    keys = _load(stream, _Unpickler)
    if not described[0].found or keys != [described[0].found[1]]:
        raise _problem(f"found {keys!r} as keys of a storage", "the one key that its description has")
    dtype, _, count = described[0].found
    (size,) = struct.unpack("<q", stream.read(8).ljust(8, b"\xff"))
    raw = stream.read()
    if size != count or len(raw) != count * dtype.itemsize:
        raise _problem(f"found a storage of {size} numbers in {len(raw)} bytes", f"{count} numbers of {dtype}")
    return np.frombuffer(raw, dtype)


def _load(stream: io.BytesIO, unpickler: Callable[[io.BytesIO], pickle.Unpickler]) -> object:
    """Read one pickle; whatever damage makes it do becomes a DatasetError."""
    try:
        return unpickler(stream).load()
    except DatasetError:
        raise
    except MemoryError:
        raise _problem("found a pickle that asks for more memory than there is", "a whole Data object") from None
    except Exception as error:  # damaged pickles raise nearly everything
        raise _problem(f"found a damaged pickle ({type(error).__name__}: {error})", "a whole Data object") from error


_NAMES: dict[tuple[str, str], object] = {
    ("torch_geometric.data.data", "Data"): _Data,
    ("torch_geometric.data.storage", "GlobalStorage"): _Store,
    # Classes that a Data object of PyTorch Geometric 2 remembers and that hold nothing.
    ("torch_geometric.data.data", "DataEdgeAttr"): _Store,
    ("torch_geometric.data.data", "DataTensorAttr"): _Store,
    ("torch._utils", "_rebuild_tensor_v2"): _Function(_tensor),
    ("torch.storage", "_load_from_bytes"): _Function(_storage),
    ("collections", "OrderedDict"): OrderedDict,
    ("_codecs", "encode"): _Function(_encoded),
    ("copyreg", "_reconstructor"): _Function(_rebuild_data),
    ("copy_reg", "_reconstructor"): _Function(_rebuild_data),
    ("__builtin__", "object"): object,
    ("builtins", "object"): object,
    ("numpy", "dtype"): _ScalarType,
    ("numpy.core.multiarray", "scalar"): _Function(_scalar),
    ("numpy._core.multiarray", "scalar"): _Function(_scalar),
    **{("torch", name): _StorageType(np.dtype(code)) for name, code in STORAGES.items()},
}
