"""What a section of the page is: its figures and tables, and the question that they answer."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hpcai.catalogue import figures as catalogue
from hpcai.report.tables import TableSpec


@dataclass(frozen=True)
class FigureSpec:
    """One figure or chart of the catalogue, which has its heading and the tables it was made from."""

    name: str

    @property
    def title(self) -> str:
        """Heading."""
        return self._entry.title

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables it was made from."""
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
        Its id, its heading, and the question it answers.
    parts
        Its figures and tables in their order.
    level
        2, or 3 for a part of the section before.
    absent
        What it says instead of its parts if none of its tables has rows; each part says so itself where this is empty.
    unmade
        What it says if none of its tables was made, where that is a step of its own.
    """

    anchor: str
    title: str
    question: str
    parts: tuple[FigureSpec | TableSpec, ...]
    level: int = 2
    absent: str = ""
    unmade: str = ""


def with_figures(*sections: SectionSpec) -> tuple[SectionSpec, ...]:
    """Return sections of tables with the figures of the catalogue, each before the table that its declaration names."""
    known = {**catalogue.FIGURES, **catalogue.CHARTS}.items()
    return tuple(
        replace(section, parts=_place(section, {name: one for name, one in known if one.section == section.anchor}))
        for section in sections
    )


def _place(section: SectionSpec, figures: Mapping[str, catalogue.FigureEntry]) -> tuple[FigureSpec | TableSpec, ...]:
    waiting = {name: one.before for name, one in figures.items()}
    parts: list[FigureSpec | TableSpec] = []
    for table in section.parts:
        own = {table.name, getattr(table, "part", "")} - {""}
        parts += [FigureSpec(name) for name, before in waiting.items() if before in own]
        waiting = {name: before for name, before in waiting.items() if before not in own}
        parts.append(table)
    return (*parts, *map(FigureSpec, waiting))
