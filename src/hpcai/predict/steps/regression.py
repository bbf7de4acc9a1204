"""Times of blocks that nobody measured, from what their operations do: a model, judged on what it never saw.

A block takes the sum of what it gets and gives and of what its operations cost: so much for each operation of a type,
each byte that it passes, each byte beyond the near cache, each row that it looks up, and each multiply-add, idle ones
included. An update is a call of its own and pays for that. The costs are not negative, and those that fit the timed
blocks best: no time is estimated below zero, or by a curve far from what was timed.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.stats import trim_mean

from hpcai.catalogue.tables import columns_of
from hpcai.core.messages import Message
from hpcai.metrics.scaling.model_limits import why_not_covered
from hpcai.predict.errors_of_estimates import relative_errors, weighted_error_ratio
from hpcai.predict.steps.report import MEASURES, BlocksReport, BlockTime

KIND_COLUMNS = columns_of("block_kinds")
LEAST_BLOCKS = 40
"""Timed blocks of other networks, or of random sizes, that costs need."""
FOLDS = 5
"""Parts of the random blocks, each estimated from the others."""
MEDIAN_GOAL_RATIO, P90_GOAL_RATIO = 0.08, 0.20
TOO_FEW = Message("regression.too_few", "{found} timed blocks of others, expected at least {least}")
ROUNDS = 10
"""Fits, each with the weights that the errors of the one before give."""
LEAST_ERROR_RATIO = 0.03
"""Smaller errors weigh no more: a block's time differs by that much from one measurement to the next."""
TRIMMED_SHARE = 0.1
"""Of the errors at either end, which the average leaves out: a few blocks are timed wrongly."""
FAMILIES = {
    "convolution": ("Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput"),
    "3-D convolution": ("Conv3D", "Conv3DBackpropFilterV2", "Conv3DBackpropInputV2"),
    "element-wise": (
        "Abs", "AddV2", "Cast", "DivNoNan", "Equal", "Floor", "Greater", "GreaterEqual", "Less", "LessEqual",
        "LogicalAnd", "LogicalNot", "LogicalOr", "Maximum", "Minimum", "Mul", "Neg", "NotEqual", "RealDiv",
        "Reciprocal", "Rsqrt", "RsqrtGrad", "Select", "SelectV2", "SigmoidGrad", "Sign", "Sqrt", "SqrtGrad", "Square",
        "Sub", "TanhGrad",
    ),
    "transcendental": ("Cos", "Erf", "Exp", "Log", "Log1p", "Sigmoid", "Sin", "Tanh"),
    "activation": ("LeakyRelu", "Relu", "Relu6"),
    "activation's gradient": ("LeakyReluGrad", "Relu6Grad", "ReluGrad"),
    "reduction": ("All", "Any", "ArgMax", "L2Loss", "Max", "Mean", "Min", "Prod", "Sum"),
    "arrangement": (
        "BatchToSpaceND", "ConcatV2", "Pack", "Pad", "PadV2", "Slice", "SpaceToBatchND", "Split", "SplitV",
        "StridedSlice", "StridedSliceGrad", "Tile", "Transpose", "Unpack",
    ),
    "assignment": ("AssignAddVariableOp", "AssignSubVariableOp", "AssignVariableOp"),
}  # fmt: skip
"""Types that cost about alike; each other type has costs of its own."""
OWN = ("count", "passed_bytes")
"""What each type of a family may cost beyond it, where enough blocks with it were timed."""
LEAST_OF_TYPE = 60
"""Fewer blocks would give a rare type what else they have in common."""
FAMILY_OF = {name: family for family, names in FAMILIES.items() for name in names}
OF_NETWORKS, OF_RANDOM_SIZES = "networks", "random sizes"
Floats = NDArray[np.float64]
Fit = Callable[[pd.DataFrame, Floats], pd.Series]
"""Takes the works of timed blocks and their times; returns what each work costs."""


@dataclass(frozen=True)
class Blocks:
    """Blocks as the tables have them, and what their operations do, row by row."""

    table: pd.DataFrame
    works: pd.DataFrame

    @property
    def host_ratios(self) -> Floats:
        """What anchors took beside each, over what they usually take; 1 where there were none."""
        return self.table["host_ratio"].fillna(1.0).to_numpy(float)

    def part(self, rows: NDArray[np.bool_]) -> "Blocks":
        """Return some of them."""
        return Blocks(self.table[rows], self.works[rows])

    def joined_with(self, other: "Blocks") -> "Blocks":
        """Return these and others."""
        parts = [(one.table, one.works) for one in (self, other) if len(one.table)]
        tables, works = zip(*parts, strict=True) if parts else ([self.table], [self.works])
        return Blocks(pd.concat(tables, ignore_index=True), pd.concat(works, ignore_index=True).fillna(0.0))


def describe_blocks(blocks: Iterable[BlockTime]) -> pd.DataFrame:
    """Return what the operations of each block do: a row for each, a column for each measure of a family."""
    return pd.DataFrame([_describe(one) for one in blocks]).fillna(0.0)


def _describe(block: BlockTime) -> dict[str, float]:
    # What a block gets from others is in farther caches than what its operations pass to each other.
    found = {"moved_bytes of the block": block.moved_bytes}
    if block.kind == "update":
        found["count of calls"] = 1.0
    for one in block.works:
        family = FAMILY_OF.get(one.type, one.type)
        columns = {f"{name} of {family}": getattr(one, name) for name in MEASURES}
        if family != one.type and block.kind != "update":
            columns |= {f"own {name} of {one.type}": getattr(one, name) for name in OWN}
        for column, value in columns.items():
            if value:
                found[column] = found.get(column, 0.0) + value
    return found


def fit_costs(works: pd.DataFrame, times_s: Floats) -> pd.Series:
    """Return what each work costs [s]: not negative, of the smallest absolute relative errors (Lawson and Hanson).

    No multiply-add costs less than all of its time in the block that computes most of them in a second: small blocks,
    whose time is mostly that of other works, would say so. Such costs fit the typical block, and some blocks take much
    longer. So that sums of estimates hold too, all costs are scaled until the relative errors are zero on average, but
    for a tenth of them at either end.

    Parameters
    ----------
    works
        Of `describe_blocks`.
    times_s
        Measured times of the same blocks, shape (blocks,).
    """
    least = _least_costs(works, times_s)
    rest = 1 - (works @ least).to_numpy(float) / times_s
    relative = works.to_numpy(float) / times_s[:, None]
    scales = relative.max(axis=0)
    relative = relative / scales
    weights = np.ones(len(times_s))
    for _ in range(ROUNDS):
        costs, _ = nnls(relative * weights[:, None], rest * weights, maxiter=100 * relative.shape[1])
        weights = 1 / np.sqrt(np.maximum(np.abs(relative @ costs - rest), LEAST_ERROR_RATIO))
    fitted = least.add(costs / scales)
    return fitted / float(trim_mean((works @ fitted).to_numpy(float) / times_s, TRIMMED_SHARE))


def _least_costs(works: pd.DataFrame, times_s: Floats) -> pd.Series:
    flop = works[[column for column in works.columns if str(column).startswith("work_flop of ")]]
    fastest_flop_per_s = float(np.max(flop.sum(axis=1).to_numpy(float) / times_s))
    least = pd.Series(0.0, index=works.columns)
    if fastest_flop_per_s:
        least[flop.columns] = 1 / fastest_flop_per_s
    return least


def estimate_left_out(blocks: Blocks, samples: Blocks, fit: Fit = fit_costs) -> pd.DataFrame:
    """Return columns ``estimated_s``, ``relative_error_ratio`` and ``estimate_reason`` for blocks of networks.

    Each is estimated by costs that saw no block of its network, at any batch.

    Parameters
    ----------
    blocks
        Of table ``block_times``.
    samples
        Of table ``block_samples``, which all costs see.
    fit
        Finds costs.
    """
    networks = blocks.table["network"].to_numpy()
    parts = [
        _estimate(blocks.part(networks == name), samples.joined_with(blocks.part(networks != name)), fit)
        for name in dict.fromkeys(networks)
    ]
    return pd.concat(parts).reindex(blocks.table.index)


def estimate_samples(samples: Blocks, seed: int, fit: Fit = fit_costs) -> pd.DataFrame:
    """Return the same columns for blocks of random sizes: each part of them estimated from the others.

    Parameters
    ----------
    samples, fit
        As `estimate_left_out` takes them.
    seed
        Of the parts.
    """
    folds = np.random.default_rng(seed).permutation(len(samples.table)) % FOLDS
    parts = [_estimate(samples.part(folds == fold), samples.part(folds != fold), fit) for fold in range(FOLDS)]
    return pd.concat(parts).reindex(samples.table.index)


def _estimate(own: Blocks, others: Blocks, fit: Fit) -> pd.DataFrame:
    """Return the estimates of some blocks, learnt from others, or why there are none."""
    found = pd.DataFrame(index=own.table.index, columns=["estimated_s", "relative_error_ratio"], dtype=float)
    timed = others.part(others.table["time_s"].notna().to_numpy())
    if len(timed.table) < LEAST_BLOCKS:
        return found.assign(estimate_reason=TOO_FEW(found=len(timed.table), least=LEAST_BLOCKS))
    seen = (timed.works > 0).sum()
    known = timed.works.loc[:, seen >= np.where(seen.index.str.startswith("own "), LEAST_OF_TYPE, 1)]
    costs = fit(known, timed.table["time_s"].to_numpy(float) / timed.host_ratios)
    reasons = [why_not_covered(share) for share in _covered(own.works, set(map(str, known.columns)))]
    estimated_s = (own.works.reindex(columns=known.columns, fill_value=0.0) @ costs) * own.host_ratios
    found["estimated_s"] = estimated_s.where(np.array([not reason for reason in reasons], dtype=bool))
    measured = found["estimated_s"].notna() & own.table["time_s"].notna()
    if measured.any():  # of a network whose blocks are all unknown or untimed, there is no error
        errors = relative_errors(found.loc[measured, "estimated_s"], own.table.loc[measured, "time_s"])
        found.loc[measured, "relative_error_ratio"] = errors
    return found.assign(estimate_reason=reasons)


def _covered(works: pd.DataFrame, known: set[str]) -> Floats:
    """Return the share of each block's bytes that operations of known families pass; NaN for a block without any."""
    passed = [column for column in map(str, works.columns) if column.startswith("passed_bytes ")]
    learnt = [column for column in passed if column in known]
    with np.errstate(invalid="ignore"):
        return np.asarray(works[learnt].sum(axis=1) / works[passed].sum(axis=1), dtype=float)


def judge_blocks(
    tables: Mapping[str, pd.DataFrame], reports: Sequence[BlocksReport], seed: int, fit: Fit = fit_costs
) -> dict[str, pd.DataFrame]:
    """Return the tables of measured blocks with what the costs of others say of each, and the errors by kind.

    Parameters
    ----------
    tables
        Those of :func:`hpcai.predict.steps.accuracy.tabulate_blocks`.
    reports
        Of which they were made.
    seed, fit
        As `estimate_samples` takes them.
    """
    blocks, samples, steps = (tables[name] for name in ("block_times", "block_samples", "block_steps"))
    own = Blocks(blocks, describe_blocks(block for one in reports for step in one.steps for block in step.all_blocks))
    drawn = Blocks(samples, describe_blocks(block for one in reports for part in one.samples for block in part.blocks))
    if len(blocks):
        blocks = blocks.assign(**estimate_left_out(own, drawn, fit))
        counts = [len(step.all_blocks) for one in reports for step in one.steps]
        steps = add_left_out_steps(steps, blocks, counts)
    if len(samples):
        samples = samples.assign(**estimate_samples(drawn, seed, fit))
    kinds = {OF_NETWORKS: blocks, OF_RANDOM_SIZES: samples}
    judged = {"block_steps": steps, "block_times": blocks, "block_samples": samples}
    return {**judged, "block_kinds": summarise_kinds(kinds)}


def summarise_kinds(blocks: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return table ``block_kinds``: errors of the regressor by kind of block, over blocks that it never saw.

    Parameters
    ----------
    blocks
        Tables of blocks with the columns of `estimate_left_out`, by what is left out.
    """
    rows = [
        {"left_out": left_out, **_kind_row(str(kind), own)}
        for left_out, table in blocks.items()
        for kind, own in table[table["relative_error_ratio"].notna()].groupby("kind", sort=True)
    ]
    return pd.DataFrame(rows, columns=list(KIND_COLUMNS)).astype({"within_goal": "boolean"})


def _kind_row(kind: str, own: pd.DataFrame) -> dict[str, object]:
    errors = own["relative_error_ratio"].abs()
    median, p90 = float(errors.median()), float(errors.quantile(0.9))
    return {
        "kind": kind,
        "n": len(own),
        "median_ape_ratio": median,
        "p90_ape_ratio": p90,
        "bias_ratio": float(own["relative_error_ratio"].mean()),
        "weighted_error_ratio": weighted_error_ratio(own["estimated_s"], own["time_s"]),
        "goal_ratio": MEDIAN_GOAL_RATIO,
        "p90_goal_ratio": P90_GOAL_RATIO,
        "within_goal": median <= MEDIAN_GOAL_RATIO and p90 <= P90_GOAL_RATIO,
        "method": "modelled",
        "source": "tables block_times and block_samples: blocks that the regressor never saw",
    }


def add_left_out_steps(steps: pd.DataFrame, blocks: pd.DataFrame, counts: Sequence[int]) -> pd.DataFrame:
    """Add to table ``block_steps`` what the estimates of its blocks sum to, and the error.

    The update is estimated too; where it is no block of its own, it is the measured one. Blocks without an estimate are
    left out of the sum: if they are a tenth of the arithmetic or of the traffic, the step has none.

    Parameters
    ----------
    steps, blocks
        The tables ``block_steps`` and ``block_times``.
    counts
        Rows of ``block_times`` that each step has, in the order of both tables. Neither network and batch nor any other
        of their columns tell steps of several precisions apart.
    """
    ends = np.cumsum(counts, dtype=int)
    left_out_s = [
        _sum_estimates(blocks.iloc[end - count : end], float(update_s))
        for count, end, update_s in zip(counts, ends, steps["update_s"], strict=True)
    ]
    errors = np.array(left_out_s) / steps["measured_s"].to_numpy(float) - 1
    return steps.assign(left_out_s=left_out_s, left_out_error_ratio=errors)


def _sum_estimates(blocks: pd.DataFrame, update_s: float) -> float:
    """Return the sum of the estimates of a step's blocks [s]; NaN if they do not cover it."""
    known = blocks["estimated_s"].notna()
    for name in ("work_flop", "moved_bytes"):
        work = blocks[name] * blocks["block_count"]
        if work.sum() and why_not_covered(float(work[known].sum() / work.sum())):
            return math.nan
    own_update = (blocks["kind"] == "update").any()
    return float((blocks["estimated_s"] * blocks["block_count"]).sum()) + (0.0 if own_update else update_s)
