"""The page on the sources' tables and figures is true of the catalogue, the rules and the ready studies."""

import re
from pathlib import Path

import pytest
import yaml

from hpcai.catalogue.figures import CHARTS, FIGURES
from hpcai.catalogue.tables import columns_of, shown_in, tables
from hpcai.report.sections import SECTIONS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/papers.md"
STUDIES = ROOT / "config/studies"
STUDIES_PAGE = ROOT / "docs/how-to/ready_studies.md"
SOURCES = 5
LAST = {"HPC AI500": (12, 15), "MLPerf HPC (": (7, 6), "Hu and Lu": (2, 7), "Barrachina": (5, 5)}
"""Number of the last table and of the last figure that is known of each source with numbers."""
ROMAN = {"I": 1, "II": 2, "III": 3, "IV": 4, "V": 5, "VI": 6, "VII": 7}
NUMBER = r"(?:\d+|[IVX]+)"
DRAWN = {**FIGURES, **CHARTS}
COMMANDS = ("make run", "make rounds", "snakemake predict")
REFERENCES = {"as Table IV": "Table IV", "the same": "results of a round"}
"""Commands that are those of an earlier row."""


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in found if row[0] != "theirs"]


def test_every_part_of_ours_that_is_named_exists() -> None:
    known = {*tables(), *DRAWN}
    columns = {name for table in tables() for name in columns_of(table)}
    for theirs, ours, *_ in rows():
        for name in re.findall(r"`([a-z0-9_*]+)`", ours):
            is_column = name in columns or (name.startswith("*") and any(one.endswith(name[1:]) for one in columns))
            assert name in known or is_column, f"{theirs}: {name}"


def code(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def studies_of(command: str) -> list[str]:
    named = re.search(r"stud(?:y|ies) ((?:`\w+`(?:, )?)+)", command)
    return code(named[1]) if named else []


def titles_of_studies() -> dict[str, tuple[str, list[str]]]:
    """The source and the figures that the table of ready studies gives each, in words."""
    lines = [line.strip("|").split(" | ") for line in STUDIES_PAGE.read_text().splitlines() if line.startswith("| `")]
    return {code(line[0])[0]: (line[2], line[3].strip(" |").lower().split(", ")) for line in lines}


def test_every_part_of_ours_is_on_the_report() -> None:
    shown = {name for section in SECTIONS for name, _ in shown_in(section.anchor)}
    drawn = {name: one for name, one in DRAWN.items() if one.section in {section.anchor for section in SECTIONS}}
    shown |= {*drawn, *(table for one in drawn.values() for table in one.tables)}  # linked below the figure
    columns = {column for name in shown & {*tables()} for column in columns_of(name)}
    for theirs, ours, *_ in rows():
        for name in re.findall(r"`([a-z0-9_]+)`", ours):
            assert name in shown | columns, f"{theirs}: {name}"


def test_every_command_exists() -> None:
    """Other tests look at the words of `make` and `hpcai` on every page."""
    texts = [path.read_text() for path in (ROOT / "workflow").rglob("*.smk")] + [(ROOT / "Snakefile").read_text()]
    rules = {name for text in texts for name in re.findall(r"^\s*(?:rule|checkpoint) (\w+):", text, re.MULTILINE)}
    first = {row[0].partition(":")[0] for row in rows()}
    assert set(REFERENCES.values()) <= first
    for theirs, ours, command, _ in rows():
        assert (ours == "–") == (command == "–"), theirs
        if command == "–":
            assert theirs.endswith("not seen")
            continue
        assert set(re.findall(r"`snakemake (\w+)`", command)) <= rules, theirs
        # The default study has no rounds.
        of_rounds = [words for words in code(command) if words.startswith(("make rounds", "snakemake rounds"))]
        assert all("rounds=" in words.lower() for words in of_rounds), theirs
        refers = any(word in command for word in REFERENCES)
        assert refers or studies_of(command) or any(word in command for word in COMMANDS), theirs


def test_no_row_promises_a_prediction_without_the_command_that_measures_its_inputs() -> None:
    for theirs, ours, command, _ in rows():
        stages = {DRAWN[name].stage for name in re.findall(r"`(\w+)`", ours) if name in DRAWN}
        assert "gpu" not in stages, theirs
        if "predict" in stages:
            assert "snakemake predict" in command, theirs


def test_every_study_has_a_row_that_names_what_it_shows_first() -> None:
    named = [(name, theirs, ours) for theirs, ours, command, _ in rows() for name in studies_of(command)]
    assert {name for name, *_ in named} == {path.name for path in STUDIES.iterdir()}
    for name, theirs, ours in named:
        study = yaml.safe_load((STUDIES / name / "cluster.yaml").read_text())
        missing = {figure for figure in study["show_first"] if f"`{figure}`" not in ours}
        assert not missing, f"{theirs}: study {name} shows {missing} first"


def test_the_page_on_ready_studies_says_what_the_study_files_say() -> None:
    listed = titles_of_studies()
    assert set(listed) == {path.name for path in STUDIES.iterdir()}
    for name, (source, titles) in listed.items():
        for path in (STUDIES / name).glob("*.yaml"):
            study = yaml.safe_load(path.read_text())
            assert study["corresponds_to"] == source, path
            shown = [DRAWN[figure].title.lower() for figure in study["show_first"]]
            assert shown == titles or (path.stem == "study" and shown == titles[: len(shown)]), path


def test_every_row_says_what_makes_it_and_what_may_be_missing() -> None:
    assert PAGE.read_text().count("| theirs | ours |") == SOURCES
    for row in rows():
        assert len(row) == 4
        assert all(row)


def numbers_in(words: str, kind: str) -> list[int]:
    """Return the numbers behind "Table" or "Fig" and their plurals, with those that a range leaves out."""
    found: list[int] = []
    for listed in re.findall(rf"\b{kind}s?\.? ({NUMBER}(?:(?:, | to | and ){NUMBER})*)", words):
        for part in re.split(", | and ", listed):
            first, *last = (int(ROMAN.get(one, one)) for one in part.split(" to "))
            found += range(first, (last or [first])[0] + 1)
    return found


def test_ranges_and_lists_of_numbers_are_read() -> None:
    assert numbers_in("Tables I to III: systems", "Table") == [1, 2, 3]
    assert numbers_in("Table 1, Figs 2 to 4", "Table") == [1]
    assert numbers_in("Table 1, Figs 2 to 4, 6 and 8", "Fig") == [2, 3, 4, 6, 8]
    assert numbers_in("Fig. 15: roofline", "Fig") == [15]


@pytest.mark.parametrize("source", LAST)
def test_no_number_of_a_source_is_left_out(source: str) -> None:
    section = next(part for part in PAGE.read_text().split("\n## ") if part.startswith(source))
    theirs = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")]
    for kind, last in zip(("Table", "Fig"), LAST[source], strict=True):
        numbers = {number for words in theirs for number in numbers_in(words, kind)}
        assert numbers == set(range(1, last + 1)), kind
