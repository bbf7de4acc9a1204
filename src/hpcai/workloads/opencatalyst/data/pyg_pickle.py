"""Read pickled PyTorch Geometric `Data` objects without PyTorch, and without running anything that a pickle names.

A pickle is a program that can call anything it can import. This reader maps a few names to harmless stand-ins and
refuses all others. A tensor is a view (offset, shape, strides) of a storage,
which torch.save wrote in its format before 1.6: five pickles and then the raw numbers (torch/serialization.py,
`_legacy_save`; torch/storage.py, `__reduce__`).
"""

import io
import math
import operator
import pickle
import pickletools
import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from hpcai.core.errors import DatasetError
from hpcai.core.messages import Message

WRONG_PICKLE = Message("pyg_pickle.wrong_pickle", "{found}, expected {expected}; {remedy}")
FOREIGN_NAME = Message("pyg_pickle.foreign_name", "found the name {module}.{name} in a pickle")

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
_SIZED = {"PUT", "BINPUT", "LONG_BINPUT", "FRAME"}
"""Instructions whose argument allocates memory: the index of an object, or the number of bytes that follow."""
_CALLS = {"REDUCE", "NEWOBJ", "NEWOBJ_EX", "OBJ", "INST"}
_MOST_CALLS = 1000
"""Three per tensor and one per NumPy scalar; each may copy an argument that all of them share."""
REPAIR = "copy the file again, or make the dataset again"

Array = NDArray[np.generic]


def read_data(payload: bytes) -> dict[str, object]:
    """Return the attributes of a pickled `Data` object by name; tensors become arrays.

    Both forms are read: the one of PyTorch Geometric 1.x, whose attributes lie in ``__dict__``, and the one of 2.x,
    which keeps them in its own storage. Attributes without a value are left out.

    Raises
    ------
    DatasetError
        If the pickle is damaged, is not a `Data` object, or names anything that such an object does not need.
    """
    found = _load_data(payload)
    if not isinstance(found, _Data):
        raise _problem(f"found a pickled {type(found).__name__}", "a torch_geometric.data.Data object")
    attributes: object = vars(found)
    if "_store" in vars(found):
        attributes = getattr(vars(found)["_store"], "_mapping", None)
    if not isinstance(attributes, dict):
        raise _problem("found a Data object with an unknown storage", "the one of PyTorch Geometric 2")
    return {str(name): value for name, value in attributes.items() if value is not None}


def read_count(payload: bytes) -> int:
    """Return a pickled whole number, such as the value of the key ``length``.

    Raises
    ------
    DatasetError
        If it is something else.
    """
    found = _load_data(payload)
    if isinstance(found, bool) or not isinstance(found, int):
        raise _problem(f"found a pickled {type(found).__name__}", "a whole number")
    return found


def _load_data(payload: bytes) -> object:
    stream = io.BytesIO(payload)
    return _load(stream, _Unpickler(stream, _NAMES))


def _problem(found: str, expected: str) -> DatasetError:
    return DatasetError(WRONG_PICKLE(found=found, expected=expected, remedy=REPAIR))


class _Sealed(type):
    """Keeps a pickle from changing the stand-ins for later pickles."""

    def __setattr__(cls, name: str, value: object) -> NoReturn:
        raise TypeError(f"{cls.__name__}.{name} cannot be set")


class _Data(metaclass=_Sealed):
    """Stand-in for torch_geometric.data.data.Data: attributes and no behaviour."""


class _Store(metaclass=_Sealed):
    """Stand-in for torch_geometric.data.storage.GlobalStorage."""


class _Function(NamedTuple):
    """Stand-in for a function of torch or NumPy; a tuple, because a pickle cannot give a tuple any state."""

    call: Callable[..., object]

    def __call__(self, *arguments: object) -> object:
        return self.call(*arguments)


class _StorageType(NamedTuple):
    """Stand-in for torch.FloatStorage and the like; a tuple as above, because all files of a process share it."""

    dtype: np.dtype[np.generic]


class _ScalarType(metaclass=_Sealed):
    """Stand-in for numpy.dtype: the type of a scalar, of which only the code matters. Each pickle creates its own."""

    def __init__(self, code: str, *_: object) -> None:
        self.dtype = np.dtype(code) if code in {"f4", "f8", "i4", "i8"} else None

    def __setstate__(self, state: object) -> None:
        """Keep nothing of NumPy's byte order and layout; only the order and layout of the codes are supported."""
        match state:
            case (int(), "<" | "|", *_):
                return
        raise _problem("found a NumPy scalar of another byte order", "little-endian numbers")


def _scalar(kind: _ScalarType, data: bytes) -> object:
    """Return a NumPy scalar as a Python number."""
    if not isinstance(kind, _ScalarType) or kind.dtype is None:
        raise _problem("found a NumPy scalar that is not a number", "numbers of 4 or 8 bytes")
    return np.frombuffer(data, kind.dtype, count=1)[0].item()


def _tensor(storage: Array, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: object) -> Array:
    """Return a copy of what torch._utils._rebuild_tensor_v2 builds from a storage."""
    if not isinstance(storage, np.ndarray) or len(shape) != len(strides):
        raise _problem("found a tensor without storage or strides", "a view of a storage")
    # Python integers: NumPy's overflow, and the view would then reach outside the storage.
    first, *counts = map(operator.index, (offset, *shape))
    steps = [operator.index(step) for step in strides]
    numbers = math.prod(counts)
    last = first + sum((count - 1) * step for count, step in zip(counts, steps, strict=True))
    if min([first, *counts, *steps]) < 0 or numbers > storage.size:
        raise _problem(f"found a tensor of shape {shape} on {storage.size} numbers", "a view of a storage")
    if numbers and last >= storage.size:
        raise _problem(f"found a tensor that ends at number {last} of {storage.size}", "a view of a storage")
    item_bytes = storage.itemsize
    view = np.lib.stride_tricks.as_strided(storage[first:], counts, [step * item_bytes for step in steps])
    return view.copy()


def _encoded(text: str, encoding: str) -> bytes:
    """Return the bytes that protocols below 3 write as text."""
    if encoding != "latin1":
        raise _problem(f"found text in {encoding}", "bytes as latin1")
    return text.encode("latin1")


def _rebuild_data(cls: object, base: object, state: object) -> object:
    """Return what copyreg._reconstructor builds; pickles of protocol 0 and 1 call it."""
    if base is object and state is None:
        if cls is _Data:
            return _Data()
        if cls is _Store:
            return _Store()
    raise _problem("found a pickle that builds a foreign object", "a Data object")


class _Unpickler(pickle.Unpickler):
    """Resolves known names and refuses all others."""

    def __init__(self, stream: io.BytesIO, names: Mapping[tuple[str, str], object]) -> None:
        super().__init__(stream)
        self._names = names

    def find_class(self, module_name: str, global_name: str) -> object:
        """Return the stand-in of a name."""
        try:
            return self._names[module_name, global_name]
        except KeyError:
            raise _problem(
                FOREIGN_NAME(module=module_name, name=global_name), "a Data object of tensors and numbers"
            ) from None


class _StorageUnpickler(_Unpickler):
    """Reads the pickle of a storage, in which the storage itself is a persistent id."""

    def __init__(self, stream: io.BytesIO, names: Mapping[tuple[str, str], object]) -> None:
        super().__init__(stream, names)
        self.found: tuple[np.dtype[np.generic], str, int] | None = None

    def persistent_load(self, pid: object) -> None:
        """Remember type, key and count; the numbers follow after the pickles."""
        match pid:
            case ("storage", _StorageType(dtype), str(key), str(), int(count), None):
                self.found = (dtype, key, count)
                return
        raise _problem("found a storage that is a view, or not a storage", "a storage with its own numbers")


def _storage(data: object) -> Array:
    """Return the numbers of a storage from the bytes that torch.save wrote.

    Magic number, protocol, facts about the system, the storage's description, the list of keys; then for the one key
    the count as int64 and the raw little-endian numbers.
    """
    if not isinstance(data, bytes):
        raise _problem("found a storage without bytes", "bytes of torch.save")
    stream = io.BytesIO(data)
    magic, protocol, system = (_load(stream, _Unpickler(stream, {})) for _ in range(3))
    if (magic, protocol) != (TORCH_MAGIC, TORCH_PROTOCOL):
        raise _problem(f"found magic number {magic!r} and protocol {protocol!r}", "a storage written by torch.save")
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise _problem("found a storage of a big-endian machine", "little-endian numbers")
    # These pickles name only the type of the storage, so none can hold another storage.
    described = _StorageUnpickler(stream, _STORAGE_TYPES)
    _load(stream, described)
    keys = _load(stream, _Unpickler(stream, {}))
    if not described.found or keys != [described.found[1]]:
        raise _problem(f"found {keys!r} as keys of a storage", "the one key that its description has")
    dtype, _, count = described.found
    (size,) = struct.unpack("<q", stream.read(8).ljust(8, b"\xff"))
    raw = stream.read()
    if size != count or len(raw) != count * dtype.itemsize:
        raise _problem(f"found a storage of {size} numbers in {len(raw)} bytes", f"{count} numbers of {dtype}")
    return np.frombuffer(raw, dtype)


def _load(stream: io.BytesIO, unpickler: pickle.Unpickler) -> object:
    """Read one pickle; any failure on damaged data becomes a DatasetError."""
    try:
        _check_instructions(stream)
        return unpickler.load()
    except DatasetError:
        raise
    except MemoryError:
        raise _problem("found a pickle that asks for more memory than there is", "a whole Data object") from None
    except Exception as error:  # damaged pickles can raise nearly anything
        raise _problem(f"found a damaged pickle ({type(error).__name__}: {error})", "a whole Data object") from error


def _check_instructions(stream: io.BytesIO) -> None:
    """Refuse, before running it, a pickle that asks for more memory or calls than its own bytes explain.

    The unpickler allocates the highest index that is named, and counted bytes before it reads them
    (Modules/_pickle.c, `_Unpickler_MemoPut` and `load_counted_binbytes`); `genops` raises ValueError when those bytes
    are not there.
    """
    start, end = stream.tell(), stream.seek(0, io.SEEK_END)
    stream.seek(start)
    calls = 0
    for instruction, argument, _ in pickletools.genops(stream):
        if instruction.name in _SIZED and not (isinstance(argument, int) and 0 <= argument <= end - start):
            raise _problem(
                f"found {instruction.name} {argument} in a pickle of at most {end - start} bytes",
                "no more places or bytes than it has",
            )
        calls += instruction.name in _CALLS
    if calls > _MOST_CALLS:
        raise _problem(f"found {calls} calls in a pickle", f"at most {_MOST_CALLS}")
    stream.seek(start)


_STORAGE_TYPES: dict[tuple[str, str], object] = {
    ("torch", name): _StorageType(np.dtype(code)) for name, code in STORAGES.items()
}
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
    **_STORAGE_TYPES,
}
