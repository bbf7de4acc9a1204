"""Modelled memory traffic of a compiled module: the bytes that its instructions access.

The model follows "bytes accessed" of XLA's cost analysis (openxla/xla, xla/service/hlo_cost_analysis.cc). Each
instruction outside a fusion reads each operand once from memory and writes its result once. No cache keeps data between
instructions, and no instruction reads data twice. A fusion moves only what crosses its border. Operations that move
part of an array (slices, gathers, in-place updates) count that part. Names, tuples and constants outside fusions move
nothing.

It refines XLA's analysis in these points: a loop counts as often as it runs, not once; a returned tuple counts its
arrays, not the pointers; an array is read once, even if it is an operand twice or has several uses in a fusion; a
gather reads only what it takes, also inside a fusion and from constants; custom calls count like other instructions.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hpcai.core.messages import Message
from hpcai.parsers.hlo.instruction import HloError, Instruction, dimensions, size_bytes
from hpcai.parsers.hlo.module import UNKNOWN, Computation, Module, read_module

UNKNOWN_TIMES = Message("traffic.unknown_times", "the execution count of {name} or its callees is unknown")
UNKNOWN_TRIPS = Message("traffic.unknown_trips", "{loops} loops of unknown trip count are counted once")

_FREE = {
    *("parameter", "constant", "bitcast", "tuple", "get-tuple-element", "opt-barrier"),
    *("after-all", "add-dependency", "domain", "partition-id", "replica-id"),
    *("call", "while", "async-start", "async-update", "async-done"),
}
"""Operations without traffic of their own: they name data, order work or call computations counted separately."""
_CALLERS = {"call", "while", "async-start"}
_TAKING = {"slice", "dynamic-slice", "gather"}
"""Operations that read no more of their first operand than they return."""
_UPDATE = "dynamic-update-slice"


@dataclass(frozen=True)
class Traffic:
    """Modelled traffic between processor and memory in one run of a module.

    Attributes
    ----------
    accessed_bytes
        Operands read and results written by all instructions [byte]; NaN if unknown.
    compulsory_bytes
        The module's parameters read and its results written, once each [byte]: the lower bound for any execution
        whose data is not already in a cache.
    reason
        Why there is no number, or what the number omits; blank if it is complete.
    """

    accessed_bytes: float
    compulsory_bytes: float
    reason: str = ""


def read_traffic(path: Path) -> Traffic:
    """Return the modelled memory traffic of an optimised module.

    Parameters
    ----------
    path
        Text of stage ``optimized_hlo``. Before optimisation nothing is fused, and traffic has no meaning.

    Raises
    ------
    ParseError
        If the file holds no HLO module.
    """
    module = read_module(path)
    if not module.whole:
        return Traffic(UNKNOWN, UNKNOWN, module.reasons[0])
    if not module.scheduled:
        return Traffic(UNKNOWN, UNKNOWN, "the module is not optimised: nothing in it is fused")
    try:
        return _count(module)
    except HloError as error:
        return Traffic(UNKNOWN, UNKNOWN, str(error))


def _count(module: Module) -> Traffic:
    executions = module.executions(unknown_trips=1.0)
    entry = next(one for one in module.computations.values() if one.is_entry)
    counted = list(_outside_fusions(module, entry.name))
    total = sum(
        executions[computation.name][one.name] * _accessed_bytes(one, computation, module)
        for computation in counted
        for one in computation.instructions.values()
        if one.operation not in _FREE
    )
    parameters = sum(size_bytes(one.type) for one in entry.instructions.values() if one.operation == "parameter")
    return Traffic(float(total), float(parameters + size_bytes(_root(entry).type)), _reason(total, counted))


def _reason(total: float, counted: list[Computation]) -> str:
    instructions = [one for computation in counted for one in computation.instructions.values()]
    if math.isnan(total):
        branching = next((one.name for one in instructions if one.operation == "conditional"), "an instruction")
        return UNKNOWN_TIMES(name=branching)
    loops = sum(one.operation == "while" and one.trips is None for one in instructions)
    return UNKNOWN_TRIPS(loops=loops) if loops else ""


def _outside_fusions(module: Module, entry: str) -> Iterator[Computation]:
    """Yield the computations whose instructions access memory: all but those inside a fusion or reduction."""
    pending, seen = [entry], {entry}
    while pending:
        computation = module.computations[pending.pop()]
        yield computation
        for one in computation.instructions.values():
            new = {callee for _, callee in one.calls if one.operation in _CALLERS} - seen
            seen |= new
            pending += sorted(new)


def _accessed_bytes(one: Instruction, computation: Computation, module: Module) -> float:
    """Return the bytes read and written by one execution of an instruction."""
    operands = [computation.operand(one, place) for place in range(len(one.operands))]
    if one.operation == "conditional":
        return UNKNOWN
    if one.operation == "fusion":
        return _fused_bytes(module.computations[next(callee for role, callee in one.calls if role == "calls")])
    result, sizes = one.result_bytes, [size_bytes(operand.type) for operand in operands]
    match one.operation:
        case "slice" | "dynamic-slice" | "gather":
            return 2 * result + sum(sizes[1:])
        case "dynamic-update-slice":
            return 2 * sizes[1] + sum(sizes[2:])
        case "scatter":
            # Operands: arrays, one set of indices, as many updates. The target is read, updated and written.
            arrays = len(sizes) // 2
            return sizes[arrays] + 3 * sum(sizes[arrays + 1 :])
    return result + sum({operand.name: size for operand, size in zip(operands, sizes, strict=True)}.values())


def _fused_bytes(fused: Computation) -> float:
    """Return the bytes that cross a fusion's border, and its reads of inner constant arrays."""
    instructions = fused.instructions.values()
    returned = _returned(fused)
    updates = {one.name for one in returned if one.operation == _UPDATE}
    written = sum(size_bytes((fused.operand(one, 1) if one.name in updates else one).type) for one in returned)
    return written + sum(_read_bytes(one, fused, updates) for one in instructions if _is_in_memory(one))


def _is_in_memory(one: Instruction) -> bool:
    """Whether a fusion reads it from memory: parameters, and constants except single numbers."""
    return one.operation == "parameter" or (one.operation == "constant" and math.prod(dimensions(one.type)) > 1)


def _returned(fused: Computation) -> list[Instruction]:
    """Return the arrays that a fusion writes, one by one, resolved through renames."""
    root = _root(fused)
    arrays = [fused.operand(root, n) for n in range(len(root.operands))] if root.operation == "tuple" else [root]
    return [_origin(one, fused) for one in arrays]


def _origin(one: Instruction, computation: Computation) -> Instruction:
    while one.operation == "bitcast":
        one = computation.operand(one, 0)
    return one


def _read_bytes(one: Instruction, fused: Computation, updates: set[str]) -> int:
    """Return how much of an array a fusion reads [byte]: all of it once, unless every user takes a part.

    The target of an in-place update is not read.
    """
    whole, parts = size_bytes(one.type), 0
    for user in fused.instructions.values():
        for place, operand in enumerate(user.operands):
            if operand.name != one.name:
                continue
            if user.operation == "bitcast":
                parts += _read_bytes(user, fused, updates)
            elif user.operation in _TAKING and place == 0:
                parts += size_bytes(user.type)
            elif not (user.name in updates and place == 0):
                return whole
    return min(parts, whole)


def _root(computation: Computation) -> Instruction:
    return next(one for one in computation.instructions.values() if one.is_root)
