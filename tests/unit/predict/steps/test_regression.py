"""Costs of operations are never learnt from the network that they estimate, and their errors are reported unchanged."""

import math

import numpy as np
import pandas as pd
import pytest
from unit.predict.steps.made_blocks import make_block, make_report, make_step

from hpcai.core.disturbance import Tolerance
from hpcai.metrics.scaling.model_limits import NOT_COVERED
from hpcai.predict.steps.accuracy import tabulate_blocks
from hpcai.predict.steps.regression import (
    FOLDS,
    LEAST_BLOCKS,
    LEAST_OF_TYPE,
    OF_NETWORKS,
    OF_RANDOM_SIZES,
    TOO_FEW,
    describe_blocks,
    fit_costs,
    judge_blocks,
    summarise_kinds,
)
from hpcai.predict.steps.report import OperationWork, SampleTimes

CALL_S, BYTE_S, FLOP_S = 1e-5, 1e-10, 1e-11
ONLY_PRODUCTS = 1e13, 1e4
"""Operations and bytes of a block beside whose products nothing counts: it tells the least that they cost."""


def make_works(flop: float, passed_bytes: float, kind: str = "MatMul") -> tuple[OperationWork, ...]:
    return (
        OperationWork(type=kind, count=2, passed_bytes=passed_bytes, work_flop=flop),
        OperationWork(type="Relu", count=1, passed_bytes=passed_bytes),
    )


def make_blocks(count: int, factor: float = 1.0, **changes):
    """Return blocks whose time is the sum of what their operations cost, times a factor; the first only multiplies."""
    sizes = np.random.default_rng(count).uniform([1e6, 1e4], [1e8, 1e7], (count, 2))
    sizes[0] = ONLY_PRODUCTS
    return [
        make_block(
            name=f"b{number}", kind="dense", count=2, work_flop=flop, works=make_works(flop, size),
            time_s=factor * (3 * CALL_S + 2 * size * BYTE_S + flop * FLOP_S), moved_bytes=size, **changes,
        )
        for number, (flop, size) in enumerate(sizes)
    ]  # fmt: skip


def judge(networks, samples=(), fit=fit_costs, anchors_s=None):
    steps = [
        make_step(*blocks, network=name, step_s=10.0, update_s=1.0, anchors_s=(anchors_s or {}).get(name, ()))
        for name, blocks in networks.items()
    ]
    report = make_report(*steps).model_copy(update={"samples": (SampleTimes(blocks=samples),)})
    return judge_blocks(tabulate_blocks({"": report}, Tolerance()), [report], 1, fit)


class Spy:
    """Remembers how many blocks it saw; its costs are none."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.columns: list[list[str]] = []

    def __call__(self, works, times_s):
        self.seen.append(len(times_s))
        self.columns.append(list(works.columns))
        return pd.Series(0.0, index=works.columns)


def test_costs_of_operations_are_found_and_none_is_negative():
    blocks = make_blocks(60)
    works = describe_blocks(blocks)
    costs = fit_costs(works, np.array([one.time_s for one in blocks]))
    assert costs["work_flop of MatMul"] == pytest.approx(FLOP_S, rel=1e-3)
    assert (costs >= 0).all()
    assert (works @ costs).to_list() == pytest.approx([one.time_s for one in blocks], rel=1e-6)


def test_a_few_wrong_times_do_not_change_the_costs():
    blocks = make_blocks(60)
    times_s = np.array([one.time_s for one in blocks])
    times_s[::12] *= 5
    costs = fit_costs(describe_blocks(blocks), times_s)
    assert costs["work_flop of MatMul"] == pytest.approx(FLOP_S, rel=0.05)


def test_blocks_that_take_longer_than_the_typical_one_make_sums_larger():
    blocks = make_blocks(60)
    times_s = np.array([one.time_s for one in blocks])
    times_s[1:25] *= 1.5
    works = describe_blocks(blocks)
    ratios = np.sort((works @ fit_costs(works, times_s)).to_numpy() / times_s)
    assert np.mean(ratios[6:-6]) == pytest.approx(1, abs=1e-6)
    assert np.median(ratios) > 1.05


def test_no_product_costs_less_than_where_most_are_computed_in_a_second():
    """Many small blocks that owe their time to something else must not make large products cheap."""
    products, *others = make_blocks(60)
    other_s = np.array([one.time_s - one.work_flop * FLOP_S for one in others])
    flop = np.random.default_rng(1).uniform(0, 0.9, len(others)) * other_s / FLOP_S
    small = [
        one.model_copy(update={"works": make_works(count, one.moved_bytes)})
        for one, count in zip(others, flop, strict=True)
    ]
    costs = fit_costs(describe_blocks([products, *small]), np.array([products.time_s, *other_s]))
    assert costs["work_flop of MatMul"] == pytest.approx(FLOP_S, rel=1e-3)


def test_types_of_a_family_cost_alike_and_each_may_cost_more():
    works = tuple(OperationWork(type=one, count=2, passed_bytes=8.0) for one in ("Mul", "Sub", "MaxPool"))
    (row,) = describe_blocks([make_block(works=works)]).to_dict("records")
    assert row == {
        "moved_bytes of the block": 10.0, "count of element-wise": 4, "passed_bytes of element-wise": 16.0,
        "own count of Mul": 2, "own passed_bytes of Mul": 8.0, "own count of Sub": 2, "own passed_bytes of Sub": 8.0,
        "count of MaxPool": 2, "passed_bytes of MaxPool": 8.0,
    }  # fmt: skip


def test_an_update_pays_for_its_call_and_its_types_cost_alike():
    works = (OperationWork(type="Mul", count=2, passed_bytes=8.0),)
    (row,) = describe_blocks([make_block(kind="update", works=works)]).to_dict("records")
    assert row == {
        "moved_bytes of the block": 10.0, "count of calls": 1.0,
        "count of element-wise": 2, "passed_bytes of element-wise": 8.0,
    }  # fmt: skip


def test_a_rare_type_costs_what_its_family_costs():
    def seen_beside(rare):
        fit = Spy()
        works = tuple(OperationWork(type=one, count=1, passed_bytes=8.0) for one in ("Mul", "Less"))
        blocks = [*make_blocks(LEAST_BLOCKS), *[make_block(works=works, time_s=1.0)] * rare]
        judge({"a": make_blocks(60), "b": blocks}, fit=fit)
        return fit.columns[0]

    # The costs that estimate network "a" saw those blocks.
    assert "own count of Less" in seen_beside(LEAST_OF_TYPE)
    assert "own count of Less" not in seen_beside(LEAST_OF_TYPE - 1)


def test_a_network_is_estimated_without_its_own_blocks():
    found = judge({"a": make_blocks(40), "b": make_blocks(60, factor=3.0)})
    errors = found["block_times"].groupby("network")["relative_error_ratio"].median()
    # Each is estimated by the other's factor: the held-out network is not in the estimate.
    assert errors["a"] == pytest.approx(2.0, rel=1e-3)
    assert errors["b"] == pytest.approx(-2 / 3, rel=1e-3)


def test_an_estimate_is_at_the_speed_that_the_host_had_beside_it():
    slow = {"a": (1.0, 2.0), "b": (3.0, 6.0), "c": (1.0, 2.0)}
    found = judge({"a": make_blocks(40), "b": make_blocks(60, factor=3.0), "c": make_blocks(41)}, anchors_s=slow)
    assert found["block_times"]["relative_error_ratio"].to_numpy() == pytest.approx(0.0, abs=1e-6)
    assert found["block_steps"].set_index("network")["host_ratio"].to_dict() == {"a": 1.0, "b": 3.0, "c": 1.0}
    untold = judge({"a": make_blocks(40), "b": make_blocks(60)})["block_steps"]
    assert untold["host_ratio"].isna().all()


def test_networks_are_estimated_from_random_blocks_and_these_from_their_own_other_parts():
    spy = Spy()
    found = judge({"a": make_blocks(10), "b": make_blocks(20)}, make_blocks(50), fit=spy)
    assert spy.seen == [70, 60, *[50 - 50 // FOLDS] * FOLDS]
    assert found["block_samples"]["relative_error_ratio"].notna().all()
    assert set(found["block_kinds"]["left_out"]) == {OF_NETWORKS, OF_RANDOM_SIZES}


@pytest.mark.parametrize("lost", [{"time_s": None, "reason": "out of memory"}, {"works": make_works(1e7, 1e5, "Odd")}])
def test_a_network_without_any_estimated_and_timed_block_stops_nothing(lost):
    odd = [one.model_copy(update=lost) for one in make_blocks(3)]
    found = judge({"a": make_blocks(60), "b": odd})["block_times"].set_index("network")
    assert found.loc["b", "relative_error_ratio"].isna().all()
    assert found.loc["a", "estimate_reason"].iloc[0].code == TOO_FEW.code
    more = judge({"a": make_blocks(60), "b": odd, "c": make_blocks(40)})["block_times"].set_index("network")
    assert more.loc["a", "relative_error_ratio"].notna().any()


def test_too_few_other_blocks_are_no_estimate():
    found = judge({"a": make_blocks(3), "b": make_blocks(LEAST_BLOCKS - 1)})["block_times"]
    assert found["estimated_s"].isna().all()
    assert TOO_FEW.find_in(found["estimate_reason"].iloc[0])["found"] == str(LEAST_BLOCKS - 1)


def test_no_time_is_guessed_for_operations_that_nobody_timed():
    strange = make_block(kind="other", works=make_works(0.0, 1e6, kind="TopKV2"))
    found = judge({"a": [*make_blocks(9), strange], "b": make_blocks(LEAST_BLOCKS)})["block_times"]
    reasons = found.loc[found["network"] == "a", "estimate_reason"].to_list()
    assert NOT_COVERED.find_in(reasons[-1])["share"].startswith("50")
    assert reasons[:-1] == [""] * 9
    assert found.loc[found["network"] == "a", "estimated_s"].isna().to_list() == [False] * 9 + [True]


def test_a_step_is_the_sum_of_its_estimates_if_they_cover_nine_tenths_of_it():
    found = judge({"a": make_blocks(12), "b": make_blocks(41)})
    times, steps = found["block_times"], found["block_steps"].set_index("network")
    own = times[times["network"] == "a"]
    assert steps.loc["a", "left_out_s"] == pytest.approx(1.0 + 2 * own["estimated_s"].sum())
    assert steps.loc["a", "left_out_error_ratio"] == pytest.approx(steps.loc["a", "left_out_s"] / 10 - 1)
    unknown = make_block(kind="other", work_flop=1e13, works=make_works(1e13, 1e6, kind="TopKV2"))
    without = judge({"a": [*make_blocks(12), unknown], "b": make_blocks(41)})["block_steps"].set_index("network")
    assert math.isnan(without.loc["a", "left_out_s"])
    small = make_block(kind="other", count=1, work_flop=1.0, moved_bytes=1.0, works=make_works(1.0, 1.0, kind="TopKV2"))
    nearly = judge({"a": [*make_blocks(12), small], "b": make_blocks(41)})["block_steps"].set_index("network")
    assert nearly.loc["a", "left_out_s"] == pytest.approx(steps.loc["a", "left_out_s"])


@pytest.mark.parametrize("sources", [("here",), ("here", "there")])
def test_a_step_has_no_blocks_of_another_precision_or_machine(sources):
    """A step in another precision, and another machine's, have the same network and batch."""
    steps = [
        make_step(*make_blocks(12), network="a", update_s=1.0, step_s=10.0, precision=one) for one in ("fp32", "bf16")
    ]
    steps.append(make_step(*make_blocks(41), network="b", update_s=1.0, step_s=10.0))
    reports = [make_report(*steps) for _ in sources]
    found = judge_blocks(tabulate_blocks(dict(zip(sources, reports, strict=True)), Tolerance()), reports, 1)
    times, judged = found["block_times"], found["block_steps"]
    own = times[(times["network"] == "a") & (times["source"] == "here")].iloc[:12]
    alone = judged.loc[judged["network"] == "a", "left_out_s"].to_list()
    assert alone == pytest.approx([1.0 + 2 * own["estimated_s"].sum()] * len(alone))
    assert len(alone) == 2 * len(sources)


def test_an_estimated_update_stands_for_the_measured_one():
    update = make_blocks(1)[0].model_copy(update={"kind": "update", "count": 1})
    steps = [
        make_step(*make_blocks(12), network="a", update=update, update_s=1.0, step_s=10.0),
        make_step(*make_blocks(41), network="b", step_s=10.0),
    ]
    report = make_report(*steps)
    found = judge_blocks(tabulate_blocks({"": report}, Tolerance()), [report], 1)
    own = found["block_times"][found["block_times"]["network"] == "a"]
    expected = (own["estimated_s"] * own["block_count"]).sum()
    assert found["block_steps"].set_index("network").loc["a", "left_out_s"] == pytest.approx(expected)


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
    assert [len(one) for one in judge_blocks(empty, [], 1).values()] == [0, 0, 0, 0]
