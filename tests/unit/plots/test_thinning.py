"""Which variants a figure draws of many."""

import pandas as pd

from hpcai.core.limits import MOST_KEYS
from hpcai.plots.thinning import most_of, only_drawn


def test_each_benchmark_keeps_its_own_names_with_the_lowest_values() -> None:
    names = [f"v{number}" for number in range(MOST_KEYS + 5)]
    many = pd.DataFrame({"benchmark": "many", "variant": names, "order": range(len(names), 0, -1)})
    few = pd.DataFrame({"benchmark": "few", "variant": ["v0", "v0"], "order": [1e6, 2e6]})
    kept, left_out = most_of(pd.concat([many, few]), "variant", "order")
    assert left_out == 6
    assert list(kept["variant"]) == [*names[6:], "v0", "v0"]
    assert most_of(few, "variant", "order")[1] == 0


def test_other_tables_keep_the_variants_that_are_drawn() -> None:
    drawn = pd.DataFrame({"benchmark": ["a", "b"], "variant": ["x", "y"]})
    other = pd.DataFrame({"benchmark": ["a", "a", "b"], "variant": ["x", "y", "y"], "value": [1, 2, 3]})
    assert list(only_drawn(other, drawn)["value"]) == [1, 3]
    assert only_drawn(pd.DataFrame(), drawn).empty
