"""The theme: the order of panels, and their titles."""

import pandas as pd
import pytest
from matplotlib.figure import Figure

from hpcai.core.limits import MOST_PANELS
from hpcai.plots.theme import TITLE, panels, set_title


def test_variants_that_differ_by_a_number_are_in_its_order() -> None:
    variants = ["batch_128", "fp32", "batch_32", "batch_64x2", "batch_64", "128"]
    table = pd.DataFrame({"benchmark": "cosmoflow", "variant": variants})
    order = ["128", "batch_32", "batch_64", "batch_64x2", "batch_128", "fp32"]
    assert [title for title, _ in panels(table)] == [f"cosmoflow, {variant}" for variant in order]


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("cosmoflow_tiny, fp32", "training"), ["cosmoflow_tiny, fp32, training"]),
        (("extreme_weather_tiny, fp32", "training"), ["extreme_weather_tiny, fp32,", "training"]),
        (("b" * 40 + ", fp32", "training"), ["b" * 40 + ",", "fp32, training"]),
    ],
)
def test_a_title_takes_as_few_lines_as_hold_it(words: tuple[str, ...], lines: list[str]) -> None:
    axes = Figure().subplots()
    set_title(axes, *words)
    assert axes.get_title(loc="left").split("\n") == lines
    assert all(len(line) <= TITLE + 1 for line in lines if "bbb" not in line)


def test_a_campaigns_thousand_variants_do_not_all_get_a_panel():
    table = pd.DataFrame({"benchmark": "cosmoflow", "variant": [f"v{number}" for number in range(MOST_PANELS + 1)]})
    assert [title for title, _ in panels(table[:MOST_PANELS])] == [f"cosmoflow, v{n}" for n in range(MOST_PANELS)]
    titles = [title for title, _ in panels(table)]
    assert titles == [
        *(f"cosmoflow, v{n}" for n in range(MOST_PANELS - 1)),
        f"cosmoflow, v{MOST_PANELS - 1}, 1 more in the tables",
    ]
