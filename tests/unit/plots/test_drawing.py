"""What is drawn of a table."""

import pandas as pd

from hpcai.plots.drawing import with_engine_in_variant


def test_figures_see_a_variant_for_each_engine() -> None:
    table = pd.DataFrame({"variant": ["v", "v"], "engine": ["horovod", "tensorflow"], "ranks": [2, 2]})
    assert list(with_engine_in_variant(table)["variant"]) == ["v", "v, tensorflow"]
    bare = table.drop(columns="engine")
    assert with_engine_in_variant(bare) is bare
