"""The sections on predictions: each table once, each column once, and figures that name tables they are made from."""

from collections import Counter

import pytest

from hpcai.catalogue.tables import Column
from hpcai.plots.predictions.training_batch import plot_training_batch
from hpcai.report.prediction_sections import PREDICTION_SECTIONS
from hpcai.report.section_specs import FigureSpec
from hpcai.report.tables import TableSpec

TABLES = [part for section in PREDICTION_SECTIONS for part in section.parts if isinstance(part, TableSpec)]
FIGURES = [part for section in PREDICTION_SECTIONS for part in section.parts if isinstance(part, FigureSpec)]


def named(column: Column) -> list[str]:
    return [name for name in (column.low, column.high) if name]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_column_stands_once(table: TableSpec) -> None:
    counted = Counter([column.key for column in table.columns])
    assert {key for key, times in counted.items() if times > 1} == set()
    assert {"source"} <= set(counted)
    # A bound is part of its value's cell.
    assert not set(counted) & {name for column in table.columns for name in named(column)}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_bounds_are_named_after_their_value(table: TableSpec) -> None:
    for column in table.columns:
        for name, side in zip(named(column), ("low", "high"), strict=False):
            assert name.replace(f"_{side}", "", 1) == column.key


def test_every_prediction_says_that_it_is_modelled() -> None:
    for table in TABLES:
        keys = {column.key for column in table.columns}
        assert "method" in keys or table.name == "prediction_findings"


def test_sections_differ_and_follow_one_chapter() -> None:
    assert [section.level for section in PREDICTION_SECTIONS] == [2, 3, 3, 3, 3, 3, 3]
    anchors = [section.anchor for section in PREDICTION_SECTIONS]
    assert len(set(anchors)) == len(anchors)
    assert all(section.question.endswith(".") for section in PREDICTION_SECTIONS)
    # Only these need measurements of the stage `predict`; the published models are always evaluated.
    absent = {section.anchor: (section.absent, section.unmade) for section in PREDICTION_SECTIONS if section.absent}
    assert set(absent) == {"predictions", "step-blocks", "scale-cases", "kernel-regressors", "hpl-validation"}
    for words, unmade in absent.values():
        assert words.endswith(".")
        assert "make predict" in unmade
        assert "snakemake predict" in unmade


def test_nothing_is_shown_twice() -> None:
    for parts in (TABLES, FIGURES):
        names = [part.name for part in parts]
        assert len(set(names)) == len(names)


def test_figures_name_what_they_are_drawn_from() -> None:
    drawn = {figure.name: figure.tables for figure in FIGURES}
    assert drawn["what_if"] == ("predictions", "scales")
    assert drawn["kernel_errors"] == ("kernel_errors", "kernel_accuracy")
    assert drawn["training_batch"] == (next(iter(plot_training_batch.__annotations__)),)
