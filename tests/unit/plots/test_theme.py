"""The theme: the order of panels."""

import pandas as pd

from hpcai.plots.theme import panels


def test_variants_that_differ_by_a_number_are_in_its_order() -> None:
    variants = ["batch_128", "fp32", "batch_32", "batch_64x2", "batch_64", "128"]
    table = pd.DataFrame({"benchmark": "cosmoflow", "variant": variants})
    order = ["128", "batch_32", "batch_64", "batch_64x2", "batch_128", "fp32"]
    assert [title for title, _ in panels(table)] == [f"cosmoflow, {variant}" for variant in order]
