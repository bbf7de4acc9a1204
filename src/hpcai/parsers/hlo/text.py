"""Convolutions and dots of a compiled module from XLA's HLO text, with the execution count of each.

Format: openxla.org/xla, "HLO text", as returned by TensorFlow's ``experimental_get_compiler_ir`` for the stages ``hlo``
and ``optimized_hlo``. `hpcai.parsers.hlo.counting` defines what counts as work.
"""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from hpcai.core.messages import Message
from hpcai.parsers.hlo.counting import Work, count_convolution, count_dot
from hpcai.parsers.hlo.instruction import HloError, Instruction, dimensions, element_type
from hpcai.parsers.hlo.module import TOOL, UNKNOWN, Computation, Module, read_module
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading

UNKNOWN_TIMES = Message(
    "text.unknown_times", "how often {first} and {others} other convolutions or dots are done is unknown"
)
HIDDEN = Message("text.hidden", "line {line}: the work of custom call {target!r} is not visible")

COLUMNS = {
    "name": "string",
    "kind": "string",
    "computation": "string",
    "element_type": "string",
    "output_shape": "string",
    "executions": "float64",
    "multiply_adds": "float64",
    "data_multiply_adds": "float64",
    "total_flop": "float64",
    "batch_groups": "float64",
    "op_type": "string",
    "op_name": "string",
}

_COUNTERS = {"convolution": count_convolution, "dot": count_dot}
_HARMLESS_CALLS = {"TopK", "AllocateBuffer", "SliceToDynamic", "PadToStatic", "Sharding"}
"""XLA's custom calls that multiply nothing."""


def read_hlo_text(path: Path) -> Reading:
    """Return one row per convolution, dot or custom call of a module.

    Columns: ``multiply_adds`` per execution, padding counted, and ``data_multiply_adds`` without it; ``executions`` per
    run of the module: 0 if no result depends on it (possible before optimisation), the trip count inside a loop,
    missing if the text does not state it; ``total_flop`` over all executions, two per multiply-add. Custom calls that
    may multiply have neither.

    A complete text ends with the closing brace of the entry computation. Shapes are written several times and are
    compared. Damage stays undetected in TensorFlow operation names, in trip counts, and in the choice between two
    operands of equal shape.

    Parameters
    ----------
    path
        Text of stage ``hlo`` or ``optimized_hlo``.

    Raises
    ------
    ParseError
        If the file holds no HLO module.
    """
    module = read_module(path)
    reasons = module.reasons
    table = pd.DataFrame(_rows(module, reasons), columns=list(COLUMNS)).astype(COLUMNS)
    unknown = table["multiply_adds"].notna() & table["executions"].isna()
    if unknown.any():
        first = table["name"][unknown].iloc[0]
        reasons.append(UNKNOWN_TIMES(first=first, others=unknown.sum() - 1))
    return Reading(
        table=table,
        tool=TOOL,
        source=path,
        complete_records=int(table["total_flop"].notna().sum()),
        seen_records=len(table) + module.lost,
        reasons=tuple(reasons),
        facts={"module": module.name, "scheduled": module.scheduled, "computations": len(module.computations)},
    )


def _rows(module: Module, reasons: list[str]) -> list[dict[str, object]]:
    executions = module.executions()
    return [
        _row(one, computation.name, executions[computation.name][one.name], work)
        for computation in module.computations.values()
        for one, work in _multiplying(computation, reasons)
    ]


def _multiplying(computation: Computation, reasons: list[str]) -> Iterator[tuple[Instruction, Work | None]]:
    """Yield each multiplying instruction with its work, None if the work cannot be counted."""
    for one in computation.instructions.values():
        if one.operation in _COUNTERS:
            yield one, _work(one, computation, reasons)
        elif one.operation == "custom-call":
            target = one.attribute("custom_call_target").strip('"')
            if target not in _HARMLESS_CALLS:
                reasons.append(HIDDEN(line=one.line, target=target))
                yield one, None


def _work(one: Instruction, computation: Computation, reasons: list[str]) -> Work | None:
    """Return the work of an instruction; None, with a reason, if the text contradicts itself."""
    try:
        if len(one.operands) != 2:
            raise HloError(f"found {len(one.operands)} operands, expected 2")
        image, kernel = (dimensions(computation.operand(one, place).type) for place in range(2))
        return _COUNTERS[one.operation](one, image, kernel, dimensions(one.type))
    except ValueError as error:
        reasons.append(f"line {one.line}: {one.name} was skipped: {error}")
        return None


def _row(one: Instruction, computation: str, executions: float, work: Work | None) -> dict[str, object]:
    return {
        "name": one.name,
        "kind": one.operation,
        "computation": computation,
        "element_type": element_type(one.type),
        "output_shape": ",".join(map(str, dimensions(one.type))) if work else None,
        "executions": executions,
        "multiply_adds": work.multiply_adds if work else UNKNOWN,
        "data_multiply_adds": work.data_multiply_adds if work else UNKNOWN,
        "total_flop": 2 * work.multiply_adds * executions if work else UNKNOWN,
        "batch_groups": work.batch_groups if work else UNKNOWN,
        "op_type": one.op_type or None,
        "op_name": one.op_name or None,
    }


READER = Reader("hlo", "HLO text of XLA", read_hlo_text, looks=("HLO text of XLA",))
