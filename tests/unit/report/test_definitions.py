"""Definitions: every column that the page shows has one, and every one is shown."""

from pathlib import Path

import pytest

from hpcai.core.errors import ConfigError
from hpcai.report import columns
from hpcai.report.definitions import NO_DEFINITION, Definition, Definitions, anchor, read_definitions
from hpcai.report.sections import SECTIONS
from hpcai.report.tables import TableSpec

SOURCES = Path(__file__).parents[3] / "reports"
OWN = {
    "answer": columns.ANSWER, "runs": columns.RUNS, "failures": columns.FAILURES, "captures": columns.CAPTURES
}  # fmt: skip
SPECS = [part for section in SECTIONS for part in section.parts if isinstance(part, TableSpec)]
# Several tables of the page may show one file, and one column of it.
SHOWN = [*OWN.items(), *((spec.name, spec.columns) for spec in SPECS)]
PAIRS = list(dict.fromkeys((table, column.key) for table, shown in SHOWN for column in shown))


@pytest.fixture(scope="module")
def definitions() -> Definitions:
    return read_definitions(SOURCES)


@pytest.mark.parametrize(("table", "column"), PAIRS, ids=lambda name: name)
def test_column_has_a_definition(definitions: Definitions, table: str, column: str) -> None:
    key, entry = definitions.find(table, column)
    # The end of a name says its unit only: it defines nothing.
    assert key in {column, f"{table}.{column}"} or {column, f"{table}.{column}"} & set(entry.covers)
    assert len(entry.definition.split()) > 2
    assert entry.definition.endswith(".")


def test_unit_is_the_one_that_the_name_ends_with(definitions: Definitions) -> None:
    ends = {
        "_samples_per_s": {"samples/s"}, "_flop_per_s": {"FLOP/s"}, "_bytes_per_s": {"B/s"}, "_bytes": {"bytes"},
        "_flop_per_byte": {"FLOP/B"}, "flop_per_j": {"FLOP/J"}, "_ratio": {"ratio", "share"}, "_w": {"W"}, "_j": {"J"},
        "_rate_per_s": {"1/s"}, "_s": {"s"},
    }  # fmt: skip
    for table, column in PAIRS:
        units = next((units for end, units in ends.items() if column.endswith(end)), None)
        if units:
            assert definitions.find(table, column)[1].unit in units, f"{table}.{column}"


def test_every_entry_is_shown(definitions: Definitions) -> None:
    found = {definitions.find(table, column)[0] for table, column in PAIRS}
    assert set(definitions.entries) - found == set()


def test_anchors_differ(definitions: Definitions) -> None:
    anchors = [anchor(key) for key in definitions.entries]
    assert len(set(anchors)) == len(anchors)


def test_missing_definition_is_named(definitions: Definitions) -> None:
    with pytest.raises(LookupError, match=NO_DEFINITION(file=".*", column="nobody_s", table="runs")):
        definitions.find("runs", "nobody_s")


def test_table_before_column_before_family() -> None:
    entries = {
        "share_ratio": Definition(title="b", definition="d"),
        "kernels.share_ratio": Definition(title="a", definition="d"),
        "rates": Definition(title="c", definition="d", covers=("train_rate_*",)),
    }
    definitions = Definitions(entries)
    assert definitions.find("kernels", "share_ratio")[1].title == "a"
    assert definitions.find("phases", "share_ratio")[1].title == "b"
    assert definitions.find("runs", "train_rate_samples_per_s")[1].title == "c"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: {title: A, definition: D, covers: ['*_s']}", "a.covers: found"),
        ("a: {title: A}", "definition"),
        ("a: {title: A, definition: D, colour: red}", "colour"),
        ("a: {title: A, definition: D}\na: {title: B, definition: D}", "each key once"),
    ],
)
def test_faulty_definitions_are_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "definitions.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_definitions(tmp_path)
    assert words in str(caught.value)
    assert "definitions.yaml" in str(caught.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"definitions\.yaml"):
        read_definitions(tmp_path)
