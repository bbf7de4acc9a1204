"""Strong or weak; speed-up and efficiency: identities at the base, recovery of a known law, missing bases."""

import math
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcai.metrics.scaling.efficiency import NO_BASE_VALUE, NO_IDEAL, REACHED_ONLY, compute_scaling, tell_regime
from hpcai.metrics.scaling.trials import mark_extremes

seconds = st.floats(min_value=0.1, max_value=1e5)


def make_runs(times: dict[int, list[float]], outcome: str = "converged", **columns: Any) -> pd.DataFrame:
    rows = [
        {
            "benchmark": "b",
            "variant": "v",
            "engine": "horovod",
            "scale": f"n1x{ranks}",
            "nodes": 1,
            "ranks": ranks,
            "repetition": number,
            "started_utc": f"2026-01-01T{ranks % 24:02}:00:{number:02}Z",
            "suite": "mlperf_hpc",
            "workload": "cosmoflow",
            "outcome": outcome,
            "dropped": "",
            "time_to_train_s": time if outcome == "converged" else math.nan,
            "train_rate_samples_per_s": 100 / time,
            "global_batch_samples": 64,
            **columns,
        }
        for ranks, values in times.items()
        for number, time in enumerate(values, start=1)
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
    assert points.loc["time_to_train", "note"] == NO_BASE_VALUE()
    assert points.loc["train_rate", "speedup_ratio"] == pytest.approx(10 / 6)


def test_each_variant_has_its_own_base() -> None:
    runs = pd.concat([make_runs({1: [10.0], 2: [6.0]}), make_runs({4: [3.0]}, variant="w")])
    assert compute_scaling(runs).groupby("variant")["baseline"].unique().str[0].to_dict() == {"v": "n1x1", "w": "n1x4"}


def test_no_runs() -> None:
    assert compute_scaling(make_runs({1: [1.0]}).iloc[:0]).empty


def make_batches(batches: dict[int, int]) -> pd.DataFrame:
    parts = [make_runs({ranks: [8 / ranks] * 2}, global_batch_samples=batch) for ranks, batch in batches.items()]
    return pd.concat(parts)


@pytest.mark.parametrize(
    ("batches", "name", "words"),
    [
        ({1: 64, 2: 64, 8: 64}, "strong", "64 samples at every scale"),
        ({2: 64, 4: 128, 16: 512}, "weak", "32 samples per rank"),
        ({1: 64, 2: 128, 4: 128}, "mixed", "64 at 1, 128 at 2, 128 at 4"),
        ({4: 64}, "undetermined", "one number of ranks"),
    ],
)
def test_regime_is_told_by_the_batches(batches: dict[int, int], name: str, words: str) -> None:
    regime = tell_regime(make_batches(batches))
    assert regime.name == name
    assert words in regime.reason
    points = compute_scaling(make_batches(batches))
    assert set(points["regime"]) == {name}
    assert set(points["regime_reason"]) == {regime.reason}


@given(st.integers(1, 512), st.lists(st.integers(1, 512), min_size=2, max_size=5, unique=True))
def test_regime_of_any_scales(batch: int, ranks: list[int]) -> None:
    assert tell_regime(make_batches(dict.fromkeys(ranks, batch))).name == "strong"
    assert tell_regime(make_batches({count: batch * count for count in ranks})).name == "weak"


def test_two_batches_at_one_number_of_ranks_are_mixed() -> None:
    both = pd.concat([make_batches({2: 64}), make_batches({2: 128})])
    assert tell_regime(both).name == "mixed"


@pytest.mark.parametrize("batches", [{1: 64, 2: 128}, {1: 64, 2: 100}])
def test_growing_batches_leave_no_ideal_time_to_train(batches: dict[int, int]) -> None:
    points = compute_scaling(make_batches(batches)).set_index(["measure", "ranks"])
    time, base, rate = points.loc[("time_to_train", 2)], points.loc[("time_to_train", 1)], points.loc[("train_rate", 2)]
    assert time["speedup_ratio"] == pytest.approx(2)
    assert math.isnan(time["speedup_ideal_ratio"])
    assert math.isnan(time["efficiency_ratio"])
    assert NO_IDEAL in time["note"]
    assert base["efficiency_ratio"] == 1
    assert (rate["speedup_ideal_ratio"], rate["efficiency_ratio"]) == (2, pytest.approx(1))
    assert NO_IDEAL not in rate["note"]


def in_rounds(runs: pd.DataFrame) -> pd.DataFrame:
    """The same runs, all scales of a repetition before the next."""
    started = [f"2026-01-01T{row.repetition:02}:{row.ranks:02}:00Z" for row in runs.itertuples()]
    return runs.assign(started_utc=started)


DRIFTING = {1: [10.0, 12.0, 15.0], 2: [6.1, 7.25, 9.0]}
"""On a machine that slows down, each round has the same ratio as the others."""


def rate_at_two(runs: pd.DataFrame) -> pd.Series:
    points = compute_scaling(runs).query("ranks == 2 and measure == 'train_rate'")
    return points.iloc[0]


def test_rounds_take_the_drift_of_the_machine_out_of_the_interval() -> None:
    apart, paired = rate_at_two(make_runs(DRIFTING)), rate_at_two(in_rounds(make_runs(DRIFTING)))
    assert paired["speedup_ratio"] == pytest.approx(apart["speedup_ratio"])
    assert apart["speedup_high_ratio"] - apart["speedup_low_ratio"] > 0.8
    assert paired["speedup_high_ratio"] - paired["speedup_low_ratio"] < 0.2
    assert paired["speedup_low_ratio"] < paired["speedup_ratio"] < paired["speedup_high_ratio"]


@pytest.mark.parametrize(
    "change",
    [
        lambda runs: runs[~((runs["ranks"] == 2) & (runs["repetition"] == 3))],
        lambda runs: runs[runs["repetition"] < 3],
        lambda runs: runs.assign(outcome=["failed", *runs["outcome"][1:]]),
    ],
    ids=["a repeat of one scale is missing", "two rounds", "one broke down"],
)
def test_without_whole_rounds_there_are_no_pairs(change: Any) -> None:
    runs = change(in_rounds(make_runs(DRIFTING)))
    assert "pairs" not in rate_at_two(runs)["method"]


def test_rounds_of_which_the_rules_drop_the_extremes_are_no_pairs() -> None:
    """The ratio is then that of the means of eight, which ten pairs would not give."""
    seconds_of = {1: [10.0 + number for number in range(10)], 2: [6.0 + 0.5 * number**1.2 for number in range(10)]}
    runs = in_rounds(make_runs(seconds_of))
    all_ten = rate_at_two(runs)
    dropped = rate_at_two(runs.assign(dropped=mark_extremes(runs.assign(run_id=runs["started_utc"]))))
    assert ("pairs" in all_ten["method"], "pairs" in dropped["method"]) == (True, False)
    assert (dropped["n"], dropped["n_baseline"]) == (8, 8)
    base, scale = ([100 / time for time in times[1:9]] for times in seconds_of.values())
    assert dropped["speedup_ratio"] == pytest.approx(sum(scale) / sum(base))


@pytest.mark.parametrize(("suite", "workload"), [("hpc_ai500", "image_classification"), ("mlperf_hpc", "cosmoflow")])
def test_a_speedup_says_of_which_runs_it_is_where_some_missed_the_target(suite: str, workload: str) -> None:
    runs = make_runs({1: [8.0, 9.0, 10.0], 2: [5.0, 6.0, 7.0]}, suite=suite, workload=workload)
    runs.loc[runs.index[[0, -1]], ["outcome", "time_to_train_s"]] = ["not_converged", math.nan]
    base, scale = (compute_scaling(runs).set_index("measure").loc["time_to_train"].iloc[place] for place in (0, 1))
    only = REACHED_ONLY(here=2, of_here=3, there=2, of_there=3)
    assert (only in scale["note"]) == (suite == "hpc_ai500"), "MLPerf HPC counts the run as the slowest"
    assert REACHED_ONLY.find_in(base["note"]) is None, "a base is compared with nothing"
    rates = compute_scaling(runs).query("measure == 'train_rate'")["note"]
    assert not any(REACHED_ONLY.find_in(note) for note in rates)
