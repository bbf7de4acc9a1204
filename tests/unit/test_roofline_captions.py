"""Captions of the rooflines, rendered as the report renders them; any complaint of docutils is a failure."""

from typing import Any

import pandas as pd
import pytest
from unit.caption_pages import REPORTS, render
from unit.metrics.roofline_samples import make_cluster, make_runs, make_scores, make_views

from hpcai.metrics.roofline.ceilings import roofline_ceilings
from hpcai.metrics.roofline.tables import roofline_points

FOLDER = REPORTS / "captions"
NAMES = ("roofline", "memory_roofline")
NASTY = "*bold `x` |sub| <script>alert(1)</script>\n\n.. raw:: html\n\n   <b> a_ {{ 7 }} #1)"
MOST_LINES = 25


def make_summary(**texts: str) -> dict[str, Any]:
    scores, views, machine = make_scores(((1, 8),), share=0.9), make_views(), make_cluster()
    ceilings = roofline_ceilings(scores, views["ceilings"], views["links"], views["link_fits"], machine)
    points = roofline_points(scores, ceilings, views, make_runs(scores), machine).assign(**texts)
    tables = {
        "roofline_points": points,
        "roofline_ceilings": ceilings.assign(**{k: texts[k] for k in texts if k == "source"}),
    }
    return {"scoring": {name: _rows(table) for name, table in tables.items()}}


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    cells = table.astype(object)
    return [
        {str(key): value for key, value in row.items()} for row in cells.where(cells.notna(), None).to_dict("records")
    ]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("summary", [{"scoring": None}, {"scoring": {"roofline_points": []}}, {"notice": "x"}])
def test_captions_without_results(name, summary):
    assert "roofline" in render(name, summary)
    assert "Nothing has been analysed yet." in render(name, None)


@pytest.mark.parametrize("name", NAMES)
def test_captions_say_what_is_drawn_and_where_it_comes_from(name):
    text = render(name, make_summary())
    for words in ("min(peak", "interval", "roofline_points", "for example results/runs/"):
        assert words in text
    assert ("data sheet, 2020-01-01" in text) == (name == "roofline")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("status", ["drawn", "refused", "not placed"])
def test_texts_of_tables_stay_texts(name, status):
    columns = ("reason", "source", "benchmark", "variant", "message_method", "bound")
    text = render(name, make_summary(status=status, **dict.fromkeys(columns, NASTY)))
    assert "<script>" not in text
    assert "<b>" not in text


@pytest.mark.parametrize("name", NAMES)
def test_captions_are_short(name):
    source = (FOLDER / f"{name}.rst").read_text()
    assert len(source.splitlines()) <= MOST_LINES


@pytest.mark.parametrize("name", ["roofline", "published_roofline"])
def test_captions_call_no_modelled_arrow_a_bound(name):
    text = " ".join(render(name, make_summary()).split())
    assert "upper bound" not in text
    assert "larger or smaller" in text
    assert ("not stated" in text) == (name == "published_roofline")
