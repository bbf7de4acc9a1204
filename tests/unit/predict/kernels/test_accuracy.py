"""Verdicts of kernels follow both goals, and those of all kernels follow the worst."""

import pandas as pd
import pytest

from hpcai.predict.kernels.accuracy import summarise_goals


def accuracy(**kernels):
    rows = [(name, mape, gain) for name, (mape, gain) in kernels.items()]
    return pd.DataFrame(rows, columns=["kernel", "mape_ratio", "gain_ratio"])


def test_goals_name_the_worst_kernel_and_count_those_that_reach_them():
    goals = summarise_goals(accuracy(conv=(0.15, 3.0), relu=(0.05, 1.5), pool=(0.25, 4.0))).set_index("goal")
    each, median, gain = (goals.loc[name] for name in ("error of each kernel", "median error", "gain of each kernel"))
    assert (each["value_ratio"], each["worst_kernel"], each["kernels_within_goal"]) == (0.25, "pool", 2)
    assert not each["within_goal"]
    assert median["value_ratio"] == pytest.approx(0.15)
    assert not median["within_goal"]
    assert (gain["value_ratio"], gain["worst_kernel"], gain["kernels_within_goal"]) == (1.5, "relu", 2)


def test_goals_are_reached_by_all_kernels_or_not():
    assert summarise_goals(accuracy(conv=(0.10, 3.0), relu=(0.05, 2.0)))["within_goal"].all()
    missing = summarise_goals(accuracy(conv=(0.10, 3.0), relu=(float("nan"), float("nan"))))
    assert list(missing["within_goal"]) == [False, True, False]
    assert set(missing["kernels"]) == {2}
