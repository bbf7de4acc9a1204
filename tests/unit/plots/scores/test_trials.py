"""The FLOPS and VFLOPS figure: marks are counted, texts must not overlap, missing data is stated as text."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from unit.plots.test_figures import outside, overlaps, points, visible_texts
from unit.record_factory import make_record
from unit.score_factory import Tables, make_scores, make_trials

from hpcai.metrics.scores.trial_scores import ERROR_METRIC
from hpcai.plots.scores.trials import NO_SCORE, plot_scores
from hpcai.plots.theme import to_svg

NAMES = ("cosmoflow", "deepcam", "extreme_weather", "opencatalyst", "resnet50")
VARIANTS = ("fp32", "mixed", "mixed_compressed")
NODES = (1, 2, 4, 16, 32, 64)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return make_scores(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def small(tables: Tables) -> Figure:
    return draw(tables)


@pytest.fixture(scope="module")
def large(tables: Tables) -> Figure:
    return draw(enlarge(tables))


def draw(tables: Tables) -> Figure:
    return plot_scores(tables["run_scores"], tables["scores"])


def words(figure: Figure) -> str:
    return " ".join(text.get_text().replace("\n", " ") for text in visible_texts(figure))


def enlarge(tables: Tables) -> Tables:
    """Return trials and scores of five benchmarks in three variants at six scales of eight ranks per node."""
    own = {name: tables[name][tables[name]["benchmark"] == "images_tiny"] for name in ("run_scores", "scores")}
    parts: dict[str, list[pd.DataFrame]] = {"run_scores": [], "scores": []}
    for name, part in parts.items():
        for benchmark in NAMES:
            for number, variant in enumerate(VARIANTS, 1):
                for nodes in NODES:
                    large = own[name][own[name]["scale"] == "n1x1"]
                    rates = [column for column in large if "flop_per_s" in column]
                    point = {"benchmark": benchmark, "variant": variant, "engine": "horovod", "scale": f"n{nodes}x8"}
                    more = {column: large[column] * number * nodes**0.9 for column in rates}
                    part.append(large.assign(**point, **more, nodes=nodes, ranks=8 * nodes))
    return {name: pd.concat(part, ignore_index=True) for name, part in parts.items()}


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize(("name", "panels"), [("small", 4), ("large", 10)])
def test_figure_can_be_read(request: pytest.FixtureRequest, name: str, panels: int) -> None:
    figure = request.getfixturevalue(name)
    figure.draw_without_rendering()
    texts = visible_texts(figure)
    assert overlaps(texts) == []
    assert outside(figure, texts) == []
    assert "nan" not in words(figure).lower()
    assert len(figure.axes) == panels
    assert "score: median, 95 % interval" in words(figure)


@pytest.mark.parametrize(
    ("names", "coefficient"),
    [
        (("bf16", "compressed", "fp32", "weak"), 0.762),
        (("fp32",), 1.2e-9),
        (("v" * 40, "w" * 40, "x" * 40), 1.05),
        (("fp32", "mixed"), 0.9),
    ],
)
def test_numbers_above_a_panel_keep_apart(tables: Tables, names: tuple[str, ...], coefficient: float) -> None:
    parts: dict[str, list[pd.DataFrame]] = {"run_scores": [], "scores": []}
    for name, part in parts.items():
        own = tables[name][(tables[name]["benchmark"] == "images_tiny") & (tables[name]["scale"] == "n1x1")]
        for variant in names:
            for ranks in (1, 2):
                part.append(own.assign(variant=variant, scale=f"n1x{ranks}", ranks=ranks))
    scores = pd.concat(parts["scores"]).assign(quality_coefficient_ratio=coefficient)
    figure = plot_scores(pd.concat(parts["run_scores"]), scores)
    figure.draw_without_rendering()
    numbers = [text for axes in figure.axes for text in axes.texts]
    assert len(numbers) == 4 * len(names)
    assert overlaps(visible_texts(figure)) == []
    assert outside(figure, numbers) == []


@pytest.mark.slow
def test_equal_tables_give_equal_bytes(tables: Tables) -> None:
    assert to_svg(draw(tables)) == to_svg(draw(tables))


def test_every_trial_that_earned_a_score_is_a_mark(tables: Tables, small: Figure, large: Figure) -> None:
    scored = tables["run_scores"]
    earned = scored["rate_flop_per_s"].notna().sum() + scored["vflops_flop_per_s"].notna().sum()
    assert points(small, "trials") == earned
    assert points(large, "trials") == 2 * 4 * len(NAMES) * len(VARIANTS) * len(NODES)


def test_coefficients_and_numbers_of_trials_are_written(tables: Tables, small: Figure) -> None:
    found = words(small)
    for score in tables["scores"].dropna(subset=["vflops_flop_per_s"]).itertuples():
        assert f"×{score.quality_coefficient_ratio:#.3g}" in found
    assert found.count("n = 4") == 2
    assert {"n = 2", "n = 5"} <= {text.get_text() for text in visible_texts(small)}


def test_a_panel_without_vflops_says_why(small: Figure) -> None:
    assert ERROR_METRIC(metric="mean_absolute_error") in words(small)


def test_rates_that_span_much_have_a_logarithmic_axis(small: Figure, large: Figure) -> None:
    assert {axes.get_yscale() for axes in large.axes} == {"log"}
    assert {axes.get_yscale() for axes in small.axes} == {"linear"}


def test_a_scale_without_a_score_is_named(tmp_path: Path) -> None:
    records = [*make_trials(3), *(make_record("failed", ranks_per_node=2, benchmark=make_trials(1)[0].plan.benchmark),)]
    figure = draw(make_scores(tmp_path, records))
    assert words(figure).count("no score") == 2
    assert "n1x2 2 ranks" in words(figure)


@pytest.mark.parametrize("measured", [True, False])
def test_nothing_to_draw_is_said(tables: Tables, measured: bool) -> None:
    scores = tables["scores"].assign(rate_flop_per_s=np.nan) if measured else tables["scores"][:0]
    assert NO_SCORE in words(plot_scores(tables["run_scores"], scores))
