"""Floating-point operations of tensor cores: instructions times FLOP per instruction, where that is a constant.

Instruction shapes, the constants and the trap of constant moves on A100: profilers.md, section 4.
"""

import math
import re
from dataclasses import dataclass, field

import pandas as pd

from hpcai.metrics.profiles.launches import Launches

PRE_VOLTA, VOLTA, TURING, AMPERE, AMPERE_GA10X = "pre-volta", "volta", "turing", "ampere", "ampere ga10x"
ADA, HOPPER, BLACKWELL, UNKNOWN = "ada", "hopper", "blackwell", "unknown"
ARCHITECTURES = (PRE_VOLTA, VOLTA, TURING, AMPERE, AMPERE_GA10X, ADA, HOPPER, BLACKWELL, UNKNOWN)

FLOP_PER_INSTRUCTION = {
    VOLTA: {"": 512.0, "884": 512.0},
    TURING: {"": 2048.0, "1688": 2048.0},
    AMPERE: {"16816": 4096.0, "1688": 2048.0, "1684": 1024.0, "d884": 512.0},
}
"""FLOP of one warp instruction, 2 m n k of its shape; "" for kernels whose name does not contain the shape."""
DMMA_FLOP = 512.0
"""FLOP of one DMMA.884 warp instruction of GA100."""
MOST_MOVES_LEFT = 60
"""Tensor-pipe instructions per launch left over by partly predicated constant moves (seen on A100)."""
WARP_THREADS = 32

_SHAPE = re.compile(r"[a-z](?:(16816|1688|1684)|(?<=d)(884)|(884))(?=[a-z_])|tensor(\d+)x(\d+)x(\d+)(?!\d)")
_OPS = re.compile(
    r"sm__ops_path_tensor_src_(?P<source>\w+?)_dst_(?P<result>\w+?)(?:_sparsity_(?P<sparse>on|off))?\.sum"
)
_LEVEL = "tensor_precision_fu_utilization"


@dataclass
class TensorCount:
    """FLOP of tensor cores per launch, the FP16 "FLOP" that are constant moves, and remarks."""

    flop: "pd.Series[float]"
    moves: "pd.Series[float]"
    notes: list[str] = field(default_factory=list)


def architecture_of(compute_capability: str) -> str:
    """Return the GPU generation for a compute capability such as ``"8.0"``; "unknown" if there is none."""
    match = re.fullmatch(r"(\d+)\.(\d+)", compute_capability.strip())
    if not match:
        return UNKNOWN
    number = (int(match[1]), int(match[2]))
    steps = (
        *(((7, 0), PRE_VOLTA), ((7, 5), VOLTA), ((8, 0), TURING), ((8, 1), AMPERE), ((8, 9), AMPERE_GA10X)),
        *(((9, 0), ADA), ((10, 0), HOPPER), ((13, 0), BLACKWELL)),
    )
    return next((name for end, name in steps if number < end), UNKNOWN)


def tensor_flop(launches: Launches, architecture: str) -> TensorCount:
    """Return the work of tensor cores per launch [FLOP]; NaN where it was not counted or is not countable.

    In order of preference: operations counted by the hardware (sm__ops_path_tensor_*), matrix instructions by type, all
    instructions of the tensor pipe. Hopper's and Blackwell's instructions have no constant number of operations: where
    they ran, their work is "not countable". Integer operations are not FLOP.

    Raises
    ------
    ValueError
        If the architecture is not one of `ARCHITECTURES`.
    """
    if architecture not in ARCHITECTURES:
        raise ValueError(f"{architecture!r} is not a known architecture, expected one of {', '.join(ARCHITECTURES)}")
    nothing = pd.Series(0.0, index=launches.names.index)
    if architecture == PRE_VOLTA:
        return TensorCount(nothing, nothing, ["no tensor cores before Volta"])
    count = TensorCount(_counted_operations(launches), nothing)
    typed = launches.totals(*_instruction_names("hmma"))
    double = launches.totals(*_instruction_names("dmma"))
    pipe = launches.totals(*(f"{unit}__inst_executed_pipe_tensor.sum" for unit in ("sm", "smsp")))
    by_type = _work(typed, launches, architecture) + _double_work(double, architecture)
    by_pipe = _work(_matrix_instructions(count, launches, pipe, architecture), launches, architecture)
    idle = nothing.where(launches.values("maximum", [_LEVEL]) == 0)
    count.flop = count.flop.combine_first(by_type).combine_first(by_pipe).combine_first(idle)
    _explain(count, launches, (typed.fillna(0) + double.fillna(0) + pipe.fillna(0)) > 0)
    return count


def _explain(count: TensorCount, launches: Launches, seen: "pd.Series[bool]") -> None:
    unknown = count.flop.isna()
    for is_it, why in (
        (unknown & seen, "not countable: these instructions have no known constant number of operations"),
        (unknown & ~seen, "not counted: no counter of them was collected"),
    ):
        if is_it.any():
            names = ", ".join(str(name)[:50] for name in launches.names[is_it].unique()[:3])
            count.notes.append(f"tensor-core work of {int(is_it.sum())} rows is {why} ({names})")


def _counted_operations(launches: Launches) -> "pd.Series[float]":
    """Return the sum of the operations by type; a type may be split by sparsity and have a total as well."""
    parts: dict[tuple[str, str], dict[str, str]] = {}
    for name in launches.metrics:
        match = _OPS.fullmatch(name)
        if match and "int" not in match["source"] and name.startswith("sm__"):
            parts.setdefault((match["source"], match["result"]), {})[match["sparse"] or "all"] = name
    flop = pd.Series(float("nan"), index=launches.names.index)
    for split in parts.values():
        halves = [launches.totals(split[key]) for key in ("on", "off") if key in split]
        whole = launches.totals(split["all"]) if "all" in split else sum(halves[1:], halves[0])
        flop = whole if flop.isna().all() else flop + whole
    return flop


def _instruction_names(kind: str) -> list[str]:
    parts = (f"pipe_tensor_op_{kind}", f"pipe_tensor_subpipe_{kind}")
    return [f"{unit}__inst_executed_{part}.sum" for part in parts for unit in ("sm", "smsp")]


def instruction_shape(name: str) -> str:
    """Return the shape of the matrix instruction in a kernel's name ("16816" is m16n8k16), or ""."""
    match = _SHAPE.search(name)
    if not match:
        return ""
    named, double, other, *sizes = match.groups()
    return named or (f"d{double}" if double else other) or "".join(sizes)


def _work(instructions: "pd.Series[float]", launches: Launches, architecture: str) -> "pd.Series[float]":
    """Return instructions times FLOP per instruction; without instructions, work is zero for any shape."""
    constants = FLOP_PER_INSTRUCTION.get(architecture, {})
    factors = launches.names.map(lambda name: constants.get(instruction_shape(str(name)), math.nan)).astype(float)
    return (instructions * factors).mask(instructions == 0, 0.0)


def _double_work(instructions: "pd.Series[float]", architecture: str) -> "pd.Series[float]":
    """Return the work of FP64 matrix instructions; zero where none was counted."""
    factor = DMMA_FLOP if architecture == AMPERE else math.nan
    return (instructions * factor).mask(instructions.isna() | (instructions == 0), 0.0)


def _matrix_instructions(
    count: TensorCount, launches: Launches, pipe: "pd.Series[float]", architecture: str
) -> "pd.Series[float]":
    """Return the tensor-pipe instructions that multiply matrices.

    On GA100 constant moves (HFMA2.MMA) also use this pipe, one per 32 hfma. If nothing else remains, there was no
    matrix instruction, and the hfma are not FP16 work either. On Turing the two are indistinguishable.
    """
    fused = launches.totals(*(f"{unit}__sass_thread_inst_executed_op_hfma_pred_on.sum" for unit in ("sm", "smsp")))
    if architecture == VOLTA:
        return pipe
    if architecture != AMPERE:
        return pipe.where((pipe == 0) | (fused == 0))
    left = pipe - fused / WARP_THREADS
    are_moves = (fused > 0) & (pipe > 0) & (left <= MOST_MOVES_LEFT * launches.counts)
    count.moves = (2 * fused.clip(upper=WARP_THREADS * pipe)).where(are_moves, 0.0)
    if are_moves.any():
        count.notes.append(
            f"{count.moves.sum():.0f} FP16 operations are constant moves through the tensor pipe (HFMA2.MMA), no work"
        )
    return left.mask(are_moves, 0.0).mask(pipe == 0, 0.0)
