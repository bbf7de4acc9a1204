"""Captions of the HPL figures, rendered as Snakemake renders them; any complaint of docutils is a failure."""

from typing import Any

import pytest
from unit.caption_pages import render as render_page
from unit.caption_pages import says

NAMES = ("hpl_efficiency", "hpl_host_link", "hpl_network", "hpl_validation")
NASTY = "*bold `x` |sub| http://a_ \\ <script>alert(1)</script> a_ [1]_ {{ 7 }} Ü #1)"
RUN = {
    "order": 4000, "block": 128, "process_rows": 1, "process_columns": 2, "attempt": 1, "measured_time_s": 0.813,
    "model": "all parts", "error_ratio": -0.058, "goal_ratio": 0.1, "within_goal": True, "accepted": True,
    "reason": "", "source": "results/characterise/hpl_run.json",
}  # fmt: skip
ROWS = [
    {"row": row, "assumption_set": name, "variant": "device", "fitted": name == "S5", "error_to_estimate_ratio": error}
    for name, error in (("S1", 0.2), ("S5", -0.01), ("S6", None))
    for row in range(1, 9)
]


def render(name: str, prediction: dict[str, Any] | None, *, analysed: bool = True) -> str:
    summary = {"notice": "not a valid_result", "prediction": prediction}
    return " ".join(render_page(name, summary if analysed else None).split())


@pytest.mark.parametrize("name", NAMES)
def test_caption_renders(name: str) -> None:
    predictions: tuple[dict[str, Any] | None, ...] = (None, {}, {"hpl_validation": [], "hpl_published": []})
    for prediction in predictions:
        page = render(name, prediction)
        assert "not a valid_result" in page
        assert "None" not in page
    assert "Nothing has been analysed yet" in render(name, None, analysed=False)


@pytest.mark.parametrize("name", NAMES[:3])
def test_model_figures_say_that_nothing_is_measured(name: str) -> None:
    assert "Nothing here is measured" in render(name, {})


def test_caption_states_each_run_and_each_set() -> None:
    rejected = {**RUN, "accepted": False, "within_goal": None, "reason": NASTY}
    missing = {
        **RUN,
        "measured_time_s": None,
        "error_ratio": None,
        "accepted": False,
        "reason": "not measured: no hpcc",
    }
    far = {**RUN, "error_ratio": -0.2, "within_goal": False}
    page = render("hpl_validation", {"hpl_validation": [RUN, rejected, missing, far], "hpl_published": ROWS})
    assert says(page, "all parts -5.8 %, within", "10 %")
    assert says(page, "-20.0 %", "<strong>not</strong>")
    assert "not accepted: *bold" in page
    assert "not measured: no hpcc" in page
    nodes = ("one node", "+20.0 %", "+20.0 %", "two nodes", "+20.0 %", "+20.0 %")
    assert says(page, "S1 (device)", "published estimate", *nodes)
    assert "S5 (device, fitted)" in page
    assert "S6" not in page
    assert "<script>" not in page
