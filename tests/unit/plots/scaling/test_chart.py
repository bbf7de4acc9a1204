"""The scaling chart: has all points and laws, shows no number for missing data, and explains empty panels."""

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from unit.record_factory import make_machine, make_mixed_study, make_record, make_study, write_records

from hpcai.core.limits import MOST_KEYS
from hpcai.metrics.run_tables import collect_runs, compute_scaling, summarise_scales
from hpcai.metrics.scaling.details import ONE_RANK, detail_scales
from hpcai.metrics.scaling.fits import trace_scaling
from hpcai.plots.interactive import spec_to_svg, to_spec
from hpcai.plots.scaling.chart import ALONE, NO_BASE, NO_SCALES, ONE_SCALE, draw_scaling

NOTHING = pd.DataFrame()
STUDIES = {
    "two_scales": lambda: make_study(ranks=(1, 2), repeats=2),
    "mixed": make_mixed_study,
    "variants": lambda: [
        *make_study(ranks=(1, 2, 4, 8, 16), repeats=2),
        *make_study(ranks=(2, 4, 8), variant="bf16", repeats=1),
        *make_study(ranks=(4,), benchmark="other_one", repeats=1),
    ],
}


def make_tables(records: list[Any], folder: Path) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    runs = collect_runs(write_records(records, folder))
    details = detail_scales(summarise_scales(runs), NOTHING, NOTHING, NOTHING, NOTHING, make_machine())
    return compute_scaling(runs), details, trace_scaling(runs)


def draw(records: list[Any], folder: Path) -> dict[str, Any]:
    return to_spec(draw_scaling(*make_tables(records, folder), NOTHING))


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.filterwarnings("error")
def test_chart_holds_all_points_and_chosen_laws(name: str, tmp_path: Path) -> None:
    scaling, details, curves = make_tables(STUDIES[name](), tmp_path)
    spec = to_spec(draw_scaling(scaling, details, curves, NOTHING))
    data = spec["datasets"]
    rates = scaling[scaling["measure"] == "train_rate"]
    assert len(data["points"]) == len(rates)
    assert len(data["curves"]) == (curves["chosen"].sum() if len(curves) else 0)
    assert {row["variant"] for row in data["points"]} == set(rates["variant"])
    text = json.dumps(spec, allow_nan=False)
    assert "nan" not in json.dumps(data).lower()
    assert "http" not in text.replace("https://vega.github.io/schema", "")
    svg = spec_to_svg(spec)
    assert svg.startswith("<svg")
    for words in ("speed-up [ratio]", "efficiency [ratio]", "ranks", "law, extrapolated", "base n1x1"):
        assert words in svg
    assert float(svg.split('width="')[1].split('"')[0]) <= 860


def test_extrapolation_is_marked(tmp_path: Path) -> None:
    data = draw(STUDIES["variants"](), tmp_path)["datasets"]
    for row in data["curves"]:
        last = 16 if row["variant"] == "fp32" else 8
        assert (row["line"] == "law, extrapolated") == (row["ranks"] > last)
        assert ("extrapolated" in row["law_words"]) == (row["ranks"] > last)


def test_ideal_lines_start_at_their_bases(tmp_path: Path) -> None:
    ideals = pd.DataFrame(draw(STUDIES["variants"](), tmp_path)["datasets"]["ideals"])
    for base, line in ideals[ideals["benchmark"] == "cosmoflow_tiny"].groupby("baseline_ranks"):
        assert line["ranks"].min() == base
        assert (line["speedup_ratio"] == line["ranks"] / base).all()


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    points = draw(STUDIES["two_scales"](), tmp_path)["datasets"]["points"]
    assert {row["flop_words"] for row in points} == {"not measured"}
    assert points[0]["share_words"] == f"not measured: {ONE_RANK}"
    assert points[0]["speedup_words"] == "1 (no interval)"
    assert " to " in points[1]["speedup_words"]


def test_empty_panels_say_why(tmp_path: Path) -> None:
    failed = [make_record("failed"), *make_study(ranks=(2, 4), repeats=2)]
    for number, (records, words) in enumerate(
        [(make_study(ranks=(4,)), ONE_SCALE), (failed, NO_BASE), ([], NO_SCALES)]
    ):
        spec = draw(records, tmp_path / str(number))
        assert words in spec_to_svg(spec)
        assert "speed-up [ratio]" not in json.dumps({**spec, "datasets": {}})


def test_a_variant_at_one_scale_has_no_point_at_full_efficiency(tmp_path: Path) -> None:
    alone = make_study(ranks=(2,), variant="lonely_one", repeats=2)
    spec = draw([*make_study(ranks=(1, 2), repeats=2), *alone], tmp_path)
    points = {(row["variant"], row["ranks"]): row["alone"] for row in spec["datasets"]["points"]}
    assert points == {("fp32", 1): False, ("fp32", 2): False, ("lonely_one", 2): True}
    svg = spec_to_svg(spec)
    shown = re.findall(r">([^<>]*lonely_one[^<>]*)<", svg)
    assert shown == [f"{ALONE}: lonely_one"], "it has neither a mark nor a place in the legend"
    assert ">fp32<" in svg


def test_variants_at_one_scale_each_have_no_panel(tmp_path: Path) -> None:
    spec = draw([*make_study(ranks=(1,), repeats=2), *make_study(ranks=(2,), variant="bf16", repeats=2)], tmp_path)
    assert ONE_SCALE in spec_to_svg(spec)


@pytest.mark.slow
def test_equal_tables_give_equal_charts(tmp_path: Path) -> None:
    tables = make_tables(STUDIES["variants"](), tmp_path)
    assert json.dumps(to_spec(draw_scaling(*tables, NOTHING))) == json.dumps(to_spec(draw_scaling(*tables, NOTHING)))


def test_variants_are_toggled_by_the_legend(tmp_path: Path) -> None:
    params = draw(STUDIES["variants"](), tmp_path)["params"]
    assert [(param["select"]["fields"], param["bind"]) for param in params] == [(["variant"], "legend")]


def test_of_many_variants_those_with_several_scales_are_drawn(tmp_path: Path) -> None:
    scaling, details, curves = make_tables(make_study(ranks=(1, 2), repeats=2), tmp_path)

    def with_others(frame: pd.DataFrame) -> pd.DataFrame:
        others = [frame.head(1).assign(variant=f"a{number}") for number in range(MOST_KEYS + 1)]
        return pd.concat([*others, frame], ignore_index=True)

    one = scaling[scaling["measure"] == "train_rate"]
    spec = to_spec(draw_scaling(with_others(one), with_others(details), curves, NOTHING))
    variants = {row["variant"] for row in spec["datasets"]["points"]}
    assert len(variants) == MOST_KEYS
    assert "fp32" in variants
    assert "2 more variants" in spec_to_svg(spec)
