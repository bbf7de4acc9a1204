"""Times of blocks that nobody measured, from their sizes: a regressor, judged on what it never saw.

It learns the logarithm of a block's time over its roofline time, so that what it does not know is a factor near 1 and
not a time over six decades. Each kind of block has a Gaussian process of its own, learnt from blocks of random sizes
and from those of measured networks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hpcai.catalogue.tables import columns_of
from hpcai.core.messages import Message
from hpcai.predict.errors_of_estimates import relative_errors, weighted_error_ratio
from hpcai.predict.steps.gaussian import Floats, fit_process
from hpcai.predict.steps.report import BlockKind

KIND_COLUMNS = columns_of("block_kinds")
LEAST_BLOCKS = 40
"""Timed blocks of other networks, or of random sizes, that a regressor needs."""
LEAST_OF_KIND = 12
"""With fewer blocks of a kind, those of all kinds estimate it."""
ANY_KIND = -1
FOLDS = 5
"""Parts of the random blocks, each estimated from the others."""
MEDIAN_GOAL_RATIO, P90_GOAL_RATIO = 0.08, 0.20
TOO_FEW = Message("regression.too_few", "{found} timed blocks of others, expected at least {least}")
FARTHEST = float(np.log(2))
"""How far a size may lie beyond those that were learnt, as a logarithm: further out, a regressor says anything."""
OUTSIDE = Message(
    "regression.outside",
    "a size is more than twice as far out as those of its kind that were timed: no time is guessed",
)
KINDS: tuple[BlockKind, ...] = get_args(BlockKind)
SIZES = (
    "work_flop", "moved_bytes", "passed_bytes", "operation_count", "product_count", "product_rows", "product_columns",
    "product_depth",
)  # fmt: skip
OF_NETWORKS, OF_RANDOM_SIZES = "networks", "random sizes"
Train = Callable[[Floats, Floats, int], Callable[[Floats], Floats]]
"""Takes inputs, targets and a seed; returns an estimator of targets."""


@dataclass(frozen=True)
class Rates:
    """The largest rates of any training block: the roofs of the roofline."""

    flop_per_s: float
    bytes_per_s: float

    def roofline_s(self, blocks: pd.DataFrame) -> Floats:
        """Return the sum of arithmetic and traffic times at these rates [s]."""
        return np.asarray(blocks["work_flop"] / self.flop_per_s + blocks["moved_bytes"] / self.bytes_per_s)


def find_rates(blocks: pd.DataFrame) -> Rates:
    """Return the largest rates of timed blocks; without arithmetic 1 flop/s, which is then unused."""
    flop = (blocks["work_flop"] / blocks["time_s"]).max()
    return Rates(float(flop) or 1.0, float((blocks["moved_bytes"] / blocks["time_s"]).max()))


def estimate_left_out(
    blocks: pd.DataFrame, samples: pd.DataFrame, seed: int, train: Train | None = None
) -> pd.DataFrame:
    """Return columns ``estimated_s``, ``relative_error_ratio`` and ``estimate_reason`` for table ``block_times``.

    Parameters
    ----------
    blocks
        One row per block. Each is estimated by a regressor that saw no block of its network, at any batch.
    samples
        Table ``block_samples``, which all regressors see.
    seed
        Of starts.
    train
        Trains a regressor; by default `train_by_kind`.
    """
    found = _nothing_estimated(blocks)
    for network, own in blocks.groupby("network", sort=False):
        others = [part for part in (samples, blocks[blocks["network"] != network]) if len(part)]
        _estimate(own, pd.concat(others) if others else samples, found, (seed, train))
    return _with_errors(blocks, found)


def estimate_samples(samples: pd.DataFrame, seed: int, train: Train | None = None) -> pd.DataFrame:
    """Return the same columns for table ``block_samples``: each part of it estimated from the others.

    Parameters
    ----------
    samples
        Blocks of random sizes.
    seed, train
        As `estimate_left_out` takes them.
    """
    found = _nothing_estimated(samples)
    folds = np.random.default_rng(seed).permutation(len(samples)) % FOLDS
    for fold in range(FOLDS):
        _estimate(samples[folds == fold], samples[folds != fold], found, (seed, train))
    return _with_errors(samples, found)


def _nothing_estimated(blocks: pd.DataFrame) -> pd.DataFrame:
    found = pd.DataFrame(index=blocks.index, columns=["estimated_s", "relative_error_ratio"], dtype=float)
    return found.assign(estimate_reason="")


def _estimate(own: pd.DataFrame, others: pd.DataFrame, found: pd.DataFrame, how: tuple[int, Train | None]) -> None:
    """Write the estimates of some blocks, learnt from others, or why there are none."""
    seed, train = how
    timed = others[others["time_s"].notna() & (others["moved_bytes"] > 0)]
    if len(timed) < LEAST_BLOCKS:
        found.loc[own.index, "estimate_reason"] = TOO_FEW(found=len(timed), least=LEAST_BLOCKS)
        return
    rates = find_rates(timed)
    targets = np.log(timed["time_s"].to_numpy(float) / rates.roofline_s(timed))
    learnt = describe_blocks(timed)
    estimate = (train or train_by_kind)(learnt, targets, seed)
    known = own[own["moved_bytes"] > 0]
    asked = describe_blocks(known)
    near = find_near(learnt, asked)
    found.loc[known.index[~near], "estimate_reason"] = OUTSIDE()
    if near.any():
        found.loc[known.index[near], "estimated_s"] = np.exp(estimate(asked[near])) * rates.roofline_s(known[near])


def find_near(learnt: Floats, asked: Floats) -> NDArray[np.bool_]:
    """Return which blocks have sizes among those of their kind that were learnt, or little beyond, shape (asked,).

    Parameters
    ----------
    learnt, asked
        Of `describe_blocks`, shape (blocks, sizes and kinds).
    """
    near = np.zeros(len(asked), dtype=bool)
    places = _places(learnt, asked)
    for place in np.unique(places):
        known, own = learnt[_has_kind(learnt, place), : len(SIZES)], asked[places == place, : len(SIZES)]
        low, high = known.min(axis=0) - FARTHEST, known.max(axis=0) + FARTHEST
        near[places == place] = ((own >= low) & (own <= high)).all(axis=1)
    return near


def _places(learnt: Floats, asked: Floats) -> NDArray[np.int64]:
    """Return the place of each block's kind, or `ANY_KIND` if too few blocks of it were learnt."""
    counts = (learnt[:, len(SIZES) :] > 0).sum(axis=0)
    places = asked[:, len(SIZES) :].argmax(axis=1)
    return np.where(counts[places] < LEAST_OF_KIND, ANY_KIND, places)


def _has_kind(blocks: Floats, place: int) -> NDArray[np.bool_]:
    """Return which blocks are of the kind at a place, or all for `ANY_KIND`."""
    return np.ones(len(blocks), bool) if place == ANY_KIND else blocks[:, len(SIZES) + place] > 0


def _with_errors(blocks: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    both = blocks["time_s"].notna() & found["estimated_s"].notna()
    if both.any():
        errors = relative_errors(found.loc[both, "estimated_s"], blocks.loc[both, "time_s"])
        found.loc[both, "relative_error_ratio"] = errors
    return found


def describe_blocks(blocks: pd.DataFrame) -> Floats:
    """Return what a regressor sees of each block: logarithms of its sizes, and its kind."""
    numbers = [np.log1p(blocks[name].to_numpy(float)) for name in SIZES]
    return np.column_stack([*numbers, *((blocks["kind"] == kind).to_numpy(float) for kind in KINDS)])


def train_by_kind(inputs: Floats, targets: Floats, seed: int) -> Callable[[Floats], Floats]:
    """Fit a Gaussian process to the blocks of each kind; one to all blocks serves the kinds with too few.

    Parameters
    ----------
    inputs
        Of `describe_blocks`.
    targets
        Logarithms of the time over the roofline's.
    seed
        Of starts.
    """
    fitted: dict[int, Callable[[Floats], Floats]] = {}

    def fit(place: int) -> Callable[[Floats], Floats]:
        own = _has_kind(inputs, place)
        return fit_process(inputs[own], targets[own], seed)

    def estimate(asked: Floats) -> Floats:
        places = _places(inputs, asked)
        found = np.empty(len(asked))
        for place in np.unique(places):
            if place not in fitted:
                fitted[place] = fit(place)
            found[places == place] = fitted[place](asked[places == place])
        return found

    return estimate


def judge_blocks(tables: Mapping[str, pd.DataFrame], seed: int, train: Train | None = None) -> dict[str, pd.DataFrame]:
    """Return the tables of measured blocks with what a regressor says of those it never saw, and its errors by kind.

    Parameters
    ----------
    tables
        Those of :func:`hpcai.predict.steps.accuracy.tabulate_blocks`.
    seed, train
        As for `estimate_left_out`.
    """
    blocks, samples, steps = (tables[name] for name in ("block_times", "block_samples", "block_steps"))
    if len(blocks):
        blocks = blocks.assign(**estimate_left_out(blocks, samples, seed, train))
        steps = add_left_out_steps(steps, blocks)
    if len(samples):
        samples = samples.assign(**estimate_samples(samples, seed, train))
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


def add_left_out_steps(steps: pd.DataFrame, blocks: pd.DataFrame) -> pd.DataFrame:
    """Add to table ``block_steps`` the steps whose blocks all have an estimate, and their errors.

    The update is estimated too; where it is no block of its own, it is the measured one. A step with a block that has
    no estimate has none.

    Parameters
    ----------
    steps, blocks
        The tables ``block_steps`` and ``block_times``.
    """
    times = blocks.assign(all_s=blocks["estimated_s"] * blocks["block_count"])
    sums = times.groupby(["network", "batch"])["all_s"].agg(lambda part: part.sum(skipna=False))
    keys = list(zip(steps["network"], steps["batch"], strict=True))
    left_out = sums.reindex(pd.MultiIndex.from_tuples(keys, names=sums.index.names)).to_numpy(float)
    updates = blocks[blocks["kind"] == "update"]
    estimated = set(zip(updates["network"], updates["batch"], strict=True))
    left_out_s = left_out + np.where([key in estimated for key in keys], 0.0, steps["update_s"].to_numpy(float))
    errors = left_out_s / steps["measured_s"].to_numpy(float) - 1
    return steps.assign(left_out_s=left_out_s, left_out_error_ratio=errors)
