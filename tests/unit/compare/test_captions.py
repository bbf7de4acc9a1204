"""The captions of comparison and history, rendered as Snakemake renders them, with tables and without."""

from pathlib import Path
from typing import Any

import pytest
from unit.caption_pages import REPORTS
from unit.caption_pages import render as render_page
from unit.compare.study_folders import make_runs, write_study

from hpcai.compare.comparison import compare_folders
from hpcai.compare.history import history_of
from hpcai.compare.output import comparison_as_dict, history_as_dict


def render(topic: str, summary: dict[str, Any] | None) -> str:
    assert len((REPORTS / "captions" / f"{topic}.rst").read_text().splitlines()) <= 25
    return " ".join(render_page(topic, summary).split())


@pytest.mark.parametrize("topic", ["comparison", "history"])
@pytest.mark.parametrize(
    "summary", [None, {"counts": {}}, {"scoring": {}}, {"scoring": {"comparison": [], "changes": []}}]
)
def test_captions_without_tables(topic: str, summary: dict[str, Any] | None) -> None:
    page = render(topic, summary)
    assert ("Nothing has been analysed yet" in page) == (summary is None)
    if summary is not None:
        assert "No earlier result was compared" in page or "No history was requested" in page


def test_captions_count_what_the_tables_say(tmp_path: Path) -> None:
    base = write_study(tmp_path / "base", make_runs(5, (1,)))
    new = write_study(tmp_path / "new", make_runs(5, (1, 2), factor=1.2, day=3), name="renamed")
    comparison = comparison_as_dict(compare_folders(base, new))
    tables = {"comparison": comparison["scores"], "changes": comparison["changes"]}
    tables |= history_as_dict(history_of([base, new]))
    page = render("comparison", {"scoring": tables})
    worse = sum(row["finding"] == "worse" for row in comparison["scores"])
    assert f"{worse} worse, 0 better" in page
    assert "5 (new) and 5 (base)" in page
    assert "rules: 1, in the table" in page
    worse = sum(row["verdict"] == "regression" for row in tables["history"])
    assert worse
    page = render("history", {"scoring": tables})
    for counted in ("2 results", "6 values", "n from 5 to 5", f"regressions: {worse}", "improvements: 0"):
        assert counted in page
