"""The regressor of blocks is never trained on the network it estimates, and its errors are reported unchanged."""

import math

import numpy as np
import pandas as pd
import pytest

from hpcai.predict.steps.gaussian import _loss, fit_process
from hpcai.predict.steps.regression import (
    FOLDS,
    KINDS,
    LEAST_BLOCKS,
    OF_NETWORKS,
    OF_RANDOM_SIZES,
    OUTSIDE,
    SIZES,
    TOO_FEW,
    describe_blocks,
    find_rates,
    judge_blocks,
    summarise_kinds,
    train_by_kind,
)

FLOP_PER_S, BYTES_PER_S = 1e10, 1e9


def make_blocks(network: str, count: int, factor: float = 1.0, kind: str = "dense") -> pd.DataFrame:
    work = np.geomspace(1e6, 1e9, count)
    moved = np.geomspace(1e5, 1e7, count)
    return pd.DataFrame(
        {
            "network": network, "batch": 8, "block": "b", "kind": kind, "block_count": 2, "operation_count": 5,
            "work_flop": work, "moved_bytes": moved, "passed_bytes": 3 * moved, "product_count": 3, "product_rows": 8,
            "product_columns": 9, "product_depth": 7, "share_ratio": 0.1, "reason": "", "method": "measured",
            "time_s": factor * (work / FLOP_PER_S + moved / BYTES_PER_S), "source": "",
        }
    )  # fmt: skip


def make_steps(*networks: str) -> pd.DataFrame:
    return pd.DataFrame({"network": networks, "batch": 8, "update_s": 1.0, "measured_s": 10.0})


class Spy:
    """A regressor that knows the mean of its targets, and remembers how many blocks it saw."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def __call__(self, inputs, targets, _seed):
        self.seen.append(len(targets))
        return lambda asked: np.full(len(asked), targets.mean())


def judge(*blocks: pd.DataFrame, train=None, samples=None):
    times = pd.concat(blocks, ignore_index=True)
    drawn = pd.DataFrame(columns=[*times.columns, "relative_error_ratio"]) if samples is None else samples
    steps = make_steps(*times["network"].unique())
    return judge_blocks({"block_steps": steps, "block_times": times, "block_samples": drawn}, 1, train)


def test_a_network_is_estimated_without_its_own_blocks():
    spy = Spy()
    found = judge(make_blocks("a", 40), make_blocks("b", 60, factor=3.0), train=spy)
    assert spy.seen == [60, 40]
    errors = found["block_times"].groupby("network")["relative_error_ratio"].median()
    # Each is estimated by the other's factor: the held-out network is not in the estimate.
    assert errors["a"] == pytest.approx(2.0, rel=0.2)
    assert errors["b"] == pytest.approx(-2 / 3, rel=0.2)


def test_too_few_other_blocks_are_no_estimate():
    found = judge(make_blocks("a", 3), make_blocks("b", LEAST_BLOCKS - 1), train=Spy())["block_times"]
    assert found["estimated_s"].isna().all()
    assert TOO_FEW.find_in(found["estimate_reason"].iloc[0])["found"] == str(LEAST_BLOCKS - 1)


def test_a_step_needs_an_estimate_of_each_block():
    blocks = make_blocks("a", 40)
    empty = make_blocks("b", 41)
    empty.loc[0, "moved_bytes"] = 0.0
    steps = judge(blocks, empty, train=Spy())["block_steps"].set_index("network")
    times = judge(blocks, empty, train=Spy())["block_times"]
    own = times[times["network"] == "a"]
    assert steps.loc["a", "left_out_s"] == pytest.approx(1.0 + 2 * own["estimated_s"].sum())
    assert steps.loc["a", "left_out_error_ratio"] == pytest.approx(steps.loc["a", "left_out_s"] / 10 - 1)
    assert math.isnan(steps.loc["b", "left_out_s"])


def test_an_estimated_update_stands_for_the_measured_one():
    blocks = pd.concat([make_blocks("a", 40), make_blocks("a", 1, kind="update"), make_blocks("b", 41)])
    found = judge(blocks, train=Spy())
    own = found["block_times"][found["block_times"]["network"] == "a"]
    steps = found["block_steps"].set_index("network")
    assert steps.loc["a", "left_out_s"] == pytest.approx(2 * own["estimated_s"].sum())


def test_networks_are_estimated_from_random_blocks_and_these_from_their_own_other_parts():
    spy = Spy()
    found = judge(make_blocks("a", 10), make_blocks("b", 20), train=spy, samples=make_blocks("", 50))
    assert spy.seen == [70, 60, *[50 - 50 // FOLDS] * FOLDS]
    assert found["block_samples"]["relative_error_ratio"].notna().all()
    assert set(found["block_kinds"]["left_out"]) == {OF_NETWORKS, OF_RANDOM_SIZES}


def test_errors_are_judged_by_kind_at_the_median_and_at_nine_tenths():
    blocks = pd.DataFrame(
        {"kind": ["dense"] * 10, "time_s": 1.0, "estimated_s": [1.05] * 8 + [1.15, 1.6],
         "relative_error_ratio": [0.05] * 8 + [0.15, 0.6]}
    )  # fmt: skip
    (good,) = summarise_kinds({OF_NETWORKS: blocks}).to_dict("records")
    assert (good["n"], good["median_ape_ratio"], good["within_goal"]) == (10, pytest.approx(0.05), True)
    assert good["p90_ape_ratio"] == pytest.approx(0.195)
    worse = blocks.assign(relative_error_ratio=[0.05] * 8 + [0.25, 0.6])
    (bad,) = summarise_kinds({OF_NETWORKS: worse}).to_dict("records")
    assert bad["within_goal"] is False


def test_without_blocks_the_tables_are_empty():
    blocks = pd.DataFrame(columns=["kind", "relative_error_ratio"])
    empty = {"block_steps": pd.DataFrame(), "block_times": blocks, "block_samples": blocks}
    assert [len(one) for one in judge_blocks(empty, 1).values()] == [0, 0, 0, 0]


def test_rates_are_the_largest_and_every_kind_has_its_input():
    blocks = make_blocks("a", 5)
    assert find_rates(blocks).flop_per_s <= FLOP_PER_S
    assert describe_blocks(blocks).shape == (5, len(SIZES) + len(KINDS))


def test_each_kind_has_a_factor_of_its_own():
    blocks = pd.concat([make_blocks("a", 30), make_blocks("b", 30, kind="depthwise")], ignore_index=True)
    targets = np.where(blocks["kind"] == "dense", 0.0, 2.0)
    inputs = describe_blocks(blocks)
    asked = describe_blocks(make_blocks("c", 7, kind="depthwise"))
    np.testing.assert_allclose(train_by_kind(inputs, targets, 1)(asked), 2.0, atol=0.05)


def test_a_process_learns_a_smooth_function_and_ignores_what_never_differs():
    random = np.random.default_rng(1)
    inputs = np.column_stack([random.uniform(0, 3, (80, 2)), np.full(80, 7.0)])
    truth = np.sin(2 * inputs[:, 0]) + 0.5 * inputs[:, 1]
    estimate = fit_process(inputs[:60], truth[:60] + random.normal(0, 0.02, 60), 1)
    assert np.abs(estimate(inputs[60:]) - truth[60:]).mean() < 0.05
    assert estimate(np.array([[1.0, 1.0, 9.0]])) == pytest.approx(np.sin(2) + 0.5, abs=0.1)


def test_the_gradient_of_the_likelihood_is_right():
    random = np.random.default_rng(2)
    inputs, values = random.normal(size=(12, 2)), random.normal(size=12)
    parameters = np.array([0.3, -0.2, 0.1, -0.5, -1.0])
    _, gradient = _loss(parameters, inputs, values)
    steps = 1e-6 * np.eye(5)
    expected = [
        (_loss(parameters + step, inputs, values)[0] - _loss(parameters - step, inputs, values)[0]) / 2e-6
        for step in steps
    ]
    np.testing.assert_allclose(gradient, expected, rtol=1e-4)


def test_a_size_that_never_differed_says_nothing_although_its_deviation_is_a_rounding_error():
    drawn = np.random.default_rng(3)
    inputs = np.column_stack([drawn.normal(size=60), np.full(60, np.log1p(13.0))])
    assert 0 < inputs[:, 1].std() < 1e-12
    estimate = fit_process(inputs, inputs[:, 0], 1)
    asked = np.array([[0.5, np.log1p(13.0)], [0.5, np.log1p(40.0)]])
    assert estimate(asked)[0] == estimate(asked)[1]


def test_no_time_is_guessed_far_outside_of_the_sizes_of_a_kind_that_were_timed():
    asked = make_blocks("a", 4).astype({"product_rows": float})
    asked.loc[1, "product_rows"] *= 1.9
    asked.loc[2, "product_rows"] *= 4
    asked.loc[3, "kind"] = "sparse"  # of a kind that was not timed: like all kinds
    times = judge(asked, make_blocks("b", LEAST_BLOCKS), train=Spy())["block_times"]
    own = times[times["network"] == "a"]
    assert own["estimated_s"].notna().tolist() == [True, True, False, True]
    assert own["estimate_reason"].map(bool).tolist() == [False, False, True, False]
    assert OUTSIDE.find_in(own["estimate_reason"].iloc[2]) is not None
