"""Definitions on the page: every shown column has one, and every definition belongs to a shown column."""

import pytest

from hpcai.catalogue.definitions import Definition, Definitions
from hpcai.catalogue.tables import all_shown
from hpcai.report.definitions import anchor, shown_definitions


@pytest.mark.parametrize("name", dict.fromkeys(table for table, _ in all_shown()))
def test_every_column_has_a_definition(name: str) -> None:
    for column in [column for table, column in all_shown() if table == name]:
        key, entry = shown_definitions().find(name, column)
        names = {column, f"{name}.{column}"}
        # The end of a name says its unit only: it defines nothing.
        assert key in names or names & set(entry.covers), column
        assert len(entry.definition.split()) > 2, column
        assert entry.definition.endswith("."), column
        assert entry.title, column


def test_every_entry_is_shown() -> None:
    definitions = shown_definitions()
    found = {definitions.find(table, column)[0] for table, column in all_shown()}
    assert set(definitions.entries) == found


def test_anchors_differ() -> None:
    anchors = [anchor(key) for key in shown_definitions().entries]
    assert len(set(anchors)) == len(anchors)


def test_missing_definition_is_named() -> None:
    with pytest.raises(LookupError, match="'nobody_s' of table 'runs'"):
        shown_definitions().find("runs", "nobody_s")


def test_table_before_column_before_family() -> None:
    entries = {
        "share_ratio": Definition(title="b", definition="d"),
        "kernels.share_ratio": Definition(title="a", definition="d"),
        "rates": Definition(title="c", definition="d", covers=("train_rate_samples_per_s",)),
    }
    definitions = Definitions(entries)
    assert definitions.find("kernels", "share_ratio")[1].title == "a"
    assert definitions.find("phases", "share_ratio")[1].title == "b"
    assert definitions.find("runs", "train_rate_samples_per_s")[1].title == "c"
