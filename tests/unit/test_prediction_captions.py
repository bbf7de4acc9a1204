"""Captions of predictions, rendered as Snakemake renders them; any complaint of docutils is a failure."""

import json
import math
from typing import Any

import pandas as pd
import pytest
from unit.caption_pages import render as render_page
from unit.caption_pages import says
from unit.plots.prediction_factory import make_accuracy, make_predictions, make_steps, make_sweeps

NAMES = ("training_hardware", "training_batch", "kernel_errors", "step_accuracy", "what_if")
NASTY = "*bold `x` |sub| http://a_ \\ <script>alert(1)</script>\n\n.. raw:: html\n\n   <b> a_ [1]_ {{ 7 }} Ü #1)"
SCALES = pd.DataFrame(
    [
        {"benchmark": name, "variant": "fp32", "engine": "horovod", "scale": "n1x1", "ranks": 1}
        for name in ("cosmoflow_tiny", "other")
    ]
)
Tables = dict[str, pd.DataFrame]


def make_tables(words: str = "as said") -> Tables:
    sweeps = make_sweeps()
    finding = {"part": "training", "finding": words, "computed": words, "note": words, "source_value": ""}
    accuracy = {
        "benchmark": "cosmoflow_tiny", "variant": "fp32", "engine": "horovod",
        "scale": "n1x2", "basis": words, "reason": words,
        "relative_error_ratio": -0.08,
    }  # fmt: skip
    return {
        "training_networks": sweeps[sweeps["at_baseline"] & (sweeps["swept"] == "peak")],
        "prediction_findings": pd.DataFrame([finding | {"reproduced": kind} for kind in ("yes", "no", "partly")]),
        "kernel_accuracy": make_accuracy().assign(reason=words),
        "step_accuracy": make_steps().assign(reason=words, overhead=words),
        "predictions": make_predictions(SCALES, interval=False).assign(interval_basis=words, epochs_basis=words),
        "prediction_accuracy": pd.DataFrame([accuracy, accuracy | {"relative_error_ratio": math.nan}]),
    }


STUDIES = {"full": make_tables, "nasty": lambda: make_tables(NASTY), "empty": dict, "absent": lambda: None}


def render(name: str, tables: Tables | None) -> str:
    summary: dict[str, Any] = {"notice": "not a valid_result", "interval_level": 0.95, "interval": "95 % interval"}
    if tables is not None:
        summary["prediction"] = {key: json.loads(frame.to_json(orient="records")) for key, frame in tables.items()}
    return " ".join(render_page(name, summary).split())


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("name", NAMES)
def test_caption_renders(name: str, study: str) -> None:
    page = render(name, STUDIES[study]())
    assert "not a valid_result" in page
    assert "<script>" not in page
    assert "<b>" not in page
    assert " nan" not in page.lower()
    assert "None" not in page


@pytest.mark.parametrize("name", NAMES)
def test_caption_says_that_it_is_modelled(name: str) -> None:
    assert "modelled" in render(name, make_tables())


def test_findings_are_judged() -> None:
    page = render("training_hardware", make_tables())
    assert [page.count(f"as said: {word}reproduced<") for word in ("", "not ", "partly ")] == [1, 1, 1]
    assert "no finding of the source" in render("training_hardware", {})


def test_networks_are_named_with_their_steps() -> None:
    tables = make_tables()
    row = tables["training_networks"].query("cost_model == 'full'").iloc[0]
    assert f"{row['network']}, {row['data']}: step {1e3 * row['step_s']:.1f} ms" in render("training_batch", tables)


def test_kernels_that_miss_a_goal_are_named() -> None:
    tables = make_tables()
    accuracy = tables["kernel_accuracy"]
    page = render("kernel_errors", tables)
    reached = int(accuracy["within_goal"].fillna(value=False).sum())
    assert says(page, f"{reached} of {len(accuracy)} kernels", "MAPE from 8 % to 25 %")
    assert f"median over the kernels {100 * accuracy['mape_ratio'].median():.3g} %" in page
    assert says(page, "conv3d_input_gradient", "MAPE 25 %", "goal 20 %")
    assert "copy: MAPE not known" in page
    assert "sgd: MAPE" not in page
    assert "No kernel was timed" in render("kernel_errors", {})


def test_errors_of_steps_keep_their_sign() -> None:
    page = render("step_accuracy", make_tables())
    assert says(page, "VGG11, fp32, batch 8, n1x1, regressors", "as said: -6.0 %")
    assert "not known; as said" in page


def test_predictions_are_counted_and_their_errors_named() -> None:
    tables = make_tables()
    page = render("what_if", tables)
    count = len(tables["predictions"])
    assert says(page, f"{count} of {count} requested predictions", f"{count} of them without an interval")
    assert "predicted -8.0 % off" in page
    assert "No predictions were made" in render("what_if", {})


def test_scaling_tells_predictions_from_points() -> None:
    page = render("scaling", {})
    assert "Hollow diamonds" in page
    assert says(page, "Filled points", "measured", "hollow points modelled")
