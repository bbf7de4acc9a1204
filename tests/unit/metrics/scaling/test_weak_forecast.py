"""The forecast of many trainings recovers what it was not told, and says when it has none."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from unit.record_factory import make_machine, make_record

from hpcai.metrics.scaling.weak_forecast import (
    FEWEST,
    FILLED,
    NO_CLOCK,
    TOO_FEW,
    forecast_all,
    forecast_groups,
    instances_of_machine,
)
from hpcai.metrics.scaling.weak_tails import Tail
from hpcai.records.files import write_sealed
from hpcai.records.weak import Extent, Instance, NodeShare, WeakGroup

LOG_NORMAL = Tail(0.0, 10)
"""No scatter of tails."""


def group_of(ends_s: list[float | None], *, on_one_clock: bool = True) -> WeakGroup:
    """Return a group whose instances start together and end after these times; None failed."""
    known = [end for end in ends_s if end is not None]
    results = tuple(
        Instance(
            number=number, run_id=f"cosmoflow_tiny/fp32/n1x1/i{number}", attempt=f"a-i{number}", seed=number,
            outcome="failed" if end is None else "converged", reason="", pruned="failed" if end is None else None,
            shares=(NodeShare(host="node0", cores=(number,)),), run_start_monotonic_s=100.0,
            run_stop_monotonic_s=None if end is None else 100.0 + end,
        )
        for number, end in enumerate(ends_s, 1)
    )  # fmt: skip
    extent = Extent(nodes=1, ranks=1, accelerators=0)
    return WeakGroup(
        group="cosmoflow_tiny/fp32/n1x1", benchmark="cosmoflow_tiny", variant="fp32", scale="n1x1", attempt="a",
        started_utc="2026-01-02T03:00:00Z", instances=len(ends_s), counted=len(known), instance_extent=extent,
        whole_extent=extent, time_to_train_all_monotonic_s=max(known) if known and on_one_clock else None,
        results=results,
    )  # fmt: skip


def forecast(folder: Path, group: WeakGroup, nodes: int = 4, ratio: float = 0.9) -> pd.Series:
    """Return the row of a group on a machine of nodes with four cores each."""
    path = folder / "group.json"
    write_sealed(group, path)
    contention = pd.DataFrame({"source": [str(path)], "contention_ratio": [ratio]})
    records = [make_record(machine=make_machine(nodes=nodes, ranks_per_node=4))]
    return forecast_groups({str(path): records}, contention).iloc[0]


def test_the_interval_holds_the_largest_of_many_as_often_as_it_says() -> None:
    draws = np.random.default_rng(3)
    inside = 0
    for trial in range(200):
        ends_s = np.exp(4 + 0.1 * draws.standard_normal(300))
        found = forecast_all(ends_s[:10].tolist(), 300, tail=LOG_NORMAL, seed=trial)
        inside += found.low <= ends_s.max() <= found.high
    assert 180 <= inside <= 200


def test_tails_that_scatter_widen_both_sides_and_leave_the_middle() -> None:
    ends_s = [90.0, 95.0, 100.0, 104.0, 108.0, 115.0]
    bare, tailed = forecast_all(ends_s, 200, tail=LOG_NORMAL), forecast_all(ends_s, 200, tail=Tail(0.6, 18))
    assert tailed.low < bare.low < bare.value < bare.high < tailed.high
    assert tailed.value == pytest.approx(bare.value, rel=0.02)


def test_more_instances_take_longer_and_equal_ones_take_as_long() -> None:
    ends_s = [90.0, 100.0, 105.0, 112.0]
    times = [forecast_all(ends_s, count).value for count in (4, 64, 1024)]
    assert times == sorted(times)
    assert times[0] > 100
    assert forecast_all([50.0, 50.0, 50.0], 1000).value == pytest.approx(50)


def test_measured_contention_widens_the_slow_side_alone() -> None:
    plain, slowed = forecast_all([90.0, 100.0, 110.0], 8), forecast_all([90.0, 100.0, 110.0], 8, 0.8)
    assert (slowed.value, slowed.low) == (plain.value, plain.low)
    assert slowed.high == pytest.approx(plain.high / 0.8)


@pytest.mark.parametrize("ends_s", [[1.0] * (FEWEST - 1), [1.0, 2.0, 0.0]])
def test_too_few_or_impossible_completions_are_refused(ends_s: list[float]) -> None:
    with pytest.raises(ValueError, match="completions"):
        forecast_all(ends_s, 10)


def test_a_group_is_extrapolated_to_its_machine(tmp_path: Path) -> None:
    row = forecast(tmp_path, group_of([90.0, 100.0, None, 110.0]))
    assert (row["instances"], row["whole_instances"], row["measured_all_s"]) == (4, 16, 110.0)
    assert row["time_to_train_all_low_s"] < row["time_to_train_all_s"] < row["time_to_train_all_high_s"]
    assert row["models_per_min"] == pytest.approx(60 * 16 / row["time_to_train_all_s"])
    assert row["models_per_min_low"] < row["models_per_min"] < row["models_per_min_high"]
    assert row["method"].startswith("modelled")


@pytest.mark.parametrize(
    ("group", "nodes", "reason"),
    [
        (group_of([90.0, 100.0, 110.0, 120.0]), 1, FILLED(instances=4)),
        (group_of([90.0, 100.0, None]), 4, TOO_FEW(n=2, needed=FEWEST)),
        (group_of([90.0, 100.0, 110.0], on_one_clock=False), 4, NO_CLOCK()),
    ],
)
def test_a_group_without_a_forecast_says_why(tmp_path: Path, group: WeakGroup, nodes: int, reason: str) -> None:
    row = forecast(tmp_path, group, nodes)
    assert row["reason"] == reason
    assert pd.isna(row["time_to_train_all_s"])
    assert pd.isna(row["models_per_min"])


def test_instances_of_several_nodes_each_have_their_own() -> None:
    machine = make_machine(nodes=7, ranks_per_node=4)
    sizes = ((1, 1), (1, 3), (3, 4), (3, 2), (2, 1))
    points = [make_record(nodes=nodes, ranks_per_node=ranks).plan.point for nodes, ranks in sizes]
    assert [instances_of_machine(machine, point) for point in points] == [28, 7, 2, 4, 12]


def test_the_whole_machine_is_that_of_its_file_now(tmp_path: Path) -> None:
    path = tmp_path / "group.json"
    write_sealed(group_of([90.0, 100.0, 110.0, 120.0]), path)
    contention = pd.DataFrame({"source": [str(path)], "contention_ratio": [0.9]})
    groups = {str(path): [make_record(machine=make_machine(nodes=8, ranks_per_node=4))]}
    row = forecast_groups(groups, contention, make_machine(nodes=7, ranks_per_node=4)).iloc[0]
    assert row["whole_instances"] == 28
