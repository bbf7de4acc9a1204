"""The figure of fitted curves: marks are counted, texts must not overlap, missing data is stated as text."""

import pandas as pd
import pytest
from matplotlib.figure import Figure
from unit.mlperf_hpc.analysis.prediction_points_factory import all_results, no_references, result, tables_of
from unit.plots.test_figures import outside, overlaps, points, visible_texts

from hpcai.mlperf_hpc.analysis.prediction_tables import prediction_tables
from hpcai.mlperf_hpc.analysis.reference_epochs import read_reference_epochs
from hpcai.plots.rounds.prediction import NO_CURVES, plot_mlperf_prediction
from hpcai.plots.theme import to_svg

Tables = dict[str, pd.DataFrame]
ROUNDS = {
    "one": all_results,
    "few": lambda: [result("A1", 64), result("A1", 1024)],
    "editions": lambda: [*all_results(), *(row | {"train_samples": 524288} for row in all_results(noise=0.2))],
    "many": lambda: [
        *(result(family, units, label="L" * 60) for family in ("A1", "B2", "C3") for units in range(64, 71)),
        result("A1", 2048, batch=512), result("A1", 1024, batch=512),
    ],
}  # fmt: skip


@pytest.fixture(scope="module", params=ROUNDS)
def tables(request: pytest.FixtureRequest) -> Tables:
    return prediction_tables(*tables_of(ROUNDS[request.param]()), read_reference_epochs())


def draw(tables: Tables) -> Figure:
    names = ("mlperf_curves", "mlperf_predictions", "mlperf_leave_one_out", "mlperf_prediction_errors")
    return plot_mlperf_prediction(*(tables[name] for name in names))


@pytest.fixture(scope="module")
def figure(tables: Tables) -> Figure:
    return draw(tables)


@pytest.mark.filterwarnings("error::UserWarning")
def test_figure_can_be_read(figure: Figure) -> None:
    figure.draw_without_rendering()
    texts = visible_texts(figure)
    assert overlaps(texts) == []
    assert outside(figure, texts) == []
    assert "nan" not in " ".join(text.get_text() for text in texts).lower()


def test_every_result_is_drawn_in_each_panel(tables: Tables, figure: Figure) -> None:
    errors = tables["mlperf_leave_one_out"]
    assert points(figure, "published") == 3 * len(errors)
    assert points(figure, "left-out") == (errors["reason"] == "").sum()
    references = (tables["mlperf_curves"]["kind"] == "reference").sum()
    assert points(figure, "reference") == references


@pytest.mark.slow
def test_equal_tables_give_equal_bytes() -> None:
    tables = prediction_tables(*tables_of(ROUNDS["few"]()), no_references())
    assert to_svg(draw(tables)) == to_svg(draw(tables))


def test_nothing_to_join_is_said() -> None:
    figure = draw(prediction_tables(*tables_of([]), read_reference_epochs()))
    words = " ".join(text.get_text() for text in visible_texts(figure)).split()
    assert NO_CURVES in " ".join(words)
