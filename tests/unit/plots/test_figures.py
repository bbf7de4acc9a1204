"""Rendered figures: marks are counted, texts must not overlap, equal tables must give equal bytes."""

import itertools
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from unit.record_factory import make_mixed_study, make_record, make_study, write_records

from hpcai.catalogue.figures import figures_of
from hpcai.metrics.run_tables import collect_epochs, collect_runs, compute_scaling, summarise_scales
from hpcai.plots.drawing import draw_figure
from hpcai.plots.theme import to_svg

Tables = dict[str, pd.DataFrame]
STUDIES = {
    "plain": make_study,
    "mixed": make_mixed_study,
    "one": lambda: make_study(ranks=(1,), repeats=1),
    "all_failed": lambda: [make_record("failed"), make_record("timed_out", repetition=2)],
    "died_at_once": lambda: [make_record("failed", record={"partial_epochs": ()})],
    "facets": lambda: [
        *make_study(ranks=(1, 2, 4)),
        *make_study(ranks=(1, 2), variant="bf16", repeats=2),
        *make_study(ranks=(4,), benchmark="other_one", repeats=1),
        make_record("failed", benchmark="third_one", record={"partial_epochs": ()}),
    ],
    "long_names": lambda: [
        *make_study(ranks=(1, 2, 4), repeats=2, benchmark="b" * 40, variant="v" * 40, nodes=4),
        *make_study(ranks=(1, 2), repeats=1, benchmark="c" * 40, variant="v" * 40),
        *make_study(ranks=(3,), repeats=1, benchmark="c" * 40, variant="v" * 40, nodes=2),
        make_record("failed", benchmark="b" * 40, variant="v" * 40, nodes=3, record={"partial_epochs": ()}),
    ],
    "nothing": list,
}


@pytest.fixture(scope="module", params=STUDIES)
def study(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Tables]:
    return request.param, make_tables(request.param, tmp_path_factory.mktemp(request.param))


def make_tables(name: str, folder: Path) -> Tables:
    paths = write_records(STUDIES[name](), folder)
    runs = collect_runs(paths)
    return {
        "runs": runs,
        "epochs": collect_epochs(paths),
        "scales": summarise_scales(runs),
        "scaling": compute_scaling(runs),
    }


@pytest.mark.parametrize("topic", figures_of("analyse"))
@pytest.mark.filterwarnings("error::UserWarning")
def test_figure_can_be_read(topic: str, study: tuple[str, Tables]) -> None:
    figure = draw_figure(topic, study[1])
    figure.draw_without_rendering()
    texts = visible_texts(figure)
    assert texts
    assert not any("nan" in text.get_text().lower() for text in texts)
    assert overlaps(texts) == []
    assert outside(figure, texts) == []
    for axes in figure.axes:
        if axes.axison and axes.lines:
            assert axes.get_title(loc="left")
            assert axes.get_ylabel() or [label.get_text() for label in axes.get_yticklabels()]


def visible_texts(figure: Figure) -> list[Text]:
    """Return all drawn texts: ticks outside the axis range exist but are not shown."""
    texts = [text for legend in figure.legends for text in legend.get_texts()]
    for axes in figure.axes:
        texts += [axes.title, axes._left_title, *axes.texts]
        if axes.axison:
            texts += [axes.xaxis.label, axes.yaxis.label]
            texts += ticks_inside(axes.get_xticks(), axes.get_xticklabels(), axes.get_xlim())
            texts += ticks_inside(axes.get_yticks(), axes.get_yticklabels(), axes.get_ylim())
    return [text for text in texts if text.get_visible() and text.get_text().strip()]


def ticks_inside(places: Any, labels: list[Text], limits: tuple[float, float]) -> list[Text]:
    low, high = sorted(limits)
    return [label for place, label in zip(places, labels, strict=True) if low <= place <= high]


def overlaps(texts: list[Text]) -> list[tuple[str, str]]:
    boxes = [(text.get_text(), text.get_window_extent().padded(-1)) for text in texts]
    return [(a, b) for (a, one), (b, two) in itertools.combinations(boxes, 2) if one.overlaps(two)]


def outside(figure: Figure, texts: list[Text]) -> list[str]:
    page = figure.bbox
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    return [words for words, box in boxes if min(box.min) < -1 or box.x1 > page.x1 + 1 or box.y1 > page.y1 + 1]


def points(figure: Figure, name: str) -> int:
    lines = [line for axes in figure.axes for line in axes.lines if line.get_gid() == name]
    return sum(len(np.atleast_1d(line.get_xdata())) for line in lines)


def test_legends_say_what_the_numbers_are(tmp_path: Path) -> None:
    """Ten runs are as many as CosmoFlow requires, three are not."""
    paths = write_records([*make_study(ranks=(1,), repeats=10), *make_study(ranks=(2,), repeats=3)], tmp_path)
    runs = collect_runs(paths)
    for topic in ("throughput", "time_to_train"):
        figure = draw_figure(topic, {"runs": runs, "scales": summarise_scales(runs)})
        words = [text.get_text().replace("\n", " ") for text in visible_texts(figure)]
        assert any({"mean", "median,", "95"} <= set(word.split()) for word in words), topic


def test_every_run_is_a_mark(study: tuple[str, Tables]) -> None:
    name, tables = study
    runs = tables["runs"]
    figure = draw_figure("time_to_train", tables)
    if runs["time_to_train_s"].notna().any():
        assert points(figure, "runs") == runs["time_to_train_s"].notna().sum()
        assert points(figure, "runs") + points(figure, "runs-without-time") == len(runs), name
    else:
        assert any("Nothing was measured" in text.get_text() for text in visible_texts(figure))


def test_a_panel_without_a_time_has_no_scale_of_times(tmp_path: Path) -> None:
    runs = collect_runs(write_records(make_study(ranks=(1,), repeats=2), tmp_path))
    lost = runs.assign(variant="lost", time_to_train_s=np.nan)
    both = pd.concat([runs, lost], ignore_index=True)
    figure = draw_figure("time_to_train", {"runs": both, "scales": summarise_scales(both)})
    ticks = {axes.get_title(loc="left").split(", ")[-1]: len(axes.get_yticks()) for axes in figure.axes if axes.axison}
    assert ticks.pop("lost") == 0
    assert min(ticks.values()) > 0


def test_one_line_per_run(study: tuple[str, Tables]) -> None:
    tables = study[1]
    for topic, column in (("quality", "quality"), ("loss", "train_loss")):
        figure = draw_figure(topic, tables)
        lines = {line.get_gid() for axes in figure.axes for line in axes.lines}
        finite = tables["epochs"][np.isfinite(tables["epochs"][column])]
        assert {f"run-{run}" for run in finite["run_id"]} == {gid for gid in lines if gid and gid.startswith("run-")}


def test_run_without_any_epoch_is_named(tmp_path: Path) -> None:
    records = [*make_study(ranks=(1,), repeats=2), make_record("failed", repetition=3, record={"partial_epochs": ()})]
    paths = write_records(records, tmp_path)
    figure = draw_figure("quality", {"runs": collect_runs(paths), "epochs": collect_epochs(paths)})
    assert figure.axes[0].get_xlabel() == "epoch\nwithout any value: n1x1 r3 failed"


def test_ticks_say_how_many_converged(tmp_path: Path) -> None:
    figure = draw_figure("time_to_train", make_tables("mixed", tmp_path))
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels == ["n1x1\n1 rank\n4/4 ok", "n1x2\n2 ranks\n1/5 ok"]


def test_shares_fill_the_bar(tmp_path: Path) -> None:
    figure = draw_figure("time_shares", make_tables("mixed", tmp_path))
    widths: dict[float, float] = {}
    for bar in figure.axes[0].patches:
        widths[bar.get_y()] = widths.get(bar.get_y(), 0.0) + bar.get_width()
    assert list(widths.values()) == pytest.approx([100.0, 100.0])


def test_caching_has_a_colour_only_where_something_was_cached(tmp_path: Path) -> None:
    tables = make_tables("mixed", tmp_path)
    for share in (np.nan, 0.1):
        scales = tables["scales"].assign(cache_ratio=share)
        scales["rest_ratio"] -= np.nan_to_num(share)
        figure = draw_figure("time_shares", {"scales": scales})
        words = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
        assert ("caching" in words) == (share > 0)
        assert sum(bar.get_width() for bar in figure.axes[0].patches) == pytest.approx(200.0)


def test_a_launch_that_was_not_timed_is_named_in_the_rest(tmp_path: Path) -> None:
    scales = make_tables("mixed", tmp_path)["scales"]
    scales.loc[0, "rest_ratio"] += scales.loc[0, "launch_ratio"]
    scales.loc[0, "launch_ratio"] = np.nan
    for untimed, has_colour in ((scales, True), (scales[:1], False)):
        figure = draw_figure("time_shares", {"scales": untimed})
        labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
        assert [label.endswith("launch in rest") for label in labels] == [True, False][: len(untimed)]
        words = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
        assert ("launch" in words) == has_colour


@pytest.mark.parametrize("topic", figures_of("analyse"))
def test_svg_is_deterministic_and_keeps_its_text(topic: str, tmp_path: Path) -> None:
    tables = make_tables("mixed", tmp_path)
    first, second = (to_svg(draw_figure(topic, tables)) for _ in range(2))
    assert first == second
    root = ElementTree.fromstring(first)
    words = "".join(root.itertext())
    # All runs of this study have one batch, which shows nothing of others.
    assert ("cosmoflow_tiny, fp32" in words) == (topic != "quality_batch")
    assert b"<dc:date>" not in first


def test_users_own_settings_do_not_change_a_figure(tmp_path: Path) -> None:
    import matplotlib as mpl

    tables = make_tables("plain", tmp_path)
    expected = to_svg(draw_figure("throughput", tables))
    with mpl.rc_context({"font.size": 20, "svg.fonttype": "path"}):
        assert to_svg(draw_figure("throughput", tables)) == expected
        assert mpl.rcParams["font.size"] == 20
