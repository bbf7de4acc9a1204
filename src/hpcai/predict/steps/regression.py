"""Times of unmeasured blocks from their work and traffic: a regressor, tested on unseen networks.

It learns the logarithm of a block's time over its roofline time. The unknown part is then a factor near 1 instead of a
time spanning six decades. Several trainings from different starts are averaged, so no single one is selected.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import get_args

import numpy as np
import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.core.messages import Message
from hpcai.predict.errors_of_estimates import relative_errors, weighted_error_ratio
from hpcai.predict.kernels.network import NetworkTrainer, TrainedNetwork, use_one_thread
from hpcai.predict.kernels.regressor import Floats
from hpcai.predict.steps.report import BlockKind

KIND_COLUMNS = columns_of("block_kinds")
LEAST_BLOCKS = 40
"""Fewest timed blocks of other networks for a regressor."""
RESTARTS = 5
VALIDATION_RATIO = 0.2
MEDIAN_GOAL_RATIO, P90_GOAL_RATIO = 0.08, 0.20
TOO_FEW = Message("regression.too_few", "{found} timed blocks of other networks, expected at least {least}")
KINDS: tuple[BlockKind, ...] = get_args(BlockKind)
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
    flop = (blocks["work_flop"] / blocks["cpu_time_s"]).max()
    return Rates(float(flop) or 1.0, float((blocks["moved_bytes"] / blocks["cpu_time_s"]).max()))


def estimate_left_out(blocks: pd.DataFrame, seed: int, train: Train | None = None) -> pd.DataFrame:
    """Return columns ``estimated_s``, ``relative_error_ratio`` and ``estimate_reason`` for table ``block_times``.

    Parameters
    ----------
    blocks
        One row per block. Each is estimated by a regressor that has seen no block of its network, at any batch.
    seed
        Seed of splits, starts and orders.
    train
        Trains a regressor; defaults to several networks of :mod:`hpcai.predict.kernels.network`, averaged.
    """
    found = pd.DataFrame(index=blocks.index, columns=["estimated_s", "relative_error_ratio"], dtype=float)
    found["estimate_reason"] = ""
    timed = blocks[blocks["cpu_time_s"].notna() & (blocks["moved_bytes"] > 0)]
    train = train or train_averaged
    for network, own in blocks.groupby("network", sort=False):
        others = timed[timed["network"] != network]
        if len(others) < LEAST_BLOCKS:
            found.loc[own.index, "estimate_reason"] = TOO_FEW(found=len(others), least=LEAST_BLOCKS)
            continue
        rates = find_rates(others)
        targets = np.log(others["cpu_time_s"].to_numpy() / rates.roofline_s(others))
        estimate = train(describe_blocks(others), targets, seed)
        known = own[own["moved_bytes"] > 0]
        found.loc[known.index, "estimated_s"] = np.exp(estimate(describe_blocks(known))) * rates.roofline_s(known)
    both = blocks["cpu_time_s"].notna() & found["estimated_s"].notna()
    if both.any():
        errors = relative_errors(found.loc[both, "estimated_s"], blocks.loc[both, "cpu_time_s"])
        found.loc[both, "relative_error_ratio"] = errors
    return found


def describe_blocks(blocks: pd.DataFrame) -> Floats:
    """Return a regressor's inputs for each block: logarithms of work, traffic and operations, and its kind."""
    numbers = [np.log1p(blocks[name].to_numpy(float)) for name in ("work_flop", "moved_bytes", "operation_count")]
    return np.column_stack([*numbers, *((blocks["kind"] == kind).to_numpy(float) for kind in KINDS)])


def train_averaged(inputs: Floats, targets: Floats, seed: int) -> Callable[[Floats], Floats]:
    """Train the source's network from several starts; return the mean of their estimates."""
    use_one_thread()
    means, deviations = inputs.mean(axis=0), inputs.std(axis=0)
    deviations[deviations == 0] = 1.0
    scaled = ((inputs - means) / deviations).astype("float32")
    order = np.random.default_rng(seed).permutation(len(targets))
    cut = math.ceil(VALIDATION_RATIO * len(order))
    parts = [(scaled[rows], targets[rows].astype("float32")) for rows in (order[cut:], order[:cut])]
    trainer = NetworkTrainer(inputs.shape[1])
    trained = [trainer.train(parts[0], parts[1], seed + number) for number in range(RESTARTS)]

    def estimate(asked: Floats) -> Floats:
        values = (asked - means) / deviations
        return np.asarray(np.mean([_evaluate(one, values) for one in trained], axis=0))

    return estimate


def _evaluate(network: TrainedNetwork, values: Floats) -> Floats:
    """Return the outputs of a trained network: dense layers with ReLU, the last without."""
    pairs = list(zip(network.weights[::2], network.weights[1::2], strict=True))
    for weights, biases in pairs[:-1]:
        values = np.maximum(values @ weights + biases, 0)
    return np.asarray((values @ pairs[-1][0] + pairs[-1][1])[:, 0])


def judge_blocks(tables: Mapping[str, pd.DataFrame], seed: int, train: Train | None = None) -> dict[str, pd.DataFrame]:
    """Add to the tables of measured blocks the estimates of a regressor for unseen networks, and its errors by kind.

    Parameters
    ----------
    tables
        ``block_steps`` and ``block_times`` of :func:`hpcai.predict.steps.accuracy.tabulate_blocks`.
    seed, train
        As for `estimate_left_out`.
    """
    blocks = tables["block_times"]
    blocks = blocks.assign(**estimate_left_out(blocks, seed, train)) if len(blocks) else blocks
    steps = add_left_out_steps(tables["block_steps"], blocks) if len(blocks) else tables["block_steps"]
    return {"block_steps": steps, "block_times": blocks, "block_kinds": summarise_kinds(blocks)}


def summarise_kinds(blocks: pd.DataFrame) -> pd.DataFrame:
    """Return table ``block_kinds``: errors of the regressor by kind of block, over unseen networks.

    Parameters
    ----------
    blocks
        Table ``block_times`` with the columns of `estimate_left_out`.
    """
    known = blocks[blocks["relative_error_ratio"].notna()]
    rows = [_kind_row(str(kind), own) for kind, own in known.groupby("kind", sort=True)]
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
        "weighted_error_ratio": weighted_error_ratio(own["estimated_s"], own["cpu_time_s"]),
        "goal_ratio": MEDIAN_GOAL_RATIO,
        "p90_goal_ratio": P90_GOAL_RATIO,
        "within_goal": median <= MEDIAN_GOAL_RATIO and p90 <= P90_GOAL_RATIO,
        "method": "modelled",
        "source": "table block_times: networks that the regressor never saw",
    }


def add_left_out_steps(steps: pd.DataFrame, blocks: pd.DataFrame) -> pd.DataFrame:
    """Add to table ``block_steps`` the steps whose blocks all have an estimate, and their errors.

    The update is the measured one. A step with a block without an estimate has none.

    Parameters
    ----------
    steps, blocks
        The tables ``block_steps`` and ``block_times``.
    """
    times = blocks.assign(all_s=blocks["estimated_s"] * blocks["block_count"])
    sums = times.groupby(["network", "batch"])["all_s"].agg(lambda part: part.sum(skipna=False))
    keys = list(zip(steps["network"], steps["batch"], strict=True))
    left_out = sums.reindex(pd.MultiIndex.from_tuples(keys, names=sums.index.names)).to_numpy(float)
    left_out_s = left_out + steps["update_s"].to_numpy(float)
    errors = left_out_s / steps["measured_s"].to_numpy(float) - 1
    return steps.assign(left_out_s=left_out_s, left_out_error_ratio=errors)
