"""Figures of MLPerf HPC rounds: every result is a mark, texts do not overlap, and empty figures explain themselves."""

import itertools
import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from unit.plots.mlperf_factory import make_principal, make_result, make_results, make_runs, make_weak

from hpcai.catalogue.figures import figures_of
from hpcai.core.limits import MOST_MARKS
from hpcai.plots.drawing import draw_figure
from hpcai.plots.rounds import marks as mlperf_marks
from hpcai.plots.rounds.marks import TOO_MANY
from hpcai.plots.rounds.principal_components import outline
from hpcai.plots.rounds.scaling import QUANTITIES
from hpcai.plots.rounds.weak import MISFITS, NONE, OTHER_SCALES
from hpcai.plots.theme import to_svg

SVG = "{http://www.w3.org/2000/svg}"
ORIGINS = ("own", "v0.7", "v1.0", "v2.0", "v3.0")


def make_tables(count: int, origins: tuple[str, ...]) -> dict[str, pd.DataFrame]:
    results = make_results(count, origins)
    return {
        "mlperf_results": results,
        "mlperf_runs": make_runs(results),
        "mlperf_principal": make_principal(results),
        "mlperf_weak": make_weak(6, origins),
    }


OWN = [name for name, spec in figures_of("rounds").items() if set(spec.tables) <= set(make_tables(3, ("v0.7",)))]


def texts_of(figure: Figure) -> list[Text]:
    figure.draw_without_rendering()
    texts = [text for legend in figure.legends for text in legend.get_texts()]
    for axes in figure.axes:
        texts += axes.texts
        if not axes.axison:
            continue
        texts += [axes._left_title, axes.xaxis.label, axes.yaxis.label]
        limits = (axes.get_xlim(), sorted(axes.get_ylim()))
        for place, (axis, (low, high)) in enumerate(zip((axes.xaxis, axes.yaxis), limits, strict=True)):
            texts += [label for label in axis.get_majorticklabels() if low <= label.get_position()[place] <= high]
    return [text for text in texts if text.get_visible() and text.get_text().strip()]


def marks(figure: Figure, name: str) -> int:
    return sum(artist.get_gid() == name for axes in figure.axes for artist in [*axes.lines, *axes.patches])


@pytest.mark.parametrize("count", [15, 1])
@pytest.mark.parametrize("topic", OWN)
@pytest.mark.filterwarnings("error::UserWarning")
def test_texts_do_not_overlap(topic: str, count: int) -> None:
    figure = draw_figure(topic, make_tables(count, ("v0.7",)))
    boxes = [(text.get_text(), text.get_window_extent().padded(-1)) for text in texts_of(figure)]
    overlapping = [(a, b) for (a, one), (b, two) in itertools.combinations(boxes, 2) if one.overlaps(two)]
    # Shares are inside their own bars, and no other bar is narrower than its number.
    assert overlapping == []


@pytest.mark.parametrize("topic", OWN)
@pytest.mark.filterwarnings("error::UserWarning")
def test_many_rounds_fit_or_it_is_said_what_is_left_out(topic: str) -> None:
    figure = draw_figure(topic, make_tables(21, ORIGINS))
    width, height = figure.get_size_inches()
    assert width < 25
    assert height < 30
    words = " ".join(text.get_text() for text in texts_of(figure))
    if topic in {"mlperf_scaling", "mlperf_principal"}:
        assert TOO_MANY(results=35) in words
        assert "mlperf_results" in words
    if topic != "mlperf_time_shares":
        assert all(origin in words for origin in ORIGINS)


@pytest.mark.parametrize("topic", OWN)
def test_nothing_is_said_in_words(topic: str) -> None:
    empty = {name: table.head(0) for name, table in make_tables(3, ("v0.7",)).items()}
    figure = draw_figure(topic, empty)
    assert figure.get_figheight() < 1.2
    words = " ".join(" ".join(text.get_text() for text in texts_of(figure)).split())
    assert (NONE if topic == "mlperf_weak" else "was given") in words
    # Published results are not measured here, so "nothing was measured" would be wrong.
    if topic in {"mlperf_weak", "mlperf_time_shares"}:
        assert "measured" not in words


@pytest.mark.parametrize(
    ("topic", "column", "sentence"),
    [("mlperf_weak", "models_per_min", "table mlperf_weak says why"),
     ("mlperf_time_shares", "train_share_ratio", "table mlperf_results"),
     ("mlperf_scaling", "epochs", "table mlperf_results"),
     ("mlperf_principal", "epochs", "table mlperf_results")],
)  # fmt: skip
def test_results_without_times_are_not_called_missing(topic: str, column: str, sentence: str) -> None:
    tables = make_tables(3, ("v1.0",))
    tables = {name: table.assign(**{column: np.nan}) if column in table else table for name, table in tables.items()}
    words = " ".join(" ".join(text.get_text() for text in texts_of(draw_figure(topic, tables))).split())
    assert sentence in words


@pytest.mark.parametrize(
    ("reason", "marked"),
    [("", False), ("not counted, because the log does not comply: result_3.txt", False),
     ("S <= T does not hold: S = 16 in the logs, T = 8 in the system file", True),
     ("not possible: 9 instances ran at the same time, 9 x 16 do not fit into T = 128", True)],
)  # fmt: skip
def test_weak_scales_that_do_not_fit_are_marked(reason: str, *, marked: bool) -> None:
    weak = make_weak(6).assign(reason="")
    weak.loc[weak.index[1], "reason"] = reason
    texts = [text.get_text() for text in texts_of(draw_figure("mlperf_weak", {"mlperf_weak": weak}))]
    assert sum(text.count("† (S = ") for text in texts) == marked
    assert (MISFITS in texts) == marked


@pytest.mark.slow
@pytest.mark.parametrize("topic", OWN)
def test_equal_tables_give_equal_bytes(topic: str) -> None:
    tables = make_tables(2, ("v0.7", "v1.0"))
    assert to_svg(draw_figure(topic, tables)) == to_svg(draw_figure(topic, tables))


def test_every_result_has_its_bars_and_its_time() -> None:
    results = make_results(15)
    figure = draw_figure("mlperf_time_shares", {"mlperf_results": results})
    assert marks(figure, "train_share_ratio") == 15
    assert marks(figure, "staging_share_ratio") == results["staging_share_ratio"].notna().sum()
    words = [text.get_text() for text in texts_of(figure)]
    assert sum("staging not logged" in text for text in words) == results["staging_share_ratio"].isna().sum() > 0
    assert sum(bool(re.search(r"\d min", text)) for text in words) == 15


def test_bars_are_as_long_as_the_shares() -> None:
    row = make_result("cosmoflow", 1, "v0.7", staging_share_ratio=0.25, train_share_ratio=0.5,
                      evaluation_share_ratio=0.2, extra_share_ratio=-0.01)  # fmt: skip
    figure = draw_figure("mlperf_time_shares", {"mlperf_results": pd.DataFrame([row])})
    bars = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle) and patch.get_gid()]
    assert [round(bar.get_width(), 6) for bar in bars] == [25, 50, 20, 0]
    assert [round(bar.get_x(), 6) for bar in bars] == [0, 25, 75, 95]


def test_weak_instances_are_no_results_of_strong_scaling() -> None:
    results = pd.DataFrame([make_result("deepcam", 0, "v1.0"), make_result("deepcam", 1, "v1.0", scaling="weak")])
    assert marks(draw_figure("mlperf_time_shares", {"mlperf_results": results}), "train_share_ratio") == 1


def test_scaling_draws_every_quantity_with_its_deviation() -> None:
    results = make_results(15)
    figure = draw_figure("mlperf_scaling", {"mlperf_results": results})
    panels = [axes for axes in figure.axes if axes.axison]
    assert [len(axes.containers) for axes in panels] == [5] * 3 * len(QUANTITIES)
    assert {axes.get_xscale() for axes in panels} == {axes.get_yscale() for axes in panels} == {"log"}
    first = results[results["benchmark"] == "cosmoflow"].sort_values("units")
    xs = sorted(float(bar.lines[0].get_xdata()[0]) for bar in panels[0].containers)
    assert xs == sorted(first["units"])
    # Panels of one benchmark share their axis of units.
    for column in range(3):
        assert len({panels[3 * row + column].get_xlim() for row in range(len(QUANTITIES))}) == 1


def test_a_quantity_that_nobody_logged_is_said_in_words() -> None:
    results = make_results(3).assign(evaluation_rate_samples_per_s=np.nan)
    words = [text.get_text() for text in texts_of(draw_figure("mlperf_scaling", {"mlperf_results": results}))]
    assert sum("no result has it" in text for text in words) == 3


@pytest.mark.parametrize("slope", [1, -1])
def test_lines_of_equal_efficiency_have_their_slope(slope: int) -> None:
    lines = mlperf_marks.spread_lines(((10.0, 1000.0), (0.1, 500.0)), slope)
    assert len(lines) > 2
    for (left, low), (right, high) in lines:
        assert np.log(high / low) / np.log(right / left) == pytest.approx(slope)


def test_division_and_machine_are_told_apart() -> None:
    palette = {"v0.7": "red"}
    closed = mlperf_marks.point_style(make_result("deepcam", 0, "v0.7"), palette)
    hollow = mlperf_marks.point_style(make_result("deepcam", 0, "v0.7", division="open"), palette)
    square = mlperf_marks.point_style(make_result("deepcam", 0, "v0.7", unit="processor"), palette)
    assert closed["markerfacecolor"] == "red"
    assert hollow["markerfacecolor"] == "white"
    assert square["marker"] != closed["marker"]


def test_ellipse_reaches_one_deviation_along_each_axis() -> None:
    row = {
        "centre_epochs": 50.0, "centre_epoch_rate_per_s": 0.01, "std1_log10": 0.1, "axis1_epochs": 1.0,
        "axis1_rate": 0.0, "std2_log10": 0.02, "axis2_epochs": 0.0, "axis2_rate": 1.0,
    }  # fmt: skip
    x, y = outline(row)
    assert x.max() / x.min() == pytest.approx(10**0.2, rel=1e-3)
    assert y.max() / y.min() == pytest.approx(10**0.04, rel=1e-3)
    assert np.sqrt(x.max() * x.min()) == pytest.approx(50)
    assert np.sqrt(y.max() * y.min()) == pytest.approx(0.6)


def test_every_kept_run_is_a_point_and_every_result_an_ellipse() -> None:
    tables = make_tables(6, ("v0.7",))
    figure = draw_figure("mlperf_principal", tables)
    assert marks(figure, "run") == tables["mlperf_runs"]["kept_by_status"].sum()
    assert marks(figure, "ellipse") == 6


def test_a_result_without_axes_has_points_alone() -> None:
    tables = make_tables(1, ("v0.7",))
    bare = {name: np.nan for name in tables["mlperf_principal"] if name.startswith(("std", "axis", "variance"))}
    figure = draw_figure("mlperf_principal", {**tables, "mlperf_principal": tables["mlperf_principal"].assign(**bare)})
    assert marks(figure, "run") == 8


def test_weak_scaling_in_nodes_and_in_accelerators_has_no_common_axis() -> None:
    weak = make_weak(6).assign(benchmark="deepcam")
    weak.loc[weak.index[:2], "scale_unit"] = "node"
    figure = draw_figure("mlperf_weak", {"mlperf_weak": weak})
    labels = {axes.get_xlabel() for axes in figure.axes if axes.axison} - {""}
    assert len(labels) == 2
    words = " ".join(text.get_text() for text in texts_of(figure))
    assert "S = 16, M′ = 10" in words


def test_numbers_stand_apart_where_points_are_equal() -> None:
    results = pd.DataFrame([make_result("deepcam", 0, "v1.0", submission=f"A/{n}", label=f"A {n}") for n in range(3)])
    figure = draw_figure("mlperf_scaling", {"mlperf_results": results})
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert len(boxes) == 3
    assert not any(one.overlaps(two) for one, two in itertools.combinations(boxes, 2))


def test_editions_of_a_benchmark_have_panels_of_their_own() -> None:
    rows = [make_result("cosmoflow", number, "v0.7") for number in range(3)]
    rows += [make_result("cosmoflow", number, "v1.0", edition="524288 samples") for number in range(2)]
    figure = draw_figure("mlperf_scaling", {"mlperf_results": pd.DataFrame(rows)})
    panels = [axes for axes in figure.axes if axes.axison]
    assert [len(axes.containers) for axes in panels] == [3, 2] * len(QUANTITIES)
    titles = [" ".join(axes.get_title(loc="left").split()) for axes in panels[:2]]
    assert titles == ["cosmoflow, 262144 samples, n = 3", "cosmoflow, 524288 samples, n = 2"]


def test_targets_of_an_edition_have_panels_of_their_own() -> None:
    rows = [make_result("deepcam", number, "own", quality_target=0.5 + 0.1 * (number % 2)) for number in range(4)]
    figure = draw_figure("mlperf_scaling", {"mlperf_results": pd.DataFrame(rows)})
    titles = [" ".join(axes.get_title(loc="left").split()) for axes in figure.axes if axes.get_title(loc="left")]
    assert [title.partition("target ")[2] for title in titles] == ["0.5, n = 2", "0.6, n = 2"]


def test_many_editions_stand_below_each_other() -> None:
    rows = [make_result("deepcam", number, "own", edition=f"{number} samples") for number in range(9)]
    figure = draw_figure("mlperf_scaling", {"mlperf_results": pd.DataFrame(rows)})
    assert figure.get_size_inches()[0] < 16
    assert len([axes for axes in figure.axes if axes.axison]) == 9 * len(QUANTITIES)


@pytest.mark.parametrize("topic", OWN)
def test_what_was_published_again_is_drawn_once(topic: str) -> None:
    tables = make_tables(3, ("v1.0", "v2.0"))
    table = "mlperf_weak" if topic == "mlperf_weak" else "mlperf_results"
    again = tables[table].assign(same_runs_as=np.where(tables[table]["origin"] == "v2.0", "v1.0 another", ""))
    figure = draw_figure(topic, {**tables, table: again})
    once = draw_figure(topic, make_tables(3, ("v1.0",)))
    for mark in ("result", "ellipse", "train_share_ratio"):
        assert marks(figure, mark) == marks(once, mark)
    assert not any("v2.0" in text.get_text() for text in texts_of(figure))


NASTY = {
    "broken": "$\\frac$ x^2_", "unreadable": "_<b>&\"'a\x07b\tc", "formula": "$a$b_{", "underscore": "_begins",
    "markup": "<script>&\"'", "control": "a\x07b\tc", "escaped": "\\$odd\\$", "two": "$$",
}  # fmt: skip
# One function makes all names plain: one figure shows it all of these, two tell that each other figure calls it.
NAMED = [
    *((topic, name) for topic in OWN for name in ("broken", "unreadable")),
    *(("mlperf_time_shares", name) for name in NASTY),
]


@pytest.mark.parametrize(("topic", "name"), dict.fromkeys(NAMED))
@pytest.mark.filterwarnings("error::UserWarning")
def test_names_are_shown_as_they_are(topic: str, name: str) -> None:
    """Between two $ matplotlib reads a formula, and fails on an invalid one."""
    nasty, tables = NASTY[name], make_tables(1, ("v1.0",))
    tables = {
        table: frame.assign(**{column: nasty for column in ("origin", "label", "benchmark") if column in frame})
        for table, frame in tables.items()
    }
    svg = to_svg(draw_figure(topic, tables)).decode()
    words = " ".join(" ".join(node.itertext()) for node in ElementTree.fromstring(svg).iter(f"{SVG}text"))
    shown = nasty.replace("\x07", "\ufffd").replace("\t", " ")
    assert words.replace("\xa0", " ").count(shown) >= 2  # a title or legend, and the list or an axis


def test_scales_that_are_not_the_logged_ones_are_marked() -> None:
    weak = make_weak(6).assign(reason="")
    weak.loc[weak.index[1], "logged_instance_scale"] = 4096.0
    weak.loc[weak.index[2], ["instance_scale", "logged_instance_scale"]] = [np.nan, 4096.0]
    texts = [text.get_text() for text in texts_of(draw_figure("mlperf_weak", {"mlperf_weak": weak}))]
    assert sum(text.count("‡ (S = 16") for text in texts) == 1
    assert sum(text.count("(S = unknown") for text in texts) == 1
    assert OTHER_SCALES in texts


def test_throughputs_say_which_mean_they_are() -> None:
    figure = draw_figure("mlperf_scaling", {"mlperf_results": make_results(3)})
    labels = [" ".join(axes.get_ylabel().split()) for axes in figure.axes if "throughput" in axes.get_ylabel()]
    assert len(labels) == 3
    assert all("harmonic mean" in label for label in labels)


def test_a_campaigns_thousand_results_do_not_all_get_a_mark() -> None:
    rows = [make_result("deepcam", number % 7, "own", submission=f"s{number:03}") for number in range(2 * MOST_MARKS)]
    results = pd.DataFrame(rows)
    strong = mlperf_marks.strong_results(results)
    thin = mlperf_marks.thin_results(strong)
    assert len(thin) == MOST_MARKS
    assert thin["left_out"].unique().tolist() == [MOST_MARKS]
    assert list(thin["tag"].iloc[[0, -1]]) == [1, 2 * MOST_MARKS]
    assert thin["tag"].diff().dropna().isin([2, 3]).all()
    whole = mlperf_marks.thin_results(strong.head(MOST_MARKS))
    assert (len(whole), whole["left_out"].sum()) == (MOST_MARKS, 0)
    tables = {"mlperf_results": results, "mlperf_runs": make_runs(results), "mlperf_principal": make_principal(results)}
    # A result is a point and both ends of its bar.
    expected = {"mlperf_scaling": ("result", 3 * len(QUANTITIES)), "mlperf_principal": ("ellipse", 1)}
    for topic, (mark, each) in expected.items():
        figure = draw_figure(topic, tables)
        assert marks(figure, mark) == each * MOST_MARKS
        assert f"{MOST_MARKS:,} more" in figure.axes[0].get_title(loc="left").replace("\n", " ")
