"""Read an HLO module from text: computations, their calls, and the execution count of each instruction."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hpcai.core.messages import Message
from hpcai.parsers.hlo.instruction import HloError, Instruction, parse_instruction
from hpcai.parsers.identify import looks_like
from hpcai.parsers.reading import nothing_read
from hpcai.parsers.text import read_lines

HEAD_ALONE = Message("module.head_alone", "the head of an HLO module alone")

TOOL = "HLO text of XLA"
UNKNOWN = float("nan")
MULTIPLYING = ("convolution", "dot")

_HEAD = re.compile(r"HloModule (?P<name>[^\s,]+)")
_COMPUTATION = re.compile(r"(?P<entry>ENTRY )?%?(?P<name>[A-Za-z_][\w.-]*) (?:\(.*\) -> .* )?\{")
_TABLED = re.compile(r'\d+ (?:"|\{).*')
"""An entry of the tables of files and stack frames that newer versions of XLA put before the computations."""
_SIGNS = ("dim_labels", "lhs_contracting_dims")
"""Attributes that only convolutions and dots have; they reveal one whose operation name was damaged."""
_EFFECTS = {"infeed", "outfeed", "send", "send-done", "recv", "recv-done", "custom-call"}
"""Operations that run even if nothing uses their result."""
_ROLES = {"fusion": {"calls"}, "call": {"to_apply"}, "async-start": {"calls"}, "while": {"condition", "body"}}
"""Roles of the computations that these operations call; all but loop roles run once."""


@dataclass
class Computation:
    """A named list of instructions; not ``whole`` if a line is missing or contradicts another."""

    name: str
    is_entry: bool
    instructions: dict[str, Instruction] = field(default_factory=dict)
    whole: bool = True

    def operand(self, one: Instruction, place: int) -> Instruction:
        """Return an operand of an instruction.

        Raises
        ------
        HloError
            If it is missing, follows the instruction, or has another type than the instruction states.
        """
        if place >= len(one.operands):
            raise HloError(f"line {one.line}: {one.operation} with {len(one.operands)} operands")
        named = one.operands[place]
        found = self.instructions.get(named.name)
        if found is None or found.line >= one.line:
            raise HloError(f"its operand {named.name} is missing")
        if named.type and named.type != found.type:
            raise HloError(f"its operand {named.name} is {named.type} here and {found.type} where it is made")
        return found


@dataclass
class Module:
    """The computations of a module by name, and reasons for missing parts.

    ``scheduled``: the module is optimised and in execution order. ``lost`` counts lines that could have held a
    convolution or dot.
    """

    name: str
    scheduled: bool
    computations: dict[str, Computation] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    lost: int = 0

    @property
    def whole(self) -> bool:
        """Whether everything was understood."""
        return not self.reasons

    def executions(self, unknown_trips: float = UNKNOWN) -> dict[str, dict[str, float]]:
        """Return the execution count per run of the module, by computation and instruction.

        0 if no result depends on the instruction. NaN if the text leaves the count open: a loop of unknown trip count,
        a branch, or damage that affects it.

        Parameters
        ----------
        unknown_trips
            Trip count to assume for a loop that does not state it.
        """
        used = {name: _used(one) for name, one in self.computations.items()}
        times = {name: 1.0 if one.is_entry else 0.0 for name, one in self.computations.items()}
        for name in _callers_first(self.computations.values()):
            if not self.computations[name].whole or (not times[name] and not self.whole):
                # The missing line may hold its caller.
                times[name] = UNKNOWN
            for instruction in self.computations[name].instructions.values():
                for role, callee in instruction.calls if times[name] and instruction.name in used[name] else ():
                    if callee in times:
                        times[callee] += times[name] * _trips(instruction, role, unknown_trips)
        return {
            name: {key: times[name] if key in used[name] else self._unused(times[name]) for key in one.instructions}
            for name, one in self.computations.items()
        }

    def _unused(self, times: float) -> float:
        # The optimiser removes unused instructions, so one without users has a damaged name.
        return UNKNOWN if self.scheduled or math.isnan(times) else 0.0


def read_module(path: Path) -> Module:
    """Return the module of a file.

    Raises
    ------
    ParseError
        If the file holds no HLO module.
    """
    lines = read_lines(path, TOOL)
    found = _HEAD.match(lines[0]) if lines else None
    if found is None:
        raise nothing_read(path, TOOL, looks_like(path), "write out the compiled step again")
    module = Module(found["name"], "is_scheduled=true" in lines[0])
    _add_computations(module, lines)
    if not any(one.instructions for one in module.computations.values()):
        raise nothing_read(path, TOOL, HEAD_ALONE(), "write out the compiled step again")
    return module


def _add_computations(module: Module, lines: Sequence[str]) -> None:
    """Add the computations after the head (the first line), and note what is missing."""
    current: Computation | None = None
    for number, line in enumerate(lines[1:], 2):
        if current is None:
            current = _begin(module, line, number)
        elif line.startswith("}"):
            _check_names(module, current)
            current = None
        elif line.strip():
            _add(module, current, line, number)
    if current is not None:
        if current.instructions:
            # A truncated last line may still parse.
            module.lost += current.instructions.popitem()[1].operation in MULTIPLYING
        current.whole = False
        module.reasons.append(f"line {len(lines)}: found the end of the file within {current.name}, expected its end")
    entries = sum(one.is_entry for one in module.computations.values())
    if entries != 1:
        module.reasons.append(f"found {entries} entry computations, expected 1: the file ends too early or is damaged")
    _check_calls(module)


def _begin(module: Module, line: str, number: int) -> Computation | None:
    found = _COMPUTATION.fullmatch(line.strip())
    if found and found["name"] not in module.computations:
        computation = Computation(found["name"], bool(found["entry"]))
        module.computations[computation.name] = computation
        return computation
    if not _TABLED.fullmatch(line) and (" = " in line or line.endswith(("{", "}"))):
        module.reasons.append(f"line {number}: found {line[:40]!r}, expected the head of a computation")
        module.lost += any(f" {operation}(" in line for operation in MULTIPLYING)
    return None


def _add(module: Module, computation: Computation, line: str, number: int) -> None:
    try:
        instruction = parse_instruction(line, number)
        if instruction.name in computation.instructions:
            raise HloError(f"line {number}: a second {instruction.name}")
        multiplies = instruction.operation in MULTIPLYING or instruction.is_cudnn
        if not multiplies and any(map(instruction.attribute, _SIGNS)):
            raise HloError(f"line {number}: {instruction.operation} has what only convolutions and dots have")
        _add_elements(computation, instruction)
    except HloError as error:
        module.reasons.append(f"{error}; it was skipped")
        module.lost += 1
        computation.whole = False
        return
    computation.instructions[instruction.name] = instruction


def _add_elements(computation: Computation, instruction: Instruction) -> None:
    """Add the elements of tuples that an instruction uses as ``name#place``."""
    for operand in instruction.operands:
        source, mark, place = operand.name.partition("#")
        if mark and operand.name not in computation.instructions and source in computation.instructions:
            computation.instructions[operand.name] = computation.instructions[source].element(int(place))


def _check_names(module: Module, computation: Computation) -> None:
    """Note operands that do not exist, and computations without a result."""
    for instruction in computation.instructions.values():
        for operand in instruction.operands:
            if operand.name not in computation.instructions:
                computation.whole = False
                module.reasons.append(f"line {instruction.line}: uses {operand.name}, which is missing")
    roots = sum(one.is_root for one in computation.instructions.values())
    if roots != 1:
        computation.whole = False
        module.reasons.append(f"{computation.name}: found {roots} results, expected 1")


def _check_calls(module: Module) -> None:
    for computation in module.computations.values():
        for instruction in computation.instructions.values():
            for _, callee in instruction.calls:
                if callee not in module.computations:
                    module.reasons.append(f"line {instruction.line}: calls {callee}, which is missing")
            if missing := _ROLES.get(instruction.operation, set()) - {role for role, _ in instruction.calls}:
                module.reasons.append(f"line {instruction.line}: {instruction.operation} without {min(missing)}")


def _callers_first(computations: Iterable[Computation]) -> list[str]:
    """Return the names ordered so that callers precede callees; a cycle, which is damage, is cut."""
    by_name = {one.name: one for one in computations}
    order: list[str] = []
    seen: set[str] = set()
    # Uncalled computations first; an explicit stack, because the text decides the depth.
    for start in sorted(by_name, key=lambda name: not by_name[name].is_entry):
        stack = [] if start in seen else [(start, iter(_callees(by_name[start])))]
        seen.add(start)
        while stack:
            name, callees = stack[-1]
            following = next((one for one in callees if one in by_name and one not in seen), None)
            if following is None:
                order.append(name)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(_callees(by_name[following]))))
    return order[::-1]


def _callees(computation: Computation) -> list[str]:
    return [callee for one in computation.instructions.values() for _, callee in one.calls]


def _trips(instruction: Instruction, role: str, unknown_trips: float) -> float:
    """Return how often an instruction runs a computation that it calls."""
    if instruction.operation == "while":
        return (unknown_trips if instruction.trips is None else instruction.trips) + (role == "condition")
    return 1.0 if role in _ROLES.get(instruction.operation, ()) else UNKNOWN


def _used(computation: Computation) -> set[str]:
    """Return the instructions on which a result depends."""
    instructions = computation.instructions
    pending = [one.name for one in instructions.values() if one.is_root or one.operation in _EFFECTS]
    used: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in used and name in instructions:
            used.add(name)
            pending += [operand.name for operand in instructions[name].operands]
    return used
