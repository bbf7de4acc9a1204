"""Roofline charts: marks, texts, and equal charts for equal tables."""

import itertools
import json
import re
from typing import Any

import pandas as pd
import pytest
import vl_convert
from unit.metrics.roofline_samples import make_cluster, make_runs, make_scores, make_views

from hpcai.core.limits import MOST_KEYS
from hpcai.metrics.roofline.ceilings import roofline_ceilings
from hpcai.metrics.roofline.columns import CEILING_COLUMNS, MOVE_COLUMNS, POINT_COLUMNS
from hpcai.metrics.roofline.geometry import cut_lines, frame_of, moves_of_one, points_of_one, roof_lines
from hpcai.metrics.roofline.moves import roofline_moves
from hpcai.metrics.roofline.tables import roofline_points
from hpcai.plots.interactive import spec_to_svg, to_spec
from hpcai.plots.roofline.chart import ARROWS, draw_memory_roofline, draw_roofline
from hpcai.plots.roofline.words import LABEL_PIXELS, spread_labels

WIDEST_PIXELS = 860
Tables = tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]


def make_tables(scores: pd.DataFrame) -> Tables:
    views, machine = make_views(), make_cluster()
    ceilings = roofline_ceilings(scores, views["ceilings"], views["links"], views["link_fits"], machine)
    points = roofline_points(scores, ceilings, views, make_runs(scores), machine)
    return points, ceilings, roofline_moves(points, ceilings)


@pytest.fixture(scope="module")
def tables() -> Tables:
    return make_tables(make_scores())


@pytest.fixture(scope="module")
def spec(tables: Tables) -> dict[str, Any]:
    return to_spec(draw_roofline(*tables))


def rows_of(spec: dict[str, Any], column: str) -> list[dict[str, Any]]:
    """Return all rows of a chart's data that have a column."""
    return [row for rows in spec["datasets"].values() for row in rows if column in row]


def legends_of(spec: dict[str, Any]) -> dict[str, str]:
    """Return the title of each interactive legend."""
    vega = vl_convert.vegalite_to_vega(spec)
    named = {legend["title"]: legend.get("encode", {}).get("entries", {}) for legend in vega["legends"]}
    return {title: entries["name"] for title, entries in named.items() if "name" in entries}


def test_every_drawn_point_is_in_the_chart_once(spec, tables):
    placed = tables[0].query("status == 'drawn' and scope != 'memory'")
    assert len(rows_of(spec, "roof_text")) == len(placed)
    assert {row["source"] for row in rows_of(spec, "roof_text")} == set(placed["source"])


def test_a_panel_for_each_scope_within_the_page(spec):
    titles = [panel["hconcat"][0]["title"]["text"] for panel in spec["vconcat"]]
    assert ["node" in title for title in titles] == [True, True]
    svg = spec_to_svg(spec)
    assert float(re.search(r'width="([\d.]+)"', svg).group(1)) <= WIDEST_PIXELS
    for words in ("cosmoflow", "peak fp16", "TFLOP/s", "PFLOP/s", "allreduce, transfer"):
        assert words in svg
    assert "NaN" not in svg


def test_legends_answer_to_the_mouse_in_both_panels(spec):
    assert legends_of(spec) == {"benchmark": "benchmark_legend_entries", "variant": "variant_legend_entries"}
    for param in spec["params"]:
        if "select" in param:
            assert len(param["views"]) == 2


def test_hovering_tells_the_numbers_their_units_and_their_source(spec):
    row = rows_of(spec, "roof_text")[0]
    for name in ("intensity_text", "rate_text", "roof_text", "link", "computation", "traffic", "work"):
        assert re.search(r"\d .*(FLOP|B)", row[name]), name
    tips = {tip["field"] for text in re.findall(r'"tooltip": (\[.*?\])', json.dumps(spec)) for tip in json.loads(text)}
    assert {"intensity_text", "rate_text", "roof_text", "share", "source", "gain", "ridge", "bound"} <= tips


@pytest.mark.slow
def test_equal_tables_give_equal_charts(tables):
    first, second = (json.dumps(to_spec(draw_roofline(*tables))) for _ in range(2))
    assert first == second


def test_the_memory_roofline_has_its_points(tables):
    spec = to_spec(draw_memory_roofline(*tables[:2]))
    assert {row["result"] for row in rows_of(spec, "roof_text")} == {"resnet50, fp32", "deepcam, fp32"}
    assert "memory, measured" in spec_to_svg(spec)


def test_colours_are_the_same_in_all_rooflines(tables):
    charts = (draw_roofline(*tables), draw_memory_roofline(*tables[:2]))
    first, second = ({row["benchmark"]: row["colour"] for row in rows_of(to_spec(chart), "colour")} for chart in charts)
    assert second.items() <= first.items()


def test_without_a_point_the_roofs_stand_and_the_chart_says_why():
    points, ceilings, moves = make_tables(make_scores(((1, 1),)))
    svg = spec_to_svg(to_spec(draw_roofline(points, ceilings, moves)))
    assert "one participant exchanges nothing" in svg
    assert "peak fp32" in svg


def test_without_anything_the_chart_is_a_sentence():
    empty = [pd.DataFrame(columns=list(names)) for names in (POINT_COLUMNS, CEILING_COLUMNS, MOVE_COLUMNS)]
    for chart in (draw_roofline(*empty), draw_memory_roofline(*empty[:2])):
        assert "no measured or declared result" in spec_to_svg(to_spec(chart))


def test_without_roofs_the_chart_says_what_is_missing(tables):
    points, ceilings, moves = tables
    bare = points.assign(status="not placed", reason="not placed: no peak of fp32 is declared")
    svg = spec_to_svg(to_spec(draw_roofline(bare, ceilings.iloc[:0], moves.iloc[:0])))
    assert "no peak of fp32" in svg


@pytest.mark.parametrize("scope", ["intra_node", "network", "memory"])
def test_axes_hold_all_that_is_drawn(tables, scope):
    points, ceilings, moves = (table[table["scope"] == scope] for table in tables)
    placed, lines, moved = points_of_one(points), roof_lines(ceilings), moves_of_one(moves)
    domain = frame_of(lines, placed, moved)
    assert placed["intensity_flop_per_byte"].between(*domain.intensities).all()
    assert placed["one_rate_flop_per_s"].between(*domain.rates).all()
    assert moved["one_rate_to_flop_per_s"].between(*domain.rates).all()
    cut = cut_lines(lines, domain)
    assert cut["intensity"].between(*domain.intensities).all()
    assert cut["rate"].between(domain.rates[0] * (1 - 1e-9), domain.rates[1]).all()
    assert (cut.groupby("line").size() == 2).all()


def test_computation_ceilings_begin_where_they_meet_the_link(tables):
    lines = roof_lines(tables[1][tables[1]["scope"] == "network"])
    link = lines.loc[(lines["kind"] == "link") & (lines["status"] == "roof"), "value"].iloc[0]
    dense = lines[lines["kind"] != "link"]
    assert (dense["ridge_flop_per_byte"] * link).to_list() == pytest.approx(dense["value"].to_list())


def test_points_are_below_the_lines_of_their_panel(tables):
    for scope in ("intra_node", "network"):
        placed = points_of_one(tables[0][tables[0]["scope"] == scope])
        lines = roof_lines(tables[1][tables[1]["scope"] == scope])
        link = lines.loc[lines["kind"] == "link", "value"].max()
        assert (placed["one_roof_flop_per_s"] <= link * placed["intensity_flop_per_byte"] * (1 + 1e-9)).all()
        assert placed["one_roof_flop_per_s"].max() <= lines.loc[lines["kind"] != "link", "value"].max() * (1 + 1e-9)


def test_names_never_overlap():
    ends = pd.DataFrame({"rate": [1e9, 1.01e9, 1.02e9, 9e9, 9.1e9], "line": range(5)})
    places = spread_labels(ends, (1e8, 1e10), 340).query("side > 0")["place"].tolist()
    assert all(after - before >= LABEL_PIXELS - 1e-9 for before, after in itertools.pairwise(places))
    assert max(places) <= 340


def test_the_main_arrows_are_those_of_the_most_ranks_and_the_most_gain(tables):
    moved = moves_of_one(tables[2])
    main = moved[moved["main"]]
    assert set(main.loc[main["scope"] == "network", "ranks"]) == {512}
    assert set(main["kind"]) == {"modelled", "measured"}
    assert len(main) < len(moved)


def test_two_machines_stand_in_one_panel_within_the_page(tables):
    points, ceilings, moves = tables
    other = {"machine": "another_machine_with_a_long_name"}
    both = [pd.concat([table, table.assign(**other)]) for table in (points, ceilings, moves)]
    svg = spec_to_svg(to_spec(draw_roofline(*both)))
    assert float(re.search(r'width="([\d.]+)"', svg).group(1)) <= WIDEST_PIXELS
    assert "peak fp16, cluster" in svg


def test_the_legend_claims_no_bound_and_declared_arrows_are_solid(tables):
    points, ceilings, moves = tables
    spec = to_spec(draw_roofline(points, ceilings, moves.assign(kind=moves["kind"].replace("measured", "declared"))))
    svg = spec_to_svg(spec)
    assert "upper bound" not in svg
    assert ARROWS[1] in svg
    assert "upwards" not in svg, "the roof of another precision may be lower"
    kinds = {row["kind"] for row in rows_of(spec, "gain")}
    assert kinds == {"modelled", "declared"}
    scales = [json.loads(text) for text in re.findall(r'"scale": (\{"domain": \["roof".*?\})', json.dumps(spec))]
    styles = [dict(zip(scale["domain"], scale["range"], strict=True)) for scale in scales]
    assert styles
    assert all(style["declared"] == style["measured"] != style["modelled"] for style in styles)


def test_of_many_variants_those_nearest_to_their_roof_are_drawn(tables: Tables) -> None:
    points, ceilings, moves = tables
    one = points.query("status == 'drawn' and scope != 'memory'").head(1)
    names = [f"v{number}" for number in range(MOST_KEYS + 4)]
    many = pd.concat([one.assign(variant=name, roof_ratio=0.01 * (1 + n)) for n, name in enumerate(names)])
    spec = to_spec(draw_roofline(many, ceilings, moves))
    assert {row["variant"] for row in rows_of(spec, "roof_text")} == set(names[4:])
    assert "4 more variants" in spec_to_svg(spec)
