"""Printed tables: aligned, complete, 100 columns wide if numbers fit, without colour codes outside a terminal."""

import pytest

from hpcai.core.text_table import WIDTH, say_table

HEADS = ("a", "value [s]")


def test_numbers_stand_on_the_right_and_heads_above_them():
    lines = say_table(HEADS, [("one", "1"), ("three", "123")]).splitlines()
    assert lines == ["a      value [s]", "one            1", "three        123"]


def test_long_words_go_on_in_the_next_line_and_nothing_is_lost():
    path, number = "runs/" + "x" * 200, "12,345"
    text = say_table(HEADS, [(path, number)], indent=2)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "".join(text.split()).replace(number, "").endswith(path)
    assert number in text.splitlines()[1]


@pytest.mark.parametrize("kinds", ["kkwn", "kkkn", "nnnn", "kwwn"])
def test_what_is_kept_whole_is_never_cut_however_many_columns_there_are(kinds):
    cells = ("x" * 60, "y" * 50, "words that may go on in the next line", "+123.4%")
    text = say_table(("benchmark", "scale", "from", "error"), [cells], kinds=kinds, indent=2)
    whole = [cell for cell, kind in zip(cells, kinds, strict=True) if kind != "w"]
    assert [cell for cell in whole if cell not in text] == []
    assert cells[2].split() == [word for word in text.split() if word in cells[2].split()]


def test_a_text_alone_is_a_line_over_all_columns():
    lines = say_table(
        HEADS, [("x", "1"), "a heading that is longer than both columns", ("y", "2")], indent=2
    ).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["x", "1"],
        ["a", "heading", "that", "is", "longer", "than", "both", "columns"],
        ["y", "2"],
    ]
    assert all(line.startswith("  ") for line in lines)


def test_signs_of_markup_are_words():
    assert "[bold]x[/bold] :smile:" in say_table(HEADS, [("[bold]x[/bold] :smile:", "1")])


@pytest.mark.parametrize(("variable", "is_coloured"), [("FORCE_COLOR", True), ("NO_COLOR", False)])
def test_heads_are_bold_where_colours_are_wanted(monkeypatch, variable, is_coloured):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(variable, "1")
    assert ("\x1b[1m" in say_table(HEADS, [("x", "1")])) is is_coloured
