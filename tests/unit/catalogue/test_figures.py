"""The catalogue: each figure is declared once, in the module that draws it."""

import subprocess
import sys
from pathlib import Path

import pytest
from library_copy import copy_library

from hpcai.catalogue.figures import CHARTS, FIGURES, tables_shown
from hpcai.report.section_specs import FigureSpec
from hpcai.report.sections import ACCEPTANCE_SECTIONS, DEVICE_SECTIONS, SECTIONS

EVERY_SECTION = (*SECTIONS, *DEVICE_SECTIONS, *ACCEPTANCE_SECTIONS)
SOURCE = Path(__file__).parents[3] / "src"
GUIDE = SOURCE.parent / "docs/how-to/add_a_figure.md"
SHOW = """
import pandas as pd
from hpcai.catalogue.figures import FIGURES
from hpcai.plots.drawing import draw_figure
from hpcai.report.sections import SECTIONS
print(FIGURES["staging_time"].title)
runs = pd.DataFrame({"ranks": [1, 2], "staging_s": [3.0, 4.0]})
print(draw_figure("staging_time", {"runs": runs}).axes[0].get_ylabel())
print([part.name for section in SECTIONS if section.anchor == "io" for part in section.parts].index("staging_time"))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_library(tmp_path_factory.mktemp("library"))


def run(code: str, library: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(library)}, capture_output=True, text=True, check=False
    )


@pytest.fixture
def example() -> str:
    """The module that the guide shows."""
    return GUIDE.read_text().partition("```python\n")[2].partition("```")[0]


def test_a_figure_is_added_by_one_file(library: Path, example: str) -> None:
    (library / "hpcai/plots/staging_time.py").write_text(example)
    done = run(SHOW, library)
    assert done.stdout.split("\n")[:2] == ["Time of staging", "staging [s]"], done.stderr
    assert int(done.stdout.split("\n")[2]) >= 0


def test_an_expression_in_a_declaration_is_refused(library: Path, example: str) -> None:
    (library / "hpcai/plots/staging_time.py").write_text(example.replace('title="Time of staging"', "title=TITLE"))
    done = run("import hpcai.catalogue.figures", library)
    assert done.returncode != 0
    assert "hpcai.plots.staging_time, line 9" in done.stderr


def test_every_figure_stands_in_one_section() -> None:
    places = [part.name for section in EVERY_SECTION for part in section.parts if isinstance(part, FigureSpec)]
    assert sorted(places) == sorted([*FIGURES, *CHARTS])


@pytest.mark.parametrize("name", [*FIGURES, *CHARTS])
def test_a_figure_stands_before_a_table_of_its_section(name: str) -> None:
    entry = {**FIGURES, **CHARTS}[name]
    section = next(one for one in EVERY_SECTION if one.anchor == entry.section)
    others = {x for part in section.parts if not isinstance(part, FigureSpec) for x in (part.name, part.part)}
    assert entry.before in others


def test_no_rule_names_a_figure() -> None:
    rules = "".join(path.read_text() for path in (SOURCE.parent / "workflow/rules").glob("*.smk"))
    tables = {table for one in [*FIGURES.values(), *CHARTS.values()] for table in one.tables}
    assert [name for name in [*FIGURES, *CHARTS] if name not in tables and f'"{name}"' in rules] == []


def test_a_stage_reads_the_tables_of_what_it_draws_and_only_the_scaling_chart_waits_for_predictions() -> None:
    for kind in (FIGURES, CHARTS):
        drawn = {table for one in kind.values() if one.stage == "scores" for table in one.tables}
        assert set(tables_shown("scores", kind)) == drawn
    assert "predictions" in tables_shown("scores", CHARTS)
    assert "predictions" not in tables_shown("scores")
