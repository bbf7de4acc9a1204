"""The variants figure: every effect is a mark, texts do not overlap, and missing effects are explained."""

import itertools
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.text import Text
from unit.record_factory import make_image_benchmark, make_study, write_records

from hpcai.core.limits import MOST_KEYS
from hpcai.metrics.run_tables import collect_runs
from hpcai.metrics.scores.columns import TRIAL_COLUMNS
from hpcai.metrics.scores.variant_effects import NO_VARIANTS, compare_variants
from hpcai.plots.scores.variant_effects import COLUMNS, LINE, SINGLE, plot_variant_effects
from hpcai.plots.theme import to_svg

BF16 = {"precision": "bf16"}
LONG = "v" * 40


def make_effects(folder: Path, *, scored: bool = True, long: bool = False) -> pd.DataFrame:
    other = LONG if long else "bf16"
    images = make_image_benchmark("b" * 40 if long else "images_tiny")
    records = [
        *make_study(ranks=(1, 2, 4), repeats=3, benchmark=images, time_staging=False),
        *make_study(ranks=(1, 2, 4), repeats=2, variant=other, settings_of_point=BF16, benchmark=images,
                    time_staging=False),
        *make_study(ranks=(1, 2), repeats=2),
        *make_study(ranks=(1, 2), repeats=1, variant=other, settings_of_point={**BF16, "compression": "fp16"}),
    ]  # fmt: skip
    runs = collect_runs(write_records(records, folder))
    scores = runs[["run_id"]].assign(rate_flop_per_s=runs["train_rate_samples_per_s"] * 1e9)
    defined = runs["workload"] == "image_classification"
    scores["vflops_flop_per_s"] = (scores["rate_flop_per_s"] * runs["last_quality"]).where(defined)
    scores["reason"] = [("" if known else "no VFLOPS: an error metric") for known in defined]
    return compare_variants(runs, scores.reindex(columns=list(TRIAL_COLUMNS)).iloc[: None if scored else 0])


def texts_of(figure: Figure) -> list[Text]:
    figure.draw_without_rendering()
    texts = [text for legend in figure.legends for text in legend.get_texts()]
    for axes in figure.axes:
        texts += [axes._left_title, axes.xaxis.label, *axes.texts, *axes.get_yticklabels()]
        low, high = axes.get_xlim()
        texts += [
            label for at, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True) if low <= at <= high
        ]
    return [text for text in texts if text.get_visible() and text.get_text().strip()]


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.filterwarnings("error::UserWarning")
def test_figure_can_be_read(*, long: bool, tmp_path: Path) -> None:
    figure = plot_variant_effects(make_effects(tmp_path, long=long))
    texts = texts_of(figure)
    boxes = [(text.get_text(), text.get_window_extent().padded(-1)) for text in texts]
    assert [(a, b) for (a, one), (b, two) in itertools.combinations(boxes, 2) if one.overlaps(two)] == []
    page = figure.bbox
    assert [words for words, box in boxes if box.x0 < -1 or box.x1 > page.x1 + 1 or box.y1 > page.y1 + 1] == []
    assert not any("nan" in words.lower() for words, _ in boxes)


def test_every_effect_is_a_mark(tmp_path: Path) -> None:
    effects = make_effects(tmp_path)
    figure = plot_variant_effects(effects)
    marks = [
        bar.lines[0].get_xydata()
        for axes in figure.axes
        for bar in axes.containers
        if isinstance(bar, ErrorbarContainer)
    ]
    drawn = sorted(float(x) for points in marks for x, _ in points)
    known = effects[effects["measure"].isin(COLUMNS)]["effect_ratio"].dropna()
    assert drawn == pytest.approx(sorted(known))


def test_marks_are_filled_where_the_effect_is_significant(tmp_path: Path) -> None:
    effects = make_effects(tmp_path)
    chosen = (effects["measure"] == "train_rate") & effects["effect_ratio"].notna()
    effects.loc[effects["measure"] != "none", "reading"] = "not distinguishable"
    effects.loc[effects[chosen].index[0], "reading"] = "better"
    bars = [bar for axes in plot_variant_effects(effects).axes for bar in axes.containers]
    filled = [bar.lines[0] for bar in bars if bar.lines[0].get_markerfacecolor() != "white"]
    assert [list(line.get_xdata()) for line in filled] == [[effects[chosen]["effect_ratio"].iloc[0]]]


def test_bars_that_are_cut_have_an_arrow_and_marks_without_interval_are_small(tmp_path: Path) -> None:
    effects = make_effects(tmp_path)
    chosen = (effects["measure"] == "train_rate") & effects["effect_ratio"].notna()
    effects = effects[chosen & (effects["benchmark"] == "images_tiny")].iloc[:2].copy()
    first, second = effects.index
    bounds = ["effect_low_ratio", "effect_high_ratio"]
    ratio = effects.loc[first, "effect_ratio"]
    effects.loc[first, bounds] = [ratio / 100, ratio * 100]
    effects.loc[second, bounds] = float("nan")
    axes = plot_variant_effects(effects).axes[0]
    arrows = [line for line in axes.lines if line.get_marker() in ("<", ">")]
    bars = {bar.lines[0].get_ydata()[0]: bar.lines[0] for bar in axes.containers}
    sizes = {place: line.get_markersize() for place, line in bars.items()}
    assert len(arrows) == 2
    places = {float(arrow.get_ydata()[0]) for arrow in arrows}
    assert places < set(sizes)
    assert [size for place, size in sizes.items() if place in places] == [4.5]
    assert [size for place, size in sizes.items() if place not in places] == [SINGLE]


def test_joint_effects_and_undefined_scores_are_named(tmp_path: Path) -> None:
    words = [text.get_text() for text in texts_of(plot_variant_effects(make_effects(tmp_path)))]
    assert "bf16 over fp32 (joint)" in words
    assert "bf16 over fp32" in words
    assert any("no VFLOPS defined here" in text for text in words)
    unscored = texts_of(plot_variant_effects(make_effects(tmp_path / "unscored", scored=False)))
    assert any("no values on both sides" in text.get_text() for text in unscored)


def test_no_variants_is_said_in_words() -> None:
    svg = to_svg(plot_variant_effects(compare_variants(collect_runs([]), pd.DataFrame(columns=list(TRIAL_COLUMNS)))))
    assert NO_VARIANTS.split(":")[0].encode() in svg


@pytest.mark.slow
def test_svg_is_deterministic(tmp_path: Path) -> None:
    effects = make_effects(tmp_path)
    assert to_svg(plot_variant_effects(effects)) == to_svg(plot_variant_effects(effects))


def test_many_pairs_have_looks_of_their_own_and_panels_as_high_as_few(tmp_path: Path) -> None:
    few = make_effects(tmp_path)
    many = pd.concat(few.assign(variant=few["variant"] + f"_{number}") for number in range(6))
    heights = {}
    for effects in (few, many):
        figure = plot_variant_effects(effects)
        figure.draw_without_rendering()
        pairs = effects.drop_duplicates(["variant", "reference_variant"])
        heights[len(pairs)] = figure.axes[0].get_window_extent().height / figure.dpi / LINE
        keys = [line for line in figure.legends[0].get_lines() if line.get_markerfacecolor() != "white"][: len(pairs)]
        assert len({(line.get_color(), line.get_marker()) for line in keys}) == len(pairs)
    for pairs_drawn, height in heights.items():
        assert height > pairs_drawn


def test_a_campaigns_thousand_pairs_do_not_all_get_a_key(tmp_path: Path) -> None:
    effects = make_effects(tmp_path)
    own = effects[effects["benchmark"] == "cosmoflow_tiny"]
    many = [own.assign(variant=f"v{number}", p_corrected=1 / (1 + number)) for number in range(MOST_KEYS + 2)]
    figure = plot_variant_effects(pd.concat(many))
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sum(" over " in entry for entry in words) == MOST_KEYS
    assert not any(entry.startswith(("v0 ", "v1 ")) for entry in words)
    assert any(entry.startswith("2 more pairs") for entry in words)
