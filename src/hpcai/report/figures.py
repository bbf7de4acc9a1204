"""Figures of the page: each has a picture that works without scripts; some also have an interactive chart."""

import base64
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from hpcai.core.errors import ParseError
from hpcai.core.files import read_regular
from hpcai.core.limits import MOST_DRAWING_BYTES
from hpcai.core.messages import Message
from hpcai.core.sealed import unseal_drawing
from hpcai.report.captions import Caption, render_caption
from hpcai.report.embedding import embed_json, read_size
from hpcai.report.material import Link, Material, read_json

FORMS = {"svg": "SVG", "json": "Vega-Lite"}
TOO_LARGE = Message("figures.too_large", "The figure has {size}: too much for this page. Open {figure} beside it.")
NOT_DRAWN = Message("figures.not_drawn", "The figure {figure} is not in this folder: nothing has drawn it yet.")


@dataclass(frozen=True)
class Figure:
    """Template data of one figure.

    Attributes
    ----------
    name, title, alt
        Name of its file, heading, and alternative text for readers who cannot see it.
    picture, width, height
        The SVG as a data URL, with its natural size [px]; empty if nothing was drawn, or it is larger than
        ``MOST_DRAWING_BYTES``.
    specification
        The chart as Vega-Lite JSON, safe inside its element; empty if there is only a picture, or it is larger.
    caption
        Its caption.
    files, tables
        Links to the figure's files, and by name to each of its source tables.
    missing
        Why there is no picture.
    """

    name: str
    title: str
    alt: str
    picture: str
    width: int
    height: int
    specification: Markup
    caption: Caption | None
    files: tuple[Link, ...]
    tables: tuple[tuple[str, tuple[Link, ...]], ...]
    missing: str = ""


def make_figure(material: Material, name: str, title: str, tables: tuple[str, ...]) -> Figure:
    """Return one figure of the results folder.

    Parameters
    ----------
    name, title
        Name of ``figures/NAME.svg`` (and ``.json``), and its heading.
    tables
        Names of its source tables.
    """
    path = material.folder / material.place / "figures" / f"{name}.svg"
    drawing = read_drawing(path)
    fits = 0 < len(drawing) <= MOST_DRAWING_BYTES
    width, height = read_size(drawing.decode("utf-8", "replace"))
    own = [material.link_file(f"{material.place}figures/{name}.{end}", words) for end, words in FORMS.items()]
    made_from = [(table, tuple(material.link_table(table))) for table in tables]
    caption = render_caption(material, name)
    return Figure(
        name=name,
        title=title,
        alt=_plain(caption) or title,
        picture="data:image/svg+xml;base64," + base64.b64encode(drawing).decode() if fits else "",
        width=width,
        height=height,
        specification=_embed_chart(path.with_suffix(".json")) if fits else Markup(""),
        caption=caption,
        files=tuple(link for link in own if link),
        tables=tuple(pair for pair in made_from if pair[1]),
        missing="" if fits else _say_missing(f"{material.place}figures/{name}.svg", len(drawing)),
    )


def _embed_chart(path: Path) -> Markup:
    """Return a chart, if there is one and it is not too large for a page."""
    chart = embed_json(read_json(path))
    return chart if len(chart) <= MOST_DRAWING_BYTES else Markup("")


def _say_missing(figure: str, size: int) -> str:
    """Return why a page lacks a figure."""
    return TOO_LARGE(figure=figure, size=f"{size / 1e6:.1f} MB") if size else NOT_DRAWN(figure=figure)


def read_drawing(path: Path) -> bytes:
    """Return an SVG without its seal; empty if the file does not exist.

    Raises
    ------
    ParseError
        If it was changed since it was drawn.
    """
    if not path.exists():
        return b""
    try:
        return unseal_drawing(read_regular(path)).text
    except (OSError, ValueError) as error:
        raise ParseError(f"{path}: a damaged drawing ({error}); delete it and run the workflow again") from error


def _plain(caption: Caption | None) -> str:
    """Return the first paragraph of a caption without its markup."""
    return " ".join(caption.first.striptags().split()) if caption else ""
