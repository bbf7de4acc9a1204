"""The page on the sources' tables and figures names only tables and figures that the report has."""

import re
from pathlib import Path

from hpcai.catalogue.figures import CHARTS, FIGURES
from hpcai.catalogue.tables import columns_of, tables

PAGE = Path(__file__).parents[2] / "docs/reference/papers.md"
STUDIES = Path(__file__).parents[2] / "config/studies"
SOURCES = 5


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in found if row[0] != "theirs"]


def test_every_part_of_ours_that_is_named_exists() -> None:
    known = {*tables(), *FIGURES, *CHARTS}
    columns = {name for table in tables() for name in columns_of(table)}
    for theirs, ours, *_ in rows():
        for name in re.findall(r"`([a-z0-9_*]+)`", ours):
            is_column = name in columns or (name.startswith("*") and any(one.endswith(name[1:]) for one in columns))
            assert name in known or is_column, f"{theirs}: {name}"


def test_every_row_says_what_makes_it_and_what_may_be_missing() -> None:
    assert PAGE.read_text().count("| theirs | ours |") == SOURCES
    for row in rows():
        assert len(row) == 4
        assert all(row)
    numbers = {int(one) for row in rows() for one in re.findall(r"^Tables? (\d+)", row[0])}
    assert numbers >= {1, *range(2, 13)} - {7}  # Table 7 stands with Table 1


def test_each_figure_that_varies_a_setting_names_the_ready_studies_that_make_it() -> None:
    named = {
        row[0].partition(":")[0]: re.findall(r"`(\w+)`", row[2])
        for row in rows()
        if re.search(r"stud(?:y|ies) `", row[2])
    }
    assert set(named) >= {"Fig. 7", "Figs 12, 13", "Fig. 14", "Figs 4 to 6"}
    for theirs, names in named.items():
        assert names, theirs
        assert all((STUDIES / name / "study.yaml").is_file() for name in names), theirs
