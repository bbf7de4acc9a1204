"""What-if: measured and predicted points are counted separately and look different; unknown intervals have no bar."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from unit.plots.prediction_factory import make_predictions
from unit.plots.shared_axes import visible_texts
from unit.plots.test_figures import outside, overlaps, points
from unit.record_factory import make_mixed_study, make_study, write_records

from hpcai.metrics.run_tables import collect_runs, summarise_scales
from hpcai.plots.predictions.what_if import plot_what_if
from hpcai.plots.theme import to_svg

STUDIES = {
    "plain": lambda: make_study(ranks=(1, 2)),
    "one": lambda: make_study(ranks=(1,), repeats=1),
    "mixed": make_mixed_study,
    "facets": lambda: [
        *make_study(ranks=(1, 2, 3, 4)),
        *make_study(ranks=(1, 2), variant="bf16", repeats=2),
        *make_study(ranks=(4,), benchmark="other_one", repeats=1),
    ],
}


@pytest.fixture(scope="module", params=STUDIES)
def scales(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return summarise_scales(collect_runs(write_records(STUDIES[request.param](), tmp_path_factory.mktemp("study"))))


@pytest.fixture
def plain(tmp_path: Path) -> pd.DataFrame:
    return summarise_scales(collect_runs(write_records(make_study(ranks=(1, 2)), tmp_path)))


def look(figure: Figure, name: str) -> set[tuple[str, object]]:
    lines = [line for axes in figure.axes for line in axes.lines if line.get_gid() == name]
    return {(str(line.get_marker()), str(line.get_markerfacecolor())) for line in lines}


def bars(figure: Figure) -> int:
    found = [bar for axes in figure.axes for bar in axes.collections if isinstance(bar, LineCollection)]
    return sum(len(bar.get_segments()) for bar in found)


@pytest.mark.parametrize("options", [{}, {"interval": False}, {"epochs": False}, {"named": " of a very long name"}])
@pytest.mark.filterwarnings("error::UserWarning")
def test_figure_can_be_read(options: dict[str, bool], scales: pd.DataFrame) -> None:
    figure = plot_what_if(make_predictions(scales, **options), scales)  # type: ignore[arg-type]
    figure.draw_without_rendering()
    texts = visible_texts(figure)
    assert overlaps(texts) == []
    assert outside(figure, texts) == []
    assert "nan" not in " ".join(text.get_text() for text in texts).lower()


def test_measured_and_predicted_are_apart(scales: pd.DataFrame) -> None:
    predictions = make_predictions(scales)
    figure = plot_what_if(predictions, scales)
    questions = predictions["question"].nunique()
    assert points(figure, "predicted") == len(predictions)
    measured = scales["time_to_train_score_s"].notna().sum()
    assert points(figure, "measured") == questions * measured
    assert not look(figure, "predicted") & look(figure, "measured")
    assert {face for _, face in look(figure, "predicted")} == {"white"}
    # Marks only, without connecting lines.
    assert all(line.get_linestyle() == "None" for axes in figure.axes for line in axes.lines)


def test_predictions_stand_beside_the_ranks_of_measured_points(plain: pd.DataFrame) -> None:
    figure = plot_what_if(make_predictions(plain), plain)
    for axes in figure.axes:
        places = {
            gid: {float(x) for line in axes.lines if line.get_gid() == gid for x in np.atleast_1d(line.get_xdata())}
            for gid in ("predicted", "measured")
        }
        assert places["measured"] == {1.0, 2.0}
        assert not places["predicted"] & places["measured"]


def test_unknown_interval_has_no_bar(plain: pd.DataFrame) -> None:
    without = plot_what_if(make_predictions(plain, interval=False), plain)
    every = plot_what_if(make_predictions(plain), plain)
    predicted = len(make_predictions(plain))
    assert bars(every) - bars(without) == predicted


def test_without_epochs_the_step_is_drawn(plain: pd.DataFrame) -> None:
    assert plot_what_if(make_predictions(plain), plain).axes[0].get_ylabel() == "time to train [s]"
    step = plot_what_if(make_predictions(plain, epochs=False), plain)
    assert step.axes[0].get_ylabel() == "time of a step [s]"
    assert points(step, "measured") > 0


def test_predictions_without_a_time_to_train_are_counted(plain: pd.DataFrame) -> None:
    predictions = make_predictions(plain)
    lost = predictions["question"].eq("scale") & predictions["ranks"].ge(8)
    predictions.loc[lost, ["time_to_train_s", "time_to_train_low_s", "time_to_train_high_s"]] = np.nan
    figure = plot_what_if(predictions, plain)
    assert figure.axes[0].get_title(loc="right") == "2 of a step only"
    assert points(figure, "predicted") == len(predictions) - 2


def test_predictions_that_could_not_be_made_are_counted(plain: pd.DataFrame) -> None:
    predictions = make_predictions(plain)
    lost = predictions["question"].eq("scale") & predictions["ranks"].ge(64)
    predictions.loc[lost, [name for name in predictions if str(name).endswith("_s")]] = np.nan
    figure = plot_what_if(predictions, plain)
    assert figure.axes[0].get_title(loc="right") == "1 not possible"
    assert points(figure, "predicted") == len(predictions) - 1


def test_predictions_without_measured_points(plain: pd.DataFrame) -> None:
    figure = plot_what_if(make_predictions(plain), pd.DataFrame())
    assert points(figure, "measured") == 0
    assert points(figure, "predicted") == len(make_predictions(plain))


@pytest.mark.slow
def test_equal_tables_give_equal_bytes(plain: pd.DataFrame) -> None:
    assert to_svg(plot_what_if(make_predictions(plain), plain)) == to_svg(plot_what_if(make_predictions(plain), plain))


def test_nothing_predicted_is_said(plain: pd.DataFrame) -> None:
    words = " ".join(text.get_text() for text in visible_texts(plot_what_if(pd.DataFrame(), plain))).split()
    assert "nothing was predicted" in " ".join(words)
