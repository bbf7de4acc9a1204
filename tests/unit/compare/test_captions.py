"""The captions of comparison and history, rendered as Snakemake renders them, with tables and without."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docutils.core import publish_parts
from jinja2 import Environment
from unit.compare.study_folders import make_runs, write_study

from hpcai.compare.comparison import compare_folders
from hpcai.compare.history import history_of
from hpcai.compare.output import comparison_as_dict, history_as_dict

CAPTIONS = Path(__file__).parents[3] / "reports" / "captions"


def render(topic: str, summary: dict[str, Any] | None) -> str:
    text = (CAPTIONS / f"{topic}.rst").read_text()
    assert len(text.splitlines()) <= 25
    config = {} if summary is None else {"summary": summary}
    snakemake = SimpleNamespace(config=config, wildcards=SimpleNamespace())
    source = Environment(trim_blocks=True, lstrip_blocks=True).from_string(text).render(snakemake=snakemake)
    settings = {"halt_level": 2, "report_level": 2}
    page = str(publish_parts(source, writer="html", settings_overrides=settings)["html_body"])
    return " ".join(page.split())


@pytest.mark.parametrize("topic", ["comparison", "history"])
@pytest.mark.parametrize(
    "summary", [None, {"counts": {}}, {"scoring": {}}, {"scoring": {"comparison": [], "changes": []}}]
)
def test_captions_without_tables(topic: str, summary: dict[str, Any] | None) -> None:
    page = render(topic, summary)
    assert ("Nothing has been analysed yet" in page) == (summary is None)
    if summary is not None:
        assert "No earlier result was compared" in page or "No history was asked for" in page


def test_captions_count_what_the_tables_say(tmp_path: Path) -> None:
    base = write_study(tmp_path / "base", make_runs(5, (1,)))
    new = write_study(tmp_path / "new", make_runs(5, (1, 2), factor=1.2, day=3), name="renamed")
    comparison = comparison_as_dict(compare_folders(base, new))
    tables = {"comparison": comparison["scores"], "changes": comparison["changes"]}
    tables |= history_as_dict(history_of([base, new]))
    page = render("comparison", {"scoring": tables})
    worse = sum(row["finding"] == "worse" for row in comparison["scores"])
    assert f"{worse} worse, 0 better" in page
    assert "fewest runs on a side 5 (new) and 5 (base)." in page
    assert "data or rules: 1, in the table" in page
    worse = sum(row["verdict"] == "regression" for row in tables["history"])
    assert worse
    page = render("history", {"scoring": tables})
    assert f"2 results, 6 values, n from 5 to 5 runs each; regressions: {worse}, improvements: 0" in page
