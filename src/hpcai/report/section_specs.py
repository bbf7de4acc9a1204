"""Specification of the page's sections: figures, tables, and the question that they answer."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hpcai.catalogue import figures as catalogue
from hpcai.catalogue.tables import shown_in
from hpcai.report.tables import TableSpec, spec_of


@dataclass(frozen=True)
class FigureSpec:
    """One figure or chart of the catalogue, which defines its heading and source tables."""

    name: str

    @property
    def title(self) -> str:
        """Heading."""
        return self._entry.title

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of its source tables."""
        return self._entry.tables

    @property
    def _entry(self) -> catalogue.FigureEntry:
        return catalogue.FIGURES.get(self.name) or catalogue.CHARTS[self.name]


@dataclass(frozen=True)
class SectionSpec:
    """One section of the page.

    Attributes
    ----------
    anchor, title, question
        Its id, its heading, and the question that it answers.
    parts
        Its figures and tables in order, taken from the catalogue (:func:`fill_sections`).
    level
        2, or 3 for a part of the preceding section.
    absent
        Text shown instead of its parts if none of its tables has rows; if blank, each part shows its own.
    unmade
        Text shown if none of its tables was made, where that needs a separate step.
    """

    anchor: str
    title: str
    question: str
    parts: tuple[FigureSpec | TableSpec, ...] = ()
    level: int = 2
    absent: str = ""
    unmade: str = ""


def fill_sections(*sections: SectionSpec) -> tuple[SectionSpec, ...]:
    """Return sections with the tables and figures of the catalogue, each figure before its table."""
    known = {**catalogue.FIGURES, **catalogue.CHARTS}.items()
    return tuple(
        replace(section, parts=_place(section, {name: one for name, one in known if one.section == section.anchor}))
        for section in sections
    )


def _place(section: SectionSpec, figures: Mapping[str, catalogue.FigureEntry]) -> tuple[FigureSpec | TableSpec, ...]:
    waiting = {name: one.before for name, one in figures.items()}
    parts: list[FigureSpec | TableSpec] = []
    for name, shown in shown_in(section.anchor):
        own = {name, shown.part} - {""}
        parts += [FigureSpec(figure) for figure, before in waiting.items() if before in own]
        waiting = {figure: before for figure, before in waiting.items() if before not in own}
        parts.append(spec_of(name, shown))
    return (*parts, *map(FigureSpec, waiting))
