"""Predictions in the scaling chart: in their own layer, unless they would dwarf the measurements."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from unit.plots.prediction_factory import NO_ERROR_KNOWN, make_predictions
from unit.plots.scaling.test_chart import NOTHING, make_tables
from unit.record_factory import make_record, make_study, write_records

from hpcai.metrics.run_tables import collect_runs, summarise_scales
from hpcai.plots.interactive import spec_to_svg, to_spec
from hpcai.plots.scaling.chart import NO_BASE, ONE_SCALE, draw_scaling
from hpcai.plots.scaling.predictions import INTERVAL, NO_INTERVAL, PREDICTED, choose_predictions


def make_all(records: list[Any], folder: Path, **options: Any) -> tuple[Any, pd.DataFrame]:
    scales = summarise_scales(collect_runs(write_records(records, folder)))
    return make_tables(records, folder), make_predictions(scales, **options)


def two_scales() -> list[Any]:
    return make_study(ranks=(1, 2), repeats=2)


def layers(spec: dict[str, Any], dataset: str) -> list[dict[str, Any]]:
    panels = [panel for row in spec["vconcat"] for panel in row.get("hconcat", [row])]
    return [layer for panel in panels for layer in panel.get("layer", []) if layer["data"] == {"name": dataset}]


@pytest.mark.filterwarnings("error")
def test_predictions_have_marks_of_their_own(tmp_path: Path) -> None:
    tables, predictions = make_all(two_scales(), tmp_path)
    spec = to_spec(draw_scaling(*tables, predictions))
    shown = spec["datasets"]["predictions"]
    assert [row["ranks"] for row in shown] == [1, 2, 4, 8]
    assert all(row["kind_words"] == INTERVAL(errors="4 held-out errors") for row in shown)
    marks = [layer["mark"] for layer in layers(spec, "predictions")]
    assert sorted(mark["type"] for mark in marks) == ["point", "point", "rule", "rule"]
    assert all(mark["filled"] is False for mark in marks if mark["type"] == "point")
    assert all(layer["mark"]["filled"] for layer in layers(spec, "points") if layer["mark"]["type"] == "point")
    svg = spec_to_svg(spec)
    assert PREDICTED in svg
    assert float(svg.split('width="')[1].split('"')[0]) <= 860
    assert "nan" not in json.dumps(spec["datasets"]).lower()


def test_measured_data_is_the_same_with_and_without(tmp_path: Path) -> None:
    tables, predictions = make_all(two_scales(), tmp_path)
    with_them, without = (to_spec(draw_scaling(*tables, frame))["datasets"] for frame in (predictions, NOTHING))
    for name in ("points", "curves"):
        assert with_them[name] == without[name]
    assert "predictions" not in without


def test_only_predictions_of_the_scale_alone_are_shown(tmp_path: Path) -> None:
    tables, predictions = make_all(two_scales(), tmp_path)
    points = tables[0][tables[0]["measure"] == "train_rate"]
    shown = choose_predictions(predictions, points)
    assert set(shown["question"]) == {"scale"}
    assert shown["ranks"].max() == 8
    assert predictions["ranks"].max() == 64
    for change in (
        {"baseline_ranks": 2},
        {"variant": "other"},
        {"benchmark": "other"},
        {"speedup_ratio": float("nan")},
    ):
        assert choose_predictions(predictions.assign(**change), points).empty


def test_axes_hold_the_predictions(tmp_path: Path) -> None:
    tables, predictions = make_all(two_scales(), tmp_path)
    scales = [
        layer["encoding"]["x"]["scale"] for layer in layers(to_spec(draw_scaling(*tables, predictions)), "points")
    ]
    assert {tuple(scale["domain"]) for scale in scales} == {(1, 8)}
    assert {scale["type"] for scale in scales} == {"log"}


def test_one_measured_scale_shows_its_predictions(tmp_path: Path) -> None:
    tables, predictions = make_all(make_study(ranks=(1,), repeats=2), tmp_path)
    assert ONE_SCALE in spec_to_svg(to_spec(draw_scaling(*tables, NOTHING)))
    svg = spec_to_svg(to_spec(draw_scaling(*tables, predictions)))
    assert ONE_SCALE not in svg
    assert PREDICTED in svg


def test_without_a_base_nothing_is_drawn(tmp_path: Path) -> None:
    records = [make_record("failed"), *make_study(ranks=(2, 4), repeats=2)]
    tables, predictions = make_all(records, tmp_path)
    spec = to_spec(draw_scaling(*tables, predictions))
    assert NO_BASE in spec_to_svg(spec)
    assert layers(spec, "predictions") == []


def test_prediction_without_an_interval_says_so(tmp_path: Path) -> None:
    tables, predictions = make_all(two_scales(), tmp_path, interval=False)
    shown = to_spec(draw_scaling(*tables, predictions))["datasets"]["predictions"]
    assert {row["kind_words"] for row in shown} == {NO_INTERVAL(why=NO_ERROR_KNOWN)}
    assert {row["speedup_low_ratio"] for row in shown} == {None}
    assert all("(no interval)" in row["speedup_words"] for row in shown)
