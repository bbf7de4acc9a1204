"""Speed-up and efficiency: identities at the base, recovery of a known law, missing bases."""

import math
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcai.metrics.scaling import compute_scaling

seconds = st.floats(min_value=0.1, max_value=1e5)


def make_runs(times: dict[int, list[float]], outcome: str = "converged", **columns: Any) -> pd.DataFrame:
    rows = [
        {
            "benchmark": "b",
            "variant": "v",
            "scale": f"n1x{ranks}",
            "nodes": 1,
            "ranks": ranks,
            "outcome": outcome,
            "time_to_train_s": time if outcome == "converged" else math.nan,
            "train_rate_samples_per_s": 100 / time,
            **columns,
        }
        for ranks, values in times.items()
        for time in values
    ]
    return pd.DataFrame(rows)


@settings(deadline=None)  # other work on the machine must not fail a test
@given(st.dictionaries(st.integers(1, 64), st.lists(seconds, min_size=1, max_size=4), min_size=1, max_size=4))
def test_speedup_at_the_base_is_one(times: dict[int, list[float]]) -> None:
    points = compute_scaling(make_runs(times))
    base = points[points["ranks"] == min(times)]
    assert (base[["speedup_ratio", "efficiency_ratio", "speedup_low_ratio"]] == 1).all(axis=None)
    assert (points["baseline"] == f"n1x{min(times)}").all()
    expected = points["efficiency_ratio"] * points["ranks"] / min(times)
    assert expected.tolist() == pytest.approx(points["speedup_ratio"].tolist())


def test_ideal_scaling_has_efficiency_one() -> None:
    points = compute_scaling(make_runs({ranks: [80 / ranks, 88 / ranks] for ranks in (2, 4, 16)}))
    assert points["efficiency_ratio"].tolist() == pytest.approx([1.0] * 6)
    assert points["speedup_ratio"].tolist() == pytest.approx(points["speedup_ideal_ratio"].tolist())
    others = points[points["ranks"] > 2]
    assert (others["speedup_low_ratio"] < others["speedup_ratio"]).all()
    assert (others["n_baseline"] == 2).all()


def test_one_run_at_each_scale_has_no_interval() -> None:
    points = compute_scaling(make_runs({1: [10.0], 2: [6.0]})).query("ranks == 2")
    assert points["speedup_low_ratio"].isna().all()
    assert points["note"].str.contains("no interval").all()


def test_base_without_a_time_gives_no_speedup() -> None:
    runs = pd.concat([make_runs({1: [10.0]}, outcome="not_converged"), make_runs({2: [6.0]})])
    points = compute_scaling(runs).query("ranks == 2").set_index("measure")
    assert math.isnan(points.loc["time_to_train", "speedup_ratio"])
    assert points.loc["time_to_train", "note"] == "the base scale has no value"
    assert points.loc["train_rate", "speedup_ratio"] == pytest.approx(10 / 6)


def test_each_variant_has_its_own_base() -> None:
    runs = pd.concat([make_runs({1: [10.0], 2: [6.0]}), make_runs({4: [3.0]}, variant="w")])
    assert compute_scaling(runs).groupby("variant")["baseline"].unique().str[0].to_dict() == {"v": "n1x1", "w": "n1x4"}


def test_no_runs() -> None:
    assert compute_scaling(make_runs({1: [1.0]}).iloc[:0]).empty
