"""Known names, data types and shapes in a Horovod timeline."""

import math
from collections import Counter
from collections.abc import Iterator

from hpcai.parsers.horovod.groups import NEGOTIATION, OPERATIONS

_LIBRARIES = ("MPI", "NCCL", "GLOO", "CCL", "DDL", "MLSL")
_COLLECTIVES = ("ALLREDUCE", "ALLGATHER", "BCAST", "ALLTOALL", "REDUCESCATTER", "REDUCE", "BARRIER", "ADASUM_ALLREDUCE")
_BUFFERS = ("FUSION_BUFFER", "HOST_BUFFER", "SHARED_BUFFER")
KNOWN = frozenset(
    {
        *OPERATIONS,
        *(NEGOTIATION + name for name in OPERATIONS),
        *(f"{library}_{name}" for library in _LIBRARIES for name in _COLLECTIVES),
        *(f"MPI_CROSS_{name}" for name in ("ALLREDUCE", "ALLGATHER", "BCAST")),
        *(f"MEMCPY_{way}_{buffer}" for way in ("IN", "OUT") for buffer in _BUFFERS),
        *("INIT_NCCL", "INIT_FUSION_BUFFER", "WAIT_FOR_DATA", "WAIT_FOR_OTHER_TENSOR_DATA", "QUEUE"),
        *("ALLOCATE_OUTPUT", "ALLOCATE_SHARED_BUFFER", "COPY_ALLGATHER_OUTPUT"),
    }
)
"""Horovod's operations and activities (horovod/common/common.h, message.h)."""

SIZES_BYTES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "float32": 4,
    "int64": 8,
    "float64": 8,
}
_USUAL = 3
"""Occurrences after which a shape is a tensor's usual one."""


def result_bytes(result: object) -> float:
    """Return the size of an operation's result from data type and shape; NaN if the type is unknown."""
    kind, shape = result if isinstance(result, tuple) else ("", "")
    count = math.prod(int(part) for part in shape.split(", ")) if shape else 1
    return float(count * SIZES_BYTES[kind]) if kind in SIZES_BYTES else math.nan


def shared_shapes(counts: Counter[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield tensors with one odd result among many equal ones, as tensor, rare result, usual result."""
    usual = {tensor: code for (tensor, code), count in counts.items() if count >= _USUAL}
    for (tensor, code), count in counts.items():
        if count == 1 and tensor in usual:
            yield tensor, code, usual[tensor]
