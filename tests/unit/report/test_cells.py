"""Cells: the display of a number, a missing value, a path and a long text."""

import math
from pathlib import Path

import pytest

from hpcai.catalogue.definitions import Definition, Definitions
from hpcai.catalogue.tables import Column
from hpcai.report.cells import Cell, Place, file_links, make_cell
from hpcai.report.material import Material

ENTRIES = {
    "rate_flop_per_s": Definition(title="FLOP/s", definition="d", unit="FLOP/s"),
    "value": Definition(title="value", definition="d", unit="row"),
    "exponent": Definition(title="n", definition="d", blank="not defined"),
    "reason": Definition(title="reason", definition="d"),
    "measure": Definition(title="measure", definition="d"),
    "quality": Definition(title="quality", definition="d", unit="ratio"),
    "quality_target": Definition(title="target", definition="d", unit="ratio"),
    "source": Definition(title="raw files", definition="d"),
}


@pytest.fixture
def material(tmp_path: Path) -> Material:
    for name in ("a.json", "b c.json", "d.json"):
        (tmp_path / "runs").mkdir(exist_ok=True)
        (tmp_path / "runs" / name).write_text("{}")
    (tmp_path.parent / "secret.json").write_text("{}")
    return Material(tmp_path, tmp_path, {}, None, None, Definitions(ENTRIES))


def show(material: Material, column: Column, kind: str = "number", **row: object) -> Cell:
    return make_cell(material, Place(column, column.key, ENTRIES[column.key], kind), row)


def test_number_has_interval_n_and_exact_value(material: Material) -> None:
    column = Column("rate_flop_per_s", "low", "high", "n", note="about")
    cell = show(material, column, rate_flop_per_s=1.23456e10, low=1.1e10, high=1.4e10, n=5.0, about="exponent 5")
    assert (cell.words, cell.unit) == ("12.3", "GFLOP/s")
    assert cell.note == "[11, 14], n = 5, exponent 5"
    assert cell.hint == "12345600000 FLOP/s"


def test_bounds_that_are_the_value_are_no_interval(material: Material) -> None:
    column = Column("rate_flop_per_s", "low", "high")
    assert show(material, column, rate_flop_per_s=1.0, low=1.0, high=1.0).note == ""
    assert show(material, column, rate_flop_per_s=1.0, low=math.nan, high=math.nan).note == ""


def test_a_quality_that_misses_its_target_does_not_look_met(material: Material) -> None:
    row = {"quality": 0.76246, "quality_target": 0.7625}
    shown = [show(material, Column(name), **row).words for name in row]
    assert shown == ["0.762", "0.7625"]
    assert show(material, Column("quality"), quality=0.76296, quality_target=0.763).words == "0.76296"
    assert show(material, Column("quality"), quality=0.76296, quality_target=None).words == "0.763"


def test_missing_number_says_why(material: Material) -> None:
    column = Column("rate_flop_per_s", reason="reason")
    cell = show(material, column, rate_flop_per_s=math.nan, reason="the tool was not there " * 10)
    assert cell.words == "not measured"
    assert cell.note.endswith(" …")
    assert cell.hint == "the tool was not there " * 10
    assert "none" in cell.kind
    assert show(material, Column("exponent"), exponent=None).words == "not defined"
    assert show(material, Column("reason"), "text", reason=None).words == "–"


def test_unit_of_a_row(material: Material) -> None:
    assert show(material, Column("value"), value=2e9, unit="B/s").unit == "GB/s"
    assert show(material, Column("value"), value=2.0, unit=math.nan).unit == ""


def test_long_text_is_folded_and_whole(material: Material) -> None:
    text = "word " * 60
    cell = show(material, Column("reason"), "prose", reason=text)
    assert cell.whole == text
    assert len(cell.words) <= 90
    assert show(material, Column("reason"), "prose", reason="short").whole == ""


def test_names_are_written_as_people_say_them(material: Material) -> None:
    assert show(material, Column("measure"), "text", measure="rate_flop_per_s").words == "FLOP/s"
    assert show(material, Column("measure"), "text", measure="rate").words == "FLOP/s"
    assert show(material, Column("measure"), "text", measure="time_to_train").words == "time to train"


def test_paths_become_links_if_their_file_is_there(material: Material) -> None:
    links, words = file_links(material, "results/runs/a.json, results/runs/gone.json, results/runs/d.json", most=1)
    assert [link.href for link in links] == ["runs/a.json"]
    assert words == "results/runs/gone.json, and 1 more"


@pytest.mark.parametrize("path", ["results/../secret.json", "/etc/passwd", "../secret.json", "results"])
def test_no_link_leads_out_of_the_folder(material: Material, path: str) -> None:
    assert material.link_file(path) is None


def test_link_is_quoted(material: Material) -> None:
    link = material.link_file("results/runs/b c.json")
    assert link
    assert link.href == "runs/b%20c.json"
