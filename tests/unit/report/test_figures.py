"""Figures and captions of the page: files, reasons, captions without powers."""

from pathlib import Path

import pytest

from hpcai.catalogue.definitions import Definitions
from hpcai.core.errors import ParseError
from hpcai.core.limits import MOST_DRAWING_BYTES, MOST_LINES
from hpcai.core.sealed import seal_drawing, sealed_json
from hpcai.report.captions import render_caption, shorten_lists
from hpcai.report.figures import NOT_DRAWN, TOO_LARGE, make_figure
from hpcai.report.material import Material

DRAWING = '<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="72pt" height="36pt"></svg>'


@pytest.fixture
def material(tmp_path: Path) -> Material:
    for name in ("captions", "figures", "tables"):
        (tmp_path / name).mkdir()
    summary = {"notice": "<b>not</b> valid"}
    return Material(tmp_path, tmp_path, {}, summary, None, Definitions({}))


def write_caption(material: Material, text: str) -> None:
    (material.sources / "captions" / "topic.rst").write_text(text)


def test_figure_has_picture_caption_and_files(material: Material) -> None:
    (material.folder / "figures" / "topic.svg").write_text(DRAWING)
    (material.folder / "figures" / "topic.json").write_text('{"mark": "point"}')
    (material.folder / "tables" / "runs.csv").write_text("run_id\n")
    write_caption(material, "First *words*.\n\nMore.\n")
    figure = make_figure(material, "topic", "A topic", ("runs", "gone"))
    assert (figure.width, figure.height) == (96, 48)
    assert figure.picture.startswith("data:image/svg+xml;base64,")
    assert figure.specification == '{"mark":"point"}'
    assert figure.alt == "First words."
    assert [link.href for link in figure.files] == ["figures/topic.svg", "figures/topic.json"]
    assert [(name, [link.href for link in links]) for name, links in figure.tables] == [("runs", ["tables/runs.csv"])]


def test_a_changed_drawing_or_chart_is_refused(material: Material) -> None:
    write_caption(material, "First.\n")
    svg, chart = (material.folder / "figures" / f"topic.{end}" for end in ("svg", "json"))
    svg.write_bytes(seal_drawing(DRAWING.encode()))
    chart.write_bytes(sealed_json({"mark": "point", "x": 1}))
    figure = make_figure(material, "topic", "A topic", ())
    assert (figure.width, figure.specification) == (96, '{"mark":"point","x":1}')
    for path, old, new in ((svg, b"72pt", b"73pt"), (chart, b'"x": 1', b'"x": 2')):
        whole = path.read_bytes()
        path.write_bytes(whole.replace(old, new))
        with pytest.raises(ParseError, match=rf"{path.name}.*run the workflow again"):
            make_figure(material, "topic", "A topic", ())
        path.write_bytes(whole)


def test_figure_that_was_not_drawn_says_so(material: Material) -> None:
    figure = make_figure(material, "topic", "A topic", ())
    assert figure.missing == NOT_DRAWN(figure="figures/topic.svg")
    assert figure.picture == ""
    assert figure.caption is None


def test_a_figure_too_large_for_the_page_is_a_link(material: Material) -> None:
    svg, chart = (material.folder / "figures" / f"topic.{end}" for end in ("svg", "json"))
    chart.write_text('{"mark": "' + "x" * MOST_DRAWING_BYTES + '"}')
    svg.write_text(DRAWING)
    figure = make_figure(material, "topic", "A topic", ())
    assert (bool(figure.picture), figure.specification, figure.missing) == (True, "", "")
    svg.write_text(DRAWING.replace("</svg>", " " * MOST_DRAWING_BYTES + "</svg>"))
    figure = make_figure(material, "topic", "A topic", ())
    assert (figure.picture, figure.specification) == ("", "")
    assert figure.missing == TOO_LARGE(figure="figures/topic.svg", size="1.0 MB")
    assert "figures/topic.svg" in [link.href for link in figure.files]


@pytest.mark.parametrize("between", ["", "\n"])
def test_a_long_list_of_a_caption_says_how_many_items_it_lacks(between: str) -> None:
    items = [f"* item {n},\n  its second line\n{between}" for n in range(MOST_LINES + 7)]
    short = f"First.\n\n{''.join(items[:MOST_LINES])}\nLast.\n"
    assert shorten_lists(short) == short
    made = shorten_lists(f"First.\n\n{''.join(items)}\nBetween.\n\n{''.join(items)}")
    assert made.count("* item") == 2 * MOST_LINES
    assert made.count("second line") == 2 * MOST_LINES
    assert made.count("* and 7 more") == 2
    assert "\n\nBetween.\n" in made


def test_caption_is_split_after_its_first_paragraph(material: Material) -> None:
    write_caption(material, "{{ notice }}\n\n* one\n* two\n")
    caption = render_caption(material, "topic")
    assert caption
    assert caption.first == "<p>&lt;b&gt;not&lt;/b&gt; valid</p>"
    assert "one" in caption.rest


@pytest.mark.parametrize("text", [".. include:: /etc/hostname", ".. raw:: html\n\n   <b>x</b>", "a_"])
def test_caption_reads_no_file_and_brings_in_no_markup(material: Material, text: str) -> None:
    write_caption(material, f"First.\n\n{text}\n")
    caption = render_caption(material, "topic")
    assert caption
    assert "could not be rendered" in caption.first
    assert "<b>x" not in caption.first
